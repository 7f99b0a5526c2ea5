#!/usr/bin/env python3
"""What `auto` came to is told as it is: what is said to be offloaded is, and what is said to fit takes as long when planned."""
import os

from support import Folder, ROOT, check, finish, run

CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')
DS_CONFIG = '''{ "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
  "zero_optimization": { "offload_optimizer": { "device": "none" }, "offload_param": { "device": "none" } } }
'''

# The moments of adapters are small tensors: they stay on the device whatever was opened, and only weights move.
OPEN = ['memory.split=auto'] + [f'memory.offload.{kind}=auto' for kind in ['optimizer', 'parameters', 'gradients']]
qlora = [os.path.join(CONFIGS, 'TinyLlama-1.1B'), '--method', 'qlora', '--gpu', '4090', '--gpu-memory', '1600MiB',
         '--seq', '1024', '--batch', '4', '--set', 'training.gradient_accumulation=4',
         '--set', 'model.config.num_hidden_layers=6', '--set', 'memory.host_budget=24GiB']
qlora += [word for setting in OPEN for word in ['--set', setting]]
plan = run('plan', *qlora, '--json').expect(0).json()
resident = plan['choices']['resident_bytes']
for kind in ['optimizer', 'parameters', 'gradients']:
    below = plan['host']['categories'][kind] + plan['disk']['categories'][kind]
    check((resident[kind] is not None) == (below > 0), f'{kind}: {resident[kind]} to stay, {below} bytes offloaded')
check(resident['parameters'] is not None, f'nothing is offloaded: {resident}')
told = [technique['name'] for technique in plan['techniques']]
check([name for name in told if name.endswith(': auto')] == ['checkpoint: auto', 'offload parameters: auto'],
      f'techniques are {told}')
text = run('plan', *qlora).out
check('parameters on the device: ' in text, text[:1500])
check('optimizer on' not in text and 'gradients on' not in text, text[:1500])

with Folder() as folder:
    path = folder.write('ds_config.json', DS_CONFIG)
    result = run('apply', *qlora, '--to', path).expect(0)
    with open(path, encoding='utf-8') as file:
        written = file.read()
    check('"offload_optimizer": { "device": "none" }' in written, written)
    check('"offload_param": { "device": "cpu" }' in written, written)

# Inputs of blocks that are kept on the host are offloaded activations too: a technique, and told of by apply.
inputs = [os.path.join(ROOT, 'bench', 'llama-1b.yaml'), '--gpu', 'H200', '--gpu-memory', '3GiB', '--set', 'training.batch_size=16',
          '--set', 'memory.update=in-backward', '--set', 'memory.host_budget=24GiB', '--set', 'memory.checkpoint=auto']
inputs += [word for kind in ['optimizer', 'parameters', 'activations'] for word in ['--set', f'memory.offload.{kind}=auto']]
plan = run('plan', *inputs, '--json').expect(0).json()
check(any('offloaded input' in kept for kept in plan['choices']['checkpoint']), str(plan['choices']))
check(plan['choices']['resident_bytes']['activations'] is None, str(plan['choices']))
check('offload activations: auto' in [technique['name'] for technique in plan['techniques']], str(plan['techniques']))
with Folder() as folder:
    path = folder.write('ds_config.json', DS_CONFIG)
    unsaid = run('apply', *inputs, '--to', path, '--dry-run').expect(0).err
    check('not written: memory.offload.activations = host' in unsaid, unsaid)

# A rank is quality: the largest that fits, whatever is faster; what else is open is as fast as that rank allows.
lora = [os.path.join(CONFIGS, 'TinyLlama-1.1B'), '--method', 'lora', '--gpu', '4090', '--margin', '0', '--seq', '256',
        '--set', 'model.config.num_hidden_layers=4', '--set', 'memory.checkpoint=none']
peaks = {rank: run('plan', *lora, '--rank', str(rank), '--json').expect(0).json()['device']['peak_bytes'] for rank in [16, 32, 64]}
check(peaks[16] < peaks[32] < peaks[64], str(peaks))
for rank, ranks in [(64, 'auto'), (32, 'auto'), (16, '[16, 64]')]:
    opened = run('plan', *lora, '--gpu-memory', str(peaks[rank]), '--set', f'model.adapters.rank={ranks}',
                 '--set', 'memory.update=auto', '--json').expect(0).json()
    check(opened['settings']['model']['adapters']['rank'] == rank, f'rank {opened["settings"]["model"]["adapters"]} of {ranks}')
    knobs = {knob['key']: knob['quality'] for knob in opened['search']['open']}
    check(knobs == {'model.adapters.rank': True, 'memory.update': False}, str(knobs))

# With a small host the first way to keep blocks goes to the disk; a change that is proposed takes what it says.
large = [os.path.join(CONFIGS, 'Llama-3.1-70B'), '--method', 'qlora', '--gpu', '4090', '--gpu-memory', '6GiB', '--seq',
         '1024', '--set', 'model.config.num_hidden_layers=12', '--set', 'memory.host_budget=3GiB']
changes = run('plan', *large, '--json').expect(3).json()['changes']
check(len(changes) > 0, 'nothing would fit')
for change in changes:
    settings = [word for setting in change['set'] for word in ['--set', setting]]
    seconds = run('plan', *large, *settings, '--json').expect(0).json()['step_seconds']
    check(0.9 * change['step_seconds'] < seconds < 1.1 * change['step_seconds'],
          f'{settings}: {change["step_seconds"]} s are promised, {seconds} s planned')

# Ways to keep blocks that need the disk come behind those that find room on the host.
short = [word.replace('=12', '=16').replace('=3GiB', '=7GiB').replace('6GiB', '8GiB') for word in large] + ['--margin', '0']
kinds = [word for kind in ['parameters', 'activations'] for word in ['--set', f'memory.offload.{kind}=auto']]
plan = run('plan', *short, *kinds, '--json').expect(0).json()
check(plan['disk']['peak_bytes'] == 0 < plan['host']['peak_bytes'], f'{plan["disk"]["peak_bytes"]} bytes on the disk')

# On the CPU the host is the same memory: --auto does not hide there what a budget has no room for, unless asked to.
demo = [os.path.join(ROOT, 'recipes', 'demo.yaml'), '--auto', '--json']
for budget in ['80MiB', '120MiB']:
    plan = run('plan', *demo, '--gpu-memory', budget).json()
    keys = [knob['key'] for knob in plan['search']['open']]
    check('memory.checkpoint' in keys and not any('offload' in key for key in keys), f'{budget}: open are {keys}')
    host = plan['host']
    check(host['peak_bytes'] == host['categories']['inputs'], f'{budget}: {host["peak_bytes"]} bytes on the host')
asked = run('plan', *demo, '--gpu-memory', '120MiB', '--set', 'memory.offload.optimizer=auto').expect(0).json()
check(asked['host']['peak_bytes'] > 0, 'a host that was asked for')
rung = run('plan', *demo, '--gpu-memory', '120MiB').expect(0).json()
check(not rung['ladder']['cheaper'] or rung['ladder']['cheaper']['step_seconds'] >= rung['step_seconds'],
      f'a cheaper rung that is faster too: {rung["ladder"]}')

# A host that nearly fills up: what the first placement waits for the disk says nothing of those that leave it alone.
full = [os.path.join(CONFIGS, 'gemma-3-12b-it'), '--method', 'full', '--gpu', 'h100', '--seq', '512', '--auto', '--json',
        '--set', 'memory.host_budget=64GiB', '--set', 'memory.disk_budget=500GiB']
fastest = run('plan', *full).expect(0).json()['step_seconds']
for word in ['selective', 'every-layer']:
    closed = run('plan', *full, '--set', f'memory.checkpoint={word}').expect(0).json()['step_seconds']
    check(fastest <= 1.03 * closed, f'checkpoint: {word} takes {closed} s a step, open it takes {fastest} s')

# What other results would allow is a rung: what it changes, and the seconds that those settings take when they are planned.
eight = [os.path.join(CONFIGS, 'Llama-3.1-8B'), '--method', 'full', '--gpu', '4090', '--seq', '1024', '--auto', '--json',
         '--set', 'memory.host_budget=64GiB', '--set', 'memory.disk_budget=500GiB']
plan = run('plan', *eight).expect(0).json()
check(not any(knob['changes_results'] for knob in plan['search']['open']), f'the plan changes results: {plan["search"]["open"]}')
rung = plan['ladder']['other']
check(rung and rung['fits'] and rung['changes_results'], f'the rung of other results: {plan["ladder"]}')
check({'model.precision=bf16-true', 'training.optimizer.kind=adamw8bit'} <= set(rung['set']), f'what it changes: {rung["set"]}')
taken = run('plan', *eight, *[word for setting in rung['set'] for word in ['--set', setting]]).expect(0).json()
check(abs(rung['step_seconds'] - taken['step_seconds']) <= 0.03 * taken['step_seconds'],
      f'the rung says {rung["step_seconds"]} s, planned it takes {taken["step_seconds"]} s')

# A batch of one sample is cut along its frames, where the model has named them.
video = [os.path.join(ROOT, 'recipes', '003-a.yaml'), '--gpu', 'H200', '--gpu-memory', '1900MiB', '--json']
for setting in ['memory.split=auto', 'memory.checkpoint=none', 'memory.offload=null', 'training.batch_size=1', 'training.gradient_accumulation=1',
                'training.eval_every=null', 'model.config.infrared_branch=false', 'model.config.pair_branch=false',
                'model.config.frame_height=360', 'model.config.frame_width=640']:
    video += ['--set', setting]
sliced = run('plan', *video).expect(0).json()
check(sliced['choices']['slices'] == 4, f'slices: {sliced["choices"]}')
check(sliced['search']['open'][0]['choices'] == ['1', '2', '4', '8', '16'], f'choices: {sliced["search"]["open"]}')

finish()
