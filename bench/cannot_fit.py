#!/usr/bin/env python3
"""How long it takes to say that nothing fits: public configs x methods, on the processor and a GPU, in little memory.

  bench/cannot_fit.py [build/headroom]

A batch of 7 in 300 MiB. Prints the longest answers; exit 1 where one takes more than 3 s.
"""
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'build', 'headroom')
CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')
LIMIT = 3.0


def main():
    rows = []
    for name in sorted(os.listdir(CONFIGS)):
        if not os.path.isdir(os.path.join(CONFIGS, name)):
            continue
        for method in ['full', 'lora', 'qlora']:
            for device in [['--set', 'memory.device=cpu', '--set', 'memory.budget=300MiB'], ['--gpu', '4090', '--gpu-memory', '300MiB']]:
                begin = time.time()
                done = subprocess.run([HEADROOM, 'plan', os.path.join(CONFIGS, name), '--method', method, '--batch', '7', '--auto',
                                       '--json', *device], capture_output=True, check=False)
                rows.append((time.time() - begin, done.returncode, f'{name} {method} {device[1]}'))
    rows.sort()
    for row in rows[-8:]:
        print('%5.2f s  exit %d  %s' % row)
    print(f'{len(rows)} plans, {sum(row[1] == 3 for row in rows)} do not fit, longest {rows[-1][0]:.2f} s')
    return rows[-1][0] > LIMIT


sys.exit(main())
