#!/usr/bin/env python3
"""Recordings of one's own (source clips): rows of JSON lines with videos in .npy files train a multistream model; what is wrong
with a row or a video is said with its place."""
import json
import os
import random

from support import Folder, check, finish, run

FRAMES, HEIGHT, WIDTH = 4, 12, 16
RECIPE = '''
model:
  family: multistream
  config: { frames: 4, frame_height: 12, frame_width: 16, head_size: 8, head_last: 4, head_dropout: 0 }
  parts:
    video: { config: { width: 2, groups: 1, embedding: 8 } }
    geometry: { config: { hidden: 8, embedding: 8, importance: 4, dropout: 0 } }
    temporal: { config: { width: 8, heads: 2, layers: 1, mlp: 8, embedding: 8, dropout: 0 } }
    cooling: { config: { hidden: 8, embedding: 8, dropout: 0 } }
    detector: { config: { width: 2, pyramid: 4, map_width: 4, embedding: 8 } }
    backbone: { config: { channel_multiplier: 0.1 } }
    pair: { config: { width: 8, heads: 2, layers: 1, mlp: 8, embedding: 8, dropout: 0 } }
    fusion: { config: { width: 8, heads: 2, layers: 1, image: 16, thermal: 16, motion: 16, class_width: 4, classes: 5, dropout: 0 } }
data: { source: clips, path: samples.jsonl, eval_fraction: 0.25 }
training: { batch_size: 2, steps: 2, eval_every: 2, eval_batches: 1, optimizer: { kind: adamw, lr: 1e-3 } }
'''


def npy(path, shape, draw):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b' ' * (-(10 + len(header) + 1) % 64) + b'\n'
    count = 1
    for size in shape:
        count *= size
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header + bytes(draw() for _ in range(count)))


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    draw = random.Random(7)
    rows = []
    for i in range(8):
        npy(path(f'{i}.npy'), (FRAMES, HEIGHT, WIDTH, 3), lambda: draw.randrange(256))
        npy(path(f'{i}_mask.npy'), (FRAMES, HEIGHT, WIDTH), lambda: draw.randrange(2))
        npy(path(f'{i}_infrared.npy'), (FRAMES, HEIGHT, WIDTH), lambda: draw.randrange(256))
        spots = [[[draw.random(), draw.random(), 0.1, 0.2, 0.7]] * (t % 3) for t in range(FRAMES)]
        rows.append({'rgb': f'{i}.npy', 'infrared': f'{i}_infrared.npy', 'spots': spots, 'mask': f'{i}_mask.npy', 'class': i % 5, 'event': i % 2, 'outcome': i % 4 == 1,
                     'motion': [[draw.uniform(-1, 1) for _ in range(9)] for _ in range(3)],
                     'curves': [[1, 0.5, 0.25]] * (i % 3), 'areas': [[0.1, 0.2, 0.3]] * (i % 3)})
    del rows[0]['mask']

    def written(changed):
        with open(path('samples.jsonl'), 'w', encoding='utf-8') as file:
            file.write('\n'.join(json.dumps(row) for row in changed) + '\n')

    with open(path('r.yaml'), 'w', encoding='utf-8') as file:
        file.write(RECIPE)
    written(rows)
    train = lambda out: run('train', path('r.yaml'), '--out', path(out), '--json', '--quiet')
    first, second = train('first').expect(0).json(), train('second').expect(0).json()
    check(first['weights_sha256'] == second['weights_sha256'], 'the same rows give other weights')
    check(0 <= first['metrics']['auc_event'] <= 1, str(first['metrics']))

    npy(path('long.npy'), (FRAMES + 1, HEIGHT, WIDTH, 3), lambda: 0)
    wrong = [({'rgb': 'long.npy'}, 'not a video of bytes'), ({'rgb': 'gone.npy'}, 'gone.npy'), ({'rgb': None}, 'rgb is missing'),
             ({'event': 0, 'outcome': 1}, 'without an event'), ({'motion': [[0] * 9] * 2}, 'motion is too short'),
             ({'motion': [[0] * 8] * 3}, 'motion has a row of another length'), ({'class': 6}, 'class is missing, or out of range'),
             ({'curves': [[1, 2, 3]]}, 'not of the same tracks'), ({'curves': [[1, 2, 3]] * 11}, 'too many rows'),
             ({'infrared': None}, 'infrared is missing'), ({'infrared': '0.npy'}, 'not a video of bytes'),
             ({'spots': None}, 'spots is missing'), ({'spots': [[]] * 3}, 'spots are not of all frames'),
             ({'spots': [[]] * 5}, 'spots has too many lists'), ({'spots': [[[0.5, 0.5]]] * 4}, 'spots has a row of another length'),
             ({'spots': [[[1.5, 0.5, 0.1, 0.1, 1]]] * 4}, 'outside of its frame'),
             ({'spots': [[[0.5, 0.5, -0.1, 0.1, 1]]] * 4}, 'from 0 to 1'), ({'spots': [[[0.5, 0.5, 0.1, 0.1, 255]]] * 4}, 'from 0 to 1'),
             ({'spots': [[[0.5, 0.5, 0.1, 0.1, 1]] * 25] * 4}, 'give 24 at most'), ({'event': 'maybe'}, 'event is missing, or out of range')]
    for change, said in wrong:
        written(rows[:2] + [{**rows[3], **change}] + rows[4:])
        answer = train('wrong')
        check(answer.code in (1, 5) and said in answer.err + answer.out, f'{change}: {answer.code} {answer.err}{answer.out}')
        if 'npy' not in str(change.get('rgb')) + str(change.get('infrared')):
            check(answer.code == 5 and 'samples.jsonl:3' in answer.err + answer.out, f'{change}: no place: {answer.err}{answer.out}')

finish()
