#!/usr/bin/env python3
"""plan --sweep gpu=all, --smallest-gpu and --largest: what they answer is what single plans say."""
from support import Folder, RECIPES, TINY, check, finish, run

NOWHERE = {'HEADROOM_CUDA_PLUGIN': '/nonexistent/libheadroom_cuda.so'}
catalogue = {gpu['label']: gpu for gpu in run('devices', '--gpus', '--json').expect(0).json()['gpus']}


def usable(entry):
    return catalogue[entry['value']]['usable_bytes']


def plan(*arguments):
    return run('plan', *arguments, '--json', env=NOWHERE).json()


big = RECIPES + '/llama-3.2-1b.yaml'
sweep = run('plan', big, '--sweep', 'gpu=all', '--json', env=NOWHERE).expect(0).json()['entries']
check(sorted(entry['value'] for entry in sweep) == sorted(catalogue), 'a line for each GPU')
check([usable(entry) for entry in sweep] == sorted(map(usable, sweep)), 'least memory first')
check(len({entry['fits'] for entry in sweep}) == 2, 'some fit, some do not')
text = run('plan', big, '--sweep', 'gpu=all', env=NOWHERE).expect(0, 'RTX 4090').out
check(len(text.splitlines()) == len(catalogue) + 1 and all(len(line) <= 80 for line in text.splitlines()), 'a table')

# The smallest is the first of the sweep that fits, with the next two.
first = [entry for entry in sweep if entry['fits']][:3]
answer = run('plan', big, '--smallest-gpu', '--json', env=NOWHERE).expect(0).json()
check(answer['smallest_gpu'] == first[0]['value'] and answer['entries'] == first, f'{answer}: {first}')
check(answer['too_small'] == sum(not entry['fits'] for entry in sweep[:sweep.index(first[0])]), f'{answer["too_small"]}')
for entry in first:
    one = plan(big, '--gpu', entry['value'])
    check(one['fingerprint'] == entry['fingerprint'] and one['fits'], f'{entry}')
run('plan', big, '--smallest-gpu', env=NOWHERE).expect(0, f'catalogue that fits: {first[0]["value"]}')
check(run('plan', big, '--smallest-gpu', '--quiet', env=NOWHERE).expect(0).out == '', '--quiet')
huge = ['--set', 'training.batch_size=4096']
none = run('plan', big, '--smallest-gpu', '--json', *huge, env=NOWHERE).expect(3).json()
check(none['smallest_gpu'] is None and len(none['entries']) == 1 and not none['entries'][0]['fits'], f'{none}')
check(usable(none['entries'][0]) == max(gpu['usable_bytes'] for gpu in catalogue.values()), f'{none}')
check(none['too_small'] == len(catalogue), f'{none["too_small"]}')
run('plan', big, '--smallest-gpu', *huge, env=NOWHERE).expect(3, 'no GPU of the catalogue fits', none['entries'][0]['value'])
run('plan', big, '--sweep', 'gpu=all', *huge, '--quiet', env=NOWHERE).expect(3)

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    answer = run('plan', recipe, '--smallest-gpu', '--auto', '--json', env=NOWHERE).expect(0).json()
    least = min(catalogue.values(), key=lambda gpu: gpu['usable_bytes'])
    check(answer['smallest_gpu'] == least['label'] and answer['too_small'] == 0, f'{answer["smallest_gpu"]}')
    old = run('plan', big, '--smallest-gpu', '--set', 'training.batch_size=1', '--set', 'model.precision=bf16-true', env=NOWHERE).expect(0)
    check(all(('is for plans' in old.err) == (gpu in old.out) for gpu in ['V100 16GB', 'P100 16GB'] if gpu in old.out), old.err)
    for more in [['--gpu', '4090'], ['--gpu-memory', '8GiB']]:
        run('plan', recipe, '--smallest-gpu', *more).expect(2, '--smallest-gpu')
    for pair in [['--smallest-gpu', '--largest', 'batch'], ['--sweep', 'batch=1', '--smallest-gpu'],
                 ['--compare', recipe, '--largest', 'seq']]:
        run('plan', recipe, *pair).expect(2, 'two tables')

    # The largest value fits, and the next one does not; both as single plans say.
    budget = ['--gpu-memory', '64MiB']
    for key, path, more in [('batch', 'training.batch_size', budget), ('training.batch_size', 'training.batch_size', budget),
                            ('seq', 'data.sequence_length', budget + ['--set', 'model.config.max_position_embeddings=1000000']),
                            ('batch', 'training.batch_size', [*budget, '--batch', '100000']),
                            ('batch', 'training.batch_size', [*budget, '--set', 'memory.checkpoint=auto']),
                            ('seq', 'data.sequence_length', ['--gpu', '4090', '--gpu-memory', '680MiB', '--auto', '--set',
                                                             'model.config.max_position_embeddings=1000000'])]:
        answer = run('plan', recipe, '--largest', key, *more, '--json', env=NOWHERE).expect(0).json()
        value, entries = answer['value'], answer['entries']
        check(answer['largest'] == key and answer['key'] == path, f'{answer}')
        if not check(value is not None and not answer['ends'] and len(entries) == 2, f'{key} {more}: {answer}'):
            continue
        check([entry['value'] for entry in entries] == [str(value), str(value + 1)], f'{key} {more}: {entries}')
        check([entry['fits'] for entry in entries] == [True, False], f'{key} {more}: {entries}')
        check(answer['tried'] < 60, f'{key} {more}: {answer["tried"]} plans')
        more = [word for word in more if word not in ('--batch', '100000')]
        for entry in entries:
            one = plan(recipe, *more, '--set', f'{path}={entry["value"]}')
            check(one['fits'] == entry['fits'] and one['device']['peak_bytes'] == entry['peak_bytes'], f'{key} {more}: {entry}')
        text = run('plan', recipe, '--largest', key, *more, env=NOWHERE).expect(0, f'that fits: {value}; {value + 1} does not').out
    # Values between that cannot be, limits of the setting, and of the model.
    answer = plan(recipe, '--largest', 'batch', '--set', 'training.effective_batch=24', '--set', 'training.batch_size=1')
    check(answer['value'] == 24 and 'error' in answer['entries'][1], f'all divisors fit: {answer}')
    sizes = {n: plan(recipe, '--set', f'training.batch_size={n}', '--set', 'training.effective_batch=96')['device']['peak_bytes']
             for n in (32, 48)}
    tight = ['--gpu-memory', str((sizes[32] + sizes[48]) // 2), '--set', 'training.effective_batch=96']
    answer = plan(recipe, '--largest', 'batch', *tight)
    check(answer['value'] == 32 and answer['entries'][1]['value'] == '48' and not answer['entries'][1]['fits'], f'{answer}')
    run('plan', recipe, '--largest', 'batch', *tight).expect(0, 'that fits: 32; 48 does not', 'between the two that were tried are refused')
    lora = ['--set', 'model.adapters={kind: lora, targets: [q_proj]}']
    answer = plan(recipe, '--largest', 'rank', *lora)
    check(answer['value'] == 32 and 'rank' in answer['entries'][1]['error']['message'], f'{answer}')
    answer = plan(recipe, '--largest', 'training.steps')
    check(answer['ends'] and len(answer['entries']) == 1, f'{answer}')
    answer = run('plan', recipe, '--largest', 'batch', '--gpu-memory', '1MiB', '--json').expect(3).json()
    check(answer['value'] is None and answer['entries'][0]['value'] == '1', f'{answer}')
    run('plan', recipe, '--largest', 'batch', '--gpu-memory', '1MiB').expect(3, 'not even 1')
    check(run('plan', recipe, '--largest', 'batch', *budget, '--quiet').expect(0).out == '', '--quiet')
    for bad, words in [('memory.checkpoint', 'not a whole number'), ('memory.budget', 'not a whole number'), ('auto', 'not a setting'),
                       ('gpu', 'not a number'), ('sweep', 'not a setting'), ('', 'no setting')]:
        run('plan', recipe, '--largest', bad).expect(2, '--largest', words)
    run('plan', recipe, '--largest', 'training.batch').expect(5, 'at --largest', 'batch_size')
finish()
