#!/usr/bin/env python3
"""Video, infrared video, motion and cooling curves, fused: the small recipe tells held-out scenes apart and finds their hot spots,
motion alone does not; what it holds is what was planned, and recomputing changes no bit. Every variant of the guide trains."""
import os
import subprocess
import sys

from support import HEADROOM, RECIPES, ROOT, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '003-small.yaml')


def train(out, *settings, steps=None):
    arguments = ['train', RECIPE, '--out', out, '--json', '--quiet']
    if steps:
        arguments += ['--steps', steps]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments, timeout=900).expect(0).json()


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    learned = train(path('learned'))
    check(learned['metrics']['auc_event'] >= 0.9, f'event: {learned["metrics"]}')
    check(learned['metrics']['auc_outcome'] >= 0.9, f'outcome: {learned["metrics"]}')
    check(learned['metrics']['spot_recall'] >= 0.8, f'hot spots that are found: {learned["metrics"]}')
    check(learned['metrics']['spot_precision'] >= 0.8, f'hot spots that are there: {learned["metrics"]}')
    check(set(learned['losses']) == {'event', 'outcome', 'brier', 'order', 'mask', 'pair_mask', 'course_mask', 'spot_found', 'spot_offset',
                                     'spot_size', 'spot_brightness'}, str(learned['losses']))
    planned, measured = learned['planned']['peak_bytes'], learned['measured']['peak_bytes']
    check(abs(measured - planned) < (16 << 20), f'planned {planned}, measured {measured}')

    # Nothing of the labels is in the object's motion.
    blind = train(path('blind'), 'model.config.video_branch=false', 'model.config.cooling_branch=false',
                  'model.config.infrared_branch=false', 'model.config.pair_branch=false',
                  'training.eval_every=300', steps=300)
    check(blind['metrics']['auc_event'] <= 0.65, f'event by motion alone: {blind["metrics"]}')
    check(blind['metrics']['auc_outcome'] <= 0.65, f'outcome by motion alone: {blind["metrics"]}')

    # The same bits with every level computed twice.
    few = ('training.eval_every=2', 'training.eval_batches=1', 'data.scenes.samples=64', 'training.batch_size=2')
    kept = train(path('kept'), *few, steps=2)
    again = train(path('again'), 'memory.checkpoint=every-layer', *few, steps=2)
    check(kept['weights_sha256'] == again['weights_sha256'], 'recomputed levels give other weights')

# The smoke test of the guide, at a size for a processor.
smoke = subprocess.run([sys.executable, os.path.join(ROOT, 'bench/variants.py'), '--small', '--steps', '1'], capture_output=True,
                       text=True, check=False, env={**os.environ, 'HEADROOM': HEADROOM})
check(smoke.returncode == 0 and 'all 5 below 39 GiB' in smoke.stdout, smoke.stdout + smoke.stderr)

finish()
