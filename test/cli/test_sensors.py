#!/usr/bin/env python3
"""The sensor model: it learns to answer questions about recordings that it has not seen; what it holds is what was planned;
recompute, offload, slices and resuming change no bit; the recipes of its guide are planned without data or weights."""
import json
import os
import random
import xml.dom.minidom

from schema import conforms
from support import RECIPES, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '000-small.yaml')
HELD = 192  # questions that are held out
TYPES = ('recognition', 'ordering', 'existence', 'relative_ordering')


def train(out, *settings, steps=None, flags=()):
    arguments = ['train', RECIPE, '--out', out, '--json', '--quiet', *flags]
    if steps:
        arguments += ['--steps', steps]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments, timeout=900).expect(0).json()


def within(answer, what):
    planned, measured = answer['planned']['peak_bytes'], answer['measured']['peak_bytes']
    check(measured <= planned + (16 << 20) and planned - measured < (16 << 20),
          f'{what}: planned {planned}, measured {measured}')


def log(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [json.loads(line) for line in file]


def learns(path):
    before = train(path('before'), 'training.optimizer.lr=1e-9', 'training.eval_every=1', steps=1)['metrics']
    steps = 'training.generation_every=750'
    answer = train(path('after'), steps, f'generation.batch={HELD}')
    after = answer['metrics']
    check(before['exact_match'] <= 0.1, f'untrained {before}')
    check(after['exact_recognition'] >= 0.9, f'trained {after}')
    check(after['exact_match'] >= 0.75, f'trained {after}')
    check(set(after) == {'exact_match'} | {f'exact_{kind}' for kind in TYPES}, str(after))
    within(answer, 'the small recipe')
    # Metrics of answers are made by evaluations alone.
    lines = log(path('after'))
    check(all('exact_match' in line['eval_metrics'] for line in lines if 'eval_loss' in line), 'evaluations have them')
    check(not any(line.get('metrics') for line in lines), 'steps do not')
    # What is written token by token, with caches, is exact as often as evaluations say; and is drawn.
    written = [line['generated'] for line in lines if 'generated' in line][-1]
    exact = sum(one['text'].strip() == one['expected'] for one in written)
    check(len(written) == HELD and abs(exact / HELD - after['exact_match']) < 1e-6,
          f'{exact} of {len(written)} answers are exact, but exact_match is {after["exact_match"]}')
    check(sum(one['scores']['exact'] for one in written) == exact, 'scores of answers are logged')
    check(all(one['scores']['exact'] <= one['scores']['f1'] <= 1 for one in written), 'exact answers have all words')
    pictures = os.listdir(os.path.join(path('after'), 'answers'))
    check(len(pictures) == 8 * sum('generated' in line for line in lines), str(pictures))
    for name in pictures:
        xml.dom.minidom.parse(os.path.join(path('after'), 'answers', name))
    asked(path, after)


def asked(path, metrics):
    """A run answers questions: those that it held out as its evaluation says, and those of other data."""
    answer = run('generate', path('after'), '--held-out', '--json').expect(0).json()
    scores = answer['scores']
    conforms(answer, 'generate', 'generate --held-out')
    check(len(answer['answers']) == scores['count'] == HELD, str(scores['count']))
    check(abs(scores['exact'] - metrics['exact_match']) < 1e-6, f'{scores} {metrics}')
    check(all(scores['exact'] <= scores[key] <= 1 for key in ('f1', 'bleu', 'rouge_l')), str(scores))
    check({kind: round(one['exact'], 6) for kind, one in scores['types'].items()} ==
          {f'{first}_activity_{kind}': round(metrics[f'exact_{kind}'], 6)
           for kind in TYPES for first in ['simple' if kind == 'recognition' else 'multi']}, str(scores))
    check(answer['measured_bytes'] <= answer['planned_bytes'] + (16 << 20), 'generating is planned')
    # Recordings of one's own, with a question that nobody has answered.
    os.makedirs(path('own'))
    recordings = os.path.join(RECIPES, 'sensors')
    for name in os.listdir(recordings):
        if name.endswith('.csv') or os.path.isdir(os.path.join(recordings, name)):
            os.symlink(os.path.join(recordings, name), os.path.join(path('own'), name))
    with open(os.path.join(recordings, 'qa_pairs_templated.jsonl'), encoding='utf-8') as file:
        rows = [json.loads(line) for line in file][:3]
    del rows[0]['answer']
    with open(os.path.join(path('own'), 'qa_pairs_templated.jsonl'), 'w', encoding='utf-8') as file:
        file.writelines(json.dumps(row) + '\n' for row in rows)
    answer = run('generate', path('after'), '--data', path('own'), '--json').expect(0).json()
    check([one['expected'] is None for one in answer['answers']] == [True, False, False], str(answer))
    check(answer['scores']['count'] == 2 and all(one['text'] for one in answer['answers']), str(answer))
    shown = run('generate', path('after'), '--data', path('own'), '--count', '2').expect(0)
    check('1 answers   exact' in shown.out and rows[1]['question'] in shown.out, shown.out)
    for flags, message in ((['--held-out', '--prompt', 'x'], 'does not go with questions'),
                           (['--held-out', '--data', 'x'], 'both name'), (['--prompt', 'x', '--count', '2'], 'no questions'),
                           (['--data', path('nowhere')], 'nowhere')):
        refused = run('generate', path('after'), *flags)
        check(refused.code != 0 and message in refused.err, f'{flags}: {refused.code} {refused.err}')


def same_bits(path):
    short = ['training.batch_size=4', 'training.eval_every=null', 'model.config.encoder_dropout=0.05',
             'model.config.pooling_dropout=0.1', 'training.schedule.kind=constant']
    plain = train(path('plain'), *short, steps=6)
    within(plain, 'plain')
    cases = {
        'recomputed': ['memory.checkpoint=every-layer'],
        'selective': ['memory.checkpoint=selective'],
        'asked meanwhile': ['training.generation_every=2', 'generation.batch=2'],
        'on the host': [f'memory.offload.{kind}=host' for kind in ('optimizer', 'parameters', 'activations')],
        'on disk, recomputed': [f'memory.offload.{kind}=disk' for kind in ('optimizer', 'activations')] +
                               ['memory.checkpoint=every-layer', f'memory.offload_folder={path("disk")}'],
    }
    os.mkdir(path('disk'))
    for number, (name, settings) in enumerate(cases.items()):
        answer = train(path(f'case{number}'), *short, *settings, steps=6)
        check(answer['weights_sha256'] == plain['weights_sha256'], f'{name}: other bits')
        within(answer, name)
    # Slices: what goes forward has the same bits, and gradients of the split weights agree to rounding.
    sliced = train(path('sliced'), *short, 'memory.split={encoder: 2, pooling: 4, llm: 2}', steps=6)
    first = lambda out: next(line['loss'] for line in log(path(out)) if 'loss' in line)
    check(first('sliced') == first('plain'), 'in slices: another first loss')
    check(abs(sliced['loss'] - plain['loss']) < 1e-4 * plain['loss'], f'in slices: {sliced["loss"]}, {plain["loss"]}')
    within(sliced, 'in slices')
    # Stopped ten times and resumed.
    short += ['model.config.encoder_layers=1', 'training.batch_size=2']
    once = train(path('once'), *short, steps=24)
    for stop in [*sorted(random.Random(0).sample(range(1, 24), 10)), 24]:
        answer = train(path('resumed'), *short, steps=stop, flags=['--resume'])
    check(answer['weights_sha256'] == once['weights_sha256'], 'stopped and resumed: other bits')
    # Other precisions, and a frozen decoder with adapters: no surprise in memory.
    for precision in ('bf16-mixed', '16-mixed'):
        within(train(path(precision), *short, f'model.precision={precision}', steps=3), precision)
    adapted = train(path('adapted'), *short, 'model.parts.llm.adapters={kind: lora, rank: 4, targets: [all-linear]}', steps=3)
    within(adapted, 'adapters')


def guide(folder):
    """Planned bytes of the guide's settings, without the data and the weights that they name."""
    peaks = {}
    for name in ('before', 'after', 'moderate', 'more-savings', 'better-quality'):
        answer = run('plan', os.path.join(RECIPES, f'000-{name}.yaml'), '--set', 'memory.device=cpu', '--set',
                     'memory.budget=64GiB', '--json').expect(0).json()
        check(answer['model']['adapters'] == 112, f'{name}: {answer["model"]}')
        peaks[name] = answer['device']['peak_bytes'] / 2**30
    check(peaks['more-savings'] < peaks['after'] < peaks['better-quality'] < peaks['before'], str(peaks))
    check(peaks['moderate'] < peaks['before'] and peaks['after'] < 0.5 * peaks['before'], str(peaks))
    run('train', os.path.join(RECIPES, '000-after.yaml'), '--set', 'memory.device=cpu', '--out',
        os.path.join(folder, 'none')).expect(5, 'actionsense')


def refused(folder):
    cases = {
        'model.config.t_fixed=48': 'take 16, 32, 64 or 128',
        'model.config.channels=4': 'the data has 3 channels',
        'model.config.encoder_heads=5': 'do not divide',
        'data.sensors.context_size=-1': 'max_patches',
        'data.sensors.context_size=0': 'at least one patch',
        'training={steps: 2, generation_every: 1, generation_prompts: [a]}': 'asked questions of its data',
        'model.parts.llm.config.vocab_size=20': 'vocab',
    }
    for setting, message in cases.items():
        run('train', RECIPE, '--set', setting, '--out', os.path.join(folder, 'none')).expect(5, message)


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    refused(folder.path)
    guide(folder.path)
    same_bits(path)
    learns(path)
finish()
