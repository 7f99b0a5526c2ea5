#!/usr/bin/env python3
"""A model whose parameters and optimizer state are six times the device budget, against the same model resident.

    python3 bench/offload.py [build/headroom] [ROUNDS]

Prints what each plan holds per tier, what the process held, and the ratio of step times (best of interleaved rounds).
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
RECIPE = """\
model:
  family: llama
  config: { hidden_size: 640, intermediate_size: 1728, num_hidden_layers: 16, num_attention_heads: 10,
            num_key_value_heads: 5, vocab_size: 512, max_position_embeddings: 512, tie_word_embeddings: true }
data: { source: synthetic, sequence_length: 256 }
training: { batch_size: 4, steps: 4, optimizer: { lr: 1e-3 }, clip_norm: 1.0 }
"""
KINDS = ['optimizer', 'parameters', 'gradients', 'activations']


def profile(recipe, *settings):
    arguments = [HEADROOM, 'profile', recipe, '--steps', '3', '--json']
    for setting in settings:
        arguments += ['--set', setting]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{settings}: exit {done.returncode}\n{done.stdout[-400:]}{done.stderr}')
    return json.loads(done.stdout)


with tempfile.TemporaryDirectory() as folder:
    recipe = os.path.join(folder, 'model.yaml')
    with open(recipe, 'w', encoding='utf-8') as file:
        file.write(RECIPE)
    plain = profile(recipe)
    state = plain['device']['categories']['parameters'] + plain['device']['categories']['optimizer']
    budget = state // 6
    common = [f'memory.budget={budget}', 'memory.checkpoint=every-layer', f'memory.offload_folder={folder}']
    ways = {'resident': ['memory.checkpoint=every-layer'],
            'host': common + [f'memory.offload.{kind}=host' for kind in KINDS],
            'state on disk': common + ['memory.offload.optimizer=disk'] +
            [f'memory.offload.{kind}=host' for kind in KINDS[1:]]}
    best = {}
    for _ in range(ROUNDS):
        for name, settings in ways.items():
            answer = profile(recipe, *settings)
            if name not in best or answer['measured']['step_seconds'] < best[name]['measured']['step_seconds']:
                best[name] = answer
print(f'parameters and optimizer state {state / 2**20:.1f} MiB, device budget {budget / 2**20:.1f} MiB')
print('| where | device MiB | host MiB | disk MiB | process MiB | step, ratio to resident |')
print('| --- | --- | --- | --- | --- | --- |')
for name, a in best.items():
    tiers = ' | '.join(f"{a[tier]['peak_bytes'] / 2**20:.1f}" for tier in ('device', 'host', 'disk'))
    print(f"| {name} | {tiers} | {a['measured']['process_bytes'] / 2**20:.1f} | "
          f"{a['measured']['step_seconds'] / best['resident']['measured']['step_seconds']:.2f} |")
