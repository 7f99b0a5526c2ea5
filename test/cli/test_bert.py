#!/usr/bin/env python3
"""BERT from the recipe to the checkpoint: the loss falls, techniques change no bit, padding and the cut into micro-batches change
nothing but rounding, a run goes on where it stopped, and what it saves is read again."""
import json
import os
import random

from support import Folder, check, finish, run

RECIPE = """\
model:
  family: bert
  config: { vocab_size: 300, hidden_size: 48, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4,
            max_position_embeddings: 64 }
data: { source: lines, path: text.txt, sequence_length: 32 }
training:
  batch_size: 4
  steps: 40
  optimizer: { lr: 3e-3 }
  clip_norm: 1.0
"""
BITS = [['memory.checkpoint=every-layer'], ['memory.checkpoint=selective'],
        ['memory.offload.parameters=host', 'memory.offload.optimizer=disk']]
SPLIT = 'memory.split={attention: 2, mlp: 4, cls.predictions: 3}'  # weights' gradients agree to rounding


def settings(values):
    return [part for value in values for part in ('--set', value)]


def train(recipe, out, *values, more=()):
    result = run('train', recipe, '--out', out, '--json', *more, *settings(values)).expect(0).json()
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        steps = [json.loads(line) for line in file]
    return result.get('weights_sha256'), [line['loss'] for line in steps if 'loss' in line]


def near(a, b, tolerance):
    return len(a) == len(b) and all(abs(x - y) <= tolerance * y for x, y in zip(a, b))


with Folder() as folder:
    words = ['lorem', 'ipsum', 'dolor', 'sit', 'amet', 'elit']
    draw = random.Random(3)
    folder.write('text.txt', ''.join(' '.join(draw.choices(words, k=draw.randint(1, 7))) + '\n' for _ in range(160)))
    recipe = folder.write('bert.yaml', RECIPE)

    def out(name):
        return os.path.join(folder.path, name)

    plan = run('plan', recipe, '--json').expect(0).json()
    check(plan['model']['family'] == 'bert' and 'without_gradient' not in plan['model'], 'every parameter is trained')
    sha, losses = train(recipe, out('whole'))
    check(losses[0] > 5.4 and losses[-1] < 3.5, f'the loss falls: {losses[0]} to {losses[-1]}')

    short = ['training.steps=6']
    expected, first = train(recipe, out('short'), *short)
    check(near(first, losses[:6], 0), 'the first steps are those of the longer run')
    for number, values in enumerate(BITS):
        check(train(recipe, out(f'bits-{number}'), *short, *values)[0] == expected, f'{values}: other bits')
    _, sliced = train(recipe, out('sliced'), *short, SPLIT)
    check(near(sliced, first, 2e-5), f'slices: {sliced}, {first}')
    run('train', recipe, '--out', out('stopped'), '--steps', '17', '--json').expect(0)
    check(train(recipe, out('stopped'), more=['--resume'])[0] == sha, 'a resumed run ends in other weights')

    # Text has the same rows in every cut, and dropout and masks go by the number of a row.
    text = ['data.source=text', *short]
    _, whole = train(recipe, out('text-4'), *text)
    _, halves = train(recipe, out('text-2'), *text, 'training.batch_size=2', 'training.gradient_accumulation=2')
    check(near(halves, whole, 2e-5), f'two halves of a batch: {halves}, {whole}')
    # One micro-batch of all lines, each asked for whole: wider rows hold more padding and nothing else.
    lines = ['training.batch_size=160', 'training.steps=3', 'data.masking={part: 1, random: 0, keep: 1}']
    no_dropout = ['model.config.hidden_dropout_prob=0', 'model.config.attention_probs_dropout_prob=0']
    _, dropping = train(recipe, out('dropping'), *lines, 'data.sequence_length=41')
    _, wide = train(recipe, out('wide'), *lines, 'data.sequence_length=64', *no_dropout)
    _, narrow = train(recipe, out('narrow'), *lines, 'data.sequence_length=41', *no_dropout)
    check(near(wide, narrow, 2e-5), f'padding: {wide}, {narrow}')
    check(not near(dropping, narrow, 1e-4), 'dropout makes a difference')
    pointed = [*lines, 'data.sequence_length=41', 'model.config.initializer_range=0.2']  # attention that prefers some keys
    _, without = train(recipe, out('without'), *pointed, *no_dropout)
    _, inside = train(recipe, out('inside'), *pointed, no_dropout[0])
    check(not near(inside, without, 1e-4), 'dropout inside of attention makes a difference')

    saved = next(name for name in os.listdir(out('whole')) if name.startswith('generation'))
    again = ['data.source=text', 'data.tokenizer=bytes', f'data.path={out("text.txt")}', 'data.sequence_length=32',
             'training.steps=1', 'training.batch_size=4', *no_dropout]
    _, loaded = train(os.path.join(out('whole'), saved), out('again'), *again)
    check(loaded[0] < 3.5, f'what a run saves is where another one begins: {loaded}')

    train(recipe, out('lora'), 'model.adapters={kind: lora, rank: 4}', *short)
    saved = next(name for name in os.listdir(out('lora')) if name.startswith('generation'))
    with open(os.path.join(out('lora'), saved, 'adapter_config.json'), encoding='utf-8') as file:
        adapter = json.load(file)
    check(sorted(adapter['target_modules']) == ['dense', 'key', 'query', 'value'] and adapter['task_type'] is None,
          f'adapter_config.json: {adapter}')

finish()
