#!/usr/bin/env python3
"""headroom plan TRACE: peaks, verdict, tables, several batch sizes, damaged files; and snapshots as tools/torch_trace.py converts them."""
import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
import types

from schema import conforms
from support import Folder, ROOT, TINY, check, finish, run

MIB = 1 << 20
TOOL = os.path.join(ROOT, 'tools', 'torch_trace.py')


def trace(batch, **other):
    """Two steps of one layer: weights of 200 MiB, 100 MiB a sample, gradients, states of twice the weights."""
    events = [[0, 200 * MIB, 0, 1, 2], [0, 32 * MIB, 4, 0, 5]]
    ids = 2
    for step in (1, 2):
        x, dw = ids, ids + 1
        events += [[2, 1, step], [0, batch * 100 * MIB, 3, 1, 3], [2, 2, step], [0, 200 * MIB, 1, 1, 4], [1, x], [2, 3, step]]
        ids += 2
        if step == 1:
            events.append([0, 400 * MIB, 2, 1, 6])
            ids += 1
        events.append([1, dw])
    return dict({'format': 'headroom torch trace 1', 'source': 'size-only tensors', 'batch': batch, 'capability': 90,
                 'versions': {'torch': '2.15.0'}, 'guesses': [], 'unmodelled': [],
                 'categories': ['parameters', 'gradients', 'optimizer', 'activations', 'workspace', 'inputs', 'other'],
                 'phases': ['build', 'forward', 'backward', 'optimizer', 'eval', 'save'],
                 'names': ['', 'layer', 'aten::empty', 'aten::mm', 'backward: aten::mm', 'cublas workspace', 'aten::zeros_like'],
                 'events': events}, **other)


def one(folder):
    path = folder.write('four.json', json.dumps(trace(4)))
    answer = run('plan', path, '--gpu', 'H200', '--json').expect(0).json()
    conforms(answer, 'trace', 'plan TRACE --json')
    torch = answer['torch']
    check(torch['allocated_bytes'] == (200 + 32 + 400 + 400 + 200) * MIB, f'{torch["allocated_bytes"] / MIB} MiB allocated')
    check(sum(torch['categories'].values()) == torch['allocated_bytes'], 'categories sum to what is allocated')
    check(torch['phase'] == 'backward' and torch['at_allocated']['step'] == 2, f'{torch["at_allocated"]}')
    check(torch['driver_bytes'] == torch['reserved_bytes'] + 758 * MIB and torch['context_measured'], 'context of the H200')
    check(torch['owners'][0]['name'] == 'layer' and torch['calls'][0]['bytes'] == 400 * MIB, f'{torch["calls"][0]}')
    check(len(torch['steps']) == 3 and torch['steps'][1]['allocated_bytes'] == 832 * MIB, f'{torch["steps"]}')
    older = run('plan', path, '--gpu', '4090', '--json').expect(0).json()['torch']
    check(older['allocated_bytes'] == torch['allocated_bytes'] - 32 * MIB + 8519680, "cuBLAS's workspace is the GPU's")
    run('plan', path, '--gpu', 'H200').expect(0, 'fits on H200', 'backward of step 2, backward: aten::mm of layer', 'cublas workspace')
    run('plan', path, '--gpu', '4090').expect(0, 'an estimate', 'traced for compute capability 9.0')
    large = folder.write('large.json', json.dumps(trace(300, guesses=['item gets 0: train.py:3: loss.item()'])))
    run('plan', large, '--gpu', '4090').expect(3, 'does not fit on RTX 4090', 'runs out of memory in forward of step 1, aten::mm of layer',
                                               'item gets 0: train.py:3')
    answer = run('plan', large, '--gpu', '4090', '--json').expect(3).json()
    conforms(answer, 'trace', 'plan TRACE that does not fit')
    check(not answer['fits'] and answer['out_of_memory']['call'] == 'aten::mm', f'{answer["out_of_memory"]}')
    run('plan', path, '--gpu-memory', '1GiB', '--quiet').expect(3)
    check(run('plan', path, '--json').expect(0).json()['device']['budget_bytes'] is None, 'without a GPU there is no budget')


def settings(folder):
    path = folder.write('s.json', json.dumps(trace(4)))
    plain = run('plan', path, '--json').expect(0).json()['torch']
    growing = run('plan', path, '--json', '--alloc-conf', 'expandable_segments:True').expect(0).json()['torch']
    check(plain['reserved_bytes'] % (20 * MIB) != 0 == growing['reserved_bytes'] % (20 * MIB), 'pages of 20 MiB')
    check(0 <= growing['reserved_bytes'] - growing['allocated_bytes'] < 20 * MIB, f'{growing["reserved_bytes"]}')
    run('plan', path, '--alloc-conf', 'backend:cudaMallocAsync').expect(2, 'only the native allocator')
    run('plan', path, '--alloc-conf', 'segments:1').expect(2, 'no setting')
    run('plan', path, '--auto').expect(2, '--auto is for recipes')
    run('plan', path, '--set', 'training.steps=3').expect(2, 'no settings of a recipe')
    run('plan', path, '--batch', '3').expect(2, 'other batch sizes')
    recipe = folder.write('r.yaml', TINY)
    run('plan', recipe, path).expect(2, 'one recipe')
    run('plan', path, recipe).expect(2, 'no trace')
    run('plan', recipe, '--alloc-conf', 'expandable_segments:True').expect(2, "PyTorch's, and headroom is to train")


def batches(folder):
    paths = [folder.write(f'{b}.json', json.dumps(trace(b))) for b in (4, 2, 8)]
    direct = run('plan', folder.write('6.json', json.dumps(trace(6))), '--gpu', '4090', '--json').expect(0).json()['torch']
    between = run('plan', *paths, '--batch', '6', '--gpu', '4090', '--json').expect(0).json()
    conforms(between, 'trace', 'plan of several')
    check(between['bent'] == 0 and between['batch'] == 6, f'{between["bent"]}')
    for key in ('allocated_bytes', 'reserved_bytes', 'driver_bytes', 'categories', 'steps'):
        check(between['torch'][key] == direct[key], f'{key} at a batch between: {between["torch"][key]}, traced {direct[key]}')
    largest = run('plan', *paths, '--gpu', '4090', '--json').expect(0).json()
    more = run('plan', *paths, '--gpu', '4090', '--json', '--batch', str(largest['batch'] + 1)).expect(3).json()
    check(largest['fits'] and not more['fits'] and more['torch']['driver_bytes'] > largest['torch']['driver_bytes'], f'{largest["batch"]}')
    table = run('plan', *paths, '--sweep', 'gpu=all', '--json').expect(0).json()
    conforms(table, 'trace_sweep', 'plan TRACE --sweep gpu=all')
    here = [entry for entry in table['entries'] if entry['value'] == 'RTX 4090']
    check(len(table['entries']) > 50 and here[0]['batch'] == largest['batch'], f'{here}')
    run('plan', *paths, '--sweep', 'gpu=4090,H200').expect(0, 'largest batch', 'RTX 4090')
    other = trace(16)
    other['names'][3] = 'aten::bmm'
    run('plan', paths[0], folder.write('o.json', json.dumps(other))).expect(5, 'aten::mm there, aten::bmm here')


def damaged(folder):
    text = json.dumps(trace(4))
    for number, (old, new, what) in enumerate([('"events": [[0', '"events": [[7', 'form'), (', [1, 2]', ', [1, 99]', 'not there'),
                                               ('trace 1', 'trace 9', 'format'), ('"aten::mm"', '7', 'text'), (']]}', ']', 'end')]):
        check(old in text, old)
        run('plan', folder.write(f'd{number}.json', text.replace(old, new))).expect(5)


def snapshot(folder):
    """As torch.cuda.memory records it: two blocks were there before, one of them goes."""
    frames = [{'name': 'at::empty(int)', 'filename': '??', 'line': 0}, {'name': 'step', 'filename': '/x/train.py', 'line': 9}]
    entries = [{'action': 'free_completed', 'addr': 1, 'size': 5 * MIB, 'stream': 0},
               {'action': 'segment_alloc', 'addr': 100, 'size': 30 * MIB, 'stream': 0},
               {'action': 'alloc', 'addr': 100, 'size': 30 * MIB, 'stream': 0, 'frames': frames},
               {'action': 'free_requested', 'addr': 100, 'size': 30 * MIB, 'stream': 0},
               {'action': 'free_completed', 'addr': 100, 'size': 30 * MIB, 'stream': 0},
               {'action': 'alloc', 'addr': 100, 'size': 30 * MIB, 'stream': 0, 'frames': frames}]
    segments = [{'device': 0, 'total_size': 20 * MIB, 'stream': 0, 'blocks': [
                    {'address': 2, 'size': 5 * MIB, 'requested_size': 5 * MIB, 'state': 'active_allocated'},
                    {'address': 3, 'size': 15 * MIB, 'state': 'inactive'}]},
                {'device': 0, 'total_size': 30 * MIB, 'stream': 0, 'blocks': [
                    {'address': 100, 'size': 30 * MIB, 'requested_size': 30 * MIB, 'state': 'active_allocated'}]}]
    path, out = os.path.join(folder.path, 'm.pickle'), os.path.join(folder.path, 'm.json')
    with open(path, 'wb') as file:
        pickle.dump({'device_traces': [entries, []], 'segments': segments}, file)
    done = subprocess.run([sys.executable, TOOL, '--snapshot', path, '-o', out], capture_output=True, text=True)
    check(done.returncode == 0, f'--snapshot: {done.stderr}')
    torch = run('plan', out, '--gpu', '4090', '--json').expect(0).json()['torch']
    check((torch['allocated_bytes'], torch['reserved_bytes']) == (35 * MIB, 50 * MIB), f'{torch}')
    check(torch['owners'][0]['name'] == 'train.py:9 step' and torch['calls'][0]['name'] == 'at::empty', f'{torch["owners"]}')
    check('2 blocks were there before' in torch['guesses'][0], f'{torch["guesses"]}')
    run('plan', out, '--gpu', '4090').expect(0, 'reserved on the GPU that it was recorded on')
    with open(path, 'wb') as file:
        pickle.dump({'device_traces': [entries], 'segments': os.path.join}, file)
    done = subprocess.run([sys.executable, TOOL, '--snapshot', path, '-o', out], capture_output=True, text=True)
    check(done.returncode == 1 and 'posixpath.join' in done.stderr, f'code in a pickle: {done.returncode} {done.stderr}')


def convolutions():
    """Workspaces as cuDNN had them on an H200 (torch 2.11), rounded to 512 bytes; PyTorch itself is not needed."""
    kinds = types.SimpleNamespace(float16='f16', bfloat16='bf16', float32='f32')
    torch = types.ModuleType('torch')
    vars(torch).update(vars(kinds), cuda=types.SimpleNamespace(get_device_properties=lambda _: types.SimpleNamespace(major=9)),
                       backends=types.SimpleNamespace(cudnn=types.SimpleNamespace(allow_tf32=True)))
    before, sys.modules['torch'] = sys.modules.get('torch'), torch
    path = os.path.join(ROOT, 'tools', 'traced', 'convolutions.py')
    spec = importlib.util.spec_from_file_location('convolutions', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class Tensor:
        def __init__(self, shape, dtype):
            self.shape, self.dtype = shape, dtype
        numel = lambda self: math.prod(self.shape)
        element_size = lambda self: 4 if self.dtype == 'f32' else 2
        is_contiguous = lambda self: True
    for kind, x, w, stride, padding, transposed, recorded in (
            ('bf16', (2, 16, 32, 96, 96), (16, 16, 3, 3, 3), 1, 1, False, 37762576),
            ('bf16', (2, 128, 4, 12, 12), (128, 64, 2, 2, 2), 2, 0, True, 1605779),
            ('bf16', (32, 3, 224, 224), (64, 3, 7, 7), 2, 3, False, 77120528),       # three channels become eight
            ('bf16', (32, 64, 56, 56), (256, 64, 1, 1), 1, 0, False, 0),
            ('bf16', (32, 512, 7, 7), (2048, 512, 1, 1), 1, 0, False, 8028176),      # rows of 98 bytes
            ('bf16', (32, 256, 56, 56), (512, 256, 1, 1), 2, 0, False, 77070483),
            ('f32', (64, 64, 32, 32), (3, 64, 4, 4), 2, 1, False, 0),
            ('f32', (128, 128, 16, 16), (128, 64, 4, 4), 2, 1, True, 50856083)):
        axes = len(x) - 2
        given = [Tensor(x, kind), Tensor(w, kind), None, [stride] * axes, [padding] * axes, [1] * axes, transposed, [0] * axes, 1]
        (bytes,) = module.forward(*given)
        check(-(-bytes // 512) == -(-recorded // 512), f'{kind} {x} {w}: {bytes}, recorded were {recorded}')
    if before is None:
        del sys.modules['torch']
    else:
        sys.modules['torch'] = before


with Folder() as folder:
    convolutions()
    one(folder)
    settings(folder)
    batches(folder)
    damaged(folder)
    snapshot(folder)
finish()
