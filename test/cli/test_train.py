#!/usr/bin/env python3
"""train from outside: log, JSON, refusal to overwrite, resume, Ctrl-C, and the same weights whichever way."""
import json
import os
import signal
import subprocess
import time

from support import Folder, HEADROOM, TINY, check, finish, run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would hand on that it is ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY + '  save_every: 3\n  eval_every: 4\n  clip_norm: 1.0\n')
    out = os.path.join(folder.path, 'out')
    answer = run('train', recipe, '--out', out, '--json').expect(0).json()
    for key, kind in [('steps', int), ('loss', float), ('tokens_per_second', float), ('planned', dict),
                      ('measured', dict), ('weights_sha256', str), ('fingerprint', str)]:
        check(isinstance(answer.get(key), kind), f'train --json: {key} is {answer.get(key)!r}')
    check(answer['steps'] == 8 and len(answer['weights_sha256']) == 64, f'result {answer}')
    check(answer['measured']['peak_bytes'] > 0 and answer['planned']['peak_bytes'] > 0, 'peaks')
    held = answer['measured']['resident_bytes'], answer['measured']['arena_bytes']
    check(0 <= held[1] - held[0] < 4096 or 0 <= held[0] - held[1] < 4096, f'the arena is not resident as a whole: {held}')
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        log = [json.loads(line) for line in file]
    steps = [line for line in log if 'loss' in line]
    check([line['step'] for line in steps] == list(range(1, 9)), f'steps in the log: {[l.get("step") for l in log]}')
    for key in ['step', 'loss', 'lr', 'grad_norm', 'seconds', 'tokens']:
        check(all(key in line for line in steps), f'log has no {key}')

    # An existing run is not overwritten; --resume of a finished one changes nothing.
    before = folder.listing()
    refused = run('train', recipe, '--out', out)
    check(refused.code != 0 and '--resume' in refused.err, f'an existing run is refused: {refused.err}')
    check(folder.listing() == before, 'refusing writes nothing')
    again = run('train', recipe, '--out', out, '--resume', '--json').expect(0).json()
    check(again['weights_sha256'] == answer['weights_sha256'], 'resuming a finished run changes no weight')

    # The same recipe gives the same weights; --steps 5 then --resume gives them as well.
    other = os.path.join(folder.path, 'other')
    twice = run('train', recipe, '--out', other, '--json').expect(0).json()
    check(twice['weights_sha256'] == answer['weights_sha256'], 'same recipe, same weights')
    fresh = os.path.join(folder.path, 'fresh')
    resumed = run('train', recipe, '--out', fresh, '--resume', '--json').expect(0).json()
    check(resumed['weights_sha256'] == answer['weights_sha256'], '--resume without a checkpoint starts fresh')

    # Text for a person, and nothing on stderr with --quiet.
    shown = run('train', recipe, '--out', os.path.join(folder.path, 'text'))
    shown.expect(0, 'planned', 'measured', 'loss', 'weights_sha256')
    check(all(len(line) <= 80 for line in shown.out.splitlines()), 'the table fits 80 columns')
    quiet = run('train', recipe, '--out', os.path.join(folder.path, 'quiet'), '--quiet').expect(0)
    check(quiet.out == '' and quiet.err == '', f'--quiet: {quiet.out!r} {quiet.err!r}')
    run('train', recipe, '--out', os.path.join(folder.path, 'numerics'), '--check-numerics', '--json').expect(0)
    blown = run('train', recipe, '--out', os.path.join(folder.path, 'blown'), '--check-numerics',
                '--set', 'training.optimizer.lr=1e3', '--set', 'training.clip_norm=null', '--steps', '60')
    check(blown.code in (0, 1), f'a run that blows up: exit {blown.code} {blown.err}')
    # Names of folders need not be UTF-8; JSON has to be.
    odd = run('train', recipe, '--out', os.fsdecode(os.fsencode(folder.path) + b'/odd-\xff'), '--json').expect(0).json()
    check(odd.get('out', '').endswith('odd-\\xff'), f'out of an odd name: {odd.get("out")!r}')
    cache = os.fsdecode(os.fsencode(folder.path) + b'/cache-\xff')
    devices = run('devices', '--json', env={'XDG_CACHE_HOME': cache}).expect(0).json()
    check('cache-\\xff' in devices['devices'][0]['cache_file'], f'cache_file {devices["devices"][0]["cache_file"]!r}')
    # A folder that cannot be made.
    blocked = folder.write('file', 'x')
    run('train', recipe, '--out', os.path.join(blocked, 'out')).expect(1, 'error:')

# The curve at the end comes from a log of any length.
with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY.replace('steps: 8', 'steps: 300'))
    shown = run('train', recipe, '--out', os.path.join(folder.path, 'out'), env={'LC_ALL': 'C'}).expect(0, 'loss 5.')
    curve = [line.strip() for line in shown.out.splitlines() if line.strip() and not line.strip().strip('_.-~=+*#')]
    check(len(curve) == 1 and 30 <= len(curve[0]) <= 60, f'curve {curve}')
    check('#' in ''.join(curve) and '_' in ''.join(curve), f'curve {curve}')

# Ctrl-C: saved, 130, and the resumed run ends as if nothing had been.
for number, code in [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)]:
    with Folder() as folder:
        recipe = folder.write('tiny.yaml', TINY.replace('steps: 8', 'steps: 150').replace(
            'sequence_length: 16', 'sequence_length: 128'))
        whole = run('train', recipe, '--out', os.path.join(folder.path, 'whole'), '--json').expect(0).json()
        out = os.path.join(folder.path, 'out')
        child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--json'], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        log = os.path.join(out, 'log.jsonl')
        while child.poll() is None and not (os.path.exists(log) and os.path.getsize(log) > 200):
            time.sleep(0.002)
        child.send_signal(number)
        text, errors = child.communicate()
        check(child.returncode == code, f'{number.name}: exit {child.returncode} {errors}')
        if child.returncode == code:
            stopped = json.loads(text)
            check(0 < stopped['steps'] < 150, f'{number.name}: stopped at {stopped["steps"]}')
        resumed = run('train', recipe, '--out', out, '--resume', '--json').expect(0).json()
        check(resumed.get('weights_sha256') == whole['weights_sha256'], f'{number.name}: resumed weights differ')
        check(resumed.get('steps') == 150, f'{number.name}: resumed run has {resumed.get("steps")} steps')
finish()
