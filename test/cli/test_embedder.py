#!/usr/bin/env python3
"""The taxonomy embedder: it learns a taxonomy whose siblings share meaning, not words; what it holds is what was planned;
recompute, offload and resuming change no bit."""
import json
import math
import os
import random
import struct
import subprocess
import sys

from support import RECIPES, ROOT, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '004-small.yaml')


def train(out, *settings, steps=None, flags=()):
    arguments = ['train', RECIPE, '--out', out, '--json', '--quiet', *flags]
    if steps:
        arguments += ['--steps', steps]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments, timeout=600).expect(0).json()


def within(answer, what):
    planned, measured = answer['planned']['peak_bytes'], answer['measured']['peak_bytes']
    check(measured <= planned + (16 << 20) and planned - measured < (16 << 20),
          f'{what}: planned {planned}, measured {measured}')


def nearest(rows, code):
    """All others with their distances, nearest first."""
    point = next(row['point'] for row in rows if row['code'] == code)
    distance = lambda other: math.acosh(max(1, point[0] * other[0] - sum(a * b for a, b in zip(point[1:], other[1:]))))
    return sorted((distance(row['point']), row['code']) for row in rows if row['code'] != code)


def first_loss(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return next(json.loads(line)['loss'] for line in file if '"loss"' in line)


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    # Before and after: what is held out was in no sample of training.
    before = train(path('before'), 'training.optimizer.lr=1e-9', 'training.eval_every=1', steps=1)['metrics']
    after = train(path('after'))
    check(before['recall_5'] <= 0.3, f'untrained recall {before}')
    check(after['metrics']['recall_5'] >= 0.8, f'trained recall {after["metrics"]}')
    check(after['metrics']['mean_rank'] < 0.2 * before['mean_rank'], f'rank of the parent {after["metrics"]}')
    check(after['metrics']['correlation'] > before['correlation'] + 0.1, f'correlation {after["metrics"]}')
    check(set(after['losses']) == {'contrastive', 'balance'}, str(after['losses']))
    within(after, 'the small recipe')

    # Metrics of all of the data are in the log of evaluations, and in no other line.
    with open(os.path.join(path('after'), 'log.jsonl'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    evals = [line for line in lines if 'eval_loss' in line]
    check(len(evals) == 2 and all('recall_5' in line['eval_metrics'] for line in evals), str(evals[:1]))
    check(not any('recall_5' in line.get('metrics', {}) for line in lines), 'a step has no recall')

    # Points: all of them in both formats, neighbours that are kin, codes of another file, and what is refused.
    npy, lines = path('points.npy'), path('points.jsonl')
    run('embed', path('after'), '--out', npy, cwd=ROOT).expect(0, '1088 points of 34 numbers')
    run('embed', path('after'), '--out', lines, '--quiet', cwd=ROOT).expect(0)
    with open(npy, 'rb') as file:
        head = file.read(128)
        values = struct.unpack(f'<{1088 * 34}f', file.read())
    check(b"'shape': (1088, 34)" in head and head.startswith(b'\x93NUMPY'), str(head))
    with open(lines, encoding='utf-8') as file:
        rows = [json.loads(line) for line in file]
    check(len(rows) == 1088 and rows[1]['code'] == '111', str(rows[1])[:80])
    check(all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(rows[1]['point'], values[34:68])), 'points of both files')
    check(all(abs(v[0] ** 2 - sum(x * x for x in v[1:]) - 1) < 1e-3 * v[0] ** 2 for v in (r['point'] for r in rows)),
          'points lie on the hyperboloid')
    near = run('embed', path('after'), '--nearest', '11110', '--count', 5, '--json', cwd=ROOT).expect(0).json()['nearest']
    expected = nearest(rows, '11110')[:5]
    check([one['code'] for one in near] == [code for _, code in expected], f'{near}, expected {expected}')
    check(all(abs(one['distance'] - d) < 1e-3 for one, (d, _) in zip(near, expected)), f'{near}, expected {expected}')
    leaves = [row['code'] for row in rows if len(row['code']) == 5][::40]
    found = sum(any(code.startswith(leaf[:3]) for _, code in nearest(rows, leaf)[:5]) for leaf in leaves)
    check(found >= 0.8 * len(leaves), f'{found} of {len(leaves)} codes have kin among the nearest')
    few = folder.write('few.jsonl', '{"code": "a1", "title": "pefidi"}\n{"code": "b22", "title": "molaku"}\n')
    run('embed', path('after'), '--data', few, '--nearest', 'a1').expect(0, 'b22')
    run('embed', path('after'), '--nearest', 'zz', cwd=ROOT).expect(5, 'there is no code zz')
    run('embed', path('after')).expect(2, '--out')
    run('embed', path('after'), '--out', path('points.txt'), cwd=ROOT).expect(2, '.npy')
    run('embed', folder.path, '--nearest', '11').expect(5, 'no checkpoint')

    # The same bits.
    short = ['training.batch_size=8', 'training.eval_every=null']
    plain = train(path('plain'), *short, steps=6)
    cases = {
        'recomputed': ['memory.checkpoint=every-layer'],
        'selective': ['memory.checkpoint=selective'],
        'on the host': [f'memory.offload.{kind}=host' for kind in ('optimizer', 'parameters', 'activations')],
    }
    for name, settings in cases.items():
        answer = train(path(name.replace(' ', '-')), *short, *settings, steps=6)
        check(answer['weights_sha256'] == plain['weights_sha256'], f'{name}: other bits')
        within(answer, name)
    # Buckets: programs for each length, within the plan.
    bucketed = train(path('bucketed'), *short, 'data.buckets=[6, 12]', steps=3)
    check(1.5 < bucketed['loss'] < 3, f'in buckets: {bucketed["loss"]}')
    within(bucketed, 'in buckets')

    # Slices: what goes forward has the same bits, and gradients of the split weights agree to rounding.
    sliced = train(path('sliced'), *short, 'memory.split={title: 2, description: 4, examples: 8}', steps=6)
    check(first_loss(path('sliced')) == first_loss(path('plain')), 'in slices: another first loss')
    check(abs(sliced['loss'] - plain['loss']) < 1e-4 * plain['loss'], f'in slices: {sliced["loss"]}, {plain["loss"]}')
    within(sliced, 'in slices')

    # Stopped ten times and resumed, also between the epochs in which codes are clustered, which checkpoints hold.
    short = ['training.batch_size=8', 'training.schedule.kind=constant', 'training.eval_every=100',
             'training.eval_batches=1', 'data.taxonomy.anchor_level=[2, 3]', 'data.taxonomy.n_positives=1']
    clustered = [*short, 'data.taxonomy.cluster_from=1', 'data.taxonomy.cluster_every=2', 'data.taxonomy.clusters=100']
    steps = 30
    once = train(path('once'), *clustered, steps=steps)
    for stop in [*sorted(random.Random(4).sample(range(1, steps), 10)), steps]:
        answer = train(path('resumed'), *clustered, steps=stop, flags=['--resume'])
    check(answer['weights_sha256'] == once['weights_sha256'], 'resumed: other bits')
    within(once, 'clustered')
    never = train(path('never'), *short, 'data.taxonomy.cluster_from=9', steps=steps)
    check(never['weights_sha256'] != once['weights_sha256'], 'clusters change nothing')
    with open(os.path.join(path('resumed'), f'generation-{steps:08}', 'training', 'clusters.bin'), 'rb') as file:
        made, *clusters = struct.unpack('<1089i', file.read())
    check(made == 4 and -1 in clusters and 80 < len(set(clusters)) <= 101, f'made {made}, {len(set(clusters))}')

    # Sizes of the system itself: trained parameters, one frozen base, in every stage.
    whole = os.path.join(RECIPES, '004-24gb.yaml')
    for stage in ('01', '05'):
        answer = run('plan', whole, '--set', f'stage={stage}', '--gpu', 'H200', '--json').expect(0).json()
        check(answer['model']['trainable_parameters'] == 14664837, str(answer['model']))
        check(answer['model']['parameters'] == 14664837 + 22565376, str(answer['model']))
        check(answer['settings']['data']['taxonomy']['n_negatives'] == (24 if stage == '01' else 8), stage)

    # Other channels: two texts of other names, one that is empty in a row, six at most.
    rows = ''.join(f'{code},{name},{text}\n' for code, name, text in
                   [('1', 'ab', 'cd'), ('11', 'abc', ''), ('12', 'abd', 'cde'), ('121', 'abe', 'cf'), ('2', 'x', 'y'), ('21', 'xz', 'yz')])
    folder.write('two.csv', 'code,name,text\n' + rows)
    part = ('{config: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 256,'
            ' max_position_embeddings: 16}}')
    small = ('model: { family: embedder, config: { CHANNELS, expert_size: 8, projection_size: 8, tangent_size: 9 },\n'
             '         parts: { PARTS } }\n'
             'data: { source: taxonomy, path: two.csv, tokenizer: bytes, sequence_length: 12, taxonomy: { n_negatives: 2 } }\n'
             'training: { steps: 4, batch_size: 2, optimizer: { lr: 1e-3 } }\nmemory: { budget: 256MiB }\n')
    channels = lambda *names: small.replace('CHANNELS', f'texts: [{", ".join(names)}]').replace(
        'PARTS', ', '.join(f'{name}: {part}' for name in names))
    answer = run('train', folder.write('two.yaml', channels('name', 'text')), '--out', path('two'), '--json').expect(0).json()
    check(0.5 < answer['loss'] < 3, f'two channels: {answer["loss"]}')
    parts = sorted(os.listdir(os.path.join(path('two'), 'generation-00000004')))
    check('name' in parts and 'text' in parts and 'title' not in parts, str(parts))
    run('embed', path('two'), '--nearest', '11', cwd=folder.path).expect(0, '12')
    for names, message in ((('name', 'moe'), 'moe is what a part of the embedder itself is called'),
                           (('name', 'mask_0'), 'another field'), (tuple('abcdefg'), 'more than 6'), (('a.b',), 'not a name')):
        run('plan', folder.write('wrong.yaml', channels(*names))).expect(5, message)
    run('plan', path('two.yaml'), '--set', 'model.config.texts=[name, name]').expect(5, 'two parts "name"')
    run('train', folder.write('wrong.yaml', channels('title', 'text')), '--out', path('none')).expect(5, 'two.csv:2', 'title is missing')

    # Encoders of another width, adapters of another rank, more experts.
    wide = ('{hidden_size: 768, intermediate_size: 1024, num_hidden_layers: 1, num_attention_heads: 12, vocab_size: 400,'
            ' max_position_embeddings: 16}')
    answer = train(path('wide'), *[f'model.parts.{name}={{config: {wide}, adapters: {{kind: lora, rank: 16, alpha: 32, '
                                   'targets: [all-linear]}}'
                                   for name in ('title', 'description', 'excluded', 'examples')],
                   'model.config.num_experts=8', 'model.config.expert_size=64', 'training.batch_size=2',
                   'training.eval_every=null', 'memory.budget=1GiB', steps=2)
    check(1.5 < answer['loss'] < 4, f'wide: {answer["loss"]}')
    within(answer, 'wide')

    # As many negatives as fit, and what a plan writes into the configs of the guide's project.
    def negatives(*flags):
        answer = run('plan', RECIPE, *flags, '--json').expect(0).json()
        return answer['settings']['data']['taxonomy']['n_negatives'], answer['device']['peak_bytes']

    few, peak = negatives('--gpu-memory', '100MiB', '--margin', '0', '--set', 'data.taxonomy.n_negatives=auto')
    many, _ = negatives('--gpu-memory', '200MiB', '--margin', '0', '--set', 'data.taxonomy.n_negatives=auto')
    check(few < many and peak <= 100 << 20, f'{few} negatives in 100 MiB, {many} in 200 MiB')
    larger = {4: 6, 6: 8, 8: 12, 12: 16, 16: 24, 24: 32}[few]
    run('plan', RECIPE, '--gpu-memory', '100MiB', '--margin', '0', '--set', f'data.taxonomy.n_negatives={larger}').expect(3)
    os.makedirs(path('conf/text_curriculum'))
    config = folder.write('conf/config.yaml', 'data_loader:\n  batch_size: 4  # samples\ntraining:\n  trainer:\n'
                                              '    accumulate_grad_batches: 4\n    precision: 16-mixed\n')
    stage = folder.write('conf/text_curriculum/01_stage.yaml', 'name: 01_stage\nn_positives: 64  # at most\nn_negatives: 16\n')
    run('apply', whole, '--stage', '01', '--gpu', 'H200', '--to', config, stage).expect(0, '2 files written')
    with open(config, encoding='utf-8') as a, open(stage, encoding='utf-8') as b:
        check('batch_size: 45  # samples' in a.read(), 'batch size')
        check(b.read() == 'name: 01_stage\nn_positives: 32  # at most\nn_negatives: 24\n', 'positives and negatives')

    # The curriculum, with small encoders: each stage begins where the one before has ended.
    config = ('{hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, num_attention_heads: 2, vocab_size: 400,'
              ' max_position_embeddings: 16, hidden_dropout_prob: 0,'
              ' attention_probs_dropout_prob: 0}')
    settings = [f'model.parts.{name}={{config: {config}, adapters: {{kind: lora, rank: 2, targets: [all-linear]}}}}'
                for name in ('title', 'description', 'excluded', 'examples')]
    settings += ['memory.device=cpu', 'model.precision=32-true', 'data.sequence_length=12', 'training.batch_size=4',
                 'training.gradient_accumulation=1', 'training.epochs=null', 'training.steps=2']
    arguments = [word for setting in settings for word in ('--set', setting)]
    stages = run('train', whole, *arguments, '--out', path('stages'), '--json', '--quiet').expect(0).json()['stages']
    check([stage['stage'] for stage in stages] == ['01', '02', '03', '04', '05'], str(stages)[:200])
    check(len({stage['weights_sha256'] for stage in stages}) == 5, 'every stage trains')

    # The taxonomy is what its script makes.
    made = path('made')
    os.mkdir(made)
    with open(os.path.join(ROOT, 'recipes', 'taxonomy', 'make.py'), encoding='utf-8') as file:
        script = file.read()
    with open(os.path.join(made, 'make.py'), 'w', encoding='utf-8') as file:
        file.write(script)
    subprocess.run([sys.executable, os.path.join(made, 'make.py')], check=True)
    for name in ('codes.csv', 'tokenizer.json'):
        with open(os.path.join(made, name), 'rb') as a, open(os.path.join(RECIPES, 'taxonomy', name), 'rb') as b:
            check(a.read() == b.read(), f'{name} is not what make.py makes')

finish()
