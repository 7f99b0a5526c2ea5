#!/usr/bin/env python3
"""model.adapters.path: a run begins with adapters that PEFT wrote (test/model/make_peft.py), trains them on and writes them back."""
import json
import math
import os
import shutil
import struct

from support import Folder, ROOT, TINY, check, finish, run

PEFT = os.path.join(ROOT, 'test', 'model', 'peft')
SMALL = ['--set', 'data.source=synthetic', '--set', 'training.batch_size=2', '--set', 'data.sequence_length=16']


def tensors(folder, name='adapter_model.safetensors'):
    with open(os.path.join(folder, name), 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    header.pop('__metadata__', None)
    return {key: struct.unpack(f'<{(t["data_offsets"][1] - t["data_offsets"][0]) // 4}f', data[slice(*t['data_offsets'])]) for key, t in header.items()}


def loss(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [line['loss'] for line in map(json.loads, file) if 'loss' in line][0]


def config_of(folder):
    return json.load(open(os.path.join(folder, 'adapter_config.json'), encoding='utf-8'))


with Folder() as folder:
    def at(name):
        return os.path.join(folder.path, name)

    def newest(out):
        return os.path.join(at(out), sorted(name for name in os.listdir(at(out)) if name.startswith('generation'))[-1])

    run('train', folder.write('tiny.yaml', TINY), '--steps', 2, '--out', at('first')).expect(0)
    base = newest('first')
    begin = [*SMALL, '--set', f'model.adapters.path={PEFT}']
    # Nothing else needs to be said, and nothing that was there is lost: a step without a learning rate writes it back bit by bit.
    run('train', base, *begin, '--set', 'training.optimizer.lr=0', '--set', 'training.optimizer.weight_decay=0', '--steps', 1, '--out', at('same')).expect(0)
    check(tensors(newest('same')) == tensors(PEFT), 'the same bits')
    theirs, ours = config_of(PEFT), config_of(newest('same'))
    for key in ('r', 'lora_alpha', 'lora_dropout', 'use_rslora', 'task_type', 'peft_type', 'bias'):
        check(theirs[key] == ours[key], f'{key}: {theirs[key]} {ours[key]}')
    check(sorted(theirs['target_modules']) == sorted(ours['target_modules']), f'{ours["target_modules"]}')
    # The loss is that of the model with the adapters in it, as merging makes it from their own files.
    run('merge', PEFT, '--base', base, '--out', at('merged')).expect(0)
    run('train', at('merged'), *SMALL, '--steps', 1, '--out', at('one')).expect(0)
    run('train', base, *SMALL, '--steps', 1, '--out', at('without')).expect(0)
    check(abs(loss(at('same')) - loss(at('one'))) <= 1e-5 < 1e-3 < abs(loss(at('without')) - loss(at('one'))), f'{loss(at("same"))} {loss(at("one"))}')
    weight, name = tensors(base, 'model.safetensors'), 'model.layers.1.self_attn.v_proj'
    a, b = (tensors(PEFT)[f'base_model.model.{name}.lora_{x}.weight'] for x in 'AB')
    made, scale = tensors(at('merged'), 'model.safetensors')[name + '.weight'], 6 / math.sqrt(2)
    worst = max(abs(made[32 * r + c] - weight[name + '.weight'][32 * r + c] - scale * (b[2 * r] * a[c] + b[2 * r + 1] * a[32 + c]))
                for r in range(16) for c in range(32))
    check(worst <= 1e-6, f'alpha / sqrt(rank): {worst}')
    # Trained on, stopped and resumed, also from where the adapters no longer are in the first place.
    run('train', base, *begin, '--steps', 4, '--out', at('on')).expect(0)
    shutil.copytree(PEFT, at('copy'))
    run('train', base, *SMALL, '--set', f'model.adapters.path={at("copy")}', '--steps', 2, '--out', at('stopped')).expect(0)
    run('train', base, *begin, '--steps', 4, '--out', at('stopped'), '--resume').expect(0, 'resumed at step 2')
    check(tensors(newest('on')) == tensors(newest('stopped')) != tensors(PEFT), 'the bits of a run that was never stopped')
    # A run's own adapters are such a folder too; --method only says what kind of base they stand on.
    run('train', base, *SMALL, '--method', 'qlora', '--set', f'model.adapters.path={newest("on")}', '--steps', 1, '--out', at('next')).expect(0)
    run('plan', base, *begin, '--method', 'lora').expect(0, 'rank 2')
    # Settings that are as the file has them may stand in the recipe; others are refused, both named.
    for same in ('rank=2', 'alpha=6', 'rank_stabilised=true', 'targets=[q_proj, v_proj]', 'dropout=0'):
        run('train', base, *begin, '--set', f'model.adapters.{same}', '--steps', 1, '--out', at('same-' + same.split('=')[0])).expect(0)
    for other, words in (('rank=4', ['is 4', 'have 2']), ('alpha=16', ['is 16', 'have 6']), ('rank_stabilised=false', ['is false', 'have true']),
                         ('dropout=0.1', ['is 0.1', 'have 0']), ('rank=auto', ['is auto', 'have 2'])):
        run('plan', base, *begin, '--set', f'model.adapters.{other}').expect(5, 'model.adapters.' + other.split('=')[0], PEFT, *words)
    for other, words in (('targets=[q_proj]', 'v_proj'), ('targets=[q_proj, k_proj, v_proj]', 'k_proj')):
        run('train', base, *begin, '--set', f'model.adapters.{other}', '--steps', 1, '--out', at('x')).expect(5, words, 'targets')
    run('train', base, *SMALL, '--set', 'model.adapters.path=/nowhere', '--out', at('x')).expect(5, 'no adapter_config.json')
    # What LoRA here has not is refused by name and place, also by plan.
    for change, words in (({'use_dora': True}, 'DoRA'), ({'bias': 'lora_only'}, 'bias'), ({'modules_to_save': ['lm_head']}, 'modules_to_save'),
                          ({'peft_type': 'LOHA'}, 'LOHA'), ({'layers_to_transform': [0]}, 'layers_to_transform'), ({'alpha_pattern': {'q_proj': 3}}, 'alpha_pattern'),
                          ({'fan_in_fan_out': True}, 'fan_in_fan_out'), ({'r': 3}, 'rank 3'), ({'r': 2.5}, 'whole number'), ({'lora_alpha': 'x'}, 'lora_alpha')):
        folder.write('copy/adapter_config.json', json.dumps(dict(theirs, **change), indent=1))
        run('plan', base, *SMALL, '--set', f'model.adapters.path={at("copy")}').expect(5, words, at('copy'))
    folder.write('copy/adapter_config.json', json.dumps(theirs))
    os.remove(at('copy/adapter_model.safetensors'))
    run('plan', base, *SMALL, '--set', f'model.adapters.path={at("copy")}').expect(5, 'no adapter_model.safetensors', 'safe_serialization')

finish()
