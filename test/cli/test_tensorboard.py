#!/usr/bin/env python3
"""TensorBoard's event files: the same tags, steps, values and times as log.jsonl, no step twice after a run was killed and
resumed, and no harm by a full disk. By a reader of our own, which is held to one of TensorBoard's own files first
(test/train/compare_tensorboard.py asks the package itself)."""
import glob
import json
import os
import signal
import subprocess
import time

import tfevents
from support import Folder, HEADROOM, ROOT, TINY, check, finish, run

ON = ['--set', 'training.tensorboard=true', '--set', 'training.eval_every=3', '--set', 'training.save_every=5']


def golden(name):
    return os.path.join(ROOT, 'test', 'golden', name)


with open(golden('tensorboard.json'), encoding='utf-8') as file:
    expected = json.load(file)
found = tfevents.read(golden('tensorboard.tfevents'))
check(sorted(found['scalars']) == expected['scalars'] and found['texts'] == expected['texts'], f'golden: {found}')
check(found['histograms'] == expected['histograms'] and found['version'] == 'brain.Event:2', f'golden: {found}')


def files(out):
    return sorted(glob.glob(os.path.join(out, 'events.out.tfevents.*')))


def compare(out, names, sessions):
    """Events against the log; `names`: the files, in their order."""
    read = [tfevents.read(name) for name in names]
    check(all(one['version'] == 'brain.Event:2' and one['steps'][0] == 0 for one in read), 'files begin with their version')
    check([one['sessions'] for one in read] == sessions, f'{[one["sessions"] for one in read]}, not {sessions}')
    have = {(tag, step): (value, moment) for one in read for tag, step, value, moment in one['scalars']}
    count = sum(len(one['scalars']) for one in read)
    check(len(have) == count, f'{count - len(have)} values are there twice')
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        log = [json.loads(line) for line in file]
    want, rounding = {}, {}
    for line in log:
        if line.get('event') == 'memory':
            for tier, held in line['tiers'].items():
                if held['held_bytes'] > 0:
                    want[f'memory/{tier}_bytes', line['step']] = (held['held_bytes'], line['time'])
        elif 'eval_loss' in line:
            want['eval/loss', line['step']] = (line['eval_loss'], line['time'])
        elif 'loss' in line:
            for tag, value in [('train/loss', line['loss']), ('train/lr', line['lr']), ('train/grad_norm', line['grad_norm']),
                               ('speed/step_seconds', line['seconds']), ('speed/tokens_per_second', line['tokens'] / line['seconds']),
                               ('speed/samples_per_second', line['samples'] / line['seconds'])]:
                want[tag, line['step']] = (value, line['time'])
            rounding[line['step']] = 1e-6 / line['seconds']
    check(set(have) == set(want), f'tags and steps: {sorted(set(have) ^ set(want))[:9]}')
    for key in set(have) & set(want):
        near = 1e-6 + (rounding[key[1]] if 'speed' in key[0] else 0)  # seconds are rounded in the log
        check(abs(have[key][0] - want[key][0]) <= near * abs(want[key][0]) and abs(have[key][1] - want[key][1]) < 1e-6, f'{key}: {have[key]}, {want[key]}')
    return log


with Folder() as folder:
    at = lambda name: os.path.join(folder.path, name)
    recipe = folder.write('tiny.yaml', TINY)
    run('train', recipe, '--out', at('plain'), '--quiet', '--steps', '2').expect(0)
    check(files(at('plain')) == [], 'none unless asked for')

    # Killed behind a checkpoint, with events of later steps on the disk, and resumed.
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', at('run'), '--quiet', '--steps', '100000', *ON, '--set', 'training.save_every=1000000'],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None and not (files(at('run')) and os.path.getsize(files(at('run'))[0]) > 2000):
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    first = files(at('run'))
    with open(first[0], 'ab') as file:
        file.write(b'torn')
    run('train', recipe, '--out', at('run'), '--quiet', '--steps', '12', *ON, '--resume').expect(0)  # no checkpoint: it begins again
    check(len(files(at('run'))) == 1 and files(at('run')) != first, 'a run that begins again has new events')
    compare(at('run'), files(at('run')), [[]])
    with open(files(at('run'))[0], 'ab') as file:  # as if it had been killed while it wrote more
        file.write(b'\x20\0\0')
    run('train', recipe, '--out', at('run'), '--quiet', '--steps', '20', *ON, '--resume').expect(0)
    compare(at('run'), files(at('run')), [[], [13]])
    # Back to an older checkpoint: the newest one is damaged, so steps 16 to 20 are done again.
    manifest = at('run/generation-00000020/manifest.json')
    os.truncate(manifest, 10)
    run('train', recipe, '--out', at('run'), '--quiet', '--steps', '22', *ON, '--resume').expect(0, 'damaged')
    log = compare(at('run'), files(at('run')), [[], [13], [16]])
    check([line['step'] for line in log if 'loss' in line] == list(range(1, 23)), 'the log')
    other = folder.write('run/events.out.tfevents.1.someone', 'of somebody else')
    run('train', recipe, '--out', at('run'), '--quiet', '--steps', '23', *ON, '--resume').expect(0)
    check(open(other, encoding='utf-8').read() == 'of somebody else', 'files of others are left alone')

    # Made of a log afterwards: the same.
    os.remove(other)
    run('log', at('run'), '--tensorboard', at('made')).expect(0)
    compare(at('run'), files(at('made')), [[]])

    # Norms of single gradients: they are those that the whole norm is made of, and telling them changes nothing.
    for name, more in [('step', []), ('update', ['--set', 'training.gradient_accumulation=2']), ('clipped', ['--set', 'training.clip_norm=0.5'])]:
        plain = run('train', recipe, '--out', at('plain-' + name), '--json', '--steps', '4', *more).expect(0).json()
        told = run('train', recipe, '--out', at('told-' + name), '--json', '--steps', '4', *more, '--set', 'training.tensorboard=true', '--set',
                   'training.gradient_norms=2').expect(0).json()
        check(told['weights_sha256'] == plain['weights_sha256'], f'{name}: other weights')
        events = tfevents.read(files(at('told-' + name))[0])
        check({step for _, step, *_ in events['histograms']} == {2, 4}, f'{name}: {events["histograms"]}')
        layers = [one for one in events['histograms'] if one[0] == 'gradients/model.layers.*.mlp.down_proj.weight' and one[1] == 4]
        check(len(layers) == 1 and layers[0][4] == 2 and sum(layers[0][5]) == 2, f'{name}: {layers}')
        norm = [value for tag, step, value, _ in events['scalars'] if tag == 'train/grad_norm' and step == 4][0]
        squares = sum(value for _, step, value in events['squares'] if step == 4)
        check(abs(squares ** 0.5 - norm) < 1e-5 * norm, f'{name}: {squares ** 0.5} is not {norm}')
    run('train', recipe, '--out', at('none'), '--set', 'training.gradient_norms=2').expect(5, 'training.tensorboard: true')
    run('plan', recipe, '--set', 'training.gradient_norms=2', '--set', 'memory.update=in-backward').expect(5, 'after-backward')
    run('plan', recipe, '--set', 'training.gradient_norms=2', '--set', 'memory.offload.gradients=host').expect(5, 'on the device')

    # A disk that has no room for events: the run goes on, says so once, and ends as any other. Where there is no room for a
    # record, none of it is there.
    steps, limit = 1000, 300000  # bytes of any file: more than those of a checkpoint and the log take, less than the events
    whole = run('train', recipe, '--out', at('whole'), '--json', '--steps', steps).expect(0).json()
    tight = run('train', recipe, '--out', at('tight'), '--json', '--steps', steps, '--set', 'training.tensorboard=true', limit_bytes=limit).expect(0)
    check(tight.json()['weights_sha256'] == whole['weights_sha256'], 'a full disk changes nothing of the run')
    check(tight.err.count("TensorBoard's events end here") == 1, f'told once: {tight.err}')
    kept = tfevents.read(files(at('tight'))[0])['steps']
    check(0 < max(kept) < steps, f'whole records only: {max(kept)}')
    with open(at('tight/log.jsonl'), encoding='utf-8') as file:
        log = [json.loads(line) for line in file]
    check(sum('loss' in line for line in log) == steps and any('TensorBoard' in line.get('text', '') for line in log), 'the log has all')
finish()
