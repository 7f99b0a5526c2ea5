#!/usr/bin/env python3
"""plan for PyTorch: the answer and its table, beside headroom's own, in sweeps, with open settings; what is not modelled is refused by name."""
import os

from support import RECIPES, ROOT, check, finish, run

RECIPE = ['plan', os.path.join(RECIPES, 'llama-3.2-1b.yaml'), '--gpu', '4090']
GIB = 1 << 30


def equal(seen, expected, what):
    check(seen == expected, f'{what}: {seen}, expected {expected}')


def answer(*more, code=0):
    return run(*RECIPE, '--engine', 'pytorch', '--json', *more).expect(code).json()


plain = answer()
torch = plain['torch']
check(torch['allocated_bytes'] < torch['reserved_bytes'] < torch['driver_bytes'], 'allocated < reserved < driver')
equal(sum(torch['categories'].values()), torch['allocated_bytes'], 'categories sum to what is allocated')
equal(plain['device']['peak_bytes'], torch['driver_bytes'], 'the peak is what the driver shows')
equal(sum(plain['device']['categories'].values()), torch['driver_bytes'], 'categories of the device sum to the peak')
equal(torch['driver_bytes'] - torch['reserved_bytes'], torch['context_bytes'], 'the context is the rest')
equal(torch['call'], 'aten::_log_softmax_backward_data', 'where the peak is')
equal(plain['device']['margin_bytes'], plain['device']['budget_bytes'] // 100 * 3, '3 % stay free')
check(any(o['module'] == 'model.layers.*.mlp' for o in plain['owners']), 'owners are modules')

# by the driver's bytes, with the margin: a card that the allocated bytes would fit is too small
short = torch['driver_bytes'] * 100 // 97 - (16 << 20)
equal(answer('--gpu-memory', str(short), code=3)['fits'], False, 'below peak and margin')
equal(answer('--gpu-memory', str(short + (64 << 20)))['fits'], True, 'above them')

again = answer('--set', 'memory.checkpoint=every-layer')['torch']
check(again['allocated_bytes'] < torch['allocated_bytes'], 'checkpointing takes less')
reentrant = answer('--set', 'memory.checkpoint=every-layer', '--set', 'engine.checkpoint=reentrant')['torch']
check(reentrant['allocated_bytes'] < torch['allocated_bytes'], 'and so does the other form of it')
foreach = answer('--set', 'engine.optimizer=foreach', '--seq', '64', '--batch', '1')['torch']
fused = answer('--seq', '64', '--batch', '1')['torch']
check(foreach['allocated_bytes'] > fused['allocated_bytes'] + GIB, 'foreach makes a list of all roots')
equal(foreach['phase'], 'optimizer', 'and peaks there')
segments = answer('--alloc-conf', 'expandable_segments:True', '--set', 'memory.checkpoint=every-layer')['torch']
check(segments['reserved_bytes'] < again['reserved_bytes'], 'segments that grow leave fewer holes behind checkpoints')

opened = answer('--set', 'memory.checkpoint=auto', '--set', 'training.batch_size=[2, 4, 8, 16]',
                '--set', 'training.gradient_accumulation=1')
equal(opened['fits'], True, 'something fits')
check(any(k['key'] == 'memory.checkpoint' for k in opened['search']['open']), 'checkpointing is open')

both = run(*RECIPE, '--compare', 'engine=pytorch', '--json').expect(0).json()['plans']
equal(both[0]['torch'], None, 'headroom itself has nothing of PyTorch')
equal(both[1]['torch'], torch, 'the other side is the plan for PyTorch')
entries = run(*RECIPE, '--sweep', 'engine=headroom,pytorch', '--json').expect(0).json()['entries']
equal([e['peak_bytes'] for e in entries], [p['device']['peak_bytes'] for p in both], 'a sweep has both')

# Rows of several documents: attention gets a mask that parts them, but for the package that takes lengths
packed = answer('--set', 'engine.packed=true')['torch']
check(packed['allocated_bytes'] > torch['allocated_bytes'], 'packed rows have a mask')
flash = ['--set', 'engine.attention=flash']
lengths = answer('--set', 'engine.packed=true', *flash)['torch']['allocated_bytes'] - answer(*flash)['torch']['allocated_bytes']
check(0 <= lengths < 16 << 20, f'flash-attention takes lengths: {lengths}')

# DeepSpeed on one GPU: stages, and what the host keeps
zero = ['plan', os.path.join(ROOT, 'test', 'model', 'configs', 'Llama-3.2-1B'), '--method', 'full', '--seq', '1024', '--batch', '4', '--gpu', 'H200', '--engine', 'pytorch', '--json',
        '--set', 'model.precision=bf16-mixed', '--set', 'engine.trainer=deepspeed']


def staged(*more, code=0):
    return run(*zero, *more).expect(code).json()


second = staged()
check('NCCL' in second['torch']['estimate'] and torch['estimate'] is None, 'what is not counted is said')
equal(second['host']['peak_bytes'], 0, 'nothing on the host')
equal(staged('--set', 'engine.zero.stage=1')['torch']['categories']['optimizer'], second['torch']['categories']['optimizer'], 'one GPU divides nothing')
third = staged('--set', 'engine.zero.stage=3')['torch']
check(third['categories']['workspace'] > 10 ** 9, 'the third stage keeps its bucket of 500 million gradients')
lighter = staged('--set', 'engine.zero.offload=optimizer')
n = second['torch']['categories']['optimizer'] // 12  # f32 copies and two moments
check(abs(lighter['host']['peak_bytes'] - 18 * n) < GIB, f"18 bytes for each weight on the host: {lighter['host']['peak_bytes'] / n}")
equal(lighter['torch']['categories']['optimizer'], 0, 'and nothing of the optimizer on the GPU')
check(lighter['torch']['allocated_bytes'] < second['torch']['allocated_bytes'] - 8 * n, 'the GPU has that much less')
check(lighter['step_seconds'] > 0, 'and the host needs time')
equal(staged('--set', 'engine.zero.offload=optimizer', '--set', 'memory.host_budget=10GiB', code=3)['fits'], False, 'the host has to hold it')
for key, more, why in [('engine.zero.offload=all', [], 'not modelled'), ('engine.zero.stage=2', ['--set', 'engine.trainer=loop'], "DeepSpeed's"),
                       ('engine.zero.offload=optimizer', ['--set', 'training.optimizer.kind=adamw8bit'], 'on the host'),
                       ('model.quantize={kind: nf4}', ['--set', 'model.adapters={kind: lora, rank: 8}'], '4 bits under DeepSpeed')]:
    refused = run(*zero, *more, '--set', key)
    equal(refused.code, 5, f'{key} is refused')
    check(why in refused.out, f'{key}: {why} is not in {refused.out}')

# Settings of another trainer's change nothing, and that is said; a table that has both sides says nothing
alone = run(*RECIPE, '--set', 'engine.attention=eager', '--set', 'engine.dtype=f32').expect(0)
for word in ['remark:', '--set engine.attention', 'engine.attention, engine.dtype', '--engine pytorch']:
    check(word in ' '.join(alone.err.split()), f'{word} is not in {alone.err}')
check('remark' not in run(*RECIPE, '--engine', 'pytorch', '--set', 'engine.sdpa=cudnn').expect(0).err, 'PyTorch goes by it')
check('remark' not in run(*RECIPE, '--set', 'engine.attention=eager', '--compare', 'engine=pytorch').expect(0).err, 'one side goes by it')
cast = [word for word in zero if word != '--json']
check('DeepSpeed casts' in ' '.join(run(*cast, '--set', 'engine.dtype=f32').expect(0).err.split()), 'engine.dtype under DeepSpeed')
check('remark' not in run(*cast, '--set', 'engine.dtype=auto').expect(0).err, 'auto is what it does')

text = run(*RECIPE, '--engine', 'pytorch').expect(0, 'PyTorch allocates', 'most is allocated in backward of step 2, at aten::',
                                                  'cached', 'context', '3 % stay free').out
check(all(len(line) <= 80 for line in text.splitlines()), f'80 columns: {text}')

for setting, words in (('memory.offload.optimizer=host', "headroom's own"), ('memory.split={layers: 2}', "headroom's own"),
                       ('memory.checkpoint=selective', 'whole layers'), ('training.ema=0.99', 'averages'),
                       ('engine.alloc_conf=backend:cudaMallocAsync', 'cudaMallocAsync')):
    refused = run(*RECIPE, '--engine', 'pytorch', '--set', setting)
    check(refused.code in (2, 5), f'{setting}: exit code {refused.code}')
    check(words in refused.err, f'{setting}: {words} is not in {refused.err}')
held = {kind: run(*RECIPE, '--engine', 'pytorch', '--json', '--set', f'training.optimizer.kind={kind}').expect(0).json()['device']['peak_bytes']
        for kind in ('adamw', 'paged_adamw', 'paged_adamw8bit')}
check(held['paged_adamw'] < held['adamw'] and held['paged_adamw'] <= held['paged_adamw8bit'], f'pages lie outside of the allocator: {held}')
run('plan', os.path.join(RECIPES, 'demo.yaml'), '--engine', 'pytorch').expect(5, '--gpu 4090')
run('plan', os.path.join(RECIPES, '004-small.yaml'), '--gpu', '4090', '--engine', 'pytorch').expect(5, 'torch_trace.py')
run('train', os.path.join(RECIPES, 'llama-3.2-1b.yaml'), '--set', 'engine.kind=pytorch', '--set', 'memory.device=cuda', '--set',
    'memory.gpu=4090', '--set', 'memory.budget=auto').expect(5, 'not run')

# A config of another trainer is planned for PyTorch, unless somebody says otherwise or PyTorch has not what is asked for.
config = os.path.join(RECIPES, 'configs', 'lightning.yml')
apply = ['apply', os.path.join(os.path.dirname(RECIPES), 'test', 'model', 'configs', 'Llama-3.2-1B'), '--method', 'lora', '--gpu', '4090',
         '--auto', '--dry-run', '--to', config]
theirs = run(*apply).expect(0, 'engine: planned for PyTorch', 'data_loader.batch_size                       45 -> 9')
ours = run(*apply, '--engine', 'headroom').expect(0, 'data_loader.batch_size                       45 -> 25')
check('engine:' not in ours.err, f'nothing to tell: {ours.err}')
run(*apply, '--set', 'memory.offload.optimizer=host').expect(0, "engine: planned for headroom's own execution", 'memory.offload.optimizer')
finish()
