#!/usr/bin/env python3
"""Mamba-2 as a language model, packed as well, and the gesture model on made-up data: what they hold is what was planned;
recompute, offload and resuming change no bit; checkpoints go out as they came in; what is trained on text writes; settings that contradict
each other are refused."""
import json
import os

from support import ROOT, Folder, check, finish, run

CHECKPOINT = os.path.join(ROOT, 'test', 'golden', 'mamba2', 'tied')
LANGUAGE = f"""\
model: {{ path: {CHECKPOINT} }}
data: {{ source: synthetic, sequence_length: 70 }}
training: {{ batch_size: 4, steps: 4, optimizer: {{ lr: 1e-3 }} }}
"""
WRITER = """\
model:
  family: mamba2
  config: { hidden_size: 32, num_hidden_layers: 2, num_heads: 4, head_dim: 16, n_groups: 2, state_size: 8, chunk_size: 16, vocab_size: 256 }
data: { source: text, path: text.txt, tokenizer: bytes, sequence_length: 48 }
training:
  batch_size: 4
  steps: 4
  optimizer: { lr: 1e-2 }
"""
SAMPLES = """\
  generation_every: 2
  generation_prompts: [In the, And]
  generation_tokens: 5
"""
PACKED = """\
model:
  family: mamba2
  config: {{ vocab_size: 256, hidden_size: 24, num_hidden_layers: 2, state_size: 12, num_heads: 6, head_dim: 8, n_groups: 1, chunk_size: 16 }}
data: {{ source: lines, path: {lines}, sequence_length: 70, packing: true }}
training: {{ batch_size: 2, steps: 4, optimizer: {{ lr: 1e-3 }} }}
"""
GESTURE = """\
model:
  family: gesture
  config: { hidden_dim: 32, d_state: 16, headdim: 16, num_layers: 2, num_classes: 5 }
data: { source: synthetic, sequence_length: 48 }
training: { batch_size: 4, steps: 4, eval_every: 4, eval_batches: 1, optimizer: { lr: 1e-3 }, ema: 0.9 }
"""


def train(recipe, out, *settings, flags=()):
    arguments = ['train', recipe, '--out', out, '--json', '--quiet', *flags]
    for setting in settings:
        arguments += ['--set', setting]
    return run(*arguments).expect(0).json()


def same_bits(path, recipe, name, modes):
    plain = train(recipe, path(name))
    planned, measured = plain['planned']['peak_bytes'], plain['measured']['peak_bytes']
    check(measured <= planned + (16 << 20) and planned - measured < (16 << 20), f'{name}: {planned} and {measured}')
    for i, mode in enumerate(modes):
        other = train(recipe, path(f'{name}-{i}'), *mode)
        check(other['weights_sha256'] == plain['weights_sha256'], f'{name} with {mode}: other bits')
    halves = path(f'{name}-halves')
    train(recipe, halves, flags=['--steps', '2'])
    rest = train(recipe, halves, flags=['--resume'])
    check(rest['weights_sha256'] == plain['weights_sha256'], f'{name}: resuming gives other bits')
    return plain


def language(path):
    recipe = path('language.yaml')
    with open(recipe, 'w') as file:
        file.write(LANGUAGE)
    same_bits(path, recipe, 'language',
              (['memory.checkpoint=every-layer'], ['memory.checkpoint=selective'],
               ['memory.offload.activations=host', 'memory.checkpoint=every-layer']))
    saved = os.path.join(path('language'), 'generation-00000004')
    with open(os.path.join(saved, 'config.json')) as file:
        config = json.load(file)
    with open(os.path.join(CHECKPOINT, 'config.json')) as file:
        public = json.load(file)
    for key in ('architectures', 'model_type', 'hidden_size', 'num_heads', 'head_dim', 'n_groups', 'state_size', 'conv_kernel',
                'chunk_size', 'time_step_limit', 'use_conv_bias', 'vocab_size', 'tie_word_embeddings'):
        check(config[key] == public[key], f'{key}: {config[key]} is saved of {public[key]}')
    run('plan', saved).expect(0, 'mamba2')
    run('plan', CHECKPOINT, '--method', 'lora').expect(0, 'lora')
    run('plan', recipe, '--set', 'model.config.num_heads=5').expect(5, 'expand x hidden_size')
    run('plan', recipe, '--set', 'model.config.n_groups=4').expect(5, 'do not form 4 groups')
    run('plan', recipe, '--set', 'model.config.time_step_limit=[1.0, 0.5]').expect(5, 'cannot lie between')


def writer(path):
    with open(path('text.txt'), 'w') as file:
        file.write('In the beginning was a word, and the word went on. ' * 40)
    for name, text in (('silent', WRITER), ('writer', WRITER + SAMPLES)):
        with open(path(f'{name}.yaml'), 'w') as file:
            file.write(text)
    silent, wrote = (train(path(f'{name}.yaml'), path(name)) for name in ('silent', 'writer'))
    check(silent['weights_sha256'] == wrote['weights_sha256'], 'samples change the training')
    with open(os.path.join(path('writer'), 'log.jsonl')) as file:
        lines = [json.loads(line) for line in file]
    check(any('generated' in line for line in lines), 'no samples in the log')
    prompts = ['In the', 'a word, and the word went on. In the beginning was a word', 'x']
    for precision in ('32-true', 'bf16-true'):
        def generated(*which):
            asked = [word for prompt in which for word in ('--prompt', prompt)]
            answer = run('generate', path('writer'), *asked, '--json', '--quiet', '--max-tokens', '40', '--set', f'model.precision={precision}')
            return [one['ids'] for one in answer.expect(0).json()['answers']]
        together = generated(*prompts)
        check(together == [generated(prompt)[0] for prompt in prompts], f'{precision}: answers of a batch are not those of each alone')
    # The last rows of a convolution are kept in the type that it computes in.
    run('generate', path('writer'), '--prompt', 'x', '--quiet', '--max-tokens', '4', '--set', 'model.precision=bf16-true',
        '--set', 'model.precision_overrides={conv1d: 32-true}').expect(0)
    held = [run('generate', path('writer'), '--plan', '--json', '--max-context', context).expect(0).json() for context in ('64', '65536')]
    caches = [plan['device']['categories']['cache'] for plan in held]
    check(caches[0] > 0 and caches[0] == caches[1], f'states of a longer context take {caches[1]} bytes, not {caches[0]}')
    # What a GPU cannot write with is refused by its plan.
    large = ['--set', 'model.config.state_size=320']
    run('plan', path('writer.yaml'), '--gpu', '4090', *large).expect(1, 'states of 320 numbers are larger than the 256', 'memory.device: cpu')
    run('plan', path('silent.yaml'), '--gpu', '4090', *large).expect(0)
    run('plan', path('writer.yaml'), *large).expect(0)


def packed(path):
    """Lines that share samples. What they come to, against each line alone, is test/train/test_packing.c."""
    lines, recipe = path('lines.txt'), path('packed.yaml')
    with open(lines, 'w') as file:
        file.writelines('abcdefghij'[:1 + i % 10] * (1 + i % 7) + '\n' for i in range(48))
    with open(recipe, 'w') as file:
        file.write(PACKED.format(lines=lines))
    plain = same_bits(path, recipe, 'packed',
                      (['memory.checkpoint=every-layer'], ['memory.checkpoint=selective'],
                       ['memory.offload.activations=host', 'memory.checkpoint=every-layer']))
    slices = train(recipe, path('packed-slices'), 'memory.split={"backbone.layers.*": 2}')
    check(abs(slices['loss'] - plain['loss']) < 1e-5, f"slices end at {slices['loss']}, not {plain['loss']}")


def gesture(path):
    recipe = path('gesture.yaml')
    with open(recipe, 'w') as file:
        file.write(GESTURE)
    same_bits(path, recipe, 'gesture', (['memory.checkpoint=every-layer'], ['memory.checkpoint=selective'],
                                        ['memory.offload.optimizer=host']))
    for shared in ('false', 'true'):
        train(recipe, path(shared), f'model.config.share_weights={shared}', 'model.precision=bf16-mixed')
    run('plan', recipe, '--set', 'model.config.headdim=24').expect(5, 'do not divide')
    for wrong in ('[]', '[0]', '[1, two]', '3'):
        run('plan', recipe, '--set', f'model.config.pooling_scales={wrong}').expect(5, 'pooling')


with Folder() as folder:
    path = lambda name: os.path.join(folder.path, name)
    language(path)
    writer(path)
    packed(path)
    gesture(path)
finish()
