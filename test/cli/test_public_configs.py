#!/usr/bin/env python3
"""Public checkpoints' config.json files, BERT and 1 to 72 billion parameters: each is planned from flags alone, quickly, in
little memory, on a GPU where it fits. Other tests run beside this one: the time is the processor's where that is less, the
smallest of some, and half as much again is allowed as the second that a machine of its own has to keep to. HR_PLAN_SECONDS
loosens it for slow machines and builds."""
import json
import os
import subprocess
import tempfile
import time

from support import HEADROOM, ROOT, check, finish

CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')
LIMIT = 3 * float(os.environ.get('HR_PLAN_SECONDS', '0.5'))
ROUNDS = 5


def plan(name, method, gpu):
    """The answer, seconds and resident bytes."""
    folder = os.path.join(CONFIGS, name)
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as file:
        length = min(2048, json.load(file)['max_position_embeddings'])
    command = [HEADROOM, 'plan', folder, '--method', method, '--seq', str(length), '--gpu', gpu, '--json']
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = min(time.monotonic() - start, usage.ru_utime + usage.ru_stime)
        out.seek(0)
        return os.waitstatus_to_exitcode(status), json.load(out), seconds, usage.ru_maxrss * 1024


names = sorted(os.listdir(CONFIGS))
check(len(names) >= 12, 'a dozen of them')
for name in names:
    seconds, resident = float('inf'), 0
    for _ in range(ROUNDS):
        code, answer, took, held = plan(name, 'qlora', 'H200')
        seconds, resident = min(seconds, took), max(resident, held)
        if seconds <= LIMIT:
            break
    if not check(code == 0 and answer.get('fits'), f'{name}: exit {code}, {str(answer)[:300]}'):
        continue
    print(f'{name:20} {answer["device"]["peak_bytes"] / 2**30:7.2f} GiB, {seconds:.3f} s, {resident / 2**20:.0f} MiB',
          flush=True)
    check(seconds <= LIMIT, f'{name}: {seconds:.3f} s to plan, allowed {LIMIT}')
    check(resident <= 200 << 20, f'{name}: {resident} bytes to plan')
finish()
