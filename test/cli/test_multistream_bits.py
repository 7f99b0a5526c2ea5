#!/usr/bin/env python3
"""A small multistream model with all its branches: recomputing, offload, more reading threads and being stopped ten times change no bit;
slices of the batch and of frames agree to rounding; every precision trains."""
import os
import random

from support import Folder, check, finish, run

RECIPE = '''
model:
  family: multistream
  config: { frames: 4, frame_height: 24, frame_width: 32, head_size: 8, head_last: 4, head_dropout: 0.1, temporal_conv_branch: true }
  parts:
    video: { config: { width: 4, groups: 2, embedding: 8 } }
    geometry: { config: { hidden: 8, embedding: 8, importance: 4, dropout: 0.1 } }
    temporal: { config: { width: 8, heads: 2, layers: 1, mlp: 8, embedding: 8, dropout: 0.1 } }
    cooling: { config: { hidden: 8, embedding: 8, dropout: 0.1 } }
    detector: { config: { width: 2, pyramid: 4, map_width: 4, embedding: 8 } }
    backbone: { config: { channel_multiplier: 0.1 } }
    pair: { config: { width: 8, heads: 2, layers: 1, mlp: 8, embedding: 8, dropout: 0.1 } }
    convnext: { config: { width: 4 } }
    course: { config: { frame_height: 32, frame_width: 64, pyramid: 8, map_width: 8, embedding: 8 } }
    fusion: { config: { width: 8, heads: 2, layers: 1, image: 24, thermal: 16, motion: 16, class_width: 4, classes: 5, dropout: 0.1 } }
data: { source: scenes, eval_fraction: 0.25, scenes: { samples: 64 } }
training: { batch_size: 4, clip_norm: 1.0, optimizer: { kind: adamw, lr: 1e-3 } }
'''


def train(out, *settings, steps=4, flags=()):
    arguments = ['train', 'r.yaml', '--out', out, '--json', '--quiet', '--steps', steps, *flags]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments, cwd=folder.path).expect(0).json()


with Folder() as folder:
    with open(os.path.join(folder.path, 'r.yaml'), 'w', encoding='utf-8') as file:
        file.write(RECIPE)
    plain = train('plain')
    cases = {
        'recomputed': ['memory.checkpoint=every-layer'],
        'selective': ['memory.checkpoint=selective'],
        'only the video is recomputed': ['memory.checkpoint={video: every-layer, "*": none}'],
        'two threads read': ['data.workers=2'],
        'on the host': [f'memory.offload.{kind}=host' for kind in ('optimizer', 'parameters', 'activations')],
        'on disk, recomputed': [f'memory.offload.{kind}=disk' for kind in ('optimizer', 'activations')] +
                               ['memory.checkpoint=every-layer', 'memory.offload_folder=.'],
    }
    for number, (name, settings) in enumerate(cases.items()):
        answer = train(f'case{number}', *settings)
        check(answer['weights_sha256'] == plain['weights_sha256'], f'{name}: other bits')
    sliced = train('sliced', 'memory.split={video: 2}')
    check(abs(sliced['loss'] - plain['loss']) < 1e-4 * plain['loss'], f'in slices: {sliced["loss"]}, {plain["loss"]}')
    by_frames = ['memory.split={"video.*": 8}']  # more than there are samples
    sliced = train('by frames', *by_frames)
    check(abs(sliced['loss'] - plain['loss']) < 1e-4 * plain['loss'], f'by frames: {sliced["loss"]}, {plain["loss"]}')
    again = train('by frames, recomputed', *by_frames, 'memory.checkpoint=every-layer', 'memory.offload.activations=host')
    check(again['weights_sha256'] == sliced['weights_sha256'], 'by frames, recomputed and on the host: other bits')

    # Stopped ten times and resumed, with two micro-batches a step and statistics of batches that run along.
    batches = ['training.batch_size=2', 'training.gradient_accumulation=2', 'training.ema=0.9']
    once = train('once', *batches, steps=24)
    for stop in [*sorted(random.Random(3).sample(range(1, 24), 10)), 24]:
        answer = train('resumed', *batches, steps=stop, flags=['--resume'])
    check(answer['weights_sha256'] == once['weights_sha256'], 'stopped and resumed: other bits')

    for precision in ('bf16-mixed', '16-mixed'):
        answer = train(precision, f'model.precision={precision}')
        check(abs(answer['loss'] - plain['loss']) < 0.1 * plain['loss'], f'{precision}: {answer["loss"]}, {plain["loss"]}')

finish()
