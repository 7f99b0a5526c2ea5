#!/usr/bin/env python3
"""`headroom merge`: base and adapters as one model, whose losses are those of both together."""
import json
import os
import shutil
import struct

from support import Folder, ROOT, check, finish, run

DATA = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=32', '--set', 'training.optimizer.lr=0.01']
LORA = ['--set', 'model.adapters={kind: lora, rank: 4, alpha: 16, targets: [q_proj, down_proj]}']


def tensors(path):
    """Names, types and shapes of a safetensors file, with the bytes of each."""
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    header.pop('__metadata__')
    return {name: (t['dtype'], t['shape'], data[slice(*t['data_offsets'])]) for name, t in header.items()}


def floats(kind, data):
    if kind == 'F32':
        return struct.unpack(f'<{len(data) // 4}f', data)
    halves = struct.unpack(f'<{len(data) // 2}H', data)
    if kind == 'BF16':
        return struct.unpack(f'<{len(halves)}f', b''.join(struct.pack('<I', h << 16) for h in halves))
    return struct.unpack(f'<{len(halves)}e', data)


def first_loss(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [line['loss'] for line in map(json.loads, file) if 'loss' in line][0]


with Folder() as folder:
    def at(name):
        return os.path.join(folder.path, name)

    def newest(out):
        return os.path.join(at(out), sorted(name for name in os.listdir(at(out)) if name.startswith('generation'))[-1])

    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), *DATA, '--steps', 1, '--out', at('first')).expect(0)
    shutil.copytree(newest('first'), at('base'))
    for name in ('manifest.json', 'training/optimizer.safetensors'):
        os.remove(at('base/' + name))
    folder.write('base/generation_config.json', '{"eos_token_id": 2}')
    folder.write('base/chat_template.jinja', '{{ messages }}')
    for kind in ('plain', 'stable', 'nf4'):
        more = {'plain': [], 'stable': ['--set', 'model.adapters.rank_stabilised=true'], 'nf4': ['--set', 'model.quantize={kind: nf4}']}[kind]
        run('train', at('base'), *DATA, *LORA, *more, '--steps', 4, '--out', at(kind)).expect(0)
        run('merge', at(kind), '--out', at(kind + '-merged')).expect(0, 'adapters merged', 'in memory', 'saved in')
        check(sorted(os.listdir(at(kind + '-merged'))) == ['chat_template.jinja', 'config.json', 'generation_config.json', 'model.safetensors'],
              f"{os.listdir(at(kind + '-merged'))}")
        # The loss of the first step is that of base and adapters, in f32, and not that of the base alone.
        run('train', at('base'), *DATA, *LORA, *more[:2 if kind == 'stable' else 0], '--begin', at(kind), '--steps', 1, '--out', at(kind + '-both')).expect(0)
        run('train', at(kind + '-merged'), *DATA, '--steps', 1, '--out', at(kind + '-one')).expect(0)
        run('train', at('base'), *DATA, '--steps', 1, '--out', at(kind + '-base')).expect(0)
        both, one, base = (first_loss(at(kind + ending)) for ending in ('-both', '-one', '-base'))
        check(abs(both - one) <= 1e-5 and abs(base - one) > 1e-3, f'{kind}: {both} {one} {base}')

    # W + alpha / rank B A, computed here.
    base, merged = tensors(at('base/model.safetensors')), tensors(at('plain-merged/model.safetensors'))
    adapter = tensors(os.path.join(newest('plain'), 'adapter_model.safetensors'))
    check(list(base) == list(merged), 'the names of the base')
    module = 'model.layers.1.self_attn.q_proj'
    a, b = (adapter[f'base_model.model.{module}.lora_{x}.weight'] for x in 'AB')
    (rank, width), matrix_a, matrix_b = a[1], floats('F32', a[2]), floats('F32', b[2])
    was, now = (floats('F32', t[module + '.weight'][2]) for t in (base, merged))
    worst = max(abs(now[r * width + c] - was[r * width + c] - 4 * sum(matrix_b[r * rank + k] * matrix_a[k * width + c] for k in range(rank)))
                for r in (0, 7, 100) for c in range(width))
    check(worst <= 1e-6, f'W + scale B A is off by {worst}')
    check(all(base[name] == merged[name] for name in base if 'q_proj' not in name and 'down_proj' not in name), 'all others are untouched')
    check(json.load(open(at('plain-merged/config.json'), encoding='utf-8')) == json.load(open(at('base/config.json'), encoding='utf-8')), 'config.json')

    # Types: every weight, and config.json says so.
    for name, kind, word in (('bf16', 'BF16', 'bfloat16'), ('f16', 'F16', 'float16'), ('f32', 'F32', 'float32')):
        answer = run('merge', newest('plain'), '--out', at(name), '--dtype', name, '--json').expect(0).json()['merged']
        check(answer['adapters'] == 12 and answer['tensors'] == len(base) and answer['bytes'] == os.path.getsize(at(name + '/model.safetensors')), f'{answer}')
        check(answer['held_bytes'] < 8 << 20, f'{answer}')
        made = tensors(at(name + '/model.safetensors'))
        check(all(t[0] == kind for t in made.values()), f'{name}: types')
        rounded, exact = floats(kind, made[module + '.weight'][2]), floats('F32', merged[module + '.weight'][2])
        check(all(abs(x - y) <= abs(y) / 256 + 1e-7 for x, y in zip(rounded, exact)), f'{name}: values')
        check(json.load(open(at(name + '/config.json'), encoding='utf-8'))['torch_dtype'] == word, f'{name}: config.json')
    # A run without adapters is converted; of one that trains a part, the rest comes from its base.
    run('merge', at('first'), '--out', at('converted'), '--dtype', 'bf16').expect(0)
    check({t[0] for t in tensors(at('converted/model.safetensors')).values()} == {'BF16'}, 'converted')
    run('train', at('base'), *DATA, '--set', 'model.train=[mlp]', '--steps', 1, '--out', at('part')).expect(0)
    run('merge', at('part'), '--out', at('part-merged')).expect(0)
    part, trained = tensors(at('part-merged/model.safetensors')), tensors(os.path.join(newest('part'), 'model.safetensors'))
    check(list(part) == list(base) and len(trained) < len(base), f'{len(part)} {len(trained)} {len(base)}')
    check(all(part[name] == trained.get(name, base[name]) for name in part), 'trained ones over those of the base')

    # Nothing is overwritten, and whatever cannot be merged is said, leaving nothing behind.
    before = folder.listing()
    run('merge', at('plain'), '--out', at('bf16')).expect(2, 'already')
    run('merge', at('plain')).expect(2, '--out')
    run('merge', at('plain'), '--out', at('x'), '--dtype', 'int8').expect(2, 'f32, bf16 or f16')
    run('merge', at('nothing'), '--out', at('x')).expect(5, 'no such folder')
    run('merge', folder.path, '--out', at('x')).expect(5, 'neither a checkpoint')
    run('merge', at('plain'), '--out', at('x'), '--base', at('nothing')).expect(5, 'is not there', '--base')
    run('merge', at('plain'), '--out', at('x'), limit_bytes=1 << 20).expect(1)
    check(folder.listing() == before, f'{set(folder.listing()) ^ set(before)}')
    # One that was cut off does not look whole, and is not in the way.
    folder.write('again.partial/model.safetensors', 'half')
    run('merge', at('plain'), '--out', at('again')).expect(0)
    check(not os.path.exists(at('again.partial')) and tensors(at('again/model.safetensors')) == merged, 'again')
    # A base that is elsewhere now, and one of other sizes.
    shutil.move(at('base'), at('moved'))
    run('merge', at('plain'), '--out', at('x')).expect(5, 'is not there', '--base')
    run('merge', at('plain'), '--out', at('x'), '--base', at('moved')).expect(0)
    check(tensors(at('x/model.safetensors')) == merged, 'from a base that was moved')
    run('train', os.path.join(ROOT, 'recipes', 'demo.yaml'), *DATA, '--set', 'model.config.intermediate_size=640', '--steps', 1, '--out', at('wide')).expect(0)
    run('merge', at('plain'), '--out', at('y'), '--base', newest('wide')).expect(5, 'another shape', '--base')
    adapter_config = os.path.join(newest('plain'), 'adapter_config.json')
    shutil.copytree(newest('plain'), at('dora'))
    os.remove(at('dora/manifest.json'))
    config = json.load(open(adapter_config, encoding='utf-8'))
    for change, words in (({'use_dora': True}, 'DoRA'), ({'bias': 'all'}, 'bias'), ({'modules_to_save': ['lm_head']}, 'modules_to_save'),
                          ({'peft_type': 'IA3'}, 'IA3'), ({'rank_pattern': {'q': 3}}, 'rank_pattern'), ({'r': 5}, 'rank 5')):
        folder.write('dora/adapter_config.json', json.dumps(dict(config, **change)))
        run('merge', at('dora'), '--out', at('y'), '--base', at('moved')).expect(5, words)
    check(not os.path.exists(at('y')), 'refused')

    # A model that also sees: its text part is trained under names of its own, and merging gives back the whole one.
    seeing = os.path.join(ROOT, 'test', 'golden', 'gemma3', 'seeing')
    before, tower = tensors(os.path.join(seeing, 'model.safetensors')), ('vision_tower.', 'multi_modal_projector.')
    small = ['--set', 'data.sequence_length=16']
    run('train', seeing, *DATA, *small, '--steps', 1, '--out', at('text')).expect(0)
    saved = tensors(os.path.join(newest('text'), 'model.safetensors'))
    check(sorted(saved) == sorted('model.' + name if name.startswith(tower) else name.removeprefix('language_model.') for name in before), 'a text model, and the tower')
    check(all(saved['model.' + name] == before[name] for name in before if name.startswith(tower)), 'the tower is as it was')
    run('plan', newest('text'), *small).expect(0, 'gemma3')
    run('train', seeing, *DATA, *small, *LORA, '--steps', 2, '--out', at('text-lora')).expect(0)
    run('merge', at('text-lora'), '--out', at('text-merged')).expect(0)
    after = tensors(at('text-merged/model.safetensors'))
    changed = {name for name in before if after[name] != before[name]}
    check(sorted(after) == sorted(before) and changed and all('q_proj' in name or 'down_proj' in name for name in changed), f'{sorted(changed)[:3]}')
    run('train', seeing, *DATA, *small, '--set', 'model.train=["model.layers.0.*"]', '--steps', 1, '--out', at('text-part')).expect(0)
    run('merge', at('text-part'), '--out', at('z')).expect(5, 'under the name language_model.model.layers.0', 'adapters')

finish()
