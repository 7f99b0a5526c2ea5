#!/usr/bin/env python3
"""Planned device bytes of Llama-3.2-1B's shape, 4 x 1024 tokens, without fixed costs, as a Markdown table. Needs no GPU and
no such memory.

    python3 bench/planned.py [build/headroom]
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
SHAPE = ['training.batch_size=4', 'data.sequence_length=1024', 'training.clip_norm=null', 'memory.budget=1TiB']
LORA = 'model.adapters={kind: lora, rank: 8, targets: [all-linear]}'
NF4 = 'model.quantize={kind: nf4}'
TRUE = 'model.precision=bf16-true'
EIGHT = 'training.optimizer.kind=adamw8bit'
SELECTIVE, EVERY = 'memory.checkpoint=selective', 'memory.checkpoint=every-layer'
ROWS = [
    ('full, `32-true`, AdamW', ['model.precision=32-true']),
    ('full, `bf16-mixed`, AdamW', ['model.precision=bf16-mixed']),
    ('full, `bf16-true`, AdamW', [TRUE]),
    ('… selective', [TRUE, SELECTIVE]),
    ('… every-layer', [TRUE, EVERY]),
    ('full, `bf16-true`, adamw8bit, every-layer', [TRUE, EIGHT, EVERY]),
    ('… update in-backward', [TRUE, EIGHT, EVERY, 'memory.update=in-backward']),
    ('… moments on the host (`paged_adamw8bit`)', [TRUE, 'training.optimizer.kind=paged_adamw8bit', EVERY,
                                                   'memory.update=in-backward']),
    ('LoRA rank 8, `bf16-true`', [TRUE, LORA]),
    ('… selective', [TRUE, LORA, SELECTIVE]),
    ('… every-layer', [TRUE, LORA, EVERY]),
    ('QLoRA, every-layer', [TRUE, LORA, NF4, EVERY]),
    ('QLoRA, every-layer, split {mlp: 4}', [TRUE, LORA, NF4, EVERY, 'memory.split={mlp: 4}']),
]

print('| setting | device GiB | parameters | gradients | optimizer | activations | workspace and rest | host GiB |')
print('| --- | --- | --- | --- | --- | --- | --- | --- |')
for name, settings in ROWS:
    arguments = [HEADROOM, 'plan', os.path.join(ROOT, 'recipes', 'llama-3.2-1b.yaml'), '--json']
    for setting in SHAPE + settings:
        arguments += ['--set', setting]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{name}: {done.stderr or done.stdout[:500]}')
    plan = json.loads(done.stdout)
    parts = dict(plan['device']['categories'])
    whole = plan['device']['peak_bytes'] - parts.pop('fixed')
    shown = [parts.pop(key) for key in ('parameters', 'gradients', 'optimizer', 'activations')]
    cells = [whole, *shown, sum(parts.values()), plan['host']['peak_bytes']]
    print(f'| {name} | ' + ' | '.join(f'{value / 2**30:.2f}' for value in cells) + ' |')
