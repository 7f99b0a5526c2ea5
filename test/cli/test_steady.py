#!/usr/bin/env python3
"""1,000 steps: the process does not grow by a page, seen from outside while it trains. HR_STEADY_STEPS changes the number."""
import os
import subprocess
import time

from support import Folder, HEADROOM, TINY, check, finish

STEPS = int(os.environ.get('HR_STEADY_STEPS', '1000'))


def status(pid):
    with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as file:
        return {line.split(':')[0]: int(line.split()[1]) for line in file if line.startswith(('VmRSS', 'RssAnon', 'VmSize'))}


def lines(path):
    try:
        with open(path, 'rb') as file:
            return file.read().count(b'\n')
    except FileNotFoundError:
        return 0


with Folder() as folder:
    # Long enough steps that this script can look at them.
    recipe = folder.write('tiny.yaml', TINY.replace('sequence_length: 16', 'sequence_length: 128').replace(
        'batch_size: 2', 'batch_size: 4'))
    out = os.path.join(folder.path, 'out')
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--steps', str(STEPS + 100), '--quiet'],
                             stdout=subprocess.DEVNULL)
    first = last = None
    first_step = last_step = 0
    while child.poll() is None:
        step = lines(os.path.join(out, 'log.jsonl'))
        try:
            seen = status(child.pid)
        except (FileNotFoundError, ProcessLookupError):
            break
        if seen and 20 <= step <= STEPS // 2 and first is None:
            first, first_step = seen, step
        if seen and step < STEPS + 95:  # the end saves, which is another phase
            last, last_step = seen, step
        time.sleep(0.005)
    check(child.wait() == 0, f'exit {child.returncode}')
    print(f'step {first_step}: {first}, step {last_step}: {last}')
    if check(first is not None and last_step - first_step > STEPS // 3, 'the run was seen early and late'):
        check(last['RssAnon'] == first['RssAnon'], f'anonymous memory grew from {first} to {last}')
        check(last['VmSize'] == first['VmSize'], f'address space grew from {first} to {last}')
finish()
