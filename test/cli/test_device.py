#!/usr/bin/env python3
"""A recipe that names no device goes to the GPU of this machine where one can be used, and that is said; a device that is
named stays. The GPU is a plug-in of the tests, on which nothing can be run."""
import ctypes.util
import os
import shutil
import subprocess

from support import HEADROOM, TINY, Folder, check, finish, run

FAKE = {'HEADROOM_CUDA_PLUGIN': os.path.join(os.path.dirname(HEADROOM), 'fake_cuda.so')}
NONE = {'HEADROOM_CUDA_PLUGIN': '/nonexistent/libheadroom_cuda.so'}
SAID = 'device: NVIDIA GeForce RTX 3060, the GPU of this machine'
USED = 'the GPU of the tests has come to be used'
CPU = ('--set', 'memory.device=cpu')

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    named = folder.write('named.yaml', TINY + 'memory: { device: cpu }\n')
    for command in [('plan',), ('plan', '--auto'), ('plan', '--sweep', 'batch=1,2'), ('plan', '--largest', 'seq')]:
        done = run(command[0], recipe, *command[1:], env=FAKE).expect(0)
        check(done.err.count(SAID) == 1, f'{command}: said once: {done.err}')
        for more, environment in [(CPU, FAKE), ((), NONE), (('--gpu', '4090'), FAKE)]:
            done = run(command[0], recipe, *command[1:], *more, env=environment).expect(0)
            check(SAID not in done.err, f'{command} {more}: {done.err}')
    for command in ['plan', 'train', 'profile']:
        check(SAID not in run(command, named, cwd=folder.path, env=FAKE, timeout=60).err, f'{command}: the recipe names the processor')
    for more in [(), ('--auto',)]:
        device = run('plan', recipe, *more, '--json', env=FAKE).expect(0).json()
        check(device['device']['kind'] == 'cuda' and device['device']['present'], f'{more}: {device["device"]}')
        check(device['device']['name'] == 'NVIDIA GeForce RTX 3060' and device['device']['rates'] == 'catalogue', f'{more}')
        check(device['device']['margin_bytes'] == 0, 'a GPU that is here keeps no margin')
        check(device['settings']['memory']['device'] == 'cuda', f'{more}: {device["settings"]["memory"]}')
        run('train', recipe, *more, '--out', folder.path + '/gpu', env=FAKE).expect(1, SAID, USED)
        check(SAID not in run('train', recipe, *more, '--quiet', '--out', folder.path + '/gpu', env=FAKE).expect(1, USED).err, 'quiet')
        check(run('plan', recipe, *more, '--json', env=NONE).expect(0).json()['device']['kind'] == 'cpu', f'{more}: without a GPU')
    if ctypes.util.find_library('cuda') is None:
        # Without a driver a plug-in beside the program is not even loaded: its libraries would be the run's memory.
        os.mkdir(folder.path + '/bin')
        shutil.copy(HEADROOM, folder.path + '/bin/headroom')
        shutil.copy(FAKE['HEADROOM_CUDA_PLUGIN'], folder.path + '/bin/libheadroom_cuda.so')
        done = subprocess.run([folder.path + '/bin/headroom', 'plan', recipe], capture_output=True, text=True, check=False)
        check(done.returncode == 0 and SAID not in done.stderr, f'without a driver: {done.stderr}')
    run('train', recipe, *CPU, '--out', folder.path + '/cpu', '--steps', '1', env=FAKE).expect(0)
    run('train', recipe, '--auto', '--out', folder.path + '/none', '--steps', '1', env=NONE).expect(0)
finish()
