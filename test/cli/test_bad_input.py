#!/usr/bin/env python3
"""Bad recipes, files and budgets: the right exit code, a message with place and remedy, and nothing written."""
import json
import os
import struct

from support import Folder, TINY, check, finish, run


def changed(old, new):
    assert old in TINY, old
    return TINY.replace(old, new)


# name, text of the recipe, parts of the message
RECIPES = [
    ('unknown key', changed('batch_size', 'batch_sise'), ['batch_sise', 'batch_size', ':7:3']),
    ('unknown section', TINY + 'trainig: { steps: 3 }\n', ['trainig']),
    ('unknown model key', changed('hidden_size', 'hiden_size'), ['hiden_size']),
    ('repeated key', changed('  batch_size: 2\n', '  batch_size: 2\n  batch_size: 3\n'), ['batch_size', ':8:3']),
    ('repeated section', TINY + 'data: { source: synthetic, sequence_length: 8 }\n', ['data']),
    ('text for a number', changed('steps: 8', 'steps: many'), ['steps', ':8:10']),
    ('fraction for a whole number', changed('steps: 8', 'steps: 2.5'), ['steps']),
    ('list for a number', changed('steps: 8', 'steps: [8]'), ['steps']),
    ('map for a number', changed('steps: 8', 'steps: { a: 1 }'), ['steps']),
    ('number for a section', TINY.replace(TINY[TINY.index('training:'):], 'training: 3\n'), ['training']),
    ('quoted number', changed('steps: 8', 'steps: "8"'), ['steps']),
    ('not a number', changed('lr: 1e-3', 'lr: .nan'), ['lr']),
    ('infinite', changed('lr: 1e-3', 'lr: .inf'), ['lr']),
    ('negative rate', changed('lr: 1e-3', 'lr: -1'), ['lr']),
    ('zero steps', changed('steps: 8', 'steps: 0'), ['steps']),
    ('zero batch', changed('batch_size: 2', 'batch_size: 0'), ['batch_size']),
    ('negative batch', changed('batch_size: 2', 'batch_size: -4'), ['batch_size']),
    ('huge batch', changed('batch_size: 2', 'batch_size: 99999999999999999999'), ['batch_size']),
    ('zero length', changed('sequence_length: 16', 'sequence_length: 0'), ['sequence_length']),
    ('zero hidden', changed('hidden_size: 32', 'hidden_size: 0'), ['hidden_size']),
    ('huge hidden', changed('hidden_size: 32', 'hidden_size: 9223372036854775807'), ['hidden_size']),
    ('zero layers', changed('num_hidden_layers: 2', 'num_hidden_layers: 0'), ['num_hidden_layers']),
    ('heads do not divide', changed('num_attention_heads: 4', 'num_attention_heads: 5'), ['head']),
    ('groups do not divide', changed('num_key_value_heads: 2', 'num_key_value_heads: 3'), ['num_key_value_heads']),
    ('no heads', changed('num_attention_heads: 4', 'num_attention_heads: 0'), ['num_attention_heads']),
    ('missing length', changed('data: { source: synthetic, sequence_length: 16 }\n', 'data: { source: synthetic }\n'),
     ['sequence_length']),
    ('unknown family', changed('family: llama', 'family: lama'), ['lama', 'llama']),
    ('unknown precision', changed('family: llama', 'family: llama\n  precision: 8-true'), ['8-true', '32-true']),
    ('unknown source', changed('source: synthetic', 'source: sinthetic'), ['sinthetic', 'synthetic']),
    ('text without path', changed('source: synthetic', 'source: text'), ['data.path']),
    ('text is missing', changed('source: synthetic', 'source: text, path: absent.txt'), ['absent.txt']),
    ('text is a folder', changed('source: synthetic', 'source: text, path: .'), ['folder']),
    ('text is too short', changed('source: synthetic', 'source: text, path: short.txt'), ['short.txt']),
    ('batches that contradict', changed('batch_size: 2', 'batch_size: 2\n  effective_batch: 3'), ['effective_batch']),
    ('budget of nothing', TINY + 'memory: { budget: 0 }\n', ['budget']),
    ('budget of nonsense', TINY + 'memory: { budget: lots }\n', ['budget']),
    ('negative budget', TINY + 'memory: { budget: -5MiB }\n', ['budget']),
    ('budget over 100 per cent', TINY + 'memory: { budget: 140% }\n', ['budget']),
    ('margin over budget', TINY + 'memory: { budget: 1GiB, margin: 2GiB }\n', ['margin']),
    ('unknown device', TINY + 'memory: { device: tpu }\n', ['tpu', 'cpu']),
    ('anchor', changed('batch_size: 2', 'batch_size: &a 2'), ['anchor']),
    ('tag', changed('batch_size: 2', 'batch_size: !!int 2'), ['tag']),
    ('two documents', TINY + '---\na: 1\n', ['document']),
    ('broken YAML', TINY + 'training: {\n', ['bad.yaml:']),
    ('a list', '- 1\n- 2\n', ['bad.yaml']),
    ('a scalar', 'hello\n', ['bad.yaml']),
    ('control bytes', TINY + 'a\x1b]0;owned\x07: 1\n', ['bad.yaml']),
    ('invalid UTF-8', TINY.encode() + b'x: "\xff\xfe"\n', ['bad.yaml']),
    ('NUL', TINY.encode() + b'x: 1\0\n', ['bad.yaml']),
    ('empty', '', ['bad.yaml']),
    ('deep', 'a: ' + '[' * 2000 + ']' * 2000 + '\n', ['bad.yaml']),
]


def one(name, text, parts):
    with Folder() as folder:
        folder.write('short.txt', 'ab')
        recipe = folder.write('bad.yaml', text)
        before = folder.listing()
        for command in [('plan', recipe), ('train', recipe, '--out', os.path.join(folder.path, 'out'))]:
            plan_only = command[0] == 'plan' and name.startswith('text i') or name == 'text without path'
            result = run(*command, cwd=folder.path)
            if plan_only:  # planning needs no data
                continue
            ok = check(result.code == 5, f'{name}: {command[0]} exits with {result.code}\n{result.out}{result.err}')
            check(result.err.startswith('error: '), f'{name}: message {result.err!r}')
            check('\n  at ' in result.err, f'{name}: no place in {result.err!r}')
            if name not in ('control bytes', 'NUL', 'invalid UTF-8', 'deep', 'broken YAML'):
                check('\n  try: ' in result.err, f'{name}: no remedy in {result.err!r}')
            for part in parts if ok else []:
                check(part in result.err, f'{name}: {part!r} is not in {result.err!r}')
            check(all(c == '\n' or c.isprintable() for c in result.err), f'{name}: control bytes in {result.err!r}')
        check(folder.listing() == before, f'{name}: something was written: {set(folder.listing()) - set(before)}')


for name, text, parts in RECIPES:
    one(name, text, parts)

# The recipe itself: missing, a folder without config.json, a device, unreadable sizes.
with Folder() as folder:
    run('plan', os.path.join(folder.path, 'absent.yaml')).expect(5, 'absent.yaml')
    run('train', os.path.join(folder.path, 'absent.yaml'), '--out', folder.path + '/out').expect(5, 'absent.yaml')
    run('plan', folder.path).expect(5, 'config.json')
    run('plan', '/dev/null').expect(5, '/dev/null')
    run('plan', os.path.join(folder.path, 'a' * 5000)).expect(5)
    check(folder.listing() == [], 'something was written')
    recipe = folder.write('tiny.yaml', TINY)
    for override, parts in [('training.batch_size=x', ['--set', 'batch_size']), ('a.b.c=1', ['--set']),
                            ('training=5', ['training']), ('model=null', ['model']),
                            ('training..steps=3', ['--set']), ('training.steps={', ['--set'])]:
        run('plan', recipe, '--set', override).expect(5, *parts)

# A budget too small: exit 3, owners and changes named; train starts nothing.
with Folder() as folder:
    recipe = folder.write('big.yaml', TINY.replace('batch_size: 2', 'batch_size: 64').replace(
        'sequence_length: 16', 'sequence_length: 256'))
    peak = run('plan', recipe, '--json').expect(0).json()['device']['peak_bytes']
    small = f'memory.budget={int(peak * 0.7)}'
    run('plan', recipe, '--set', small).expect(3, 'does not fit', 'largest owners', '--set training.batch_size=')
    answer = run('plan', recipe, '--set', small, '--json').expect(3).json()
    check(answer.get('fits') is False, 'fits is false')
    check(len(answer.get('largest_buffers', [])) == 3, 'three owners')
    check(len(answer.get('changes', [])) >= 1, 'at least one change')
    for change in answer.get('changes', []):
        sets = [word for item in change['set'] for word in ('--set', item)]
        again = run('plan', recipe, '--set', small, *sets, '--json').expect(0).json()
        check(again.get('device', {}).get('peak_bytes') == change['peak_bytes'], f'{change}: peak as promised')
    out = os.path.join(folder.path, 'out')
    run('train', recipe, '--set', small, '--out', out).expect(3, 'budget')
    run('train', recipe, '--set', small, '--out', out, '--json').expect(3, 'HR_NO_FIT')
    check(not os.path.exists(out), 'train without room writes nothing')
    run('plan', recipe, '--set', 'memory.budget=1').expect(3, 'does not fit')

# Weights: truncated, hostile and wrong safetensors under model.path.
CONFIG = json.dumps({'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': 32,
                     'intermediate_size': 64, 'num_hidden_layers': 1, 'num_attention_heads': 4,
                     'num_key_value_heads': 2, 'vocab_size': 256, 'max_position_embeddings': 64,
                     'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'tie_word_embeddings': True})


def tensors_file(header, data=b''):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


ONE = {'model.embed_tokens.weight': {'dtype': 'F32', 'shape': [256, 32], 'data_offsets': [0, 256 * 32 * 4]}}
WEIGHTS = [
    ('empty file', b''),
    ('seven bytes', b'1234567'),
    ('header longer than the file', struct.pack('<Q', 1 << 40) + b'{}'),
    ('truncated data', tensors_file(ONE, b'\0' * 100)),
    ('trailing bytes', tensors_file(ONE, b'\0' * (256 * 32 * 4 + 1))),
    ('no JSON', tensors_file(b'hello')),
    ('missing tensors', tensors_file(ONE, b'\0' * (256 * 32 * 4))),
    ('pickle', b'\x80\x02}q\x00.'),
]
for name, content in WEIGHTS:
    with Folder() as folder:
        folder.write('model/config.json', CONFIG)
        folder.write('model/model.safetensors', content)
        recipe = folder.write('tune.yaml', 'model: { path: model }\ndata: { source: synthetic, sequence_length: 16 }\n'
                                           'training: { steps: 2 }\n')
        before = folder.listing()
        result = run('train', recipe, '--out', folder.path + '/out', cwd=folder.path)
        check(result.code == 5, f'{name}: exit {result.code}: {result.err}')
        check(folder.path + '/model' in result.err, f'{name}: {result.err!r} does not name the file')
        check(folder.listing() == before, f'{name}: something was written: {set(folder.listing()) - set(before)}')
finish()
