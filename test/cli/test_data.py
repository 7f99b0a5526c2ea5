#!/usr/bin/env python3
"""Data as people have it: several files, files to evaluate on, and what a resumed run says of changed ones."""
import os

from support import Folder, TINY, check, finish, run

SETTINGS = ['data={source: lines, path: [b.txt, "more/*.txt"], eval_path: held.txt, sequence_length: 16}',
            'training.eval_every=2', 'training.eval_batches=1', 'training.save_every=2']


def sets(settings):
    return [part for setting in settings for part in ('--set', setting)]


with Folder() as folder:
    os.makedirs(os.path.join(folder.path, 'more'))
    folder.write('b.txt', 'the first file\n' * 5)
    folder.write('more/1.txt', 'another one\n' * 5)
    folder.write('more/2.txt', 'and a third\n' * 5)
    folder.write('held.txt', 'what nobody trains on\n' * 3)
    recipe = folder.write('tiny.yaml', TINY)
    out = os.path.join(folder.path, 'out')
    whole = run('train', recipe, '--out', os.path.join(folder.path, 'whole'), '--json', *sets(SETTINGS)).expect(0).json()
    check(whole.get('eval_loss') is not None, 'the files to evaluate on are evaluated')
    run('train', recipe, '--out', out, '--steps', '4', '--quiet', *sets(SETTINGS)).expect(0)

    folder.write('held.txt', 'what nobody TRAINS on\n' * 3)
    refused = run('train', recipe, '--out', out, '--resume', *sets(SETTINGS))
    refused.expect(2, 'evaluated on', 'held.txt', '--accept-changed-data')
    folder.write('held.txt', 'what nobody trains on\n' * 3)
    folder.write('more/2.txt', 'and a THIRD\n' * 5)
    run('train', recipe, '--out', out, '--resume', *sets(SETTINGS)).expect(2, 'trained on', '--accept-changed-data')
    folder.write('more/2.txt', 'and a third\n' * 5)
    folder.write('more/3.txt', 'a fourth that came later\n')
    run('train', recipe, '--out', out, '--resume', *sets(SETTINGS)).expect(2, 'trained on')
    os.remove(os.path.join(folder.path, 'more/3.txt'))
    resumed = run('train', recipe, '--out', out, '--resume', '--json', *sets(SETTINGS)).expect(0).json()
    check(resumed.get('weights_sha256') == whole.get('weights_sha256'), 'resumed on the same files, the same bits')
    check(resumed.get('best') == whole.get('best'), 'and the same best evaluation')

    folder.write('rows-1.jsonl', '{"text": "fine"}\n{"text": "fine too"}\n')
    folder.write('rows-2.jsonl', '{"text": "fine"}\n{"text": 3}\n')
    tokenizer = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'text', 'tokenizers', 'byte-level')
    rows = [f'data={{source: rows, path: ., tokenizer: {tokenizer}, sequence_length: 16}}', 'model.config.vocab_size=4096']
    bad = run('train', recipe, '--out', os.path.join(folder.path, 'rows'), *sets(rows))
    bad.expect(5, 'rows-2.jsonl:2', 'text is not a text')

    folder.write('chat.jsonl', ''.join(f'{{"prompt": "{"a b " * (i % 5)}", "completion": " answer {i}"}}\n' for i in range(40)))
    packed = [f'data={{source: rows, path: chat.jsonl, tokenizer: {tokenizer}, sequence_length: 32, packing: true}}',
              'model.config.vocab_size=4096', 'training.epochs=2', 'training.steps=null']
    said = run('train', recipe, '--out', os.path.join(folder.path, 'packed'), *sets(packed)).expect(0)
    check('40 rows are packed into' in said.err + said.out, f'a run says how full samples are: {said.err}')
    whole = run('train', recipe, '--out', os.path.join(folder.path, 'packed-2'), '--json', *sets(packed)).expect(0).json()
    half = os.path.join(folder.path, 'packed-3')
    run('train', recipe, '--out', half, '--quiet', *sets(packed + ['training.epochs=1'])).expect(0)
    resumed = run('train', recipe, '--out', half, '--resume', '--json', *sets(packed)).expect(0).json()
    check(resumed.get('weights_sha256') == whole.get('weights_sha256'), 'packed and resumed, the same bits')
    run('train', recipe, '--out', half, '--resume', *sets(packed + ['data.packing=false'])).expect(2, 'data.packing')

finish()
