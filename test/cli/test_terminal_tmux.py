#!/usr/bin/env python3
"""Progress in a real terminal whose window changes its size while a run goes on: tmux. Skipped where that is not there;
test_terminal.py has the same with a screen of its own."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

from support import Folder, HEADROOM, TINY, check, finish, run

TMUX = shutil.which('tmux')
if not TMUX:
    print('no tmux here')
    sys.exit(77)

NUMBER = re.compile(r'(\d+)/100000\b')


def tmux(*arguments):
    return subprocess.run([TMUX, '-S', socket, '-f', '/dev/null', *arguments], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, 'LC_ALL': 'C.UTF-8'}, timeout=60, check=True).stdout


def pane():
    """What the pane and the lines that scrolled out of it show, each as it was written, without empty ones at the end."""
    lines = [line.rstrip() for line in tmux('capture-pane', '-p', '-J', '-S', '-').split('\n')]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def step_of(lines):
    found = NUMBER.search('\n'.join(lines))
    return int(found.group(1)) if found else -1


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        lines = pane()
        if condition(lines):
            return lines
        time.sleep(0.05)
    check(False, f'waited {seconds} seconds: {pane()}')
    return pane()


with Folder() as folder:
    socket = os.path.join(folder.path, 'socket')
    recipe = folder.write('tiny.yaml', TINY)
    command = shlex.join([HEADROOM, 'train', recipe, '--steps', '100000', '--out', os.path.join(folder.path, 'out')])
    promise = run('train', recipe, '--out', os.path.join(folder.path, 'piped')).expect(0).err.splitlines()
    # Lines above fill the window, so that the progress stands in its last row, where reflowing is hardest.
    script = f'trap : INT; for i in $(seq 40); do echo above $i; done; {command}; echo ended with $?; sleep 60'
    tmux('new-session', '-d', '-x', '80', '-y', '24', 'sh', '-c', script)
    try:
        wait_for(lambda lines: step_of(lines) > 0)
        for columns in [80, 60, 200, 60, 80, 200, 80, 60]:
            tmux('resize-window', '-x', str(columns), '-y', '24')
            time.sleep(0.5)  # tmux tells the program after a while
            before = step_of(pane())
            lines = wait_for(lambda lines: step_of(lines) > before)
            progress = [line for line in lines if line not in promise and (NUMBER.search(line) or 'tokens/s' in line or '[#' in line)]
            above = [line for line in lines if line not in progress]
            check(len(progress) == 1, f'{columns} columns: {len(progress)} lines of progress: {lines}')
            check(above == [*(f'above {i}' for i in range(1, 41)), *promise], f'{columns} columns: the lines above: {above}')
            check(all(len(line) < columns and ' left' in line for line in progress), f'{columns} columns: {progress}')
            print(f'{columns:4} columns: {progress[0] if progress else ""}')
        tmux('send-keys', 'C-c')
        lines = wait_for(lambda lines: any('ended with' in line for line in lines))
        check('ended with 130' in lines, f'{lines}')
        check(not any('tokens/s' in line and NUMBER.search(line) for line in lines), f'progress stays behind: {lines}')
    finally:
        tmux('kill-server')
finish()
