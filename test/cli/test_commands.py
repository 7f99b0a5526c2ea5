#!/usr/bin/env python3
"""dump at every stage, devices, env: text and JSON."""
import os

from support import Folder, ROOT, TINY, check, finish, run

with open(os.path.join(ROOT, 'src', 'pass', 'passes.def'), encoding='utf-8') as file:
    PASSES = [line.split('(')[1].split(',')[0].strip() for line in file if line.startswith('HR_PASS(')]
check(len(PASSES) >= 1, 'passes')

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    texts = {}
    for stage in ['model', 'grad', *PASSES, 'plan']:
        texts[stage] = run('dump', recipe, '--after', stage).expect(0).out
        check(len(texts[stage].splitlines()) > 10, f'dump --after {stage} is short')
        check('0x' not in texts[stage], f'dump --after {stage} has an address')
        check(run('dump', recipe, '--after', stage).out == texts[stage], f'dump --after {stage} changes')
        run('dump', recipe, '--after', stage, '--json').expect(0).json()
    check('linear_dw' not in texts['model'] and 'linear_dw' in texts['grad'], 'grad adds the backward pass')
    check('adamw' not in texts['grad'] and 'adamw' in texts[PASSES[-1]], 'update adds the optimizer')
    check(run('dump', recipe).out == texts['plan'], 'plan is the default stage')

devices = run('devices', '--json').expect(0).json().get('devices', [])
check(len(devices) >= 1 and devices[0]['kind'] == 'cpu', f'devices: {devices}')
check(devices[0]['memory_bytes'] > 1 << 28 and devices[0]['fixed_bytes'] > 0, 'facts of the CPU')
check(set(devices[0]['rates']['classes']) >= {'stream', 'product'}, f'rates {devices[0]["rates"]["classes"].keys()}')
run('devices').expect(0, 'cpu', 'GFLOP/s')

facts = run('env', '--json').expect(0).json()
for key in ['version', 'compiler', 'libraries', 'system', 'cpu', 'cuda', 'variables']:
    check(key in facts, f'env: {key}')
check(all(facts['libraries'].get(name) for name in ['oneDNN', 'libyaml', 'jansson']), f'libraries {facts["libraries"]}')
run('env').expect(0, 'version', 'libraries.oneDNN')
# Hostile values in the environment reach no terminal.
check('\033' not in run('env', env={'TERM': 'x\033]0;owned\007'}).out, 'control bytes from the environment')
finish()
