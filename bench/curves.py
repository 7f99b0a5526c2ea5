#!/usr/bin/env python3
"""Loss curves of the demo in every precision against f32: how far apart they are, and how far apart two f32 runs are that
differ only in the order in which gradients are summed.

    python3 bench/curves.py [build/headroom] [STEPS]
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
STEPS = sys.argv[2] if len(sys.argv) > 2 else '300'
WINDOW = 20
RUNS = {'32-true': [], 'bf16-mixed': ['model.precision=bf16-mixed'], '16-mixed': ['model.precision=16-mixed'],
        'bf16-true': ['model.precision=bf16-true'], '32-true, sums in another order': ['memory.split={mlp: 2}']}


def curve(folder, settings):
    out = os.path.join(folder, f'run{len(os.listdir(folder))}')
    arguments = [HEADROOM, 'train', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--steps', STEPS, '--out', out, '--quiet']
    for setting in settings:
        arguments += ['--set', setting]
    subprocess.run(arguments, check=True)
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [line['loss'] for line in map(json.loads, file) if 'lr' in line and 'loss' in line]


def means(values):
    return [sum(values[i:i + WINDOW]) / WINDOW for i in range(len(values) - WINDOW + 1)]


def apart(a, b):
    return [abs(x - y) / y for x, y in zip(a, b)]


with tempfile.TemporaryDirectory() as folder:
    curves = {name: curve(folder, settings) for name, settings in RUNS.items()}
plain = curves['32-true']
print(f'| run | mean distance | largest of {WINDOW}-step means | largest of a single step | last loss |')
print('| --- | --- | --- | --- | --- |')
for name, losses in curves.items():
    each = apart(losses, plain)
    print(f'| {name} | {100 * sum(each) / len(each):.2f} % | {100 * max(apart(means(losses), means(plain))):.2f} % | '
          f'{100 * max(each):.2f} % | {losses[-1]:.4f} |')
