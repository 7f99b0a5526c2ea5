#!/usr/bin/env python3
"""Rows are made into the same tokens, in the same order, with the same report of bad ones, by any number of threads."""
import glob
import itertools
import json
import os
import random

from support import Folder, ROOT, check, finish, run

MODEL = os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level')
TEMPLATE = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
RECIPE = """\
model:
  family: llama
  config: { hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 420 }
data: { source: rows, path: [one.jsonl, two.jsonl], sequence_length: 32, tokenizer: TOKENIZER, template: chat.jinja }
training: { batch_size: 2, steps: 1 }
"""
WORDS = 'it is what The cats sat on the mat café 你好 def encode(text): 12345 <|end|> straße'.split()
rng = random.Random(3)
numbers = itertools.count()


def words(most):
    return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def row(i):
    kind = i % 4
    if kind == 0:
        return {'messages': [{'role': 'user', 'content': words(30)}, {'role': 'assistant', 'content': words(60)}]}
    if kind == 1:
        return {'prompt': words(20), 'completion': words(20)}
    if kind == 2:
        return {'instruction': words(9), 'input': words(9), 'output': words(9)}
    return {'text': words(200)}


with Folder() as folder:
    def tokens(workers, *more):
        """What a run says, and the tokens that it has made."""
        number = next(numbers)
        cache, out = os.path.join(folder.path, f'cache-{number}'), os.path.join(folder.path, f'out-{number}')
        done = run('train', recipe, '--set', f'data.workers={workers}', *more, '--out', out, env={'XDG_CACHE_HOME': cache})
        files = glob.glob(os.path.join(cache, '**', 'tokens-*.bin'), recursive=True)
        return done, {os.path.basename(path): open(path, 'rb').read() for path in files}

    lines = [json.dumps(row(i)) for i in range(3000)]
    lines[1500] = json.dumps({'text': 'the cat ' * 400000})  # longer than a batch
    bad = {7: '{"text": ', 130: '{"nothing": 1}', 131: '{"text": 5}', 1999: '[]', 2998: '{"messages": []}'}
    folder.write('one.jsonl', '\n'.join(lines[:2000]) + '\n')
    folder.write('two.jsonl', '\n'.join(lines[2000:]))
    folder.write('chat.jinja', TEMPLATE)
    recipe = folder.write('rows.yaml', RECIPE.replace('TOKENIZER', MODEL))
    first, expected = tokens(0)
    first.expect(0)
    check(len(expected) == 1 and all(len(data) > 1 << 20 for data in expected.values()), f'{ {k: len(v) for k, v in expected.items()} }')
    for workers in (1, 2, 3, 16):
        done, made = tokens(workers)
        done.expect(0)
        check(made == expected, f'{workers} threads: the same file')

    # Bad rows: those that are left out, and the one that ends a run.
    for number, text in bad.items():
        lines[number] = text
    folder.write('one.jsonl', '\n'.join(lines[:2000]) + '\n')
    folder.write('two.jsonl', '\n'.join(lines[2000:]))
    allowed = ['--set', 'data.bad_rows=0.01']
    first, expected = tokens(0, *allowed)
    told = [line for line in first.err.splitlines() if 'bad' in line or '.jsonl:' in line]
    check(first.code == 0 and len(expected) == 1 and '5 of 3000' in first.err and 'one.jsonl:8' in first.err, f'{first.err}')
    refused, _ = tokens(0)
    refused.expect(5, 'one.jsonl:8')
    for workers in (1, 2, 3, 16):
        done, made = tokens(workers, *allowed)
        check(done.code == 0 and made == expected, f'{workers} threads: the same file without bad rows')
        check([line for line in done.err.splitlines() if 'bad' in line or '.jsonl:' in line] == told, f'{workers}: {done.err} {told}')
        again, made = tokens(workers, '--set', 'data.bad_rows=0')
        check((again.code, again.err) == (refused.code, refused.err) and not made, f'{workers}: {again.err} {refused.err}')

    # A template that is missing is told of the first conversation, whoever meets it.
    lines = [json.dumps(row(i)) for i in range(1, 400)]
    folder.write('one.jsonl', '\n'.join(lines) + '\n')
    folder.write('two.jsonl', json.dumps(row(1)))
    recipe = folder.write('none.yaml', RECIPE.replace('TOKENIZER', MODEL).replace(', template: chat.jinja', ''))
    answers = {tokens(workers, '--quiet')[0].err for workers in (0, 1, 2, 8)}
    check(len(answers) == 1 and 'chat template' in next(iter(answers)), f'{answers}')
finish()
