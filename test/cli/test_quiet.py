#!/usr/bin/env python3
"""--quiet: no tables, progress or remarks; errors, JSON and dumps stay. And progress is for terminals only."""
import os
import pty
import re
import subprocess

from support import Folder, HEADROOM, TINY, check, finish, run

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    for arguments in [('plan', recipe), ('profile', recipe, '--steps', '1'), ('devices',), ('env',), ('env', '--keys'),
                      ('train', recipe, '--out', os.path.join(folder.path, 'quiet'))]:
        shown = run(*arguments, '--quiet').expect(0)
        check(shown.out == '' and shown.err == '', f'{shown.command}: {shown.out[:200]!r} {shown.err[:200]!r}')
    check(run('dump', recipe, '--quiet').out == run('dump', recipe).out, 'a dump is what was asked for')
    for arguments in [('plan', recipe), ('devices',), ('env',)]:
        check(len(run(*arguments, '--quiet', '--json').expect(0).json()) > 0, f'{arguments} --quiet --json')

    # What does not fit is an error everywhere, and names owners and changes.
    small = ('--set', 'memory.budget=24MiB', '--set', 'training.batch_size=512')
    out = os.path.join(folder.path, 'never')
    for command in ['plan', 'train', 'profile']:
        where = ('--out', out) if command == 'train' else ()
        quiet = run(command, recipe, *small, *where, '--quiet').expect(3, 'error:', 'largest tensors')
        check(quiet.out == '', f'{command} --quiet: {quiet.out!r}')
        shown = run(command, recipe, *small, *where).expect(3, 'largest tensors', 'what would fit', '--set training.')
        owners = (shown.out + shown.err).split('largest tensors at the peak:\n')[1].split('\n\n')[0].splitlines()
        check(len(owners) == 3, f'{command}: three owners: {owners}')
        answer = run(command, recipe, *small, *where, '--json').expect(3).json()
        plan = answer if command == 'plan' else answer.get('plan', {})
        check(plan.get('fits') is False and len(plan.get('changes', [])) > 0, f'{command} --json: {answer}')
        check(len(plan.get('largest_buffers', [])) == 3, f'{command} --json: owners')
        if command != 'plan':
            check(answer.get('error', {}).get('code') == 'HR_NO_FIT', f'{command} --json: {answer.get("error")}')
    check(not os.path.exists(out), 'what does not fit writes nothing')

    # What a run promises stands on stderr before its first step: the device, then what `plan` shows of it, word by word.
    promised = run('train', recipe, '--out', os.path.join(folder.path, 'pipe')).expect(0)
    plan = run('plan', recipe).expect(0).out.splitlines()
    lines = promised.err.splitlines()
    named = [line.split(None, 1)[1] for line in plan if line.startswith('  device  ')]
    check(lines[:1] == [f'device: {named[0]}'], f'the first line is the device: {lines}')
    check(lines[1:3] == plan[:2] and lines[1].startswith('fits: '), f'peak and seconds a step are those of plan: {lines}')
    ways = lines[3:]
    check([line.split()[0] for line in ways] == ['batch', 'optimizer', 'memory', 'host'], f'settings: {ways}')
    check(all(line in plan for line in ways[:3]), f'settings are those of plan: {ways}')
    check(re.fullmatch(r'  host +[0-9.]+ ([KMG]i)?B of [0-9.]+ [KMG]iB', ways[-1]), f'the peak of the host in its budget: {ways}')
    check(not re.search(r'[\r\x1b]', promised.err), f'progress into a pipe: {promised.err!r}')
    silent = run('train', recipe, '--json', '--out', os.path.join(folder.path, 'json')).expect(0)
    check(silent.err == '', f'--json: {silent.err!r}')

    # What is refused promises nothing: a folder that has a run, a plan that does not fit, data that is not there.
    refused = [run('train', recipe, '--out', os.path.join(folder.path, 'pipe')).expect(2, 'a run in this folder already'),
               run('train', recipe, *small, '--out', out).expect(3),
               run('train', recipe, '--set', 'data={source: text, path: absent.txt, sequence_length: 16}', '--out', out).expect(5, 'absent.txt')]
    check(all(one.err.startswith('error: ') for one in refused), f'{[one.err for one in refused]}')

    # Progress: a bar on a terminal.
    master, slave = pty.openpty()
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', os.path.join(folder.path, 'terminal')],
                             stdout=subprocess.DEVNULL, stderr=slave, env={**os.environ, 'TERM': 'xterm'})
    child.wait()
    os.close(slave)
    seen = os.read(master, 1 << 16).decode(errors='replace')
    os.close(master)
    check('tokens/s' in seen and 'iB' in seen, f'progress on a terminal: {seen!r}')
finish()
