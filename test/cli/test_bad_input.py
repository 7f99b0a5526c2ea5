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
    ('words among choices of a number', changed('steps: 8', 'steps: [8, many]'), ['steps']),
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
    ('features of a model that has none', changed('sequence_length: 16', 'sequence_length: 16, cache_features: true'), ['cache_features', 'llama']),
    ('such features alone', changed('sequence_length: 16', 'sequence_length: 16, cache_features: make'), ['cache_features', 'llama']),
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
    ('text in a folder without any', changed('source: synthetic', 'source: text, path: empty'), ['folder', '.txt']),
    ('text is of a pattern of nothing', changed('source: synthetic', 'source: text, path: "none-*.txt"'), ['none-*.txt', ':5:']),
    ('text is missing among several', changed('source: synthetic', 'source: text, path: [short.txt, absent.txt]'),
     ['absent.txt']),
    ('evaluation without steps between', changed('source: synthetic', 'source: text, path: short.txt, eval_path: short.txt'),
     ['eval_every']),
    ('best without evaluations', changed('batch_size: 2', 'batch_size: 2\n  save_best: true'), ['training.save_best', 'eval_every', ':8:']),
    ('patience without evaluations', changed('batch_size: 2', 'batch_size: 2\n  patience: 3'), ['training.patience', 'eval_every', ':8:']),
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


LORA = 'family: llama\n  adapters: { kind: lora, rank: 4, targets: [q_proj] }'
LINES = 'source: lines, path: lines.txt'


def model(text):
    return changed('family: llama', 'family: llama\n  ' + text)


def adapted(old, new, more=''):
    assert old in LORA, old
    return changed('family: llama', LORA.replace(old, new) + more)


def training(text):
    return TINY + '  ' + text + '\n'


def lines(buckets='', more=''):
    return changed('source: synthetic, sequence_length: 16', LINES + ', sequence_length: 16' + buckets) + more


IN_BACKWARD = 'memory: { update: in-backward }\n'

BERT = changed('family: llama', 'family: bert').replace('num_key_value_heads: 2, vocab_size: 256',
                                                        'vocab_size: 300, max_position_embeddings: 16')

# Masked tokens.
RECIPES += [
    ('masking where the next token is learnt', changed('source: synthetic', 'source: synthetic, masking: { part: 0.2 }'),
     ['data.masking', 'next token', ':5:']),
    ('mask token outside of the vocabulary', BERT.replace('vocab_size: 300', 'vocab_size: 256'),
     ['mask token 256', 'data.masking.token']),
    ('masking all in two ways', BERT.replace('source: synthetic', 'source: synthetic, masking: { random: 1, keep: 1 }'),
     ['data.masking', 'more than 1', ':5:']),
    ('masking nothing', BERT.replace('source: synthetic', 'source: synthetic, masking: { part: 0 }'),
     ['data.masking.part', ':5:']),
    ('all of attention dropped', BERT.replace('vocab_size: 300', 'vocab_size: 300, attention_probs_dropout_prob: 1'),
     ['attention_probs_dropout_prob', ':4:']),
    ('longer than there are positions', BERT.replace('sequence_length: 16', 'sequence_length: 17'),
     ['sequence_length', 'max_position_embeddings 16', ':5:']),
    ('a setting of bert', changed('vocab_size: 256', 'vocab_size: 256, type_vocab_size: 2'), ['type_vocab_size', ':4:']),
    ('a setting of decoders', BERT.replace('vocab_size: 300', 'vocab_size: 300, rope_theta: 1e4'),
     ['rope_theta', 'bert', ':4:']),
]

# The memory techniques: settings that contradict each other, or name what is not there.
RECIPES += [
    ('in-backward with clipping', training('clip_norm: 1.0') + IN_BACKWARD, ['in-backward', 'clip_norm', ':11:19']),
    ('in-backward with accumulation', training('gradient_accumulation: 2') + IN_BACKWARD,
     ['in-backward', 'gradient_accumulation', ':11:19']),
    ('in-backward with an effective batch', training('effective_batch: 4') + IN_BACKWARD,
     ['in-backward', 'effective_batch', ':11:19']),
    ('in-backward with a schedule', lines() + '  gradient_accumulation: {0: 2, 3: 1}\n' + IN_BACKWARD,
     ['in-backward', 'accumulation', ':11:19']),
    ('in-backward with 16-mixed', model('precision: 16-mixed') + IN_BACKWARD,
     ['in-backward', '16-mixed', 'bf16-mixed', ':11:19']),
    ('in-backward with buckets', lines(', buckets: [8, 16]') + IN_BACKWARD, ['in-backward', 'data.buckets', ':10:19']),
    ('unknown update', TINY + 'memory: { update: inbackward }\n', ['"update: in-backward"', ':10:19']),
    ('target of nothing', adapted('[q_proj]', '[q_proj, qproj]'), ['"qproj"', 'q_proj, k_proj', ':3:']),
    ('no targets', adapted('[q_proj]', '[]'), ['targets', ':3:45']),
    ('rank 0', adapted('rank: 4', 'rank: 0'), ['rank', 'between 1', ':3:33']),
    ('rank too large', adapted('rank: 4', 'rank: 33'), ['rank 33', 'q_proj', '32 x 32', ':3:33']),
    ('dropout 1', adapted('rank: 4', 'dropout: 1'), ['dropout', 'between 0', ':3:36']),
    ('negative dropout', adapted('rank: 4', 'dropout: -0.1'), ['dropout', ':3:36']),
    ('unknown adapter', adapted('kind: lora', 'kind: loha'), ['loha', '"kind: lora"', ':3:21']),
    ('adapters by a word', model('adapters: lora'), ['adapters', 'rank', ':3:13']),
    ('name of another trainer', adapted('rank: 4', 'r: 4'), ['"r"', 'rank', ':3:27']),
    ('NF4 on trained weights', model('quantize: { kind: nf4 }'), ['NF4', 'trained', 'model.adapters', ':3:3']),
    ('NF4 without a kind', model('quantize: {}'), ['NF4', 'model.adapters', ':3:3']),
    ('unknown quantization', adapted('lora', 'lora', '\n  quantize: { kind: int4 }'), ['int4', 'nf4', ':4:21']),
    ('NF4 of nothing', adapted('lora', 'lora', '\n  quantize: { targets: [embed_tokens] }'),
     ['embed_tokens', 'q_proj', ':4:24']),
    ('schedule with an effective batch', lines() + '  gradient_accumulation: {0: 2, 3: 1}\n  effective_batch: 4\n',
     ['effective_batch', 'schedule', ':11:20']),
    ('packing of nothing', changed('source: synthetic', 'source: synthetic, packing: true'), ['no documents', ':5:']),
    ('packing into buckets', changed('source: synthetic', 'source: lines, path: lines.txt, packing: true, buckets: [8, 16]'),
     ['one length', ':5:']),
    ('padding outside of the vocabulary', changed('vocab_size: 256', 'vocab_size: 256, pad_token_id: 256'),
     ['pad_token_id', '256 tokens', 'pad_token_id=null']),
    ('two warm-ups', training('schedule: { warmup_steps: 2, warmup_ratio: 0.1 }'), ['two answers', ':10:']),
    ('schedule without epochs', training('gradient_accumulation: {0: 2, 3: 1}'), ['synthetic', 'epochs', ':10:26']),
    ('schedule that begins late', lines() + '  gradient_accumulation: {2: 2}\n', ['epoch 2', 'epoch 0', ':10:']),
    ('schedule that goes back', lines() + '  gradient_accumulation: {0: 2, 5: 1, 3: 1}\n', ['ascending', ':10:']),
    ('schedule of a list', lines() + '  gradient_accumulation: {0: [4, 2]}\n', ['{0: 4, 8: 2}', ':10:']),
    ('precision without its kind', model('precision: bf16'), ['bf16-mixed', 'bf16-true', 'did you mean', ':3:14']),
    ('precision of another trainer', model('precision: fp16'), ['fp16', '16-mixed', ':3:14']),
    ('override of no module', model('precision_overrides: { lm_haed: 32-true }'),
     ['lm_haed', 'headroom dump', ':3:26']),
    ('override to no precision', model('precision_overrides: { lm_head: 32 }'), ['"32"', '32-true', ':3:26']),
    ('override without a map', model('precision_overrides: bf16-true'), ['{ lm_head: 32-true }', ':3:24']),
    ('group with an unknown field', changed('lr: 1e-3', 'groups: [{match: q_proj, rate: 1}]'),
     ['rate', 'weight_decay', ':9:']),
    ('group of nothing', changed('lr: 1e-3', 'groups: [{match: qproj, lr: 1}]'), ['qproj', 'headroom dump', ':9:']),
    ('group without a pattern', changed('lr: 1e-3', 'groups: [{lr: 1}]'), ['match', ':9:']),
    ('group with a negative rate', changed('lr: 1e-3', 'groups: [{match: q_proj, lr: -1}]'), ['lr', ':9:']),
    ('groups that are none', changed('lr: 1e-3', 'groups: q_proj'), ['groups', 'list', 'match', ':9:24']),
    ('split of an unknown block', TINY + 'memory: { split: { mpl: 2 } }\n', ['mpl', 'layers.*.mlp', ':10:20']),
    ('split into too many', TINY + 'memory: { split: { mlp: 3 } }\n', ['3 slices', '2 rows', ':10:20']),
    ('split into none', TINY + 'memory: { split: { mlp: 0 } }\n', ['at least 1', ':10:20']),
    ('split by a word', TINY + 'memory: { split: mlp }\n', ['{ mlp: 4', ':10:18']),
    ('checkpoint with a typo', TINY + 'memory: { checkpoint: evry_layer }\n', ['"checkpoint: every-layer"', ':10:23']),
    ('offload to nowhere', TINY + 'memory: { offload: { optimizer: ram } }\n', ['ram', 'host, disk', ':10:33']),
    ('offload of an unknown kind', TINY + 'memory: { offload: { weights: host } }\n',
     ['weights', 'parameters', ':10:22']),
    ('offload by a word', TINY + 'memory: { offload: host }\n', ['offload', 'optimizer', ':10:20']),
    ('buckets that fall', lines(', buckets: [16, 8]'), ['ascending', ':5:']),
    ('buckets that repeat', lines(', buckets: [8, 8, 16]'), ['ascending', ':5:']),
    ('buckets too long', lines(', buckets: [8, 32]'), ['32', 'sequence_length', ':5:']),
    ('buckets too short', lines(', buckets: [4, 8]'), ['sequence_length', ':5:']),
    ('buckets without lines', changed('sequence_length: 16', 'sequence_length: 16, buckets: [8, 16]'),
     ['source: lines', ':5:']),
    ('buckets by a number', lines(', buckets: 8'), ['list', '[64, 128, 256]', ':5:']),
    ('state of sgd', changed('lr: 1e-3', 'kind: sgd, state: bf16'), ['sgd', 'adamw', ':9:34']),
    ('state of 8 bits', changed('lr: 1e-3', 'kind: adamw8bit, state: bf16'), ['adamw8bit', ':9:40']),
    ('betas of sgd', changed('lr: 1e-3', 'kind: sgd, betas: [0.9, 0.99]'), ['betas', 'sgd', ':9:']),
    ('momentum of adamw', changed('lr: 1e-3', 'momentum: 0.5'), ['momentum', 'adamw', ':9:']),
    ('unknown optimizer', changed('lr: 1e-3', 'kind: adam8bit'), ['"kind: adamw8bit"', ':9:22']),
    ('scale of nothing', training('loss_scale: { init: 0 }'), ['loss_scale.init', ':10:']),
    ('scale that grows by backing off', training('loss_scale: { backoff: 2 }'), ['backoff', ':10:']),
]


def one(name, text, parts):
    with Folder() as folder:
        folder.write('short.txt', 'ab')
        os.makedirs(os.path.join(folder.path, 'empty'), exist_ok=True)
        folder.write('lines.txt', 'a line of text\nand another\n' * 8)
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
    run('plan', recipe, '--set', small).expect(3, 'does not fit', 'largest tensors', '--set training.batch_size=')
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

# Wide enough that its state is worth moving: 0.36 million parameters, 1.4 MB of weights and 2.9 MB of moments.
WIDE = changed('hidden_size: 32, intermediate_size: 64', 'hidden_size: 128, intermediate_size: 256')

# Offload: budgets below the device, and folders that cannot be used. Nothing is written, and a plan says so too.
with Folder() as folder:
    recipe = folder.write('wide.yaml', WIDE)
    file = folder.write('a file', 'x')
    before = folder.listing()
    out = os.path.join(folder.path, 'out')
    for tier in ['host', 'disk']:
        small = ['--set', f'memory.offload.optimizer={tier}', '--set', f'memory.{tier}_budget=1KiB']
        run('plan', recipe, *small).expect(3, f'does not fit the {tier}', f'optimizer on {tier}', 'largest tensors',
                                           'what would fit', 'memory.offload.optimizer=')
        run('train', recipe, '--out', out, *small).expect(3, f'on the {tier}', f'memory.{tier}_budget')
        run('profile', recipe, *small).expect(3, f'memory.{tier}_budget')
        answer = run('plan', recipe, *small, '--json').expect(3).json()
        check(answer[tier]['budget_bytes'] == 1024 < answer[tier]['peak_bytes'], f'{tier}: {answer[tier]}')
        for change in answer['changes']:
            sets = [word for item in change['set'] for word in ('--set', item)]
            again = run('plan', recipe, *small, *sets, '--json').expect(0).json()
            for key, where in [('peak_bytes', 'device'), ('host_bytes', 'host'), ('disk_bytes', 'disk')]:
                check(again[where]['peak_bytes'] == change[key], f'{change}: {where} as promised')
    disk = ['--set', 'memory.offload.optimizer=disk', '--set', 'memory.disk_budget=64MiB']
    for place in [os.path.join(folder.path, 'absent'), file]:
        where = [*disk, '--set', f'memory.offload_folder={place}']
        for command in [('train', recipe, '--out', out), ('profile', recipe)]:
            run(*command, *where).expect(5, 'memory.offload_folder', 'a folder that exists', place)
        run('plan', recipe, *where).expect(0, 'remark', place)  # it may be there where the run will be
        run('plan', recipe, *where, '--quiet').expect(0)
    result = run('train', recipe, '--out', out, *disk, '--set', 'memory.offload_folder=/proc')
    check(result.code in (1, 5) and 'memory.offload_folder' in result.err, f'/proc: {result.code} {result.err}')
    check(folder.listing() == before, f'something was written: {set(folder.listing()) - set(before)}')

# No room for a checkpoint (files cannot grow beyond a limit): told before the first step, the checkpoint before it intact.
with Folder() as folder:
    recipe = folder.write('wide.yaml', WIDE.replace('steps: 8', 'steps: 8\n  save_every: 2'))
    whole, out = os.path.join(folder.path, 'whole'), os.path.join(folder.path, 'out')
    sha = run('train', recipe, '--out', whole, '--json').expect(0).json()['weights_sha256']
    run('train', recipe, '--out', out, '--steps', '4', '--json').expect(0)
    before = folder.listing()
    for limit in [1000, 2000000]:  # the weights do not fit; the optimizer's state does not
        result = run('train', recipe, '--out', out, '--resume', limit_bytes=limit)
        check(result.code == 1 and 'error: ' in result.err, f'full disk: {result.code} {result.err!r}')
        for part in [f'files may have {limit} bytes', 'ulimit -f', out, 'the checkpoint of step 4 is whole', '--resume']:
            check(part in result.err, f'full disk: {part} is not in {result.err!r}')
    limited = ['--set', 'memory.offload.optimizer=disk', '--set', f'memory.offload_folder={folder.path}']
    run('train', recipe, '--out', out, '--resume', *limited, limit_bytes=2000000).expect(
        1, 'cannot take', 'of disk space', 'memory.offload_folder')
    done = run('train', recipe, '--out', out, '--resume', '--json').expect(0).json()
    check(done.get('weights_sha256') == sha, 'a run goes on from before the disk was full, with the same bits')
    check(not [name for name in folder.listing() if name.endswith('.offload')], 'the file of the disk tier is gone')

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
