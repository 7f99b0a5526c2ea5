#!/usr/bin/env python3
"""How long it takes to say that nothing fits: public configs x methods and shipped recipes, on the processor and a GPU, in little memory.

  bench/cannot_fit.py [build/headroom]

A batch of 7 in 300 MiB. Prints the longest answers, by seconds of the processor, which other work disturbs less than those of the
clock; exit 1 where one takes more than 3 s.
"""
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')
RECIPES = os.path.join(ROOT, 'recipes')
LIMIT = 3.0


def planned(path, flags):
    """(seconds of the processor, of the clock, exit code)"""
    begin = time.time()
    child = subprocess.Popen([HEADROOM, 'plan', path, '--batch', '7', '--auto', '--json', *flags], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.time() - begin, os.waitstatus_to_exitcode(status)


def main():
    folders = [name for name in sorted(os.listdir(CONFIGS)) if os.path.isdir(os.path.join(CONFIGS, name))]
    cases = [(f'{name} {method}', os.path.join(CONFIGS, name), ['--method', method]) for name in folders
             for method in ['full', 'lora', 'qlora']]
    cases += [(name, os.path.join(RECIPES, name), []) for name in sorted(os.listdir(RECIPES)) if name.endswith('.yaml')]
    rows = []
    for case, path, flags in cases:
        for device in [['--set', 'memory.device=cpu', '--set', 'memory.budget=300MiB'], ['--gpu', '4090', '--gpu-memory', '300MiB']]:
            rows.append((*planned(path, flags + device), f'{case} {device[1]}'))
    rows.sort()
    for row in rows[-8:]:
        print('%5.2f s of the processor, %5.2f s  exit %d  %s' % row)
    print(f'{len(rows)} plans, {sum(row[2] == 3 for row in rows)} do not fit, longest {rows[-1][0]:.2f} s')
    return rows[-1][0] > LIMIT


sys.exit(main())
