#!/usr/bin/env python3
"""How long two programs plan, in one run: public configs x methods x GPUs, with budgets of host and disk.

  bench/planning_times.py BEFORE AFTER [--jobs N] [--repeats N] [--before-flags "..."] [--after-flags "..."] [--gpu BEFORE=AFTER ...]
                          [--only CASE ...]

Seconds of the processor, which other work disturbs less than those of the clock; the least of three, unless --repeats says otherwise, both programs
in turn. Prints the ratio and both seconds of a step for each case, the worst last. CASE: words of its line between spaces and
hyphens, as '72B lora 4090'.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')


def planned(program, name, method, gpu, flags):
    """(seconds of the processor, seconds of a step)"""
    command = [program, 'plan', os.path.join(CONFIGS, name), '--method', method, '--gpu', gpu, '--seq', '512', '--auto', '--json',
               '--set', 'memory.host_budget=64GiB', '--set', 'memory.disk_budget=500GiB', *flags]
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(child.pid, 0)
        out.seek(0)
        answer = json.loads(out.read() or b'{}')
    return usage.ru_utime + usage.ru_stime, answer.get('step_seconds', 0.0)


def named(case, only):
    """Whether all words of one of those asked for are among the case's."""
    own = ' '.join(case).replace('-', ' ').split()
    return not only or any(all(word in own for word in words.split()) for words in only)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('before')
    parser.add_argument('after')
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--before-flags', default='')
    parser.add_argument('--after-flags', default='')
    parser.add_argument('--gpu', nargs='*', default=['rtx 3060-12gb', '4090', 'h100'], help='as both programs call it, or BEFORE=AFTER')
    parser.add_argument('--only', nargs='*', default=[], metavar='CASE')
    arguments = parser.parse_args()
    names = [name for name in sorted(os.listdir(CONFIGS)) if os.path.isdir(os.path.join(CONFIGS, name))]
    cases = [(name, method, gpu) for name in names for method in ['full', 'lora', 'qlora'] for gpu in arguments.gpu]
    cases = [case for case in cases if named(case, arguments.only)]

    def both(case):
        name, method, gpu = case
        first, _, second = gpu.partition('=')
        runs = [(planned(arguments.before, name, method, first, arguments.before_flags.split()),
                 planned(arguments.after, name, method, second or first, arguments.after_flags.split())) for _ in range(arguments.repeats)]
        return min(run[0] for run in runs), min(run[1] for run in runs)

    rows, unknown = [], 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as hands:
        for case, (before, after) in zip(cases, hands.map(both, cases)):
            if before[1] > 0 or after[1] == 0:
                rows.append((after[0] / before[0], before[0], after[0], before[1], after[1], ' '.join(case)))
            else:
                unknown += 1  # a family that BEFORE has not
    for row in sorted(rows):
        print('%5.2f  %6.2f -> %6.2f s  (a step: %.4g -> %.4g s)  %s' % row)
    if unknown > 0:
        print(f'{unknown} cases that {arguments.before} does not plan are left out')
    if not rows:
        sys.exit('no case that both programs plan has these words')
    total = sum(row[2] for row in rows) / sum(row[1] for row in rows)
    print(f'{len(rows)} plans: {total:.3f} of before in all; {sum(row[0] > 1.2 for row in rows)} above 1.2, '
          f'{sum(row[0] > 1.05 for row in rows)} above 1.05, longest {max(row[2] for row in rows):.2f} s')


if __name__ == '__main__':
    main()
