#!/usr/bin/env python3
"""Real trainings by what `headroom apply --auto` wrote, on a GPU: do they hold what was said?

    HEADROOM=... bench/applied/run.py OUT [--limits 14,16,18] [--only trainer-full.yaml,...] [--side-by-side 3]

Six configs (configs/), for each limit as if the card had that many GiB: `apply` writes the config, a process of its own trains
by the written file alone, 20 steps on random weights and random tokens, under set_per_process_memory_fraction of the limit less
what the driver holds beside PyTorch's allocator (--context). Trainers: transformers' Trainer from arguments that HfArgumentParser
reads out of the file, the same with PEFT and bitsandbytes, and a plain loop that looks keys up. Columns:

    said       what `apply` read back: what the driver will show
    driver     what it shows of the process (NVML), so that runs may go side by side
    reserved, allocated   peaks of PyTorch's allocator; retries: how often it had to give its cache back
    of said, of limit     driver over both

Needs torch, transformers, accelerate, peft and bitsandbytes. Exit 1: a run that ran out, held more than the limit or less than
85 % of what was said.
"""
import argparse
import concurrent.futures
import ctypes
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback

os.environ.setdefault('TOKENIZERS_PARALLELISM', 'false')
os.environ.setdefault('HF_HUB_OFFLINE', '1')

import torch
import transformers
import yaml
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM
from transformers.models.llama import modeling_llama  # noqa: F401, for workers that wait
from transformers.models.qwen2 import modeling_qwen2  # noqa: F401

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'tools'))
from checked.measure import driver_bytes  # noqa: E402

MODELS = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'test', 'model', 'configs')
STEPS, LONGEST, GIB, MIB = 20, 90, 1 << 30, 1 << 20  # LONGEST: seconds of a run
WITH = {'trainer-full.yaml': 'Qwen2.5-0.5B', 'trainer-sgd.json': 'TinyLlama-1.1B', 'peft-qlora.yaml': 'Llama-3.2-1B',
        'peft-lora.yaml': 'TinyLlama-1.1B', 'loop-lightning.yaml': 'Qwen2.5-0.5B', 'loop-torchtune.yaml': 'TinyLlama-1.1B'}


@dataclasses.dataclass
class Script:
    """What a script of the user's has beside TrainingArguments."""
    model_name_or_path: str
    dtype: str = 'float32'
    max_seq_length: int = 1024
    packing: bool = False
    use_peft: bool = False
    load_in_4bit: bool = False
    lora_r: int = 8
    lora_alpha: int = 16
    lora_dropout: float = 0.0
    lora_target_modules: list[str] = dataclasses.field(default_factory=list)


class Tokens(Dataset):
    """Random tokens; rows that are not packed are padded to the longest allowed, and no row is that long."""

    def __init__(self, vocabulary, length, packed):
        self.vocabulary, self.length, self.packed = vocabulary, length, packed

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        ids = torch.randint(0, self.vocabulary, (self.length,), generator=torch.Generator().manual_seed(index))
        row = {'input_ids': ids, 'labels': ids.clone()}
        if not self.packed:
            end = self.length - 1 - index % (self.length // 4)
            row['attention_mask'] = (torch.arange(self.length) < end).long()
            row['labels'][end:] = -100
        return row


class Watch:
    """The driver's bytes after every step, and what is reserved."""

    def __init__(self):
        self.peak, self.steps, self.times, self.reserved = 0, 0, [], []

    def step(self):
        torch.cuda.synchronize()
        self.peak = max(self.peak, driver_bytes(os.getpid()) or 0)
        self.steps += 1
        self.reserved.append(torch.cuda.max_memory_reserved())
        self.times.append(time.monotonic())

    def told(self):
        stats = torch.cuda.memory_stats()
        times = [b - a for a, b in zip(self.times[4:], self.times[5:])] or [0]
        return {'steps': self.steps, 'driver': self.peak, 'allocated': torch.cuda.max_memory_allocated(),
                'reserved': torch.cuda.max_memory_reserved(), 'retries': stats.get('num_alloc_retries', 0), 'by_step': self.reserved,
                'seconds': sum(times) / len(times)}


def by_trainer(path, folder, watch):
    from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments  # peft may touch the GPU when it is imported
    parser = HfArgumentParser((Script, TrainingArguments))
    script, arguments = (parser.parse_json_file if path.endswith('.json') else parser.parse_yaml_file)(path)
    arguments.disable_tqdm = True
    four = {}
    if script.load_in_4bit:
        four = {'device_map': {'': 0}, 'quantization_config': transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type='nf4', bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16)}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, script.dtype), **four)
    model.config.use_cache = False
    if script.use_peft:
        import peft
        if script.load_in_4bit:
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=script.lora_r, lora_alpha=script.lora_alpha, lora_dropout=script.lora_dropout,
            target_modules=script.lora_target_modules, task_type='CAUSAL_LM'))
        if arguments.gradient_checkpointing:
            model.enable_input_require_grads()

    class Every(TrainerCallback):
        def on_step_end(self, *_, **__):
            watch.step()

    data = Tokens(model.config.vocab_size, script.max_seq_length, script.packing)
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Every()]).train()


def by_loop(path, folder, watch):
    with open(path, encoding='utf-8') as file:
        config = yaml.safe_load(file)
    if 'trainer' in config:
        batch, pieces = config['data']['batch_size'], config['trainer']['accumulate_grad_batches']
        length, again = config['data']['max_length'], config['model']['gradient_checkpointing']
        kind, autocast, clip = torch.float32, {'bf16-mixed': torch.bfloat16}[config['trainer']['precision']], None
        optimizer = lambda p: torch.optim.AdamW(p, lr=1e-5, fused=True)
    else:
        batch, pieces = config['batch_size'], config['gradient_accumulation_steps']
        length, again = config['tokenizer']['max_seq_len'], config['enable_activation_checkpointing']
        kind, autocast, clip = {'bf16': torch.bfloat16, 'fp32': torch.float32}[config['dtype']], None, config['clip_grad_norm']
        options = dict(config['optimizer'])
        module, _, name = options.pop('_component_').rpartition('.')
        optimizer = lambda p: getattr(__import__(module, fromlist=[name]), name)(p, **options)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).cuda().train()
    model.config.use_cache = False
    if again:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
    update = optimizer(model.parameters())
    data = Tokens(model.config.vocab_size, length, True)
    for step in range(STEPS):
        for piece in range(pieces):
            first = (step * pieces + piece) * batch
            ids = torch.stack([data[first + k]['input_ids'] for k in range(batch)]).cuda()
            with torch.autocast('cuda', dtype=autocast or torch.bfloat16, enabled=autocast is not None):
                loss = model(input_ids=ids, labels=ids).loss / pieces
            loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        update.step()
        update.zero_grad(set_to_none=True)
        watch.step()


class Worker:
    """A process of its own that has imported what it can without touching the GPU, and waits to be told what to do."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), '--worker'], stdin=subprocess.PIPE, text=True)

    def go(self, out, work, *arguments):
        """Runs work(*arguments), whose answer and words go into files `out`."""
        self.process.stdin.write(json.dumps([out, work, arguments]))
        self.process.stdin.close()


def worker():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
    words = sys.stdin.read()
    if not words:
        return
    out, work, arguments = json.loads(words)
    signal.alarm(LONGEST)
    log = os.open(out + '.log', os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(os.path.dirname(out))
    try:
        answer = {'weights': weights, 'train': train}[work](*arguments)
    except Exception as error:  # told in the table
        traceback.print_exc()
        answer = {'error': f'{type(error).__name__}: {str(error)[:400]}'}
    with open(out + '.json', 'w', encoding='utf-8') as file:
        json.dump(answer, file)
    sys.stdout.flush()
    os._exit(0)


def weights(folder, into):
    """A random model of a shape as bf16 safetensors, made on the GPU."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device('cuda'):
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(into)
    return {}


def train(path, folder, limit, context):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((limit - context) / total)
    torch.manual_seed(0)
    watch = Watch()
    try:
        (by_loop if os.path.basename(path).startswith('loop') else by_trainer)(path, folder, watch)
    except torch.cuda.OutOfMemoryError as error:
        return watch.told() | {'error': f'ran out: {str(error)[:300]}'}
    return watch.told()


def apply(name, limit, place, gpu):
    """The config as `apply` writes it for a card of `limit` GiB, and what it says the trainer will hold."""
    path = os.path.join(place, name)
    os.makedirs(place)
    shutil.copy(os.path.join(HERE, 'configs', name), path)
    done = subprocess.run([os.environ['HEADROOM'], 'apply', os.path.join(MODELS, WITH[name]), '--gpu', gpu, '--gpu-memory', f'{limit}GiB',
                           '--auto', '--to', path, '--json'], capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout or '{}')
    if done.returncode != 0:
        return path, {'error': f'apply: exit {done.returncode}: {str(answer.get("error"))[:300]}{done.stderr[:300]}'}
    written = {key['setting']: key['new'] for key in answer['files'][0]['keys'] if key['outcome'] == 'written'}
    return path, {'said': answer['held']['bytes'], 'margin': answer['held']['margin_bytes'], 'written': written}


def line(row):
    if 'driver' not in row:
        return f"{row['config']:20} {row['limit']:3} GiB  {row.get('error')}"
    driver = row['driver']
    return (f"{row['config']:20} {row['limit']:3} GiB | said {row['said'] / MIB:9.1f} | driver {driver / MIB:9.1f} | "
            f"reserved {row['reserved'] / MIB:9.1f} | allocated {row['allocated'] / MIB:9.1f} | retries {row['retries']} | "
            f"of said {driver / row['said']:7.2%} | of limit {driver / row['limit'] / GIB:6.2%} | {row['steps']} steps of {row['seconds']:.2f} s"
            f" | {row['written']} {row.get('error', '')}")


class Runs:
    """Runs of one kind after the other, `side_by_side` at a time, with workers that wait already."""

    def __init__(self, options, begin):
        self.options, self.begin, self.rows, self.running, self.wrong = options, begin, [], [], 0
        self.ready = [Worker() for _ in range(options.side_by_side + 1)]

    def start(self, out, *work):
        worker = self.ready.pop(0)
        worker.go(os.path.abspath(out), *work)
        self.ready.append(Worker())
        return worker

    def add(self, row):
        self.rows.append(row)
        self.wrong += bool(row.get('error') or row['steps'] < STEPS or row['driver'] > row['limit'] * GIB or row['driver'] < 0.85 * row['said'])
        print(line(row), flush=True)
        with open(os.path.join(self.options.out, 'rows.json'), 'w', encoding='utf-8') as file:
            json.dump(self.rows, file, indent=1)

    def reap(self):
        while all(worker.process.poll() is None for worker, _, _ in self.running):
            time.sleep(0.05)
        at = next(i for i, (worker, _, _) in enumerate(self.running) if worker.process.poll() is not None)
        _, row, out = self.running.pop(at)
        if os.path.exists(out + '.json'):
            with open(out + '.json', encoding='utf-8') as file:
                row |= json.load(file)
        else:
            row['error'] = f'ended without a word, or after {LONGEST} s'
        self.add(row)

    def run(self, cases):
        for name, limit, path, said in cases:
            row = {'config': name, 'limit': limit, **said}
            if 'error' in said:
                self.add(row)
                continue
            while len(self.running) >= self.options.side_by_side:
                self.reap()
            out = os.path.join(self.options.out, f'{name}-{limit}')
            folder = os.path.join(self.options.scratch, WITH[name])
            worker = self.start(out, 'train', path, folder, limit * GIB, int(self.options.context * MIB))
            self.running.append((worker, row, out))
        while self.running:
            self.reap()


def main():
    if sys.argv[1:] == ['--worker']:
        return worker()
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('out')
    parser.add_argument('--limits', default='14,16,18', help='GiB')
    parser.add_argument('--only', help='names of configs, separated by commas')
    parser.add_argument('--gpu', default='H200')
    parser.add_argument('--context', type=float, default=768, help='MiB that the driver holds beside the allocator')
    parser.add_argument('--side-by-side', type=int, default=1)
    parser.add_argument('--scratch', default='/dev/shm/applied')
    options = parser.parse_args()
    names = options.only.split(',') if options.only else list(WITH)
    cases = [(name, int(limit)) for limit in options.limits.split(',') for name in names]
    shutil.rmtree(options.scratch, ignore_errors=True)
    os.makedirs(options.scratch)
    os.makedirs(options.out, exist_ok=True)
    begin = time.monotonic()
    runs = Runs(options, begin)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        applied = [pool.submit(apply, name, limit, os.path.join(options.scratch, f'{name}-{limit}'), options.gpu) for name, limit in cases]
        applied = [one.result() for one in applied]
    print(f'applied: {time.monotonic() - begin:.1f} s', flush=True)
    made = []
    for model in sorted({WITH[name] for name in names}):
        into = os.path.join(options.scratch, model)
        made.append((into, runs.start(into, 'weights', os.path.join(MODELS, model), into)))
    for into, maker in made:
        maker.process.wait()
        if not os.path.exists(os.path.join(into, 'config.json')):
            with open(into + '.log', encoding='utf-8') as file:
                print(file.read())
    print(f'weights: {time.monotonic() - begin:.1f} s', flush=True)
    rest = [(name, limit, path, said) for (name, limit), (path, said) in zip(cases, applied)]
    runs.run(rest)
    for one in runs.ready:
        one.process.kill()
    print(f'{len(runs.rows)} runs, {runs.wrong} wrong; {time.monotonic() - begin:.1f} s')
    return 1 if runs.wrong else 0


if __name__ == '__main__':
    raise SystemExit(main())
