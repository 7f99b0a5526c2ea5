#!/usr/bin/env python3
"""Stages of a recipe: planned together, trained one after the other, values handed over by name; stopped anywhere and
resumed they end in the same weights, and memory techniques change no bit of them."""
import json
import os
import shutil
import signal
import struct
import subprocess
import time

from support import Folder, HEADROOM, check, finish, run

RECIPE = """\
model:
  family: llama
  config: { hidden_size: 64, intermediate_size: 96, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: text, path: text.txt, sequence_length: 24 }
training: { batch_size: 3, steps: 1000, optimizer: { lr: 1e-3 }, save_every: 4 }
stages:
  warm:
    model: { train: [lm_head] }
    training: { steps: 6, ema: 0.9 }
  whole:
    training: { steps: 9, optimizer: { lr: 3e-4 }, ema: 0.9 }
  low:
    model: { train: [layers.0] }
    training: { steps: null, epochs: 0.5 }
  apart:
    from: warm
    model: { adapters: { kind: lora, rank: 4 }, precision: bf16-mixed }
    training: { steps: 5 }
  again:
    model: { adapters: { kind: lora, rank: 4 }, train: [lm_head] }
    training: { steps: 4 }
"""
STAGES = ['warm', 'whole', 'low', 'apart', 'again']


def tensors(path):
    with open(path, 'rb') as file:
        length = struct.unpack('<Q', file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    header.pop('__metadata__', None)
    return {name: data[slice(*entry['data_offsets'])] for name, entry in header.items()}


def rounded(data):
    """f32 as bf16, to nearest even."""
    words = struct.unpack(f'<{len(data) // 4}I', data)
    return struct.pack(f'<{len(words)}H', *[(word + 0x7fff + (word >> 16 & 1)) >> 16 for word in words])


def newest(out, stage):
    folder = os.path.join(out, stage)
    return os.path.join(folder, max(name for name in os.listdir(folder) if name.startswith('generation-')))


def hashes(result):
    return {entry['stage']: entry['weights_sha256'] for entry in result.json().get('stages', [])}


def sets(settings):
    return [part for setting in settings for part in ('--set', setting)]


def stop_in(recipe, out, stage, lines, resume):
    """Stops a run once the log of a stage has so many lines."""
    command = [HEADROOM, 'train', recipe, '--out', out, '--quiet'] + (['--resume'] if resume else [])
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = os.path.join(out, stage, 'log.jsonl')
    while child.poll() is None:
        try:
            with open(log, 'rb') as file:
                if file.read().count(b'\n') >= lines:
                    child.send_signal(signal.SIGTERM)
                    break
        except FileNotFoundError:
            pass
        time.sleep(0.001)
    return child.wait()


def test_handed_over(folder, recipe):
    out = os.path.join(folder.path, 'out')
    result = run('train', recipe, '--out', out, '--json')
    result.expect(0)
    whole = hashes(result)
    check(list(whole) == STAGES, f'all stages are there: {whole}')
    warm, all_of_it = tensors(newest(out, 'warm') + '/model.safetensors'), tensors(newest(out, 'whole') + '/model.safetensors')
    low = tensors(newest(out, 'low') + '/model.safetensors')
    check(list(warm) == ['lm_head.weight'], f'only what is trained is saved: {list(warm)}')
    check(len(all_of_it) == 21 and set(low) == set(all_of_it), 'what was trained before is in later checkpoints')
    changed = {name for name in low if low[name] != all_of_it[name]}
    check(changed and all('layers.0.' in name for name in changed), f'frozen again, and so unchanged: {changed}')
    apart = newest(out, 'apart')
    head = {name: rounded(data) for name, data in warm.items()}
    check(tensors(apart + '/model.safetensors') == head, 'apart has begun from warm, whose head it holds frozen, in bf16')
    check(set(tensors(newest(out, 'again') + '/adapter_model.safetensors')) ==
          set(tensors(apart + '/adapter_model.safetensors')), 'adapters go on')
    check(set(tensors(newest(out, 'again') + '/model.safetensors')) == set(warm), 'beside the head')
    ema = tensors(newest(out, 'whole') + '/training/ema.safetensors')
    check(ema['lm_head.weight'] != all_of_it['lm_head.weight'], 'averages go on')
    return whole


def test_stopped(folder, recipe, expected):
    out = os.path.join(folder.path, 'stopped')
    for stage, lines, resume in [('warm', 3, False), ('whole', 2, True), ('whole', 7, True), ('apart', 2, True)]:
        code = stop_in(recipe, out, stage, lines, resume)
        check(code in (0, 143, -signal.SIGTERM), f'stopped in {stage}: exit {code}')
    result = run('train', recipe, '--out', out, '--resume', '--json')
    result.expect(0)
    found = hashes(result)
    check(found['again'] == expected['again'], f'stopped and resumed, the end is the same: {found}')
    for stage in STAGES:
        name = 'adapter_model.safetensors' if stage in ('apart', 'again') else 'model.safetensors'
        check(tensors(newest(out, stage) + '/' + name) == tensors(newest(os.path.join(folder.path, 'out'), stage) + '/' + name),
              f'{stage}: the same weights')
    run('train', recipe, '--out', out, '--resume').expect(0)
    run('train', recipe, '--out', out).expect(2, 'already', '--resume')


def test_same_bits(folder, recipe, expected):
    for number, settings in enumerate([['memory.checkpoint=every-layer'],
                                       ['memory.offload.parameters=host', 'memory.offload.optimizer=disk',
                                        f'memory.offload_folder={folder.path}'],
                                       ['training.gradient_accumulation=3', 'training.batch_size=1']]):
        result = run('train', recipe, '--out', os.path.join(folder.path, f'bits{number}'), '--json', *sets(settings))
        result.expect(0)
        if number < 2:
            check(hashes(result) == expected, f'{settings} change no bit: {hashes(result)}')


def test_planned(recipe):
    result = run('plan', recipe, '--json')
    result.expect(0)
    plan = result.json()
    peaks = [stage['peak_bytes'] for stage in plan['stages']]
    check([stage['stage'] for stage in plan['stages']] == STAGES, 'every stage is planned')
    check(plan['device']['peak_bytes'] == max(peaks), f'the promise is the largest peak: {peaks}')
    run('plan', recipe).expect(0, 'stage warm (1 of 5)', 'the most of all')
    run('plan', recipe, '--gpu-memory', '18300KiB').expect(3, 'does not fit')
    check(plan['stage'] == STAGES[peaks.index(max(peaks))], f'the plan is of that stage: {plan["stage"]}')
    low = run('plan', recipe, '--set', 'stage=low', '--json').expect(0).json()
    check(run('plan', recipe, '--stage', 'low', '--json').expect(0).json() == low, '--stage is the setting')
    run('profile', recipe, '--stage', 'low', '--steps', 1, '--gpu-memory', '1MiB', '--margin', '0').expect(3)
    profile = run('profile', recipe, '--stage', 'low', '--steps', 1, '--batch', 2, '--json').expect(0).json()
    check(profile['settings']['training']['batch_size'] == 2, 'profile takes the flags of plan')


ALIKE = """\
model:
  family: llama
  config: { hidden_size: 64, intermediate_size: 96, num_hidden_layers: 16, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: synthetic, sequence_length: 64 }
training: { batch_size: 8, steps: 10 }
memory: { device: cpu, margin: 0 }
stages:
  first: {}
  faster: { training: { optimizer: { lr: 3e-4 } } }
  open: { memory: { checkpoint: auto } }
  longer: { training: { steps: 99 } }
  last: { training: { seed: 7 } }
"""


def processor_seconds(*arguments):
    child = subprocess.Popen([HEADROOM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime


def test_alike(folder):
    """Stages that differ in what shapes no plan are explained once, and as they are alone; --json explains the one it shows."""
    recipe = folder.write('alike.yaml', ALIKE)
    peak = run('plan', recipe, '--stage', 'first', '--json').expect(0).json()['device']['peak_bytes']
    small = ['--set', f'memory.budget={peak * 9 // 10}']
    text = run('plan', recipe, *small)
    text.expect(3, 'stage longer (4 of 5)\nits plan is that of stage first\n')
    check(text.out.count('that of stage first') == 3, f'what its settings leave open is told by itself:\n{text.out}')
    quiet = run('plan', recipe, '--quiet', *small).expect(3)
    check(quiet.err.count('error: stage ') == 4, f'each that does not fit is named: {quiet.err}')
    plan = run('plan', recipe, '--json', *small).expect(3).json()
    alone = run('plan', recipe, '--stage', plan['stage'], '--json', *small).expect(3).json()
    check(plan['changes'] and plan['changes'] == alone['changes'], f'{plan["changes"]} {alone["changes"]}')
    check(plan['techniques'] == alone['techniques'] and plan['fingerprint'] == alone['fingerprint'], 'the plan is that of the stage')
    together = min(processor_seconds('plan', recipe, '--json', *small) for _ in range(3))
    one = min(processor_seconds('plan', recipe, '--stage', plan['stage'], '--json', *small) for _ in range(3))
    print(f'five stages {together:.3f} s, one {one:.3f} s')
    check(together < 2.5 * one, f'five stages take {together:.3f} s of the processor, one of them {one:.3f} s')


def test_named(folder, recipe):
    """What does not fit, or cannot be planned, is said with the name of its stage."""
    out = os.path.join(folder.path, 'named')
    peaks = sorted(stage['peak_bytes'] for stage in run('plan', recipe, '--json').json()['stages'])
    small = ['--set', f'memory.budget={(peaks[0] + peaks[-1]) // 2}', '--set', 'memory.margin=0']
    planned = run('plan', recipe, '--json', *small)
    planned.expect(3)
    tight = [stage['stage'] for stage in planned.json()['stages'] if not stage['fits']]
    check(0 < len(tight) < len(STAGES), f'some do not fit: {tight}')
    check(not planned.json()['fits'] and planned.json()['stage'] in tight, 'the plan shown is one of them')
    run('plan', recipe, '--quiet', *small).expect(3, f'stage {tight[0]}: ')
    run('train', recipe, '--out', out, '--quiet', *small).expect(3, f'stage {tight[0]}: ')
    error = run('train', recipe, '--out', out, '--json', *small).json()['error']
    check(error['stage'] == tight[0] and f'stage {tight[0]}: ' in error['message'], f'as an object as well: {error}')
    # by its own budget one may not fit that is smaller than others
    lone = folder.write('lone.yaml', RECIPE.replace('    training: { steps: 5 }',
                                                    '    training: { steps: 5 }\n    memory: { budget: 8MiB }'))
    planned = run('plan', lone, '--json')
    planned.expect(3)
    check(planned.json()['stage'] == 'apart' and not planned.json()['fits'], f'{planned.json()["stages"]}')
    wrong = folder.write('wrong.yaml', RECIPE.replace('rank: 4 }, precision', 'rank: 0 }, precision'))
    for command in [('plan', wrong), ('train', wrong, '--out', out)]:
        error = run(*command, '--json').json()['error']
        check(error.get('stage') == 'apart', f'a wrong setting has its stage: {error}')
    check(not os.path.exists(out), 'nothing is trained')


def test_refused(folder, recipe, expected):
    def bad(change, *parts, code=5, arguments=()):
        path = folder.write('bad.yaml', change(RECIPE))
        out = os.path.join(folder.path, 'bad')
        shutil.rmtree(out, ignore_errors=True)
        run('train', path, '--out', out, *arguments).expect(code, *parts)
        check(not os.path.exists(out), f'{parts}: found before anything is trained')

    run('profile', recipe).expect(5, 'none is chosen', '--set stage=warm')
    run('plan', recipe, '--set', 'stage=hot').expect(5, 'no stage "hot"', 'warm, whole')
    bad(lambda text: text, 'each with steps of its own', code=2, arguments=['--steps', '3'])
    bad(lambda text: text.replace('steps: 6', 'stepz: 6'), 'bad.yaml:10', 'stepz')
    bad(lambda text: text.replace('from: warm', 'from: low2'), 'bad.yaml:17', 'begins from none')
    bad(lambda text: text.replace('  warm:', '  w/rm:'), 'not the name of a stage')
    bad(lambda text: text.replace('epochs: 0.5', 'epochs: 0.5, steps: 3').replace('steps: null, ', ''), 'two answers')
    bad(lambda text: text.replace('rank: 4 }, train', 'rank: 8 }, train'), 'another shape in stage again')
    bad(lambda text: text.replace('model: { adapters: { kind: lora, rank: 4 }, train', 'model: { train'), 'lora_A',
        'stage again does not have it')
    bad(lambda text: text.replace('rank: 4 }, train: [lm_head] }', 'rank: 4 }, quantize: { kind: nf4 } }').replace(
        'model: { train: [lm_head] }', 'model: { train: [q_proj] }'), 'quantized in stage again')
    bad(lambda text: text.replace('source: text, path: text.txt', 'source: synthetic'), 'no epochs')
    single = ['--stage', 'whole', '--json']
    out = os.path.join(folder.path, 'single')
    run('train', recipe, '--out', out, *single, '--begin', os.path.join(folder.path, 'nowhere')).expect(2, 'no checkpoint')
    done = run('train', recipe, '--out', out, *single, '--begin', os.path.join(folder.path, 'out', 'warm'))
    done.expect(0)
    shutil.rmtree(out)
    begun = run('train', recipe, '--out', out, '--json', '--begin', os.path.join(folder.path, 'out', 'whole'))
    begun.expect(0)
    check(hashes(begun)['warm'] != expected['warm'], 'the first stage begins with the weights of another run')
    shutil.rmtree(out)
    words = 'goes on from warm, and begins here without what that one has learned'
    fresh = run('train', recipe, '--out', out, '--stage', 'whole', '--quiet', '--set', 'training.steps=4').expect(0)
    check(words in ' '.join(fresh.err.split()) and '--begin DIR' in fresh.err, f'a stage alone tells: {fresh.err}')
    more = run('train', recipe, '--out', out, '--stage', 'whole', '--quiet', '--resume')
    check(more.code == 0 and 'goes on from' not in more.err, f'it goes on: {more.err}')
    shutil.rmtree(out)
    first = run('train', recipe, '--out', out, '--stage', 'warm', '--quiet').expect(0)
    check('goes on from' not in first.err + done.err, f'nothing comes before, or is given: {first.err}')
    shutil.rmtree(out)
    several = folder.write('several.yaml', RECIPE.replace('from: warm', 'from: [warm, whole]'))
    both = run('train', several, '--out', out, '--stage', 'apart', '--set', 'training.steps=2').expect(0)
    check('from warm, whole, and begins here without what they have learned' in ' '.join(both.err.split()), both.err)
    shutil.rmtree(out)
    broken = os.path.join(folder.path, 'broken')
    shutil.copytree(os.path.join(folder.path, 'out', 'warm'), broken)
    with open(newest(folder.path, 'broken') + '/model.safetensors', 'r+b') as file:
        file.seek(-3, 2)
        file.write(b'x')
    run('train', recipe, '--out', out, *single, '--begin', broken).expect(5, 'model.safetensors', 'hash differs')


def main():
    with Folder() as folder:
        words = ' '.join(str(n * n) for n in range(1, 260))
        folder.write('text.txt', words)
        recipe = folder.write('stages.yaml', RECIPE)
        expected = test_handed_over(folder, recipe)
        test_stopped(folder, recipe, expected)
        test_same_bits(folder, recipe, expected)
        test_planned(recipe)
        test_named(folder, recipe)
        test_alike(folder)
        test_refused(folder, recipe, expected)
    finish()


main()
