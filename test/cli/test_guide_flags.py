#!/usr/bin/env python3
"""Flags of the systems' guides: each is a setting under another name, for plan and train; help keeps to a screen."""
import os

from support import RECIPES, Folder, check, finish, run

DEMO, SYSTEM = os.path.join(RECIPES, 'demo.yaml'), os.path.join(RECIPES, '003-small.yaml')
EVENTS = os.path.join(RECIPES, '002-small.yaml')


def settings(*arguments):
    return run('plan', *arguments, '--json', '--quiet').expect(0).json()['settings']


def value(tree, path):
    for part in path.split('.'):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


with Folder() as folder:
    flags = {('--max-gpu-mem', '3GiB'): {'memory.budget': 3 << 30}, ('--cpu-mem', '2GiB'): {'memory.host_budget': 2 << 30},
             ('--offload-folder', folder.path): {'memory.offload_folder': folder.path},
             ('--checkpoint-every-layer',): {'memory.checkpoint': 'every-layer'},
             ('--no-checkpointing', '--set', 'memory.checkpoint=selective'): {'memory.checkpoint': 'none'},
             ('--grad-accum-steps', '3'): {'training.gradient_accumulation': 3},
             ('--optimizer', 'paged_adamw8bit'): {'training.optimizer.kind': 'paged_adamw8bit'},
             ('--zero-stage', '0'): {'memory.offload.optimizer': 'device', 'memory.offload.parameters': 'device'},
             ('--zero-stage', '2'): {'memory.offload.optimizer': 'host', 'memory.offload.parameters': 'device'},
             ('--zero-stage', '3'): {'memory.offload.optimizer': 'host', 'memory.offload.parameters': 'host'},
             ('--synthetic',): {'data.source': 'synthetic', 'data.path': None},
             ('--qlora',): {'model.adapters.kind': 'lora', 'model.quantize.kind': 'nf4'}}
    for given, expected in flags.items():
        tree = settings(DEMO, *given)
        for path, wanted in expected.items():
            check(value(tree, path) == wanted, f'{given}: {path} is {value(tree, path)}')

    tree = settings(DEMO, '--gpu', 'any', '--max-gpu-mem', '3GiB')
    check(value(tree, 'memory.budget') == 3 << 30 and value(tree, 'memory.gpu') == 'any', f'any GPU: {value(tree, "memory")}')

    # Of a system of parts, those that have layers to adapt.
    tree = value(settings(SYSTEM, '--qlora'), 'model.parts')
    for part in ('temporal', 'fusion'):
        check(value(tree, f'{part}.quantize.kind') == 'nf4' and value(tree, f'{part}.adapters.kind') == 'lora', f'{part}: {tree}')
    check(value(tree, 'video.quantize') is None and value(tree, 'video.adapters') is None, 'the U-Net is not adapted')

    # The same words train.
    answer = run('train', DEMO, '--steps', 1, '--grad-accum-steps', 2, '--optimizer', 'adamw8bit', '--no-checkpointing',
                 '--synthetic', '--max-gpu-mem', '2GiB', '--out', os.path.join(folder.path, 'run'), '--json', '--quiet')
    check(answer.expect(0).json()['steps'] == 1, 'train takes them')

run('plan', DEMO, '--zero-stage', '4').expect(2, '--zero-stage', '0 to 3')
run('plan', DEMO, '--zero-stage', 'two').expect(2, '--zero-stage', 'whole number')
run('plan', DEMO, '--max-gpu-mem', 'much').expect(2, '--max-gpu-mem', 'is not a size')
run('plan', DEMO, '--max-gpu-mem', '2GiB', '--gpu-memory', '3GiB').expect(2, 'give one of them')
run('plan', DEMO, '--smallest-gpu', '--max-gpu-mem', '2GiB').expect(2, 'with all of its memory')
run('plan', DEMO, '--gpu', '4090', '--max-gpu-mem', '100GiB').expect(2, '--max-gpu-mem', 'is more than')
run('plan', DEMO, '--gpu', 'any').expect(2, 'is not known')
run('plan', EVENTS, '--qlora').expect(2, '--qlora', 'has layers that adapters go to')
run('plan', DEMO, '--checkpoint-every-layer', '--no-checkpointing').expect(2, 'give one of them')
run('plan', DEMO, '--optimizer', 'adamax').expect(5, 'training.optimizer.kind')
for command in ('plan', 'train'):
    lines = run(command, '--help').expect(0, '--max-gpu-mem').out.split('examples:')[0].splitlines()
    check(len(lines) <= 32 and max(map(len, lines)) <= 80, f'{command} --help: {len(lines)} lines in front of its examples')

finish()
