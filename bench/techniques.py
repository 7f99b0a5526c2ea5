#!/usr/bin/env python3
"""What each memory technique saves and costs here: planned and measured bytes and the time of a step, as a Markdown table.

    python3 bench/techniques.py [build/headroom] [RECIPE] [ROUNDS]

Rounds are interleaved with the plain run and the best time of each is taken: the ratio is what counts. Settings that need
others (QLoRA needs adapters) are shown with them.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
RECIPE = sys.argv[2] if len(sys.argv) > 2 else os.path.join(ROOT, 'recipes', 'demo.yaml')
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3
LORA = 'model.adapters={kind: lora, rank: 8, targets: [all-linear]}'
ALL = ['optimizer', 'parameters', 'gradients', 'activations']
ROWS = [
    ('plain', []),
    ('precision: bf16-mixed', ['model.precision=bf16-mixed']),
    ('precision: 16-mixed', ['model.precision=16-mixed']),
    ('precision: bf16-true', ['model.precision=bf16-true']),
    ('checkpoint: selective', ['memory.checkpoint=selective']),
    ('checkpoint: every-layer', ['memory.checkpoint=every-layer']),
    ('split: {mlp: 4}', ['memory.split={mlp: 4}']),
    ('optimizer state: bf16', ['training.optimizer.state=bf16']),
    ('optimizer: adamw8bit', ['training.optimizer.kind=adamw8bit']),
    ('optimizer: paged_adamw8bit', ['training.optimizer.kind=paged_adamw8bit']),
    ('update: in-backward (without clipping)', ['training.clip_norm=null', 'memory.update=in-backward']),
    ('LoRA rank 8, all linears', [LORA]),
    ('LoRA, every-layer', [LORA, 'memory.checkpoint=every-layer']),
    ('QLoRA, every-layer', [LORA, 'model.quantize={kind: nf4}', 'memory.checkpoint=every-layer']),
] + [(f'offload {kind}: host', [f'memory.offload.{kind}=host']) for kind in ALL] + [
    ('offload all four: host', [f'memory.offload.{kind}=host' for kind in ALL]),
    ('offload all four: disk', [f'memory.offload.{kind}=disk' for kind in ALL]),
]


def profile(settings):
    arguments = [HEADROOM, 'profile', RECIPE, '--steps', '5', '--json']
    for setting in settings:
        arguments += ['--set', setting]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f'{settings}: {done.stderr}')
    return json.loads(done.stdout)


def mib(count):
    return f'{count / 2**20:.1f}'


with tempfile.TemporaryDirectory() as folder:
    common = [f'memory.offload_folder={folder}', 'memory.budget=auto']
    best = {}
    for _ in range(ROUNDS):
        for name, settings in ROWS:
            answer = profile(settings + common)
            if name not in best or answer['measured']['step_seconds'] < best[name]['measured']['step_seconds']:
                best[name] = answer
plain = best['plain']['measured']['step_seconds']
print('| setting | device MiB | host MiB | disk MiB | process MiB | step, ratio to plain | predicted ratio |')
print('| --- | --- | --- | --- | --- | --- | --- |')
for name, _ in ROWS:
    a = best[name]
    print(f"| {name} | {mib(a['device']['peak_bytes'])} | {mib(a['host']['peak_bytes'])} | {mib(a['disk']['peak_bytes'])} | "
          f"{mib(a['measured']['process_bytes'])} | {a['measured']['step_seconds'] / plain:.2f} | "
          f"{a['step_seconds'] / best['plain']['step_seconds']:.2f} |")
