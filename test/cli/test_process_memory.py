#!/usr/bin/env python3
"""The process, as the operating system counts it (VmHWM), stays within 2 % or 16 MiB of what was planned, for runs planned
at about 60 MiB, 300 MiB, 1 GiB and 3 GiB. Runs alone. HR_TEST_SIZES narrows the list."""
import os

from support import RECIPES, check, finish, run

ABOUT = {'60mib': 60 << 20, '300mib': 300 << 20, '1gib': 1 << 30, '3gib': 3 << 30}


def available_bytes():
    with open('/proc/meminfo', encoding='ascii') as file:
        for line in file:
            if line.startswith('MemAvailable:'):
                return int(line.split()[1]) * 1024
    return 0


for name in os.environ.get('HR_TEST_SIZES', '60mib 300mib 1gib 3gib').split():
    if available_bytes() < 1.2 * ABOUT[name]:
        print(f'{name}: skipped, not enough memory here')
        continue
    result = run('profile', os.path.join(RECIPES, 'sizes', name + '.yaml'), '--steps', '2', '--json')
    if not check(result.code == 0, f'{name}: exit {result.code}\n{result.out[:300]}{result.err[:300]}'):
        continue
    answer = result.json()
    planned, measured = answer['device']['peak_bytes'], answer['measured']['process_bytes']
    print(f'{name}: planned {planned / 2**20:.1f} MiB, process {measured / 2**20:.1f} MiB'
          f' ({100 * (measured / planned - 1):+.2f} %), step {answer["measured"]["step_seconds"]:.3f} s')
    check(abs(planned / ABOUT[name] - 1) < 0.2, f'{name}: planned at {planned}')
    check(planned - max(0.02 * planned, 16 << 20) <= measured <= planned + (4 << 20), f'{name}: planned {planned}, process {measured}')
    arena = answer['device']['peak_bytes'] - answer['device']['fixed_bytes']
    check(answer['measured']['arena_bytes'] == arena, f'{name}: arena {answer["measured"]["arena_bytes"]}, not {arena}')
finish()
