#!/usr/bin/env python3
"""Features of frames that a frozen backbone makes once (data.cache_features): training on them has the losses of training on
frames, in a plan that has neither frames nor backbone; they are found again, made again where they are broken or of other weights,
and a run is not resumed with those of another backbone; a full disk and processes at once leave nothing by halves."""
import json
import os
import shutil
import signal
import subprocess
import time

from schema import conforms
from support import HEADROOM, RECIPES, Folder, check, finish, run

RECIPE = os.path.join(RECIPES, '001-small.yaml')
FROZEN = ['model.parts.visual.train=none', 'model.parts.visual.config.batch_norm=eval', 'data.video.made=60', 'training.batch_size=8',
          'training.eval_every=5', 'training.eval_batches=2', 'model.config.dropout=0.1']
CACHED = [*FROZEN, 'data.cache_features=true']


def arguments(out, settings, steps, flags=()):
    words = ['train', RECIPE, '--out', out, '--json', '--quiet', '--steps', str(steps), *flags]
    for setting in settings:
        words += ['--set', setting]
    return words


def train(out, settings, steps=10, flags=()):
    return run(*arguments(out, settings, steps, flags), timeout=300)


def losses(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    return [line['loss'] for line in lines if 'loss' in line], [line['eval_loss'] for line in lines if 'eval_loss' in line]


def made(cache):
    folder = os.path.join(cache, 'headroom')
    return sorted(name for name in os.listdir(folder)) if os.path.exists(folder) else []


def within(answer, what):
    planned, measured = answer['planned']['peak_bytes'], answer['measured']['peak_bytes']
    check(measured <= planned + (16 << 20), f'{what}: planned {planned}, measured {measured}')


def same(path, cache):
    """Losses of training and evaluation, with and without; the file is made once. Weights of the backbone that are drawn, and read."""
    own = ['data.video.made=40', 'training.batch_size=8', 'training.eval_every=null']
    train(path('source'), own, steps=6).expect(0)
    visual = os.path.join(path('source'), 'generation-00000006', 'visual')
    check(os.path.exists(os.path.join(visual, 'model.safetensors')), visual)
    overrides = 'model.precision_overrides={llm.lm_head: 32-true, visual.layer1: 32-true}'  # each graph has one of the two
    for number, more in enumerate(([], [f'model.parts.visual.path={visual}'], ['model.precision=bf16-mixed'], ['model.precision=bf16-mixed', overrides])):
        plain = train(path(f'plain{number}'), [*FROZEN, *more]).expect(0).json()
        first = train(path(f'first{number}'), [*CACHED, *more]).expect(0).json()
        files = made(cache)
        check(len(files) == number + 1, f'{more}: {files}')
        stamps = [os.stat(os.path.join(cache, 'headroom', name)).st_mtime_ns for name in files]
        again = train(path(f'again{number}'), [*CACHED, *more]).expect(0).json()
        check(stamps == [os.stat(os.path.join(cache, 'headroom', name)).st_mtime_ns for name in made(cache)], 'made again')
        check(first['weights_sha256'] == again['weights_sha256'], f'{more}: other bits from the cache')
        for ours, theirs in zip(losses(path(f'first{number}')), losses(path(f'plain{number}'))):
            check(len(ours) == len(theirs) > 1, f'{more}: {len(ours)} losses')
            worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
            check(worst <= 1e-6, f'{more}: losses are off by {worst:.1e}')
        check(first['metrics'] == plain['metrics'], f'{first["metrics"]} {plain["metrics"]}')
        check(first['planned']['peak_bytes'] < plain['planned']['peak_bytes'], f'{more}: {first["planned"]} {plain["planned"]}')
        for name, answer in (('making', first), ('reading', again)):
            within(answer, f'{more} {name}')
    written = run('generate', path('first1'), '--held-out', '--json').expect(0).json()
    plain = run('generate', path('plain1'), '--held-out', '--json').expect(0).json()
    check([a['text'] for a in written['answers']] == [a['text'] for a in plain['answers']], 'generate says something else')
    return visual


def broken(path, cache):
    """A file that is cut, or has other bytes, is made again, with the same result; nothing else lies beside it."""
    shutil.rmtree(cache)
    before = train(path('whole'), CACHED).expect(0).json()
    name, = made(cache)
    file = os.path.join(cache, 'headroom', name)
    with open(file, 'rb') as stream:
        right = stream.read()
    for wrong in (b'', right[:len(right) // 2], right[:-5] + b'\0' + right[-4:], b'x' + right[1:], right + b'x'):
        with open(file, 'wb') as stream:
            stream.write(wrong)
        after = train(path('mended'), CACHED).expect(0).json()
        shutil.rmtree(path('mended'))
        check(after['weights_sha256'] == before['weights_sha256'], f'{len(wrong)} bytes: other bits')
        with open(file, 'rb') as stream:
            check(stream.read() == right, f'{len(wrong)} bytes: not mended')
    check(made(cache) == [name], str(made(cache)))


def resumed(path, visual):
    """A run goes on with the same bits; with another backbone it does not, be it drawn or read."""
    settings = [*CACHED, f'model.parts.visual.path={visual}']
    whole = train(path('unbroken'), settings).expect(0).json()
    for stop in (3, 7, 10):
        answer = train(path('stopped'), settings, stop, ['--resume']).expect(0).json()
    check(answer['weights_sha256'] == whole['weights_sha256'], 'resumed: other bits')
    train(path('begun'), settings, 3).expect(0)
    other = path('other')
    shutil.copytree(visual, other)
    file = os.path.join(other, 'model.safetensors')
    with open(file, 'rb') as stream:
        data = bytearray(stream.read())
    data[-1] ^= 1
    with open(file, 'wb') as stream:
        stream.write(data)
    refused = train(path('begun'), [*CACHED, f'model.parts.visual.path={other}'], 5, ['--resume'])
    check(refused.code == 2 and 'run.features_of' in refused.out, f'{refused.code} {refused.out}')
    train(path('begun'), settings, 5, ['--resume']).expect(0)


def faults(path):
    """A full disk is told of, and leaves nothing; processes at once all end well with the same bits; what cannot be is refused."""
    cache = path('full')
    result = run(*arguments(path('none'), CACHED, 2), env={'XDG_CACHE_HOME': cache}, limit_bytes=2048)
    check(result.code != 0 and 'features-' in result.out and made(cache) == [], f'{result.code} {result.out} {made(cache)}')
    cache = path('together')
    begun = [subprocess.Popen([HEADROOM, *arguments(path(f'one{i}'), CACHED, 2)], stdout=subprocess.PIPE,
                              env={**os.environ, 'XDG_CACHE_HOME': cache}) for i in range(3)]
    hashes = {json.loads(process.communicate(timeout=300)[0])['weights_sha256'] for process in begun}
    check(len(hashes) == 1 and len(made(cache)) == 1, f'{hashes} {made(cache)}')
    # What a run on frames has left of the backbone has no place in one on features.
    refused = train(path('after'), CACHED, 1, ['--begin', path('source')])
    check(refused.code == 2 and 'bn1.' in refused.out and 'data.cache_features leaves a part out' in refused.out, f'{refused.code} {refused.out}')
    train(path('after'), CACHED, 1, ['--begin', path('begun')]).expect(0)
    for settings, words in ((['data.cache_features=true'], 'is trained'),
                            (['data.cache_features=true', 'model.parts.visual.train=none'], 'norms that go by the batch'),
                            (['data.cache_features=make'], 'set it to true'), (['data.cache_features=sometimes'], 'cache_features')):
        result = train(path('refused'), settings, 1)
        check(result.code == 5 and words in result.out, f'{settings}: {result.code} {result.out}')


def stopped(path):
    """A signal while features are made ends them within a batch, and nothing by halves is left."""
    cache = path('ended')
    many = [*CACHED, 'data.video.made=20000', 'data.video.height=64', 'data.video.width=64']
    with subprocess.Popen([HEADROOM, *arguments(path('never'), many, 2)], stdout=subprocess.PIPE, env={**os.environ, 'XDG_CACHE_HOME': cache}) as process:
        while not made(cache) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[0].decode()
    check(process.returncode == 128 + signal.SIGTERM and 'stopped by SIGTERM while features were made' in told, f'{process.returncode} {told[:400]}')
    check(made(cache) == [] and not os.path.exists(path('never')), str(made(cache)))


def plans():
    """auto: as without where the backbone is trained. Recipes need neither videos nor weights; what makes features has a plan."""
    def planned(*settings, recipe=RECIPE, gpu=('--set', 'memory.device=cpu', '--set', 'memory.budget=200GiB')):
        return run('plan', recipe, '--json', *gpu, *[word for one in settings for word in ('--set', one)], timeout=300)

    trained = planned('data.cache_features=auto').expect(0).json()
    check(trained['features'] is None, str(trained['features']))
    check(trained['fingerprint'] == planned().expect(0).json()['fingerprint'], 'auto is no other plan')
    lost = planned(*CACHED, 'model.precision_overrides={llm.lm_heed: 32-true}')
    check(lost.code == 5 and 'no module is left for the pattern' in lost.out, f'{lost.code} {lost.out}')
    # A backbone without norms by the batch changes where it drops results.
    convnext = ['model.parts.visual={family: convnext_tiny, config: {width: 12}, train: none}', 'data.cache_features=auto']
    check(planned(*convnext).expect(0).json()['features']['fits'], 'features of convnext_tiny have no plan')
    small = planned(*convnext, 'data.video.width=31')
    check(small.code == 5 and 'too small for convnext_tiny' in small.out and 'data.video.width' in small.out, f'{small.code} {small.out}')
    dropping = [*convnext, 'model.parts.visual.config.drop_path=0.1']
    check(planned(*dropping).expect(0).json()['features'] is None, 'features that change are made once')
    refused = planned(*dropping, 'data.cache_features=true')
    check(refused.code == 5 and 'drops results of blocks' in refused.out and 'drop_path: 0' in refused.out, f'{refused.code} {refused.out}')
    for gpu in (('--gpu', 'RTX 3090'), ('--set', 'memory.device=cpu', '--set', 'memory.budget=200GiB')):
        balanced = os.path.join(RECIPES, '001-balanced.yaml')
        frames = planned(recipe=balanced, gpu=gpu).expect(0).json()
        features = planned('data.cache_features=auto', recipe=balanced, gpu=gpu).expect(0).json()
        conforms(features, 'plan', 'plan of features')
        check(features['device']['peak_bytes'] < 0.95 * frames['device']['peak_bytes'], f'{gpu}: {features["device"]["peak_bytes"]}')
        check(not any('visual.' in owner['module'] for owner in features['owners']), f'{gpu}: {features["owners"]}')
        check(features['features']['fits'] and features['features']['rows'] > 1, str(features['features']))
        check(features['host']['categories']['inputs'] < 0.1 * frames['host']['categories']['inputs'], str(features['host']))
    # What fits but for the making of its features does not fit: plan and train say the same, and no change is offered.
    over = ['model.parts.visual={family: resnet50, train: none}', 'data.cache_features=true', 'memory.budget=60MiB']
    words = [word for one in over for word in ('--set', one)]
    for command in (['plan', RECIPE], ['plan', RECIPE, '--quiet'], ['train', RECIPE, '--out', 'none', '--quiet']):
        refused = run(*command, *words, timeout=300)
        check(refused.code == 3 and 'features' in refused.out + refused.err and 'would fit' not in refused.out + refused.err,
              f'{command}: {refused.code} {refused.out[:300]} {refused.err}')
    told = run('plan', RECIPE, '--json', *words, timeout=300).expect(3).json()
    conforms(told, 'plan', 'plan whose features do not fit')
    check(not told['fits'] and not told['features']['fits'] and told['changes'] == [], str(told.get('changes')))
    shown = run('plan', balanced, '--gpu', 'RTX 3090', '--set', 'data.cache_features=true', timeout=300).expect(0)
    check('made before, where they are missing' in shown.out, shown.out[:800])


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    cache = os.environ['XDG_CACHE_HOME'] = path('cache')
    visual = same(path, cache)
    broken(path, cache)
    resumed(path, visual)
    faults(path)
    stopped(path)
plans()
finish()
