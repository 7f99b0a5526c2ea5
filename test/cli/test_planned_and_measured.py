#!/usr/bin/env python3
"""Sixty combinations of settings: the process holds what was planned, within 2 % or 16 MiB, and what a combination saves
against the plain run in the plan is what it saves in the measurement. HR_TEST_COMBINATIONS narrows the number."""
import os

from support import Folder, check, finish, run

RECIPE = """\
model:
  family: llama
  config: { hidden_size: 256, intermediate_size: 704, num_hidden_layers: 6, num_attention_heads: 8,
            num_key_value_heads: 4, vocab_size: 2048 }
data: { source: synthetic, sequence_length: 128 }
training:
  batch_size: 8
  steps: 4
  optimizer: { lr: 1e-3 }
"""
LORA = 'model.adapters={kind: lora, rank: 8, targets: [all-linear]}'
AXES = {
    'precision': [[], ['model.precision=bf16-mixed'], ['model.precision=16-mixed'], ['model.precision=bf16-true']],
    'checkpoint': [[], ['memory.checkpoint=selective'], ['memory.checkpoint=every-layer']],
    'optimizer': [[], ['training.optimizer.kind=adamw8bit'], ['training.optimizer.kind=paged_adamw8bit'],
                  ['training.optimizer.state=bf16'], ['training.optimizer.kind=sgd', 'training.optimizer.momentum=0.9']],
    'offload': [[], ['memory.offload.optimizer=host'], ['memory.offload.parameters=host'],
                ['memory.offload.activations=host'], ['memory.offload.optimizer=disk', 'memory.offload.activations=disk'],
                ['memory.offload.optimizer=host', 'memory.offload.parameters=host', 'memory.offload.gradients=host']],
    'method': [[], [LORA], [LORA, 'model.quantize={kind: nf4}']],
    'accumulation': [[], ['training.gradient_accumulation=2']],
}


def combinations(count):
    """`count` distinct points of the grid, spread by a stride that shares no factor with its size."""
    sizes = [len(values) for values in AXES.values()]
    total = 1
    for size in sizes:
        total *= size
    for i in range(count):
        number, settings = i * 1049 % total, []
        for values in AXES.values():
            settings += values[number % len(values)]
            number //= len(values)
        yield settings


def profile(recipe, settings):
    arguments = []
    for setting in settings:
        arguments += ['--set', setting]
    result = run('profile', recipe, '--steps', '2', '--json', *arguments)
    if not check(result.code == 0, f'{settings}: exit {result.code}\n{result.out[:200]}{result.err[:500]}'):
        return None
    answer = result.json()
    return answer['device']['peak_bytes'] + answer['host']['peak_bytes'], answer['measured']['process_bytes']


def main():
    with Folder() as folder:
        recipe = folder.write('small.yaml', RECIPE + f'memory: {{ offload_folder: {folder.path} }}\n')
        plain = profile(recipe, [])
        worst = saved = 0.0
        for settings in combinations(int(os.environ.get('HR_TEST_COMBINATIONS', '60'))):
            both = profile(recipe, settings)
            if not both:
                continue
            planned, measured = both
            room = max(0.02 * planned, 16 << 20)
            check(planned - room <= measured <= planned + (4 << 20),
                  f'{settings}: planned {planned / 2**20:.1f} MiB, process {measured / 2**20:.1f} MiB')
            off = abs((plain[0] - planned) - (plain[1] - measured))
            check(off <= max(0.02 * max(plain[0], planned), 16 << 20),
                  f'{settings}: saves {(plain[0] - planned) / 2**20:.1f} MiB in the plan, {(plain[1] - measured) / 2**20:.1f} measured')
            worst, saved = max(worst, abs(measured - planned) / 2**20), max(saved, off / 2**20)
        print(f'plain: planned {plain[0] / 2**20:.1f} MiB, process {plain[1] / 2**20:.1f} MiB; '
              f'largest difference {worst:.1f} MiB, of savings {saved:.1f} MiB')


if __name__ == '__main__':
    main()
    finish()
