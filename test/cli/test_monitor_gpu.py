#!/usr/bin/env python3
"""What monitor shows of GPUs, by a library that stands in for NVML: memory and use of the GPU that a run is on, and another
process there. Skipped where there is no C compiler."""
import os
import shutil
import subprocess
import sys
import time

from schema import conforms
from support import Folder, HEADROOM, TINY, check, finish, run

CC = shutil.which('cc')
if not CC:
    print('no C compiler here')
    sys.exit(77)

LIBRARY = r'''
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
struct process { unsigned pid; unsigned long long bytes; unsigned a, b; };
struct memory { unsigned long long total, free, used; };
struct use { unsigned gpu, memory; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(1 + (size_t)index); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { snprintf(name, length, "NVIDIA Test %d\x1b[2J", (int)(size_t)device); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m) { m->total = 24ull << 30; m->used = (size_t)device << 30; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetUtilizationRates(void *device, struct use *u) { u->gpu = 40 * (unsigned)(size_t)device; u->memory = 1; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *list) {
  if (device != (void *)2) { *count = 0; return 0; }
  if (*count < 2) return 7;
  *count = 2;
  list[0] = (struct process){(unsigned)atoi(getenv("TEST_PID")), 300ull << 20, 0, 0};
  list[1] = (struct process){1, 500ull << 20, 0, 0};
  return 0;
}
'''

with Folder() as folder:
    source = folder.write('nvml.c', LIBRARY)
    subprocess.run([CC, '-shared', '-fPIC', '-w', '-o', os.path.join(folder.path, 'libnvidia-ml.so.1'), source], check=True)
    recipe, out = folder.write('tiny.yaml', TINY), os.path.join(folder.path, 'out')
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--quiet', '--steps', '1000000'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while child.poll() is None and not (os.path.exists(out + '/log.jsonl') and '"loss"' in open(out + '/log.jsonl', encoding='utf-8').read()):
            time.sleep(0.02)
        env = {'LD_LIBRARY_PATH': folder.path, 'TEST_PID': str(child.pid)}
        answer = run('monitor', out, '--json', env=env).expect(0).json()
        conforms(answer, 'monitor', 'with a GPU')
        one = answer['runs'][0]
        check(one['gpu'] == {'index': 1, 'name': 'NVIDIA Test 2\x1b[2J', 'used_bytes': 2 << 30, 'total_bytes': 24 << 30, 'process_bytes': 300 << 20, 'use': 0.8}, f'{one["gpu"]}')
        check([sign['sign'] for sign in one['signs']] == ['shared_gpu'], f'{one["signs"]}')
        text = run('monitor', out, '--once', env=env).expect(0, 'GPU 1', '2.00 GiB of 24.00 GiB, 80 % used', 'another process is on this GPU: 1 holds 500.00 MiB').out
        check('\x1b' not in text, 'names of GPUs are escaped')
        check(run('monitor', out, '--json').expect(0).json()['runs'][0]['gpu'] is None, 'without NVML there is none')
    finally:
        child.kill()
        child.wait()
finish()
