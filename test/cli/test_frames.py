#!/usr/bin/env python3
"""Videos of 6 frames, which is no multiple of what the U-Net of 003 halves: trained as a whole, and split along frames to the same
losses; what cannot be split is said with what to write instead, which works."""
import os
import re

from support import RECIPES, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '003-small.yaml')
VIDEO = ['model.config.motion_branch=false', 'model.config.cooling_branch=false', 'model.config.infrared_branch=false',
         'model.config.pair_branch=false', 'model.config.frames=6', 'data.scenes.samples=8', 'training.batch_size=1',
         'training.gradient_accumulation=1', 'training.eval_every=2', 'training.eval_batches=1']


def sets(*settings):
    return [part for setting in settings for part in ('--set', setting)]


with Folder() as folder:
    def train(name, *settings):
        return run('train', RECIPE, '--out', os.path.join(folder.path, name), '--steps', 2, '--json', '--quiet',
                   *sets(*VIDEO, *settings)).expect(0).json()

    whole = train('whole')
    check(0 < whole['eval_loss'] < 100 and whole['loss'] > 0, f'losses of 6 frames: {whole["loss"]}, {whole["eval_loss"]}')
    refused = run('plan', RECIPE, *sets(*VIDEO, 'memory.split={video: 3}'))
    refused.expect(5, 'video as a whole cannot be split into 3 slices', 'frame by frame')
    instead = re.search(r'try: .*memory\.split=(\{.*\})', ' '.join(refused.err.split()))
    check(instead is not None, f'what to write instead: {refused.err}')
    split = train('split', f'memory.split={instead[1]}')
    for key in ('loss', 'eval_loss'):
        check(abs(split[key] / whole[key] - 1) < 1e-4, f'{key}: whole {whole[key]}, split {split[key]}')
    check(train('again', f'memory.split={instead[1]}')['weights_sha256'] == split['weights_sha256'], 'the same bits twice')
    recomputed = train('recomputed', 'memory.checkpoint=every-layer')
    check(recomputed['weights_sha256'] == whole['weights_sha256'], 'recomputed levels give other weights')
finish()
