#!/usr/bin/env python3
"""Planning a model of 1.2 billion parameters takes little time and little memory. The time is the smallest of several,
since other tests run beside this one; HR_PLAN_SECONDS loosens it for slow machines."""
import os
import subprocess
import time

from support import HEADROOM, RECIPES, check, finish

limit = float(os.environ.get('HR_PLAN_SECONDS', '0.5'))
seconds, resident = float('inf'), 0
for _ in range(5):
    start = time.monotonic()
    child = subprocess.Popen([HEADROOM, 'plan', os.path.join(RECIPES, 'llama-3.2-1b.yaml'), '--json'],
                             stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    check(os.waitstatus_to_exitcode(status) in (0, 3), 'it plans')
    seconds = min(seconds, time.monotonic() - start)
    resident = max(resident, usage.ru_maxrss * 1024)
print(f'{seconds:.3f} s, {resident / 2**20:.1f} MiB')
check(seconds <= limit, f'{seconds:.3f} s to plan, allowed {limit}')
check(resident < 100 << 20, f'{resident} bytes to plan')
finish()
