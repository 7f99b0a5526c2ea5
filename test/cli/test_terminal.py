#!/usr/bin/env python3
"""What a person sees at a terminal: progress is one line at every width, follows a window that changes its size, and
is gone afterwards."""
import os
import re

from screen import Terminal
from support import Folder, HEADROOM, TINY, check, finish

NUMBER = re.compile(r'\d+/100000\b')


def one_line(terminal, what):
    """The prompt above, and below it the progress alone, inside of the window."""
    lines = terminal.screen.lines()
    while lines and not lines[-1]:
        lines.pop()
    ok = check(lines[:1] == ['$ headroom'], f'{what}: the line above is gone: {lines}')
    ok = check(len(lines) == 2, f'{what}: {len(lines) - 1} lines of progress: {lines}') and ok
    if ok:
        check(len(lines[1]) < terminal.screen.columns, f'{what}: reaches the last column: {lines[1]!r}')
        check(NUMBER.search(lines[1]) is not None, f'{what}: no step: {lines[1]!r}')
    return lines[1] if len(lines) > 1 else ''


def parts_seen(line):
    names = {'bar': r'\[[#.]+\]', 'step': NUMBER.pattern, 'loss': r'loss \d', 'rate': r'tokens/s', 'memory': r'[KMG]iB',
             'left': r' left$'}
    return [name for name, pattern in names.items() if re.search(pattern, line)]


with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    for reflows in [True, False]:
        out = os.path.join(folder.path, f'out-{reflows}')
        terminal = Terminal([HEADROOM, 'train', recipe, '--steps', '100000', '--out', out], 80, reflows)
        terminal.drawings(3)
        for columns in [80, 60, 200, 40, 80, 23, 120, 60]:
            what = f'train at {columns} columns, {"reflowed" if reflows else "cut off"}'
            terminal.resize(columns)
            terminal.drawings(2)  # the first may have been on its way before
            line = one_line(terminal, what)
            terminal.drawings(1)
            one_line(terminal, what)
            least = {23: 1, 40: 2, 60: 4}.get(columns, 6)
            order = ['step', 'loss', 'rate', 'left', 'memory', 'bar']
            check(set(order[:least]) <= set(parts_seen(line)), f'{what}: {parts_seen(line)} in {line!r}')
        check(terminal.screen.wrapped == 0, f'{terminal.screen.wrapped} lines were too long')
        check(terminal.finish(interrupt=True) == 130, 'an interrupted run leaves with 130')
        lines = terminal.screen.lines()
        check(not any(NUMBER.search(line) for line in lines), f'progress stays behind: {lines}')
        check(any('stopped by SIGINT' in line for line in lines), f'why it ended: {lines}')
finish()
