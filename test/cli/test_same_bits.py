#!/usr/bin/env python3
"""Where things are kept, recomputed, moved or updated changes no bit: weights_sha256 after 50 steps is that of the plain
run, in every precision; of each kind on each tier by itself after 10. The matrices of the feed-forward part are large enough
to be moved in every type (64 KiB), those of attention only as f32. In f32 with two threads, in the other types with one: other
tests run beside this one, and threads that wait for each other take its time."""
import os

from support import Folder, check, finish, run

RECIPE = """\
model:
  family: llama
  config: { hidden_size: 128, intermediate_size: 1024, num_hidden_layers: 3, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: synthetic, sequence_length: 16 }
training:
  batch_size: 4
  steps: 50
  optimizer: { lr: 1e-3 }
"""
PRECISIONS = ['32-true', 'bf16-mixed', '16-mixed', 'bf16-true']
KINDS = ['optimizer', 'parameters', 'gradients', 'activations']
CLIPPED = ['training.clip_norm=0.5']
GEMMA = ['model.family=gemma3', 'model.config.head_dim=32', 'model.config.sliding_window=7',
         'model.config.sliding_window_pattern=2', 'training.steps=10']

# name, settings of the plain run beside the precision, settings under test
CASES = [
    ('selective', CLIPPED, ['memory.checkpoint=selective']),
    ('every-layer', CLIPPED, ['memory.checkpoint=every-layer']),
    ('every-layer, accumulation', CLIPPED + ['training.gradient_accumulation=2'], ['memory.checkpoint=every-layer']),
    ('all on the host', CLIPPED, [f'memory.offload.{kind}=host' for kind in KINDS]),
    ('all on disk, every-layer', CLIPPED, [f'memory.offload.{kind}=disk' for kind in KINDS] +
     ['memory.checkpoint=every-layer']),
    ('all on disk, accumulation', CLIPPED + ['training.gradient_accumulation=3'],
     [f'memory.offload.{kind}=disk' for kind in KINDS]),
    ('8-bit state, paged', CLIPPED + ['training.optimizer.kind=adamw8bit'],
     ['training.optimizer.kind=paged_adamw8bit']),
    ('8-bit state, paged, updated on the host', CLIPPED + ['training.optimizer.kind=adamw8bit'],
     ['training.optimizer.kind=paged_adamw8bit', 'memory.offload.update=host']),
    ('momentum on the host', CLIPPED + ['training.optimizer.kind=sgd', 'training.optimizer.momentum=0.9'],
     ['memory.offload.optimizer=host']),
    ('lora, every-layer, activations on the host',
     ['model.adapters={kind: lora, rank: 4, dropout: 0.1, targets: [q_proj, down_proj]}'],
     ['memory.checkpoint=every-layer', 'memory.offload.activations=host']),
    ('qlora, parameters on disk', ['model.adapters={kind: lora, rank: 4, targets: [all-linear]}',
                                   'model.quantize={kind: nf4}'],
     ['memory.offload.parameters=disk', 'memory.checkpoint=selective']),
    ('gemma3, every-layer, all on the host', CLIPPED + GEMMA,
     ['memory.checkpoint=every-layer'] + [f'memory.offload.{kind}=host' for kind in KINDS]),
] + [(f'{kind} on {tier}', CLIPPED + ['training.steps=10'], [f'memory.offload.{kind}={tier}'])
     for kind in KINDS for tier in ('host', 'disk')]
IN_BACKWARD = [
    ('in-backward', [], ['memory.update=in-backward']),
    ('in-backward, every-layer, all on the host', [],
     ['memory.update=in-backward', 'memory.checkpoint=every-layer'] + [f'memory.offload.{kind}=host' for kind in KINDS]),
]


runs = 0


def weights(recipe, precision, settings):
    global runs
    runs += 1
    arguments = ['--out', f'out{runs}']
    for setting in [f'model.precision={precision}'] + settings:
        arguments += ['--set', setting]
    result = run('train', recipe, '--json', *arguments,
                 env={'HEADROOM_THREADS': '2' if precision == '32-true' else '1'})
    check(result.code == 0, f'{precision} {settings}: exit {result.code}\n{result.out[:200]}{result.err[:400]}')
    return result.json().get('weights_sha256') if result.code == 0 else None


def main():
    with Folder() as folder:
        os.chdir(folder.path)
        recipe = folder.write('tiny.yaml', RECIPE + f'memory: {{ offload_folder: {folder.path} }}\n')
        for precision in PRECISIONS:
            plain = {}
            for name, common, tested in CASES + (IN_BACKWARD if precision != '16-mixed' else []):
                key = tuple(common)
                if key not in plain:
                    plain[key] = weights(recipe, precision, common)
                got = weights(recipe, precision, common + tested)
                check(got is not None and got == plain[key], f'{precision}: {name}: other weights than the plain run')
        left = [path for path in folder.listing() if not path.endswith('tiny.yaml')]
        check(not any('offload' in os.path.basename(path) for path in left), f'left behind: {left}')


if __name__ == '__main__':
    main()
    finish()
