#!/usr/bin/env python3
"""Resuming is exact with every technique: 48 combinations of settings, each stopped three times, end in the weights of a
run that was never stopped. HR_TEST_COMBINATIONS narrows the number."""
import os

from support import Folder, check, finish, run

RECIPE = """\
model:
  family: llama
  config: { hidden_size: 128, intermediate_size: 1024, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: text, path: text.txt, sequence_length: 24 }
training:
  batch_size: 3
  steps: 12
  optimizer: { lr: 1e-3 }
  clip_norm: 1.0
"""
STOPS, STEPS = (2, 5, 9), 12
LORA = 'model.adapters={kind: lora, rank: 4, dropout: 0.1, targets: [q_proj, v_proj, up_proj]}'
AXES = [
    [[], ['model.precision=bf16-mixed'], ['model.precision=16-mixed'], ['model.precision=bf16-true']],
    [[], ['training.optimizer.kind=adamw8bit'], ['training.optimizer.kind=sgd', 'training.optimizer.momentum=0.9'],
     ['training.optimizer.state=bf16'], ['training.optimizer.kind=paged_adamw8bit']],
    [[], [LORA], [LORA, 'model.quantize={kind: nf4}']],
    [[], ['memory.checkpoint=every-layer'], ['memory.offload.optimizer=host', 'memory.offload.parameters=disk'],
     ['memory.checkpoint=selective', 'memory.offload.activations=disk']],
    [[], ['training.gradient_accumulation=2'], ['training.gradient_accumulation={0: 3, 1: 2, 2: 1}'],
     ['data.source=lines', 'data.buckets=[8, 16, 24]']],
]


def combinations(count):
    total = 1
    for values in AXES:
        total *= len(values)
    for i in range(count):
        number, settings = i * 467 % total, []
        for values in AXES:
            settings += values[number % len(values)]
            number //= len(values)
        yield settings


def train(recipe, out, steps, settings, resume=False):
    arguments = ['--out', out, '--steps', steps, '--json'] + (['--resume'] if resume else [])
    for setting in settings:
        arguments += ['--set', setting]
    result = run('train', recipe, *arguments)
    check(result.code == 0, f'{settings} to step {steps}: exit {result.code}\n{result.out[:200]}{result.err[:500]}')
    return result.json().get('weights_sha256') if result.code == 0 else None


def main():
    with Folder() as folder:
        words = ' '.join(str(n * n) for n in range(1, 260))
        text = '\n'.join(words[i:i + 7 + i % 29] for i in range(0, len(words), 31))
        folder.write('text.txt', text)
        recipe = folder.write('tiny.yaml', RECIPE + f'memory: {{ offload_folder: {folder.path} }}\n')
        for number, settings in enumerate(combinations(int(os.environ.get('HR_TEST_COMBINATIONS', '48')))):
            whole = train(recipe, os.path.join(folder.path, f'whole{number}'), STEPS, settings)
            out = os.path.join(folder.path, f'parts{number}')
            for i, stop in enumerate(STOPS + (STEPS,)):
                got = train(recipe, out, stop, settings, resume=i > 0)
            check(got is not None and got == whole, f'{settings}: stopped at {STOPS}, the weights differ')


if __name__ == '__main__':
    main()
    finish()
