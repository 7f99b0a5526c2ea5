#!/usr/bin/env python3
"""What a person sees at a terminal: progress of runs and of planning is one line at every width, follows a window that
changes its size, and is gone afterwards."""
import os
import re

from screen import Terminal
from support import Folder, HEADROOM, TINY, check, finish, run

NUMBER = re.compile(r'\d+/100000\b')


def one_line(terminal, above, what):
    """The lines above as they were written, and below them the progress alone, inside of the window."""
    lines = terminal.screen.whole_lines()
    while lines and not lines[-1]:
        lines.pop()
    ok = check(lines[:len(above)] == above, f'{what}: the lines above are not {above}: {lines}')
    progress = lines[len(above):]
    ok = check(len(progress) == 1, f'{what}: {len(progress)} lines of progress: {lines}') and ok
    if ok:
        check(len(progress[0]) < terminal.screen.columns, f'{what}: reaches the last column: {progress[0]!r}')
        check(NUMBER.search(progress[0]) is not None, f'{what}: no step: {progress[0]!r}')
    return progress[0] if progress else ''


def parts_seen(line):
    names = {'bar': r'\[[#.]+\]', 'step': NUMBER.pattern, 'loss': r'loss \d', 'rate': r'tokens/s', 'memory': r'[KMG]iB',
             'left': r' left$'}
    return [name for name, pattern in names.items() if re.search(pattern, line)]


with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    promise = run('train', recipe, '--out', os.path.join(folder.path, 'piped')).expect(0).err.splitlines()
    for reflows in [True, False]:
        out = os.path.join(folder.path, f'out-{reflows}')
        terminal = Terminal([HEADROOM, 'train', recipe, '--steps', '100000', '--out', out], 80, reflows)
        terminal.drawings(3)
        above = ['$ headroom', *promise]
        for columns in [80, 60, 200, 40, 80, 23, 120, 60]:
            what = f'train at {columns} columns, {"reflowed" if reflows else "cut off"}'
            terminal.resize(columns)
            terminal.drawings(2)  # the first may have been on its way before
            if not reflows:
                above = [text[:columns].rstrip() for text in above]
            line = one_line(terminal, above, what)
            terminal.drawings(1)
            one_line(terminal, above, what)
            least = {23: 1, 40: 2, 60: 4}.get(columns, 6)
            order = ['step', 'loss', 'rate', 'left', 'memory', 'bar']
            check(set(order[:least]) <= set(parts_seen(line)), f'{what}: {parts_seen(line)} in {line!r}')
        check(terminal.screen.wrapped == 0, f'{terminal.screen.wrapped} lines were too long')
        check(terminal.finish(interrupt=True) == 130, 'an interrupted run leaves with 130')
        lines = terminal.screen.lines()
        check(not any(NUMBER.search(line) for line in lines), f'progress stays behind: {lines}')
        check(any('stopped by SIGINT' in line for line in lines), f'why it ended: {lines}')

# A search of thousands of settings: a line after a second, gone at the end, and nothing but the answer in pipes.
LONG = ['--set', 'training.gradient_accumulation=[' + ', '.join(str(i) for i in range(1, 33)) + ']',
        '--set', 'training.batch_size=[' + ', '.join(str(i) for i in range(1, 33)) + ']', '--set', 'model.precision=auto']
with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    out = os.path.join(folder.path, 'out')
    for command in [['plan', recipe], ['train', recipe, '--steps', '1', '--out', out], ['profile', recipe, '--steps', '1'],
                    ['apply', recipe, '--to', recipe, '--dry-run']]:
        terminal = Terminal([HEADROOM, *command, *LONG], 80)
        terminal.pause(0.2, 1.0)  # a second passes on any machine, however fast
        waits = 0
        for columns in [80, 60, 200]:
            terminal.resize(columns)
            if not terminal.drawings(1 if columns == 80 else 2):
                break
            lines = [line for line in terminal.screen.lines() if line]
            if 'settings' not in lines[-1]:
                continue  # the search is over
            waits += 1
            check(len(lines) == 2 and len(lines[1]) < columns, f'{command[0]}: {columns} columns: {lines}')
            check(re.search(r'  planning  \d+ of \d+ settings', lines[1]), f'{command[0]}: {lines}')
        check(waits > 0, f'{command[0]}: no line for who waits: {terminal.written[:300]!r}')
        check(terminal.finish() == 0, f'{command[0]}: ends with 0')
        check(not any('settings bounded' in line or 'settings done' in line for line in terminal.screen.lines()),
              f'{command[0]}: stays behind: {terminal.screen.lines()}')
    piped = run('plan', recipe, *LONG).expect(0)
    check(all(line.startswith('planning') for line in piped.err.splitlines()) and '\x1b' not in piped.err, f'into a pipe: {piped.err!r}')
    for option in ['--quiet', '--json']:
        terminal = Terminal([HEADROOM, 'plan', recipe, *LONG, option], 80)
        check(terminal.finish() == 0 and 'planning' not in terminal.written, f'{option}: {terminal.written[:300]!r}')

# Texts for people keep to the window: every help, every setting, errors, and what commands show.
with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    trainer = folder.write('ds_config.json', '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {}}')
    commands = re.findall(r'^  ([a-z]+) ', run('--help').expect(0).out.split('options of every command:')[0], re.MULTILINE)
    check(len(commands) >= 15 and {'plan', 'train', 'prepare'} <= set(commands), f'commands: {commands}')
    shown = [['--help'], *[[name, '--help'] for name in commands],
             ['env'], ['env', '--keys'], ['devices'], ['devices', '--gpus'], [], ['plan'], ['plan', 'owner/model'],
             ['plan', 'recipes/demo.yaml', '--precision', 'bf16'], ['plan', recipe, '--compare', 'training.batch_size=4'],
             ['plan', recipe, '--sweep', 'batch=1,2,4'], ['plan', recipe, '--gpu', '4090', '--auto'],
             ['plan', recipe, '--set', 'memory.budget=22MiB'], ['plan', recipe, '--set', 'training.lr=1'],
             ['apply', recipe, '--to', trainer, '--dry-run'], ['profile', recipe, '--steps', '1', '--ops'],
             ['train', recipe, '--out', 'out', '--set', 'memory.device=cuda', '--set', 'memory.gpu=H100']]
    for arguments in shown:
        terminal = Terminal([HEADROOM, *arguments], 80, cwd=folder.path)
        terminal.finish()
        wide = [line for line in terminal.screen.lines() if len(line) == 80]
        check(terminal.screen.wrapped == 0, f'{arguments}: too long for 80 columns, one of: {wide}')
    # Examples have the program's path before them, however long that is.
    for length in range(1, 57 - len(folder.path)):
        program = os.path.join(folder.path, 'p' * length)
        os.symlink(HEADROOM, program)
        for command in ['tokenize', 'generate', 'apply', 'plan']:
            terminal = Terminal([program, command, '--help'], 80)
            terminal.finish()
            check(terminal.screen.wrapped == 0, f'{command} --help as {program}: too long for 80 columns')
        os.unlink(program)
    for given, meant in [('./absent//a.yaml', './absent/a.yaml'), ('absent/.', 'absent'), ('.//./absent', './absent')]:
        error = run('plan', given).expect(5)
        check(f'at {meant}\n' in error.err, f'{given}: {error.err}')
    folder.write('paths.yaml', TINY.replace('source: synthetic', 'source: text, path: .//data/./absent.txt'))
    error = run('train', folder.path + '/./paths.yaml', '--out', folder.path + '//o')
    check('/./' not in error.err and '//' not in error.err and 'data/absent.txt' in error.err, f'paths: {error.err}')
finish()
