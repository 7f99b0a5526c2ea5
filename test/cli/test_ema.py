#!/usr/bin/env python3
"""training.ema: an average of the trained weights by its formula, in the plan, in the checkpoint, and the same bits however the
run is arranged and resumed."""
import array
import json
import os
import struct

from support import Folder, check, finish, run

DECAY = 0.75
RECIPE = """\
model:
  family: llama
  config: { hidden_size: 64, intermediate_size: 512, num_hidden_layers: 2, num_attention_heads: 4,
            num_key_value_heads: 2, vocab_size: 256 }
data: { source: synthetic, sequence_length: 16 }
training:
  batch_size: 2
  steps: 4
  optimizer: { lr: 1e-3 }
memory: { device: cpu, offload_folder: . }
"""


def newest(out):
    return os.path.join(out, sorted(name for name in os.listdir(out) if name.startswith('generation-'))[-1])


def tensors(path):
    with open(path, 'rb') as file:
        data = file.read()
    length, = struct.unpack('<Q', data[:8])
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    return {name: (entry['dtype'], data[8 + length + entry['data_offsets'][0]:8 + length + entry['data_offsets'][1]])
            for name, entry in header.items()}


def floats(tensor):
    check(tensor[0] == 'F32', f'a tensor of type {tensor[0]}')
    values = array.array('f')
    values.frombytes(tensor[1])
    return values


def single(value):
    return struct.unpack('f', struct.pack('f', value))[0]


def trained(folder, recipe, name, steps, *settings):
    """ema and weights after that many steps, and the bytes of both files."""
    out = os.path.join(folder.path, name)
    resume = ['--resume'] if os.path.exists(out) else []
    sets = [part for setting in (f'training.steps={steps}', *settings) for part in ('--set', setting)]
    run('train', recipe, '--out', out, *resume, *sets).expect(0)
    at = newest(out)
    model = 'model.safetensors' if os.path.exists(os.path.join(at, 'model.safetensors')) else 'adapter_model.safetensors'
    return tensors(os.path.join(at, 'training', 'ema.safetensors')), tensors(os.path.join(at, model))


def formula(folder, recipe):
    """One step after another: e = decay e + (1 - decay) w, in f32, from the first weights on."""
    ema, before = trained(folder, recipe, 'still', 1, f'training.ema={DECAY}', 'training.optimizer.lr=0')
    check(sorted(ema) == sorted(before), 'averages have other names than weights')
    for name in ema:
        check(ema[name] == before[name], f'{name}: an average of what stands still has moved')
    expected = {name: floats(tensor) for name, tensor in before.items()}
    for step in range(1, 4):
        ema, weights = trained(folder, recipe, 'moving', step, f'training.ema={DECAY}')
        check(any(ema[name] != weights[name] for name in ema), 'an average is the weights themselves')
        for name, tensor in ema.items():
            now, got = floats(weights[name]), floats(tensor)
            for i, value in enumerate(expected[name]):
                expected[name][i] = single(single(DECAY * value) + single(single(1 - DECAY) * now[i]))
            worst = max(abs(a - b) for a, b in zip(got, expected[name]))
            check(worst <= 2**-23 * max(1, *map(abs, got)), f'step {step}: {name} is off by {worst}')  # a unit in the last place
            expected[name] = got


def same_bits(folder, recipe, base, ways):
    """However it is run: the average of the plain way."""
    base = [f'training.ema={DECAY}', *base]
    want = trained(folder, recipe, f'plain {len(base)} {base[-1]}', 4, *base)[0]
    resumed = f'resumed {len(base)} {base[-1]}'
    trained(folder, recipe, resumed, 2, *base)
    check(trained(folder, recipe, resumed, 4, *base)[0] == want, f'{base}: resumed, the average has other bits')
    for way in ways:
        got = trained(folder, recipe, 'way ' + ' '.join(base + way), 4, *base, *way)[0]
        check(got == want, f'{base} {way}: the average has other bits')


def planned(recipe):
    """Four bytes for every trained parameter, in the category state."""
    plan = run('plan', recipe, '--json', '--set', f'training.ema={DECAY}').json()
    bytes_of = plan['device']['categories']['state']
    trainable = plan['model']['trainable_parameters']
    check(4 * trainable <= bytes_of <= 4 * trainable + (64 << 10), f'{bytes_of} bytes of {trainable} averages')
    plain = run('plan', recipe, '--json').json()
    check(plain['device']['categories']['state'] == 0, 'state without training.ema')


def refused(folder, recipe):
    out = os.path.join(folder.path, 'begun without')
    run('train', recipe, '--out', out, '--set', 'training.steps=1').expect(0)
    check(not os.path.exists(os.path.join(newest(out), 'training', 'ema.safetensors')), 'averages that nobody asked for')
    code = run('train', recipe, '--out', out, '--resume', '--set', 'training.ema=0.9', '--set', 'training.steps=2')
    check(code.code != 0 and 'training.ema' in code.err, f'resumed with averages: {code.code} {code.err[:200]}')
    run('plan', recipe, '--set', 'training.ema=1.5').expect(5, 'training.ema')


def main():
    with Folder() as folder:
        recipe = folder.write('recipe.yaml', RECIPE)
        planned(recipe)
        formula(folder, recipe)
        same_bits(folder, recipe, [], [['memory.update=in-backward'], ['memory.checkpoint=every-layer'],
                                       ['memory.offload.parameters=host', 'memory.offload.optimizer=host'],
                                       ['memory.offload.optimizer=disk', 'memory.offload.gradients=host']])
        same_bits(folder, recipe, ['training.gradient_accumulation=2'], [])
        same_bits(folder, recipe, ['model.precision=bf16-true'], [])
        same_bits(folder, recipe, ['model.precision=16-mixed'], [])
        same_bits(folder, recipe, ['model.adapters={rank: 4, targets: [q_proj]}'], [])
        refused(folder, recipe)
    finish()


main()
