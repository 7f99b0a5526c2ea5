#!/usr/bin/env python3
"""Planning for a GPU that is not here: facts and rates out of the catalogue, said plainly; running there is refused."""
from support import RECIPES, TINY, Folder, check, finish, run

MIB = 1 << 20
NOWHERE = {'HEADROOM_CUDA_PLUGIN': '/nonexistent/libheadroom_cuda.so'}

catalogue = {gpu['label']: gpu for gpu in run('devices', '--gpus', '--json').expect(0).json()['gpus']}
check(len(catalogue) == 130, f'GPUs of the catalogue: {list(catalogue)}')
for label in ['RTX 3060 8GB', 'RTX 3060 12GB', 'RTX 3070', 'RTX 3080 10GB', 'RTX 3080 12GB', 'RTX 3090', 'RTX 4080', 'RTX 4090',
              'Quadro RTX 6000', 'V100 16GB', 'V100 32GB', 'A10', 'L4', 'L40S', 'A100 40GB', 'A100 80GB', 'H100', 'H100 PCIe',
              'H100 NVL', 'H200', 'RTX 4070', 'RTX 4060 Ti 8GB', 'RTX 4060 Ti 16GB', 'RTX 5090', 'RTX 5090 Laptop', 'T4',
              'RTX A6000', 'RTX A2000 6GB', 'RTX A2000 12GB', 'P100 16GB', 'GH200 96GB', 'GH200 144GB', 'B200', 'B300', 'GB200',
              'GB300', 'GB10', 'RTX PRO 6000', 'RTX PRO 6000 Server', 'A16', 'A30', 'TITAN RTX', 'AGX Orin 64GB', 'Thor']:
    check(label in catalogue, f'{label} is in the catalogue')
listing = run('devices', '--gpus').expect(0, 'RTX 4090', '24564').out
check(all(len(line) <= 80 for line in listing.splitlines()), 'the catalogue fits 80 columns')
check(run('devices', '--gpus', '--quiet').expect(0).out == '', '--quiet')

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    for name, label in [('4090', 'RTX 4090'), ('rtx 4090', 'RTX 4090'), ('NVIDIA GeForce RTX 4090', 'RTX 4090'),
                        ('h200', 'H200'), ('A100-80GB', 'A100 80GB')]:
        plan = run('plan', recipe, '--gpu', name, '--json', env=NOWHERE).expect(0).json()
        device, gpu = plan['device'], catalogue[label]
        check(device['name'] == gpu['name'] and device['kind'] == 'cuda' and not device['present'], f'{name}: {device}')
        check(device['rates'] == 'catalogue', f'{name}: rates {device["rates"]}')
        check(device['budget_bytes'] == gpu['usable_bytes'] < gpu['memory_bytes'], f'{name}: {device["budget_bytes"]}')
        check(device['fixed_bytes'] >= gpu['fixed_bytes'], f'{name}: fixed {device["fixed_bytes"]}')
        check(device['fixed_margin_bytes'] == gpu['fixed_margin_bytes'] >= 32 * MIB, f'{name}: margin')
        check(sum(device['categories'].values()) == device['peak_bytes'], f'{name}: categories sum to the peak')
        check(plan['settings']['memory']['gpu'] == gpu['name'], f'{name}: {plan["settings"]["memory"]}')
        check(plan['step_seconds'] > 0, f'{name}: seconds')
    text = run('plan', recipe, '--gpu', '4090', env=NOWHERE).expect(0, 'RTX 4090', 'not here', 'catalogue', 'margin').out
    check(all(len(line) <= 80 for line in text.splitlines()), f'80 columns: {text}')
    check('remark' not in text, 'nothing to remark on a GPU that headroom runs on')
    for old in ['v100-32gb', 'quadro rtx 6000', 'p100-16gb']:
        text = run('plan', recipe, '--gpu', old, env=NOWHERE).expect(0, 'plan only', 'bf16').out
        check(all(len(line) <= 80 for line in text.splitlines()), f'80 columns: {text}')

    # A margin of 2 % unless one is given; what fits is judged, searched and applied below it.
    for more, margin in [([], lambda all: all // 50), (['--margin', '0'], lambda all: 0), (['--margin', '0%'], lambda all: 0),
                         (['--margin', '15%'], lambda all: all * 15 // 100), (['--margin', '1GiB'], lambda all: 1 << 30),
                         (['--set', 'memory.margin=10%'], lambda all: all // 10)]:
        device = run('plan', recipe, '--gpu', '4090', *more, '--json', env=NOWHERE).expect(0).json()['device']
        check(abs(device['margin_bytes'] - margin(device['budget_bytes'])) <= 1, f'{more}: {device["margin_bytes"]}')
        check(device['left_bytes'] == device['budget_bytes'] - device['margin_bytes'] - device['peak_bytes'], f'{more}: left')
    check(run('plan', recipe, '--json', '--set', 'memory.device=cpu').json()['device']['margin_bytes'] == 0,
          'this machine keeps none')
    run('plan', recipe, '--gpu', '4090', env=NOWHERE).expect(0, '2 % stay free (--margin)', ', margin 483.94 MiB')
    for wrong, words in [('101%', 'a share up to 100%'), ('100%', 'leaves nothing')]:
        run('plan', recipe, '--gpu', '4090', '--margin', wrong).expect(5, words, f'--margin {wrong}')
    run('plan', recipe, '--gpu', '4090', '--margin', 'some').expect(2, '15%')
    peak = run('plan', recipe, '--gpu', '4090', '--json', env=NOWHERE).json()['device']['peak_bytes']
    for spare, code in [(peak // 49 + 4096, 0), (peak // 51, 3)]:
        tight = ['--gpu', '4090', '--gpu-memory', str(peak + spare)]
        run('plan', recipe, *tight, env=NOWHERE).expect(code)
        run('plan', recipe, *tight, '--margin', '0', env=NOWHERE).expect(0)

    # A budget of one's own, and a GPU of no particular kind.
    plan = run('plan', recipe, '--gpu', 'L4', '--gpu-memory', '4GiB', '--json', env=NOWHERE).expect(0).json()
    check(plan['device']['budget_bytes'] == 4 << 30, f'{plan["device"]}')
    plan = run('plan', recipe, '--gpu', 'any', '--gpu-memory', '16GiB', '--json', env=NOWHERE).expect(0).json()
    check(plan['device']['budget_bytes'] == 16 << 30 and plan['device']['rates'] == 'default', f'{plan["device"]}')
    run('plan', recipe, '--gpu', 'any').expect(2, '--gpu-memory')

    # Memory of a GPU without a GPU, unless the recipe says that the processor is meant; a host that is another one.
    remark = '--gpu NAME or --gpu any is for a GPU'
    for sweep in [['--gpu-memory', '16GiB'], ['--sweep', 'gpu-memory=8GiB,16GiB']]:
        check(run('plan', recipe, *sweep).expect(0).err.count(remark) == 1, f'{sweep}: a remark')
        for more in [['--gpu', '4090'], ['--set', 'memory.device=cpu'], ['--json'], ['--quiet']]:
            check(remark not in run('plan', recipe, *sweep, *more).expect(0).err, f'{sweep} {more}: no remark')
    check(remark not in run('plan', recipe, '--set', 'memory.budget=16GiB').expect(0).err, 'a budget of this machine')
    host = 'memory.host_budget=SIZE plans with another'
    small = ['--gpu', '4090', '--gpu-memory', '600MiB']
    check(host in run('plan', recipe, *small).expect(3).out, 'whose host it is')
    check(host not in run('plan', recipe, *small, '--set', 'memory.host_budget=64GiB').expect(3).out, 'a host that is given')
    check('several of them (--auto)' in run('plan', recipe, *small).out, 'what to try')
    # Batches and pieces to copy through are on the host whatever is offloaded; a budget of nothing is told so.
    least = run('plan', recipe, '--gpu', '4090', '--json').expect(0).json()['host']['peak_bytes']
    for size in ['0', '1KiB', f'{least - 1}']:
        for more in [[], ['--auto']]:
            out = run('plan', recipe, '--gpu', '4090', '--set', f'memory.host_budget={size}', *more).expect(3).out
            check('every run holds 512 B for two batches and 20.00 MiB to copy through\non the host' in out, f'{size}: {out}')
            check(all(len(line) <= 80 for line in out.splitlines()[-3:]), f'{size}: 80 columns')
    run('plan', recipe, '--gpu', '4090', '--set', f'memory.host_budget={least}').expect(0)
    moved = [word for setting in ['budget=auto', 'offload.optimizer=host', 'host_budget=21MiB']
             for word in ('--set', 'memory.' + setting)]
    out = run('plan', RECIPES + '/demo.yaml', '--gpu', '4090', *moved).expect(3).out
    check('every run holds' not in out, f'too little for what is offloaded: {out}')
    run('train', recipe, '--set', 'memory.host_budget=0').expect(3, 'every run holds 512 B for two batches on the host')
    check('of what is open' in run('plan', recipe, *small, '--auto').expect(3).out, 'all was tried')

    # Names that say too little, or nothing.
    for name in ['80', '', 'gtx 480', '4080 ti', 'rtx 6000']:
        run('plan', recipe, '--gpu', name).expect(2, '--gpu', '--gpu any --gpu-memory SIZE')
    for name, sizes, labels in [('a100', '40 GB and 80 GB', ['a100-40gb', 'a100-80gb']), ('v100', '16 GB and 32 GB', ['v100-16gb']),
                                ('4060ti', '8 GB and 16 GB', ['rtx-4060-ti-8gb']), ('gh200', '96 GB and 144 GB', ['gh200-144gb'])]:
        run('plan', recipe, '--gpu', name).expect(2, f'{name} is sold with {sizes}', *labels)
        run('plan', recipe, '--set', 'memory.device=cuda', '--set', f'memory.gpu={name}').expect(5, f'sold with {sizes}', *labels)
        for label in labels:
            run('plan', recipe, '--gpu', label, '--quiet').expect(0)
    # One device, and no more of it than there is.
    for name in ['4090,4090', '4090, 3090', '2x4090', '4090+4090']:
        run('plan', recipe, '--gpu', name).expect(2, 'several are not planned')
    run('plan', recipe, '--gpu', '4090', '--gpu', '4090').expect(2, 'given twice', 'several are not planned')
    run('plan', recipe, '--gpu', '4090', '--gpu-memory', '200GB').expect(2, '200GB', '23.99 GiB', '23.63 GiB', '--gpu-memory')
    run('plan', recipe, '--set', 'memory={device: cuda, gpu: 4090, budget: 200GB}').expect(5, '23.63 GiB', 'memory.budget')
    run('plan', recipe, '--gpu', '4090', '--gpu-memory', '23GiB', '--quiet').expect(0)
    run('plan', recipe, '--gpu', 'gtx 480').expect(2, 'headroom devices --gpus')
    run('plan', recipe, '--set', 'memory.gpu=H200').expect(5, 'memory.device: cuda')
    for written, meant in [('memory.device=gpu', 'device: cuda'), ('memory.offload.optimizer=CPU', 'optimizer: host'),
                           ('memory.checkpoint=true', 'checkpoint: every-layer')]:
        run('plan', recipe, '--set', written).expect(5, f'did you mean "{meant}"?')
    cuda = ['--set', 'memory.device=cuda']
    run('plan', recipe, *cuda, '--set', 'memory.gpu=nothing').expect(5, 'headroom devices --gpus')
    run('plan', recipe, *cuda, '--set', 'memory.gpu=any').expect(5, 'memory.budget')

    # Without a GPU a plan needs a name, and nothing can be run.
    run('plan', recipe, *cuda, env=NOWHERE).expect(1, '--gpu NAME')
    before = folder.listing()
    for command in ['train', 'profile']:
        run(command, recipe, *cuda, env=NOWHERE).expect(1, 'HEADROOM_CUDA_PLUGIN')
        run(command, recipe, *cuda, '--set', 'memory.gpu=H200', cwd=folder.path, env=NOWHERE).expect(5, 'cannot be run')
    check(folder.listing() == before, 'nothing was written')
    run('dump', recipe, *cuda, '--set', 'memory.gpu=H200', env=NOWHERE).expect(0, 'plan ')

# Larger and faster GPUs.
big = RECIPES + '/llama-3.2-1b.yaml'
small = run('plan', big, '--gpu', '3070', '--json', env=NOWHERE).expect(3).json()
check(not small['fits'] and small['device']['peak_bytes'] > catalogue['RTX 3070']['usable_bytes'], 'too large for 8 GB')
seconds = [run('plan', big, '--gpu', name, '--json', env=NOWHERE).expect(0).json()['step_seconds']
           for name in ['A100 80GB', 'H100', 'H200']]
check(seconds == sorted(seconds, reverse=True), f'seconds of A100, H100 and H200: {seconds}')
finish()
