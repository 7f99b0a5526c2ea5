#!/usr/bin/env python3
"""plan --compare and --sweep: what they show is what single plans say, and what cannot be planned is told."""
from support import Folder, RECIPES, TINY, check, finish, run

EIGHT = 'training.batch_size=8'

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    other = folder.write('other.yaml', TINY.replace('batch_size: 2', 'batch_size: 8'))
    one, eight = run('plan', recipe, '--json').json(), run('plan', recipe, '--set', EIGHT, '--json').json()

    # Side by side, with a recipe or with settings.
    for name in [other, EIGHT, EIGHT + ',data.sequence_length=16']:
        answer = run('plan', recipe, '--compare', name, '--json').expect(0).json()
        check(answer['compare'] == [recipe, name], f'{name}: {answer["compare"]}')
        check([plan['fingerprint'] for plan in answer['plans']] == [one['fingerprint'], eight['fingerprint']],
              f'{name}: the plans are those of plan')
        check(answer['differences'] == [{'key': 'training.batch_size', 'values': [2, 8]}], f'{answer["differences"]}')
        text = run('plan', recipe, '--compare', name).expect(0, 'training.batch_size', 'device peak', 'tokens/s').out
        check(all(len(line) <= 80 for line in text.splitlines()), f'80 columns: {text}')
        check(not any(line.endswith(' ') for line in text.splitlines()), 'no blanks at the ends of lines')
    # Settings that only one side has, and a list among the values.
    answer = run('plan', recipe, '--compare', 'model.adapters={kind: lora, targets: [q_proj, v_proj]},' + EIGHT,
                 '--json').expect(0).json()
    found = {entry['key']: entry['values'] for entry in answer['differences']}
    check(found.get('model.adapters.kind') == [None, 'lora'], f'only there: {found}')
    check(found.get('model.adapters.targets') == [None, ['q_proj', 'v_proj']], f'a list: {found}')
    for targets, shown in [('[q_proj, v_proj, o_proj]', '3 values'), ('[q_proj]', '["q_proj"]')]:
        run('plan', recipe, '--compare', f'model.adapters={{kind: lora, targets: {targets}}}').expect(0, shown)
    back = run('plan', recipe, '--set', 'training.clip_norm=1.0', '--compare', 'training.clip_norm=null', '--json').json()
    check(back['differences'] == [{'key': 'training.clip_norm', 'values': [1.0, None]}], f'{back["differences"]}')
    # Options count for both; a before that does not fit beside an after that does is a success.
    tight = ('--gpu-memory', '25MiB')
    for first, second, code in [(512, 1, 0), (1, 512, 0), (512, 256, 3)]:
        run('plan', recipe, '--set', f'training.batch_size={first}', '--compare', f'training.batch_size={second}',
            *tight).expect(code, 'does not fit')
    check(run('plan', recipe, '--compare', EIGHT, '--quiet').expect(0).out == '', '--quiet')
    run('plan', recipe, '--compare', EIGHT + ',nonsense').expect(2, 'nonsense', 'headroom plan --help')
    run('plan', recipe, '--compare', 'training.batch=8').expect(5, 'training.batch')
    run('plan', recipe, '--compare', folder.path + '/absent.yaml').expect(5, 'absent.yaml')

    # One line per value, each as a plan of its own.
    for key, setting, values in [('batch', 'training.batch_size', [1, 2, 8]), ('seq', 'data.sequence_length', [8, 16]),
                                 ('training.batch_size', 'training.batch_size', [4]),
                                 ('memory.checkpoint', 'memory.checkpoint', ['none', 'every-layer'])]:
        answer = run('plan', recipe, '--sweep', f'{key}=' + ','.join(map(str, values)), '--json').expect(0).json()
        check(answer['sweep'] == key and [e['value'] for e in answer['entries']] == [str(v) for v in values], f'{answer}')
        for value, entry in zip(values, answer['entries']):
            plan = run('plan', recipe, '--set', f'{setting}={value}', '--json').json()
            check(entry['fingerprint'] == plan['fingerprint'] and entry['step_seconds'] == plan['step_seconds']
                  and entry['peak_bytes'] == plan['device']['peak_bytes'], f'{key}={value}: {entry}')
    text = run('plan', recipe, '--sweep', 'gpu-memory=1MiB,1GiB,24').expect(0, 'gpu-memory', 'yes', 'no', '24').out
    check(len(text.splitlines()) == 4, f'a line per value: {text}')
    answer = run('plan', recipe, '--sweep', 'gpu-memory=1MiB,1GiB', '--json').json()
    check([entry['fits'] for entry in answer['entries']] == [False, True], f'{answer}')
    check([entry['budget_bytes'] for entry in answer['entries']] == [1 << 20, 1 << 30], f'{answer}')
    for name, gpu in [('gpu=4090,H100', None), ('gpu-memory=4GiB,8GiB', '4090')]:
        more = ('--gpu', gpu) if gpu else ()
        entries = run('plan', recipe, '--sweep', name, *more, '--json').expect(0).json()['entries']
        check(len({entry['budget_bytes'] for entry in entries}) == 2, f'{name}: {entries}')
    run('plan', recipe, '--sweep', 'gpu-memory=1MiB,2MiB').expect(3)
    lines = run('plan', recipe, '--sweep', 'training.optimizer.kind=adamw,adamw8bit').expect(0).out.splitlines()
    check(len({line.find(word) for line, word in zip(lines, ['fits', 'yes', 'yes'])}) == 1, f'columns: {lines}')
    check(run('plan', recipe, '--sweep', 'batch=1,2', '--quiet').expect(0).out == '', '--quiet')
    # Open settings are closed for each value.
    opened = ('--set', 'training.effective_batch=8', '--set', 'training.batch_size=auto')
    entries = run('plan', recipe, '--sweep', 'seq=16,32', *opened, '--json').expect(0).json()['entries']
    for entry in entries:
        one = run('plan', recipe, '--set', f'data.sequence_length={entry["value"]}', *opened, '--json').json()
        check(entry['chosen'] == [f'{knob["key"]}={knob["chosen"]}' for knob in one['search']['open']], f'{entry}')
        check(entry['fingerprint'] == one['fingerprint'], f'{entry}')
    run('plan', recipe, '--sweep', 'seq=16,32', *opened).expect(0, '  batch_size=')
    # What cannot be planned: a line among others, an error where it is all there is.
    run('plan', recipe, '--sweep', 'batch=none,2').expect(0, 'whole number')
    run('plan', recipe, '--sweep', 'batch=none').expect(2, 'whole number', 'error:')
    run('plan', recipe, '--sweep', 'training.batch_size=none').expect(5, 'whole number', 'error:')
    refused = run('plan', recipe, '--sweep', 'training.batch_size=none', '--json').expect(5).json()
    check(refused['entries'][0]['error']['exit_code'] == 5, f'{refused}')
    for bad in ['batch', '=1', 'batch=', '']:
        run('plan', recipe, '--sweep', bad).expect(2, '--sweep', 'gpu-memory=8GiB')
    for word in ['compare', 'sweep', 'auto']:
        run('plan', recipe, '--sweep', f'{word}=a').expect(2, 'not a setting')
    run('plan', recipe, '--sweep', 'batch=1', '--compare', EIGHT).expect(2, 'two tables')
    # Values are anybody's text.
    check('\033' not in run('plan', recipe, '--sweep', 'batch=\033]0;x\007,2').out, 'control bytes of a value')
    check('\033' not in run('plan', recipe, '--compare', 'data.path=\033[1m').out, 'control bytes of a setting')

# A plan says what is cheapest to change, and that change then fits.
big = RECIPES + '/demo.yaml'
plan = run('plan', big, '--set', 'memory.budget=110MiB', '--json').expect(3).json()
text = run('plan', big, '--set', 'memory.budget=110MiB').expect(3, 'does not fit the device', 'why: ', 'cheapest to change').out
best = next((change for change in plan['changes'] if not change['changes_results']), None)
if check(best is not None, f'{plan["changes"]}'):
    for override in best['set']:
        check(f'    --set {override}\n' in text.split('a step:')[0] + '\n', f'{override} is not in the head: {text[:600]}')
    settings = [word for override in best['set'] for word in ('--set', override)]
    again = run('plan', big, '--set', 'memory.budget=110MiB', *settings, '--json').expect(0).json()
    check(again['device']['peak_bytes'] == best['peak_bytes'], 'the peak is the one that was promised')
# The ladder's rungs hold as well.
plan = run('plan', big, '--json').json()
rung = plan['ladder']['cheaper']
if check(rung is not None and not rung['changes_results'], f'{plan["ladder"]}'):
    settings = [word for override in rung['set'] for word in ('--set', override)]
    again = run('plan', big, *settings, '--json').expect(0).json()
    check(again['device']['peak_bytes'] == rung['peak_bytes'] < plan['device']['peak_bytes'], f'{rung}')
    check(abs(again['step_seconds'] - rung['step_seconds']) < 1e-6, f'{rung}')
finish()
