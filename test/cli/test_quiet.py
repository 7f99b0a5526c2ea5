#!/usr/bin/env python3
"""--quiet: no tables, progress or remarks; errors, JSON and dumps stay. And progress is for terminals only."""
import os
import pty
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
    small = ('--set', 'memory.budget=20MiB', '--set', 'training.batch_size=512')
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

    # Progress: nothing into a pipe, a bar on a terminal.
    piped = run('train', recipe, '--out', os.path.join(folder.path, 'pipe')).expect(0)
    check(piped.err == '', f'progress into a pipe: {piped.err!r}')
    master, slave = pty.openpty()
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', os.path.join(folder.path, 'terminal')],
                             stdout=subprocess.DEVNULL, stderr=slave, env={**os.environ, 'TERM': 'xterm'})
    child.wait()
    os.close(slave)
    seen = os.read(master, 1 << 16).decode(errors='replace')
    os.close(master)
    check('tokens/s' in seen and 'iB' in seen, f'progress on a terminal: {seen!r}')
finish()
