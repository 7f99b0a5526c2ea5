#!/usr/bin/env python3
"""The small recipe of every system, in f32 and in bf16: begun, evaluated, saved, and gone on with. The process never holds more than
its plan, samples included, as the operating system counts it; nor does the plan have much that is not held."""
import json
import os

from support import RECIPES, Folder, check, finish, run

ROOM, SPARE = 4 << 20, 16 << 20  # pages that the system maps beside those asked for, code of other processors; what these do not hold


def train(recipe, out, precision, steps, *more):
    run('train', os.path.join(RECIPES, recipe), '--out', out, '--quiet', *more, '--set', f'model.precision={precision}', '--set', 'training.epochs=null',
        '--set', f'training.steps={steps}', '--set', 'training.eval_every=2', '--set', 'training.save_every=2', timeout=600).expect(0)
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def judge(lines, what):
    headers = [line for line in lines if 'planned_peak_bytes' in line]
    planned, measured = headers[-1]['planned_peak_bytes'], [line['bytes'] for line in lines if line.get('event') == 'ended'][-1]
    print(f'{what}: planned {planned / 2**20:.1f} MiB, process {measured / 2**20:.1f} MiB')
    check(planned - SPARE < measured <= planned + ROOM, f'{what}: planned {planned}, process {measured}')
    moments = [line['tiers']['device']['held_bytes'] for line in lines if line.get('event') == 'memory']
    most = headers[-1]['tiers']['device']['planned_bytes'] + ROOM
    check(moments and max(moments) <= most, f'{what}: {moments} on the device, where {most} are planned')


with Folder() as folder:
    for recipe in sorted(name for name in os.listdir(RECIPES) if name.endswith('-small.yaml')):
        for precision in ('32-true', 'bf16-mixed'):
            out = os.path.join(folder.path, f'{recipe}-{precision}')
            judge(train(recipe, out, precision, 3), f'{recipe} {precision}')
            judge(train(recipe, out, precision, 5, '--resume'), f'{recipe} {precision}, gone on with')
finish()
