#!/usr/bin/env python3
"""The gesture model: it learns to tell eight motions apart, two of which differ in their order alone; prepare gives the same bits; what it holds is
what was planned; recompute, offload and resuming change no bit, packed too; recipes of its guide are planned without data."""
import csv
import json
import os
import random

from configs import FOLDER, sides
from schema import conforms
from support import RECIPES, ROOT, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '002-small.yaml')
PARAMETERS = {'before': 9343168, 'after': 5280148, 'b': 2518756, 'revert': 9343168}


def train(out, *settings, steps=None, flags=()):
    arguments = ['train', RECIPE, '--out', out, '--json', '--quiet', *flags]
    if steps:
        arguments += ['--steps', steps]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments, timeout=900).expect(0).json()


def within(answer, what):
    planned, measured = answer['planned']['peak_bytes'], answer['measured']['peak_bytes']
    check(measured <= planned + (16 << 20) and planned - measured < (16 << 20), f'{what}: planned {planned}, measured {measured}')


def learns(path):
    answer = train(path('after'))
    conforms(answer, 'train', 'train of a classification')
    check(answer['eval_metrics']['accuracy'] >= 0.9, str(answer['eval_metrics']))
    counts, classes = answer['confusion']['counts'], answer['confusion']['classes']
    check(classes[:2] == ['right', 'left'] and len(classes) == 8 and all(sum(row) == 16 for row in counts), str(answer['confusion']))
    right = sum(counts[i][i] for i in range(8))
    check(abs(right / 128 - answer['eval_metrics']['accuracy']) < 1e-6, 'the matrix says how many are right')
    within(answer, 'the small recipe')
    # Scores of what is held out, by the run.
    run('embed', path('after'), '--out', path('scores.jsonl')).expect(0)
    with open(path('scores.jsonl'), encoding='utf-8') as file:
        scores = [json.loads(line) for line in file]
    guessed = sum(classes[line['point'].index(max(line['point']))] == line['code'] for line in scores)
    check(len(scores) == 128 and guessed == right, f'{guessed} of {len(scores)} are right by their scores, {right} by the evaluation')
    run('embed', path('after'), '--nearest', 'left').expect(2, 'no distance')
    return answer


def prepared(path, made):
    """Files of prepare train to the same bits, as HDF5 or streams would; raw events are read from CSV."""
    answer = run('prepare', RECIPE, '--out', path('events'), '--json').expect(0).json()
    conforms(answer, 'prepare', 'prepare')
    answer = answer['prepared']
    check(answer['train']['samples'] == 512 and answer['validation']['samples'] == 128, str(answer))
    files = [f'data.path={answer["train"]["path"]}', f'data.eval_path={answer["validation"]["path"]}', 'data.events.generate=null']
    again = train(path('prepared'), *files, steps=64)
    check(again['confusion']['classes'] == made['confusion']['classes'], 'classes keep their names')
    same = train(path('made'), steps=64)
    check(again['weights_sha256'] == same['weights_sha256'] and again['confusion'] == same['confusion'], 'prepared: other bits')
    within(again, 'prepared')
    os.makedirs(path('raw'))
    rows = random.Random(3)
    with open(path('raw/manifest.csv'), 'w', encoding='utf-8') as manifest:
        manifest.write('file,label,split\n')
        for i in range(6):
            manifest.write(f'{i}.csv,{"wave" if i % 2 else "clap"},{"train" if i < 4 else "test"}\n')
            with open(path(f'raw/{i}.csv'), 'w', encoding='utf-8', newline='') as file:
                table = csv.writer(file)
                table.writerow('xytp')
                table.writerows([rows.randrange(30), rows.randrange(30), rows.randrange(600000), rows.randrange(2)] for _ in range(90))
    answer = run('prepare', RECIPE, '--set', f'data.path={path("raw/manifest.csv")}', '--set', 'data.events.generate=null', '--out',
                 path('vectors')).expect(0)
    check('train: 4 samples' in answer.out and 'validation: 2 samples' in answer.out, answer.out)
    raw = train(path('raw-run'), f'data.path={path("raw/manifest.csv")}', 'data.events.generate=null', 'training.batch_size=2',
                'training.eval_every=2', steps=2)
    check(raw['confusion']['classes'][:2] == ['clap', 'wave'] and sum(map(sum, raw['confusion']['counts'])) == 2, str(raw['confusion']))
    # A file that is being replaced stays whole where the new one cannot be made.
    with open(path('vectors/train.safetensors'), 'rb') as file:
        before = file.read()
    with open(path('raw/5.csv'), 'a', encoding='utf-8') as file:
        file.write('1,2,nan,1\n')
    run('prepare', RECIPE, '--set', f'data.path={path("raw/manifest.csv")}', '--set', 'data.events.generate=null', '--out',
        path('vectors')).expect(5, '5.csv:92')
    with open(path('vectors/train.safetensors'), 'rb') as file:
        check(file.read() == before, 'the old file is kept')
    check(not any(name.endswith('.tmp') for name in os.listdir(path('vectors'))), 'nothing is left over')


def hdf5(path):
    """A file as the original writes it; without libhdf5 the message says what to install."""
    file = os.path.join(ROOT, 'test', 'data', 'events', 'small.h5')
    arguments = ['train', RECIPE, '--json', '--quiet', '--steps', '2', '--out', path('hdf5')]
    for setting in (f'data.path={file}', f'data.eval_path={file}', 'data.events.generate=null', 'training.batch_size=2', 'training.eval_every=2'):
        arguments += ['--set', setting]
    answer = run(*arguments)
    if answer.code == 1:
        check('libhdf5-' in answer.out + answer.err, answer.out + answer.err)
        print('skipped: HDF5 files are not read here, libhdf5 is missing')
        return
    answer = answer.expect(0).json()
    check(answer['confusion']['classes'][:4] == ['wave', 'clap', 'point', '3'], str(answer['confusion']))
    within(answer, 'HDF5')


def same_bits(path):
    short = ['training.batch_size=4', 'training.eval_every=null', 'model.config.dropout=0.1', 'model.config.drop_path=0.1',
             'model.config.num_layers=2', 'training.schedule.kind=constant', 'data.events.generate=64']
    plain = train(path('plain'), *short, steps=4)
    within(plain, 'plain')
    cases = {
        'recomputed': ['memory.checkpoint=every-layer'],
        'two threads read': ['data.workers=2'],
        'on the host': [f'memory.offload.{kind}=host' for kind in ('optimizer', 'parameters', 'activations')],
    }
    for number, (name, settings) in enumerate(cases.items()):
        answer = train(path(f'case{number}'), *short, *settings, steps=4)
        check(answer['weights_sha256'] == plain['weights_sha256'], f'{name}: other bits')
        within(answer, name)
    # Accumulation that falls by epoch, in buckets, stopped and resumed: 64 samples are 16 micro-batches an epoch.
    short += ['training.gradient_accumulation={0: 4, 1: 2, 2: 1}', 'data.buckets=[48, 56, 64]']
    once = train(path('once'), *short, steps=14)
    for stop in (3, 5, 9, 14):
        answer = train(path('resumed'), *short, steps=stop, flags=['--resume'])
    check(answer['weights_sha256'] == once['weights_sha256'], 'stopped and resumed: other bits')
    for precision in ('bf16-mixed', '16-mixed'):
        within(train(path(precision), *short, f'model.precision={precision}', steps=2), precision)


def packed(path):
    """Recordings that share rows, of half their vectors; what is held out has rows of its own, in a file of its own too."""
    rows = ['data.packing=true', 'data.sequence_length=256', 'data.events.train_ratio_of_vectors=0.5', 'training.batch_size=2',
            'model.config.dropout=0.1', 'model.config.drop_path=0.1', 'model.config.num_layers=2', 'training.schedule.kind=constant',
            'training.eval_every=4']
    made = [*rows, 'data.events.generate=160']
    plain = train(path('rows'), *made, steps=4)
    within(plain, 'packed')
    check(sum(map(sum, plain['confusion']['counts'])) == 32, str(plain['confusion']))
    cases = {
        'recomputed': ['memory.checkpoint=every-layer'],
        'two threads read': ['data.workers=2'],
        'on the host': [f'memory.offload.{kind}=host' for kind in ('optimizer', 'parameters', 'activations')],
    }
    for number, (name, settings) in enumerate(cases.items()):
        answer = train(path(f'rows{number}'), *made, *settings, steps=4)
        check(answer['weights_sha256'] == plain['weights_sha256'], f'packed, {name}: other bits')
        within(answer, f'packed, {name}')
    for stop in (1, 3, 4):
        answer = train(path('rows-resumed'), *made, steps=stop, flags=['--resume'])
    check(answer['weights_sha256'] == plain['weights_sha256'], 'packed, stopped and resumed: other bits')
    slices = train(path('rows-slices'), *made, 'memory.split={"stacks.*": 2}', steps=4)
    check(abs(slices['loss'] - plain['loss']) < 1e-4, f'packed, in slices: {slices["loss"]} instead of {plain["loss"]}')
    for precision in ('bf16-mixed', '16-mixed'):
        within(train(path(f'rows-{precision}'), *made, f'model.precision={precision}', steps=2), f'packed, {precision}')
    files = [f'data.{key}={path("events")}/{name}.safetensors' for key, name in (('path', 'train'), ('eval_path', 'validation'))]
    answer = train(path('rows-files'), *rows, *files, 'data.events.generate=null', steps=4)
    check(all(sum(row) == 16 for row in answer['confusion']['counts']), str(answer['confusion']))


def guide(folder):
    peaks = {}
    for name in ('before', 'after', 'a', 'b', 'c', 'd', 'e', 'revert'):
        answer = run('plan', os.path.join(RECIPES, f'002-{name}.yaml'), '--gpu', 'L40S', '--json').expect(0).json()
        peaks[name] = answer['device']['peak_bytes'] / 2**30
        if name in PARAMETERS:
            check(answer['model']['parameters'] == PARAMETERS[name], f'{name}: {answer["model"]}')
    check(peaks['a'] < peaks['after'] < peaks['before'] < peaks['revert'] and peaks['b'] < peaks['after'], str(peaks))
    check(abs(peaks['d'] - peaks['after']) < 0.01 * peaks['after'], 'f16 takes what bf16 does')
    run('train', os.path.join(RECIPES, '002-after.yaml'), '--set', 'memory.device=cpu', '--out', os.path.join(folder, 'none')).expect(5, 'gestures')


def applied(path):
    """The guide's settings, in the config of the original."""
    with open(os.path.join(FOLDER, 'gestures-custom.yaml'), encoding='utf-8') as file:
        before = sides(file.read())[0].decode()
    with open(path('config.yaml'), 'w', encoding='utf-8') as file:
        file.write(before)
    run('apply', os.path.join(RECIPES, '002-after.yaml'), '--gpu', 'L40S', '--to', path('config.yaml')).expect(0)
    changed = {'precision: "32-true"': 'precision: "bf16-mixed"', 'vectors: 0.4': 'vectors: 0.15', 'hidden_dim: 256': 'hidden_dim: 192',
               'd_state: 128': 'd_state: 96', 'use_checkpoint: False': 'use_checkpoint: True', '{0: 4}': '{0: 2}'}
    for old, new in changed.items():
        before = before.replace(old, new)
    with open(path('config.yaml'), encoding='utf-8') as file:
        after = file.read()
    check(after == before, after)
    several = run('apply', os.path.join(RECIPES, '002-revert.yaml'), '--gpu', 'L40S', '--to', path('config.yaml'), '--dry-run').expect(0)
    check('takes one value, not several' in several.out + several.err, several.out + several.err)


def refused(folder):
    cases = {
        'model.config.num_classes=4': 'above the 4 classes',
        'data.path=x.h5': 'data.events.generate makes streams up',
        'data.events.generate=1': 'too few',
        'model.config.encoding_dim=32': 'encoding_dim to 64',
        'data.source=lines': 'vectors',
        'data.packing=true': 'pieces of 24 positions, which do not divide 64',
    }
    for setting, message in cases.items():
        run('train', RECIPE, '--set', setting, '--set', 'model.config.chunk_size=24', '--out', os.path.join(folder, 'none')).expect(5, message)
    run('prepare', os.path.join(RECIPES, 'demo.yaml'), '--out', os.path.join(folder, 'none')).expect(5, 'needs no preparing')
    run('prepare', RECIPE).expect(2, '--out is missing')


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    refused(folder.path)
    guide(folder.path)
    applied(path)
    hdf5(path)
    same_bits(path)
    prepared(path, learns(path))
    packed(path)
finish()
