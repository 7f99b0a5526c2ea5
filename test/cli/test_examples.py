#!/usr/bin/env python3
"""Help fits a screen, and the examples of every --help and of the README run as they are printed."""
import os
import re
import subprocess
import tempfile
import time

from support import HEADROOM, ROOT, check, finish

LINES, COLUMNS = 40, 80
PREFIX = 'build/headroom '


def shell(line, folder):
    """As a person types it, in a tree that has the recipes and the program."""
    return subprocess.run(line, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors='replace', timeout=300, check=False)


def example(line, folder, where):
    began = time.monotonic()
    done = shell(line, folder)
    print(f'{time.monotonic() - began:6.1f} s  {line}', flush=True)
    told = done.stdout + done.stderr
    if 'memory.device=cuda' in line and done.returncode == 1:
        check('CUDA' in told and 'try:' in told, f'{where}: {line}\n{told[:400]}')  # no GPU here: that is said
        return
    expected = 3 if 'does not fit' in line else 0
    check(done.returncode == expected, f'{where}: {line}\nexit {done.returncode}, expected {expected}: {told[-600:]}')


def tree(folder):
    for name in ('recipes', 'test'):
        os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, 'build'))
    os.symlink(HEADROOM, os.path.join(folder, 'build', 'headroom'))


with tempfile.TemporaryDirectory(prefix='headroom-test-') as folder:
    tree(folder)
    ran = set()
    commands = re.findall(r'^  ([a-z]+) ', shell(PREFIX + '--help', folder).stdout.split('commands:')[1], re.M)
    check(len(commands) >= 6, f'commands of the help: {commands}')
    for command in ['', *[name + ' ' for name in commands]]:
        help_ = shell(f'{PREFIX}{command}--help', folder).stdout
        lines = help_.splitlines()
        check(len(lines) <= LINES, f'{command}--help has {len(lines)} lines')
        for line in lines:
            check(len(line) <= COLUMNS, f'{command}--help: {len(line)} columns: {line}')
        examples = re.sub(r' \\\n +', ' ', help_.split('examples:')[-1])  # long ones go on in the next line
        shown = [line.strip() for line in examples.splitlines() if line.strip().startswith(PREFIX)]
        check(shown, f'{command}--help has no example')
        check(command == '' or any(line.startswith(PREFIX + command.strip()) for line in shown), f'{command}: {shown}')
        for line in shown:
            if line not in ran:
                example(line, folder, f'{command}--help')
            ran.add(line)

    with open(os.path.join(ROOT, 'README.md'), encoding='utf-8') as file:
        readme = file.read()
    code = [line.strip().removeprefix('$ ') for line in readme.splitlines() if line.startswith('    ')]
    calls = [line for line in code if line.startswith(PREFIX)]
    check(len(calls) >= 8, f'examples of the README: {calls}')
    check(not any(re.search(r'\b(RECIPE|DIR|FILE|NAME|SIZE)\b', line.split('#')[0]) for line in calls),
          'an example of the README has a word to fill in')
    for line in calls:
        if line.split('#')[0].strip() not in ran:
            example(line, folder, 'README')
    with open(os.path.join(ROOT, 'Makefile'), encoding='utf-8') as file:
        targets = re.findall(r'^([a-z]+):', file.read(), re.M)
    for line in code:
        if line.startswith('make '):
            check(line.split()[1] in targets, f'README: {line}')
finish()
