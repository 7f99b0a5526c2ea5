#!/usr/bin/env python3
"""System 003 in stages (recipes/003-stages.yaml): every branch by itself, then the fusion over all of them, frozen, which begins with the
weights of several stages; and memory per named module: what is recomputed or lives on the host by name changes no bit."""
import json
import os
import struct

from support import RECIPES, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '003-stages.yaml')
FEW = ['training.steps=2', 'training.eval_every=2', 'training.eval_batches=1', 'data.scenes.samples=32', 'training.batch_size=2']
PARTS = {'video': ['video'], 'pair': ['backbone', 'pair'], 'detector': ['detector'], 'cooling': ['cooling'], 'motion': ['geometry', 'temporal']}


def sets(settings):
    return [part for setting in settings for part in ('--set', setting)]


def tensors(folder, part):
    newest = max(name for name in os.listdir(folder) if name.startswith('generation-'))
    with open(os.path.join(folder, newest, part, 'model.safetensors'), 'rb') as file:
        length = struct.unpack('<Q', file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    header.pop('__metadata__', None)
    return {name: data[slice(*entry['data_offsets'])] for name, entry in header.items()}


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    out = path('out')
    with open(RECIPE, encoding='utf-8') as file:
        text = file.read()
    order = '[video, pair, detector, cooling, motion]'
    again = text[text.index('  fusion:\n    from'):].replace('  fusion:', '  again:', 1).replace(order, '[motion, cooling, detector, pair, video]')
    with open(path('r.yaml'), 'w', encoding='utf-8') as file:
        file.write(text + again.replace('training: {', 'training: { optimizer: { lr: 1.0e-30 },'))
    answer = run('train', path('r.yaml'), '--out', out, '--json', '--quiet', *sets(FEW), timeout=900).expect(0).json()
    check([stage['stage'] for stage in answer['stages']] == list(PARTS) + ['fusion', 'again'], str([s['stage'] for s in answer['stages']]))
    for stage in answer['stages']:
        planned, measured = stage['planned']['peak_bytes'], stage['measured']['peak_bytes']
        check(measured < planned + (16 << 20), f'{stage["stage"]}: planned {planned}, measured {measured}')
    last = os.path.join(out, 'fusion')
    for stage, parts in PARTS.items():
        check(all(not os.path.exists(os.path.join(out, stage, 'generation-00000002', other, 'model.safetensors'))
                  for name, others in PARTS.items() if name != stage for other in others), f'{stage} has other branches')
        for part in parts:
            trained, frozen = tensors(os.path.join(out, stage), part), tensors(last, part)
            check(trained == frozen and trained, f'{part} is not what stage {stage} has left')
    check(tensors(last, 'fusion') != tensors(os.path.join(out, 'motion'), 'fusion'), 'the fusion is not trained')
    # What several stages have trained is that of the last one named: nothing is changed here.
    again = tensors(os.path.join(out, 'again'), 'fusion')
    stages = [tensors(os.path.join(out, stage), 'fusion') for stage in PARTS]
    check(again and all(next(have[name] for have in stages if name in have) == value for name, value in again.items()),
          'what several stages have trained is not that of the last one named')
    for wrong in ('[]', '[video, video]', '[video, fusion]', '[nothing]', '{video: 1}', '[[video]]'):
        with open(path('wrong.yaml'), 'w', encoding='utf-8') as file:
            file.write(text.replace(order, wrong))
        refused = run('plan', path('wrong.yaml'))
        check(refused.code == 5 and 'stage fusion begins from none of the stages before it' in refused.err, f'{wrong}: {refused.code} {refused.err}')
    # A stage that has no place for what one of several has trained.
    with open(path('lost.yaml'), 'w', encoding='utf-8') as file:
        file.write(text.replace('mask_weight: 0, spot_weight: 0', 'mask_weight: 0, spot_weight: 0, cooling_branch: false'))
    refused = run('train', path('lost.yaml'), '--out', path('lost'), '--quiet', *sets(FEW))
    check(refused.code == 5 and 'cooling.' in refused.err and 'does not have it' in refused.err, f'{refused.code} {refused.err}')

    # Per named module, as the guide has it: 3-D convolutions, transformers, fusion and detector recomputed, the geometry MLP on the host.
    small = os.path.join(RECIPES, '003-small.yaml')
    few = sets(FEW + ['model.parts.geometry.config.hidden=512'])
    recomputed = 'memory.checkpoint={video: every-layer, pair: every-layer, temporal: every-layer, fusion: every-layer, detector: every-layer}'
    hosted = [f'memory.offload.{kind}={{geometry: host}}' for kind in ('parameters', 'optimizer', 'gradients')]
    results = {}
    for name, settings in (('plain', []), ('recomputed', [recomputed]), ('hosted', hosted), ('both', [recomputed] + hosted)):
        results[name] = run('train', small, '--out', path(name), '--json', '--quiet', *few, *sets(settings), timeout=900).expect(0).json()
        planned, measured = results[name]['planned']['peak_bytes'], results[name]['measured']['peak_bytes']
        check(abs(measured - planned) < (16 << 20), f'{name}: planned {planned}, measured {measured}')
        check(results[name]['weights_sha256'] == results['plain']['weights_sha256'], f'{name}: other bits')
    check(results['recomputed']['planned']['peak_bytes'] < results['plain']['planned']['peak_bytes'], 'nothing is recomputed')
    # Of the 512 x 69 numbers each kind has moved: weights, two moments, gradients.
    on_host = lambda settings: run('plan', small, '--json', *few, *sets(settings)).expect(0).json()['host']['peak_bytes']
    moved = on_host(hosted) - on_host([])
    check(moved >= 4 * 4 * 512 * 69, f'only {moved} bytes have moved')

finish()
