#!/usr/bin/env python3
"""Planned beside measured on a GPU: the five systems, several settings each (docs/systems).

    systems_gpu.py [--ops] [--steps N] [--json FILE] [CASE...]        without CASE: all; --list names them

HEADROOM is the program (build/headroom). The data and the weights are made: MiniLM's shape with random numbers, the
recipe's codes with short texts or with each repeated to more than 512 tokens, recordings and films made by headroom itself. A row is
held to: measured bytes never above the plan, within 1 % or 16 MiB of it; seconds within 15 %. With texts that are shorter
than what they are padded to, steps take less than planned: there seconds are only shown.
"""
import argparse
import array
import csv
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ('title', 'description', 'excluded', 'examples')
HIDDEN, INNER, LAYERS, VOCABULARY = 384, 1536, 6, 30522


def weights_make(folder, drop_attention):
    """A checkpoint of MiniLM's shape: config.json and model.safetensors in f32."""
    os.makedirs(folder)
    config = {'model_type': 'bert', 'architectures': ['BertModel'], 'hidden_size': HIDDEN, 'num_hidden_layers': LAYERS,
              'num_attention_heads': 12, 'intermediate_size': INNER, 'vocab_size': VOCABULARY,
              'max_position_embeddings': 512, 'type_vocab_size': 2, 'layer_norm_eps': 1e-12, 'hidden_act': 'gelu',
              'hidden_dropout_prob': 0.1, 'attention_probs_dropout_prob': drop_attention, 'pad_token_id': 0}
    with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump(config, file)
    shapes = {f'embeddings.{name}_embeddings.weight': (rows, HIDDEN)
              for name, rows in (('word', VOCABULARY), ('position', 512), ('token_type', 2))}
    norms = ['embeddings']
    for layer in range(LAYERS):
        path = f'encoder.layer.{layer}'
        for name, rows, columns in (('attention.self.query', HIDDEN, HIDDEN), ('attention.self.key', HIDDEN, HIDDEN),
                                    ('attention.self.value', HIDDEN, HIDDEN), ('attention.output.dense', HIDDEN, HIDDEN),
                                    ('intermediate.dense', INNER, HIDDEN), ('output.dense', HIDDEN, INNER)):
            shapes[f'{path}.{name}.weight'] = (rows, columns)
            shapes[f'{path}.{name}.bias'] = (rows,)
        norms += [f'{path}.attention.output', f'{path}.output']
    for norm in norms:
        shapes.update({f'{norm}.LayerNorm.weight': (HIDDEN,), f'{norm}.LayerNorm.bias': (HIDDEN,)})
    numbers = random.Random(1)
    normal = array.array('f', (numbers.gauss(0, 0.02) for _ in range(99991)))
    head, at = {}, 0
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {'dtype': 'F32', 'shape': list(shape), 'data_offsets': [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for name, entry in head.items():
            count = (entry['data_offsets'][1] - entry['data_offsets'][0]) // 4
            if name.endswith('LayerNorm.weight'):
                array.array('f', [1.0] * count).tofile(file)
            elif name.endswith('bias'):
                array.array('f', [0.0] * count).tofile(file)
            else:
                (normal * (count // len(normal) + 1))[:count].tofile(file)


def texts_make(path, words):
    """The recipe's codes with texts of `words` words of their own, over and over."""
    with open(os.path.join(ROOT, 'recipes', 'taxonomy', 'codes.csv'), encoding='utf-8') as file:
        rows = list(csv.DictReader(file))
    numbers = random.Random(1)
    with open(path, 'w', encoding='utf-8', newline='') as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        for row in rows:
            for key in PARTS:
                own = (row[key] or 'nasiga').split()
                row[key] = ' '.join((own * words(numbers))[:words(numbers)])
            writer.writerow(row)


def split(title, others):
    return 'memory.split=' + json.dumps({'title': title, **{part: others for part in PARTS[1:]}}).replace('"', '')


NONE, EVERY, SELECTIVE = (f'memory.checkpoint={how}' for how in ('none', 'every-layer', 'selective'))
LLAMA = ('model.parts.llm.config={hidden_size: 2048, intermediate_size: 8192, num_hidden_layers: 16, num_attention_heads: 32, '
         'num_key_value_heads: 8, vocab_size: 128256, tie_word_embeddings: true}')
SMALL = ('model.parts.llm.config={hidden_size: 2048, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 32, '
         'num_key_value_heads: 8, vocab_size: 512, tie_word_embeddings: true}')
MADE = ['data.source=synthetic', 'training.epochs=null', 'training.steps=100', 'data.path=null', 'data.tokenizer=null',
        'data.sensors=null', 'data.eval_fraction=null', 'training.eval_every=null', 'model.parts.llm.path=null',
        'model.parts.llm.family=llama']
GESTURES = ['data.source=synthetic', 'training.epochs=null', 'training.steps=100', 'data.path=null', 'data.eval_path=null', 'data.events=null',
            'training.eval_every=null', 'training.best=null', 'model.precision=bf16-mixed', 'training.batch_size=2',
            'training.gradient_accumulation=1']
STREAMS = ['data.source=synthetic', 'data.scenes=null', 'training.batch_size=1', 'training.gradient_accumulation=1', 'memory.offload=null',
           'training.optimizer.kind=adamw', 'training.eval_every=null']
VIDEO_ALONE = ['model.config.infrared_branch=false', 'model.config.pair_branch=false']
LONG = ['model.config.frames=84']
with open(os.path.join(ROOT, 'test', 'model', 'configs', 'gemma-3-1b-it', 'config.json'), encoding='utf-8') as shape:
    GEMMA = 'model.parts.llm.config=' + json.dumps({key: value for key, value in json.load(shape).items() if key in (
        'head_dim', 'hidden_size', 'intermediate_size', 'num_attention_heads', 'num_hidden_layers', 'num_key_value_heads',
        'query_pre_attn_scalar', 'rope_local_base_freq', 'rope_theta', 'sliding_window', 'sliding_window_pattern', 'vocab_size')})
CAPTIONS = ['data.source=synthetic', 'training.epochs=null', 'training.steps=100', 'data.path=null', 'data.tokenizer=null', 'data.video=null',
            'data.eval_path=null', 'data.eval_fraction=null', 'training.eval_every=null', 'training.gradient_accumulation=1',
            'model.parts.llm.path=null', 'model.parts.llm.family=gemma3', GEMMA]
# name: texts of 512 tokens or around 60, dropout in attention, settings
EMBEDDER = {
    'every': ('long', False, [EVERY]),
    'none-26': ('long', False, [NONE, split(3, 26)]),
    'none-45': ('long', False, [NONE, split(3, 45)]),
    'none-26-drop': ('long', True, [NONE, split(3, 26)]),
    'selective-45': ('long', False, [SELECTIVE, split(3, 45)]),
    'every-45': ('long', False, [EVERY, split(3, 45)]),
    'short-padded': ('short', False, [NONE, split(3, 45)]),
    'short-buckets': ('short', False, [NONE, split(3, 9), 'data.buckets=[64, 96, 128, 512]']),
}
SENSORS = {
    'none': [LLAMA, NONE],
    'every': [LLAMA, EVERY],
    'selective': [LLAMA, SELECTIVE],
    'nf4': [LLAMA, EVERY, 'training.optimizer.kind=adamw8bit', 'model.parts.llm.quantize={kind: nf4}'],
    'encoder-none': [SMALL, NONE],
    'encoder-every': [SMALL, EVERY],
}
# name: recipe, settings
OTHERS = {
    '002-none': ('002-before', [*GESTURES, NONE]),
    '002-selective': ('002-before', [*GESTURES, SELECTIVE]),
    '002-every': ('002-before', [*GESTURES, EVERY]),
    '003-video': ('003-a', [*STREAMS, *VIDEO_ALONE, NONE]),
    '003-none': ('003-a', [*STREAMS, NONE]),
    '003-every': ('003-a', [*STREAMS, EVERY]),
    '003-two': ('003-a', [*STREAMS, EVERY, 'training.batch_size=2']),
    '003-convnext': ('003-a', [*STREAMS, EVERY, 'model.config.temporal_conv_branch=true', 'model.parts.fusion.config.image=1024']),
    '003-84-slices': ('003-a', [*STREAMS, *LONG, NONE, 'memory.split={"video.*": 4}']),
    '003-84-least': ('003-a', [*STREAMS, *LONG, EVERY, 'memory.split={"video.*": 8}']),
    '001-none': ('001-balanced', [*CAPTIONS, NONE]),
    '001-slices': ('001-balanced', [*CAPTIONS, EVERY, 'memory.split={visual: 4}']),
    '001-nf4': ('001-balanced', [*CAPTIONS, EVERY, 'memory.split={visual: 4}', 'training.optimizer.kind=adamw8bit',
                                 'model.parts.llm.quantize={kind: nf4}']),
}


def settings_of(name, folder):
    """Recipe, flags, and whether seconds are those of the plan."""
    if name in OTHERS:
        recipe, settings = OTHERS[name]
        return f'recipes/{recipe}.yaml', [], settings, True
    system, case = name.split('-', 1)
    if system == '000':
        return 'recipes/000-after.yaml', [], MADE + SENSORS[case], True
    texts, drops, settings = EMBEDDER[case]
    weights, data = os.path.join(folder, f'minilm-{drops}'), os.path.join(folder, texts + '.csv')
    if not os.path.exists(weights):
        weights_make(weights, 0.1 if drops else 0.0)
    if not os.path.exists(data):
        texts_make(data, (lambda _: 600) if texts == 'long' else (lambda numbers: max(8, round(numbers.gauss(58, 12)))))
    paths = [f'model.parts.{part}.path={weights}' for part in PARTS]
    return ('recipes/004-24gb.yaml', ['--stage', '01'],
            ['training.gradient_accumulation=1', f'data.path={data}', *paths, *settings], texts == 'long')


def measure(name, given, folder):
    recipe, flags, settings, timed = settings_of(name, folder)
    command = [os.environ.get('HEADROOM', os.path.join(ROOT, 'build', 'headroom')), 'profile', recipe, *flags,
               '--json', '--steps', str(given.steps)]
    for setting in ['memory.device=cuda', *settings]:
        command += ['--set', setting]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    if result.returncode not in (0, 4):
        return {'case': name, 'exit': result.returncode, 'error': (result.stderr or result.stdout).strip()[-300:]}
    answer = json.loads(result.stdout)
    measured = answer['measured']
    row = {'case': name, 'exit': result.returncode, 'planned_mib': answer['device']['peak_bytes'] / 2**20,
           'measured_mib': measured['process_bytes'] / 2**20, 'planned_ms': 1e3 * answer['step_seconds'],
           'measured_ms': 1e3 * measured['step_seconds'],
           'classes': {c['class']: c['measured_seconds'] for c in answer['classes'] if 'measured_seconds' in c},
           'ops': {c['op']: c['measured_seconds'] for c in answer['ops'] if 'measured_seconds' in c}}
    below = row['planned_mib'] - row['measured_mib']
    row['bytes_hold'] = 0 <= below <= max(0.01 * row['planned_mib'], 16)
    row['seconds_hold'] = not timed or abs(row['measured_ms'] / row['planned_ms'] - 1) <= 0.15
    return row


def main():
    names = [f'004-{case}' for case in EMBEDDER] + [f'000-{case}' for case in SENSORS] + list(OTHERS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--ops', action='store_true')
    parser.add_argument('--steps', type=int, default=3)
    parser.add_argument('--json')
    parser.add_argument('cases', nargs='*', metavar='CASE', default=[])
    given = parser.parse_args()
    if given.list:
        print('\n'.join(names))
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in given.cases or names:
            row = measure(name, given, folder)
            if given.json:
                with open(given.json, 'a', encoding='utf-8') as file:
                    file.write(json.dumps(row) + '\n')
            if 'error' in row:
                print(f'{name:20} exit {row["exit"]}: {row["error"]}', flush=True)
                failed += 1
                continue
            held = [what for what in ('bytes', 'seconds') if not row[what + '_hold']]
            failed += bool(held)
            print(f'{name:20} {row["planned_mib"]:9.1f} MiB planned {row["measured_mib"]:9.1f} measured   '
                  f'{row["planned_ms"]:8.1f} ms planned {row["measured_ms"]:8.1f} measured   {", ".join(held) or "as planned"}',
                  flush=True)
            if given.ops:
                for op, seconds in sorted(row['ops'].items(), key=lambda pair: -pair[1])[:25]:
                    print(f'    {op:20} {1e3 * seconds:8.2f} ms')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
