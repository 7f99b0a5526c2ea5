#!/usr/bin/env python3
"""profile: planned beside measured for every tier and class of op, and exit code 4 for a process that held more."""
from schema import conforms
from support import Folder, TINY, check, finish, run

WIDE = TINY.replace('vocab_size: 256', 'vocab_size: 8192')

with Folder() as folder:
    recipe = folder.write('wide.yaml', WIDE + f'memory: {{ offload_folder: {folder.path} }}\n')
    host, disk = ('--set', 'memory.offload.optimizer=host'), ('--set', 'memory.offload.optimizer=disk')
    steps = ('--steps', '1')
    plain = run('profile', recipe, *steps).expect(0, 'planned', 'measured', 'process', 'a step', 'by class', 'product').out
    rates = run('plan', recipe, '--json').expect(0).json()['device']['rates']
    check(('devices --measure' in plain) == (rates == 'default'), f'by {rates} rates: {plain}')
    check('by op' not in plain and 'disk' not in plain, f'what was not asked for: {plain}')
    check(all(len(line) <= 80 for line in plain.splitlines()), f'80 columns: {plain}')
    run('profile', recipe, *steps, *host, '--ops').expect(0, 'host optimizer', 'host arena', 'copies', 'by op', 'adamw')
    run('profile', recipe, *steps, *disk).expect(0, 'disk optimizer', 'disk arena', 'host staging')

    # Every tier holds what was planned of it.
    for where, tier in [(host, 'host'), (disk, 'disk')]:
        answer = run('profile', recipe, *steps, *where, '--json').expect(0).json()
        measured = answer['measured']['tiers']
        for name in ['device', tier]:
            check(measured[name]['arena_bytes'] == answer[name]['arena_bytes'] > 0, f'{tier}: arena of the {name}')
            check(measured[name]['resident_bytes'] == answer[name]['arena_bytes'], f'{tier}: {name} {measured[name]}')
            for category, bytes_ in measured[name]['categories'].items():
                check(bytes_ == answer[name]['categories'][category], f'{tier}: {name}.{category} {bytes_}')

    # A process that held more: the text of a recipe counts, and this one has 16 MB of remarks.
    long = folder.write('long.yaml', TINY + ('#' + 'x' * 99 + '\n') * 160000)
    run('profile', long, *steps).expect(4, 'the process held', 'the plan said', 'measured')
    answer = run('profile', long, *steps, '--json').expect(4).json()
    conforms(answer, 'profile', 'profile above the plan')
    check(answer['measured']['process_bytes'] > answer['device']['peak_bytes'] + (16 << 20), f'{answer["measured"]}')
finish()
