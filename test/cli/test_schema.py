#!/usr/bin/env python3
"""Every object that a command prints with --json is as docs/schema.json says, and the checker can tell when it is not."""
import copy

from schema import SCHEMA, conforms, faults
from support import Folder, RECIPES, TINY, check, finish, run

LORA = ('--set', 'model.adapters={kind: lora, targets: [all-linear]}')


def variants(folder, recipe):
    """Plans that fill different fields."""
    budget = ('--set', 'memory.budget=64GiB')
    yield run('plan', recipe).command, ('plan', recipe)
    yield 'adapters', ('plan', recipe, *LORA, '--set', 'model.quantize={kind: nf4}')
    yield 'auto', ('plan', recipe, '--set', 'memory.checkpoint=auto', '--set', 'memory.split=auto', *budget)
    yield 'offload', ('plan', recipe, '--set', 'memory.offload={optimizer: auto, parameters: host, activations: disk}',
                      '--set', f'memory.offload_folder={folder.path}', '--set', 'memory.host_budget=1GiB')
    yield 'gpu', ('plan', recipe, '--gpu', '4090')
    yield 'accumulated', ('plan', recipe, '--set', 'training.gradient_accumulation=4', '--margin', '1MiB')
    yield 'does not fit', ('plan', recipe, '--set', 'memory.budget=24MiB', '--set', 'training.batch_size=512')
    yield 'open', ('plan', recipe, '--set', 'training.effective_batch=8', '--set', 'training.batch_size=auto', '--set',
                   'model.precision=[32-true, bf16-mixed]')
    yield 'all open', ('plan', recipe, '--auto')
    yield 'shipped', ('plan', RECIPES + '/qlora.yaml')


with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    out = folder.path + '/out'
    plan = None
    for name, arguments in variants(folder, recipe):
        result = run(*arguments, '--json')
        check(result.code in (0, 3), f'{name}: exit {result.code} {result.out[:300]}')
        plan = result.json()
        conforms(plan, 'plan', result.command)
        check(sum(owner['bytes'] for owner in plan['owners']) == plan['device']['peak_bytes'], f'{name}: owners sum up')
        for owner in plan['owners']:
            check(sum(owner['categories'].values()) == owner['bytes'] > 0, f'{name}: {owner}')
        device = plan['device']
        left = device['budget_bytes'] - device['margin_bytes'] - device['peak_bytes']
        check(device['left_bytes'] == left and (left >= 0) == plan['fits'], f'{name}: {left} left, fits {plan["fits"]}')
        check((plan['search'] is not None) == (name in ('auto', 'open', 'all open')), f'{name}: search {plan["search"]}')
        check((plan['ladder'] is not None) == plan['fits'], f'{name}: ladder {plan["ladder"]}')
        check(abs(plan['tokens_per_second'] * plan['step_seconds'] - plan['samples_per_second'] * plan['step_seconds'] * 16)
              < 1e-3 or name == 'shipped', f'{name}: tokens per second')

    # What was open: every key with its choices, closed in the settings, and written above the table.
    opened = ('--set', 'training.effective_batch=8', '--set', 'training.batch_size=auto')
    search = run('plan', recipe, '--json', *opened).json()
    knobs = {knob['key']: knob for knob in search['search']['open']}
    batch = knobs['training.batch_size']
    check(batch['by_hand'] and sorted(map(int, batch['choices'])) == [1, 2, 4, 8], f'{batch}')
    check(str(search['settings']['training']['batch_size']) == batch['chosen'], f'{batch}: {search["settings"]["training"]}')
    counts = search['search']
    check(counts['planned'] + counts['pruned'] + counts['refused'] == counts['settings'] == 4, f'{counts}')
    check(any(f'training.batch_size={batch["chosen"]}' in entry['set'] for entry in counts['frontier']), f'{counts}')
    run('plan', recipe, *opened).expect(0, f'chosen        training.batch_size={batch["chosen"]}', 'of 4 settings')

    conforms(run('plan', recipe, '--json', '--sweep', 'batch=1,2,none').expect(0).json(), 'sweep', 'plan --sweep')
    conforms(run('plan', recipe, '--json', '--smallest-gpu').expect(0).json(), 'smallest', 'plan --smallest-gpu')
    for more, code in [(('--gpu-memory', '64MiB'), 0), (('--gpu-memory', '1MiB'), 3), (('--set', 'training.effective_batch=4'), 0)]:
        conforms(run('plan', recipe, '--json', '--largest', 'batch', *more).expect(code).json(), 'largest', f'plan --largest {more}')
    conforms(run('plan', recipe, '--json', '--compare', 'training.batch_size=8').json(), 'compare', 'plan --compare')
    profile = run('profile', recipe, '--steps', '1', '--json', '--set', 'memory.offload.optimizer=host',
                  '--set', 'model.config.vocab_size=8192').expect(0).json()
    conforms(profile, 'profile', 'profile')
    conforms(run('train', recipe, '--steps', '2', '--out', out, '--json').expect(0).json(), 'train', 'train')
    conforms(run('log', out, '--json').expect(0).json(), 'log', 'log')
    conforms(run('monitor', out, '--json').expect(0).json(), 'monitor', 'monitor')
    small = ('--set', 'memory.budget=24MiB', '--set', 'training.batch_size=512')
    for command in ['train', 'profile']:
        conforms(run(command, recipe, '--json', *small).expect(3).json(), 'failure', f'{command} that does not fit')
    conforms(run('dump', recipe, '--json').expect(0).json(), 'dump', 'dump')
    conforms(run('plan', folder.path + '/absent.yaml', '--json').expect(5).json(), 'failure', 'an error')
    usage = run('plan', recipe, '--jsno', '--json').expect(2).json()
    conforms(usage, 'failure', 'a wrong call')
    check(usage['error']['help'] == 'headroom plan --help', f'a wrong call points to the help: {usage}')
    config = folder.write('config.yaml', TINY)
    for arguments in [('--dry-run',), ('--set', 'training.batch_size=4'), ('--revert',)]:
        conforms(run('apply', recipe, '--to', config, '--json', *arguments).expect(0).json(), 'apply', f'apply {arguments}')
    conforms(run('merge', out, '--out', out + '-merged', '--json').expect(0).json(), 'merge', 'merge')
    conforms(run('devices', '--json').expect(0).json(), 'devices', 'devices')
    conforms(run('devices', '--gpus', '--json').expect(0).json(), 'gpus', 'devices --gpus')
    conforms(run('env', '--json').expect(0).json(), 'env', 'env')

    # What profile measured: every tier, and seconds that are about the step's.
    tiers = profile['measured']['tiers']
    check(tiers['host']['categories']['optimizer'] == profile['host']['categories']['optimizer'] > 0, f'host: {tiers["host"]}')
    check(tiers['device']['arena_bytes'] == profile['device']['arena_bytes'], f'device: {tiers["device"]}')
    for kind in ['classes', 'ops']:
        planned = sum(entry['planned_seconds'] for entry in profile[kind])
        check(abs(planned - profile['step_seconds']) <= 0.02 * profile['step_seconds'] + 1e-6,
              f'{kind}: {planned} of {profile["step_seconds"]}')
        check(sum(entry['measured_seconds'] for entry in profile[kind]) > 0, f'{kind}: measured')
    check({entry['class'] for entry in profile['classes']} >= {'product', 'attention', 'stream', 'copies'},
          f'classes {profile["classes"]}')

    # The checker finds what is wrong.
    for break_it in [lambda p: p.pop('owners'), lambda p: p.update(fits='yes'), lambda p: p.update(new=1),
                     lambda p: p['device'].update(peak_bytes=-1), lambda p: p['device'].update(rates='guessed'),
                     lambda p: p['changes'].append({}), lambda p: p['phases'].update(load=1.5)]:
        broken = copy.deepcopy(plan)
        break_it(broken)
        check(faults(broken, SCHEMA['$defs']['plan']), 'a broken plan passes the checker')
finish()
