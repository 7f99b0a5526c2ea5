#!/usr/bin/env python3
"""TensorBoard's own reader against log.jsonl: the same tags, steps, values and wall times, of a run that was killed behind
a checkpoint and resumed. Skipped (77) where the package tensorboard is missing; test_tensorboard.py compares the same with a
reader of its own.

    python test/train/compare_tensorboard.py build/headroom
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print('the package tensorboard is not here')
    sys.exit(77)

HEADROOM = os.path.abspath(sys.argv[1])
RECIPE = """\
model:
  family: llama
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: synthetic, sequence_length: 32 }
generation: { context: 40 }
training:
  batch_size: 2
  steps: 60
  eval_every: 4
  save_every: 10
  generation_every: 8
  generation_prompts: ["And God", "In <b>the</b>"]
  generation_tokens: 6
  tensorboard: true
"""
failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print('FAILED:', what)


def log_of(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [json.loads(line) for line in file]


with tempfile.TemporaryDirectory() as folder:
    recipe, out = os.path.join(folder, 'r.yaml'), os.path.join(folder, 'out')
    with open(recipe, 'w', encoding='utf-8') as file:
        file.write(RECIPE)
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--quiet', '--set', 'training.steps=100000'])
    while child.poll() is None and not os.path.exists(os.path.join(out, 'generation-00000010', 'manifest.json')):
        time.sleep(0.01)
    time.sleep(1.5)  # events are written every second: some of them are behind the checkpoint
    child.send_signal(signal.SIGKILL)
    child.wait()
    last = max(line['step'] for line in log_of(out))
    subprocess.run([HEADROOM, 'train', recipe, '--out', out, '--quiet', '--resume', '--steps', str(last + 20)], check=True)

    reader = EventAccumulator(out, size_guidance={'scalars': 0, 'tensors': 0, 'histograms': 0})
    reader.Reload()
    log = log_of(out)
    steps = [line for line in log if 'loss' in line and 'eval_loss' not in line]
    evals = [line for line in log if 'eval_loss' in line]
    memory = [line for line in log if line.get('event') == 'memory']
    wanted = {'train/loss': [(l['step'], l['loss'], l['time']) for l in steps],
              'train/lr': [(l['step'], l['lr'], l['time']) for l in steps],
              'train/grad_norm': [(l['step'], l['grad_norm'], l['time']) for l in steps],
              'speed/step_seconds': [(l['step'], l['seconds'], l['time']) for l in steps],
              'speed/tokens_per_second': [(l['step'], l['tokens'] / l['seconds'], l['time']) for l in steps],
              'speed/samples_per_second': [(l['step'], l['samples'] / l['seconds'], l['time']) for l in steps],
              'eval/loss': [(l['step'], l['eval_loss'], l['time']) for l in evals],
              'memory/device_bytes': [(l['step'], l['tiers']['device']['held_bytes'], l['time']) for l in memory],
              'memory/host_bytes': [(l['step'], l['tiers']['host']['held_bytes'], l['time']) for l in memory]}
    check(set(reader.Tags()['scalars']) == set(wanted), f'tags {reader.Tags()["scalars"]}')
    for tag, rows in wanted.items():
        seen = [(e.step, e.value, e.wall_time) for e in reader.Scalars(tag)]
        check([row[0] for row in seen] == [row[0] for row in rows], f'{tag}: steps {[r[0] for r in seen]} of {[r[0] for r in rows]}')
        for have, want in zip(seen, rows):
            near = abs(have[1] - want[1]) <= 1e-4 * abs(want[1]) if 'speed' in tag else abs(have[1] - want[1]) <= 1e-6 * abs(want[1])
            check(near and abs(have[2] - want[2]) < 1e-6, f'{tag}: {have}, the log has {want}')
    texts = [(e.step, [t.decode() for t in e.tensor_proto.string_val], e.wall_time) for e in reader.Tensors('samples')]
    made = [(l['step'], [g['prompt'] + '|' + g['text'] for g in l['generated']], l['time']) for l in log if 'generated' in l]
    check(len(made) > 0 and texts == made, f'{texts}\n{made}')
    check(reader.SummaryMetadata('samples').plugin_data.plugin_name == 'text', 'texts are shown as such')
    print(f'{len(steps)} steps, {len(evals)} evaluations, {len(made)} samples, killed after step {last}: {failures} failures')
sys.exit(1 if failures else 0)
