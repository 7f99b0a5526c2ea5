#!/usr/bin/env python3
"""Recordings of one's own (source clips): rows of JSON lines with videos in .npy files train a multistream model, and so do video
files, to the same weights where they show the same frames; what is wrong with a row or a video is said with its place, and left
out where some may be."""
import json
import os
import random

from films import mp4, y4m
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
    """Gives the bytes as well."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b' ' * (-(10 + len(header) + 1) % 64) + b'\n'
    count = 1
    for size in shape:
        count *= size
    with open(path, 'wb') as file:
        data = bytes(draw() for _ in range(count))
        file.write(b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header + data)
    return data


def put(path, data):
    with open(path, 'wb') as file:
        file.write(data)


def cut(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    draw = random.Random(7)
    rows = []
    for i in range(8):
        rgb = npy(path(f'{i}.npy'), (FRAMES, HEIGHT, WIDTH, 3), lambda: draw.randrange(256))
        mask = npy(path(f'{i}_mask.npy'), (FRAMES, HEIGHT, WIDTH), lambda: draw.randrange(2))
        infrared = npy(path(f'{i}_infrared.npy'), (FRAMES, HEIGHT, WIDTH), lambda: draw.randrange(256))
        # As films: more frames than a sample has, at the rate that is asked for.
        put(path(f'{i}.mp4'), mp4(cut(rgb, HEIGHT * WIDTH * 3) + [bytes(HEIGHT * WIDTH * 3)], WIDTH, HEIGHT, 24))
        put(path(f'{i}_mask.y4m'), y4m(cut(bytes(200 * bit for bit in mask), HEIGHT * WIDTH), WIDTH, HEIGHT, 24))
        grey = cut(bytes(byte for byte in infrared for _ in range(3)), HEIGHT * WIDTH * 3)
        put(path(f'{i}_infrared.mov'), mp4(grey, WIDTH, HEIGHT, 24))
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

    # A run does not go on with other arrays, unless it is told to.
    array = open(path('3.npy'), 'rb').read()
    put(path('3.npy'), array[:-1] + bytes([array[-1] ^ 1]))
    more = lambda *flags: run('train', path('r.yaml'), '--out', path('second'), '--resume', '--set', 'training.steps=3', *flags)
    more().expect(2, 'other bytes', '--accept-changed-data')
    more('--accept-changed-data').expect(0, 'the data has changed')
    put(path('3.npy'), array)

    # The same frames in video files: the same weights, whatever the number of threads; from the cache they are not decoded again.
    cache = path('cache')
    os.environ['XDG_CACHE_HOME'] = cache
    films = [{**row, 'rgb': f'{i}.mp4', 'infrared': f'{i}_infrared.mov', **({'mask': f'{i}_mask.y4m'} if i else {})} for i, row in enumerate(rows)]
    os.mkdir(path('images'))
    for number, frame in enumerate(cut(open(path('2.npy'), 'rb').read()[-FRAMES * HEIGHT * WIDTH * 3:], HEIGHT * WIDTH * 3)):
        put(path(f'images/{number}.ppm'), f'P6 {WIDTH} {HEIGHT} 255\n'.encode() + frame)
    films[2]['rgb'] = 'images'
    written(films)
    answer = run('train', path('r.yaml'), '--out', path('films'), '--json', '--quiet', '--set', 'data.workers=2')
    decodes = not ('built without FFmpeg' in answer.err or 'are decoded by' in answer.err)
    if decodes:
        check(answer.expect(0).json()['weights_sha256'] == first['weights_sha256'], 'films give other weights than arrays')
        made = {name: os.stat(os.path.join(cache, 'headroom', name)).st_mtime_ns for name in os.listdir(os.path.join(cache, 'headroom'))
                if name.startswith('frames-')}
        check(len(made) == 23, f'{len(made)} films are in the cache')
        again = train('films_again').expect(0).json()
        check(again['weights_sha256'] == first['weights_sha256'], 'films from the cache give other weights')
        check(made == {name: os.stat(os.path.join(cache, 'headroom', name)).st_mtime_ns for name in made}, 'films are decoded again')
    else:
        check('libav' in answer.err and 'install' in answer.err, answer.err)
        print('skipped: video files:', answer.err.strip())

    npy(path('long.npy'), (FRAMES + 1, HEIGHT, WIDTH, 3), lambda: 0)
    npy(path('flat.npy'), (FRAMES, HEIGHT, WIDTH), lambda: 0)
    array = open(path('0.npy'), 'rb').read()
    put(path('cut.npy'), array[:len(array) // 2])
    put(path('empty.npy'), b'')
    put(path('text.npy'), b'these are no numbers')
    put(path('wide.npy'), array.replace(b"'|u1'", b"'<i4'"))
    put(path('fortran.npy'), array.replace(b'False', b'True '))
    os.mkdir(path('folder'))
    spot = [0.5, 0.5, 0.1, 0.1, 1]
    row = 'samples.jsonl:3'
    wrong = [({'rgb': 'long.npy'}, 'not a video of bytes', 'long.npy'), ({'rgb': 'gone.npy'}, 'there is no video gone.npy', row),
             ({'rgb': None}, 'rgb is missing', row), ({'rgb': ''}, 'rgb is not a path', row), ({'rgb': ['0.npy']}, 'rgb is not a path', row),
             ({'rgb': 'cut.npy'}, '', 'cut.npy'), ({'rgb': 'empty.npy'}, '', 'empty.npy'), ({'rgb': 'text.npy'}, '', 'text.npy'),
             ({'rgb': 'wide.npy'}, '', 'wide.npy'), ({'rgb': 'fortran.npy'}, 'Fortran', 'fortran.npy'), ({'rgb': 'flat.npy'}, 'not a video of bytes', 'flat.npy'),
             ({'mask': '0.npy'}, 'not a video of bytes', '0.npy'), ({'mask': 'gone.npy'}, 'there is no video gone.npy', row),
             ({'infrared': None}, 'infrared is missing', row), ({'infrared': '0.npy'}, 'not a video of bytes', '0.npy'),
             ({'event': 0, 'outcome': 1}, 'without an event', row), ({'event': 'maybe'}, 'event is missing, or out of range', row),
             ({'event': 2}, 'event is missing, or out of range', row), ({'event': -1}, 'event is missing, or out of range', row),
             ({'event': None}, 'event is missing, or out of range', row), ({'outcome': 0.5}, 'outcome is missing, or out of range', row),
             ({'class': 6}, 'class is missing, or out of range', row), ({'class': 1.5}, 'class is missing, or out of range', row),
             ({'motion': [[0] * 9] * 2}, 'motion is too short', row), ({'motion': [[0] * 9] * 4}, 'motion has too many rows', row),
             ({'motion': [[0] * 8] * 3}, 'motion has a row of another length', row), ({'motion': [['x'] * 9] * 3}, 'or one that is not of numbers', row),
             ({'motion': None}, 'motion is missing', row), ({'motion': {'x': 0}}, 'motion is missing', row),
             ({'curves': [[1, 2, 3]]}, 'not of the same tracks', row), ({'curves': [[1, 2, 3]] * 11}, 'too many rows', row),
             ({'curves': [1, 2, 3]}, 'curves has a row of another length', row), ({'areas': None}, 'areas is missing', row),
             ({'spots': None}, 'spots is missing', row), ({'spots': [[]] * 3}, 'spots are not of all frames', row),
             ({'spots': [[]] * 5}, 'spots has too many lists', row), ({'spots': [[[0.5, 0.5]]] * 4}, 'spots has a row of another length', row),
             ({'spots': [[[1.5] + spot[1:]]] * 4}, 'outside of its frame', row), ({'spots': [[spot[:2] + [-0.1, 0.1, 1]]] * 4}, 'from 0 to 1', row),
             ({'spots': [[spot[:4] + [255]]] * 4}, 'from 0 to 1', row), ({'spots': [[spot] * 25] * 4}, 'give 24 at most', row)]
    lines = ['{"rgb": "0.npy",', '[1, 2]', '3', '{"rgb": "0.npy", "rgb": "1.npy"}', '{"rgb": "\\ud800"}']
    if decodes:
        film = open(path('0.mp4'), 'rb').read()
        put(path('short.mp4'), mp4([bytes(HEIGHT * WIDTH * 3)] * (FRAMES - 1), WIDTH, HEIGHT, 24))
        put(path('none.mp4'), mp4([], WIDTH, HEIGHT, 24))
        put(path('empty.mp4'), b'')
        put(path('text.mp4'), b'no video at all, only some text that is long enough to be looked into\n')
        put(path('headless.mp4'), film[:film.index(b'moov') - 4])
        put(path('cut.y4m'), open(path('1_mask.y4m'), 'rb').read()[:200])
        wrong += [({'rgb': 'short.mp4'}, 'short.mp4 has 3 frames at 24 a second, a sample has 4', row), ({'rgb': 'none.mp4'}, '', 'none.mp4'),
                  ({'rgb': 'empty.mp4'}, '', 'empty.mp4'), ({'rgb': 'text.mp4'}, '', 'text.mp4'),
                  ({'rgb': 'headless.mp4'}, '', 'headless.mp4'), ({'rgb': 'gone.mp4'}, 'there is no video gone.mp4', row),
                  ({'rgb': 'folder'}, 'there is no frame in it', 'folder'), ({'infrared': 'text.mp4'}, '', 'text.mp4'),
                  ({'mask': 'cut.y4m'}, '', 'cut.y4m'), ({'rgb': 'https://example.org/a.mp4'}, 'there is no video https', row)]
    check(len(wrong) + len(lines) >= 40, f'only {len(wrong) + len(lines)} broken inputs')

    def refused(what, said, place):
        answer = train('wrong')
        told = answer.err + answer.out
        check(answer.code == 5 and said in told and place in told, f'{what}: {answer.code} {told}')
        check(told.count('mend the row') == 1 and 'samples.jsonl:' in told, f'{what}: {told}')

    if decodes:  # asked for more often, a film has more frames
        written(rows[:3] + [{**rows[3], 'rgb': 'short.mp4'}])
        refused('short.mp4', 'raise data.clips.fps', row.replace(':3', ':4'))
    for change, said, place in wrong:
        written(rows[:2] + [{**rows[3], **change}] + rows[4:])
        refused(change, said, place)
    for line in lines:
        written(rows[:2])
        with open(path('samples.jsonl'), 'a', encoding='utf-8') as file:
            file.write(line + '\n' + '\n'.join(json.dumps(row) for row in rows[4:]) + '\n')
        refused(line, 'mend the row, or leave bad ones out', row)

    # Left out up to a share, and said; refused above it.
    bad = [{**rows[3], **wrong[i][0]} for i in (1, -1)]
    written(rows[:6] + bad)
    answer = run('train', path('r.yaml'), '--out', path('some'), '--json', '--set', 'data.bad_rows=0.25')
    fewer = train('fewer')
    written(rows[:6])
    check(answer.expect(0).json()['weights_sha256'] == train('six').expect(0).json()['weights_sha256'], 'other weights beside rows that are left out')
    check('2 of 8 rows are bad and left out' in answer.err and 'gone.npy' in answer.err, answer.err)
    check(fewer.code == 5, 'bad rows are taken where none may be bad')
    written(rows[:6] + bad)
    answer = run('train', path('r.yaml'), '--out', path('many'), '--json', '--set', 'data.bad_rows=0.2')
    check(answer.code == 5 and '2 of 8 rows are bad, more than data.bad_rows allows' in answer.out + answer.err, answer.out + answer.err)
    written(rows[:1])
    check(train('few').code == 5, 'one row is taken as enough')
    for setting in ('data.path=null', 'data.path=[samples.jsonl, r.yaml]', 'data.path=gone.jsonl', 'data.path=folder', 'data.clips.fps=0'):
        answer = run('train', path('r.yaml'), '--out', path('wrong'), '--json', '--quiet', '--set', setting)
        check(answer.code not in (0, -6, -11), f'{setting}: {answer.code}')

finish()
