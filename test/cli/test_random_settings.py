#!/usr/bin/env python3
"""Random combinations of all memory techniques. Settings that only say what is kept, recomputed, moved or updated when
change no bit of the result; settings that contradict each other are refused with a message, and nothing crashes.

HR_TEST_COMBINATIONS: how many (60). HR_TEST_SEED: where they begin (1); a failure names its combination, which
HR_TEST_ONLY=<name> repeats alone.
"""
import os
import random

from support import Folder, check, finish, run

PRECISIONS = ['32-true', 'bf16-mixed', '16-mixed', 'bf16-true']
KINDS = ['optimizer', 'parameters', 'gradients', 'activations']
MODULES = ['q_proj', 'mlp', 'lm_head', 'embed_tokens', 'layers.1', 'norm', 'down_proj', 'input_layernorm', 'layers.0.*']
LINEARS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj', 'layers.1.mlp.*', 'all-linear']
LINES = 61


def some(draw, chance):
    return draw.random() < chance


def model_draw(draw, settings):
    heads, keys = draw.choice([(4, 4), (4, 2), (2, 1)])
    settings['model.config.hidden_size'] = draw.choice([32, 64])
    settings['model.config.intermediate_size'] = draw.choice([64, 96])
    settings['model.config.num_hidden_layers'] = draw.choice([2, 3])
    settings['model.config.num_attention_heads'] = heads
    settings['model.config.num_key_value_heads'] = keys
    for switch in ('tie_word_embeddings', 'attention_bias', 'mlp_bias'):
        if some(draw, 0.3):
            settings[f'model.config.{switch}'] = 'true'
    settings['model.precision'] = draw.choice(PRECISIONS)
    if some(draw, 0.35):
        chosen = {name: draw.choice(PRECISIONS) for name in draw.sample(MODULES, draw.choice([1, 2]))}
        settings['model.precision_overrides'] = str(chosen).replace("'", '')
    lora = some(draw, 0.45)
    if lora:
        settings['model.adapters.kind'] = 'lora'
        settings['model.adapters.rank'] = draw.choice([1, 4, 8])
        if some(draw, 0.5):
            settings['model.adapters.alpha'] = draw.choice([1, 16])
        if some(draw, 0.5):
            settings['model.adapters.dropout'] = draw.choice([0.1, 0.5])
        if some(draw, 0.7):
            settings['model.adapters.targets'] = str(draw.sample(LINEARS, draw.choice([1, 2]))).replace("'", '')
        if some(draw, 0.3):
            settings['model.adapters.rank_stabilised'] = 'true'
    if some(draw, 0.5 if lora else 0.05):
        settings['model.quantize.kind'] = 'nf4'
        if some(draw, 0.5):
            settings['model.quantize.double'] = draw.choice(['true', 'false'])
        if some(draw, 0.3):
            settings['model.quantize.targets'] = str(draw.sample(LINEARS, 1)).replace("'", '')


def data_draw(draw, settings):
    settings['training.batch_size'] = draw.choice([1, 2, 3, 4])
    settings['data.sequence_length'] = 24
    source = draw.choice(['synthetic', 'text', 'lines', 'lines'])
    settings['data.source'] = source
    if source != 'synthetic':
        settings['data.path'] = 'lines.txt'
    if source == 'lines' and some(draw, 0.6):
        settings['data.buckets'] = draw.choice(['[8, 24]', '[8, 16, 24]'])
    if some(draw, 0.3):
        settings['training.gradient_accumulation'] = draw.choice([2, 3])
    elif some(draw, 0.15):
        settings['training.effective_batch'] = 12
    elif source == 'lines' and some(draw, 0.3):
        settings['training.gradient_accumulation'] = draw.choice(['{0: 2, 1: 1}', '{0: 1, 1: 3}', '{0: 12, 1: 4}'])
    if some(draw, 0.3):
        settings['training.eval_every'] = 2
        settings['training.eval_batches'] = 2


def optimizer_draw(draw, settings):
    kind = draw.choice(['adamw', 'adamw', 'adamw8bit', 'adamw8bit', 'sgd'])
    settings['training.optimizer.kind'] = kind
    settings['training.optimizer.lr'] = 0.01
    if kind == 'sgd' and some(draw, 0.6):
        settings['training.optimizer.momentum'] = draw.choice([0, 0.9])
    if some(draw, 0.4 if kind == 'sgd' else 0.03):
        settings['training.optimizer.nesterov'] = 'true'
    if some(draw, 0.4 if kind == 'adamw' else 0.05):
        settings['training.optimizer.state'] = 'bf16'
    if some(draw, 0.3):
        match = draw.choice(['layers.0.*', 'lora_A', '"*"', '[layers.1.*, embed_tokens]', 'norm.weight'])
        rates = draw.choice(['lr: 1e-3', 'lr: 0', 'weight_decay: 0.2', 'lr: 2e-3, weight_decay: 0'])
        settings['training.optimizer.groups'] = f'[{{match: {match}, {rates}}}]'
    if some(draw, 0.4):
        settings['training.clip_norm'] = draw.choice([0.1, 1.0])
    if some(draw, 0.2):
        settings['training.loss_scale.growth_interval'] = 2
        settings['training.loss_scale.init'] = draw.choice([16, 1e9])
    if some(draw, 0.3):
        settings['memory.split'] = draw.choice(['{mlp: 2}', '{layers.*: 2}', '{self_attn: 2, mlp: 3}', '{lm_head: 3}',
                                                '{layers.0: 2, lm_head: 5}', '{layers.1.mlp: 4}'])


def neutral_draw(draw, settings):
    """What must not change a bit."""
    neutral = {}
    if some(draw, 0.7):
        neutral['memory.checkpoint'] = draw.choice(['selective', 'every-layer', 'auto'])
    if some(draw, 0.6):
        for kind in draw.sample(KINDS, draw.randint(1, 4)):
            neutral[f'memory.offload.{kind}'] = draw.choice(['host', 'disk', 'auto'])
    if some(draw, 0.3):
        neutral['memory.update'] = 'in-backward'
        for key in ('training.clip_norm', 'training.gradient_accumulation', 'training.effective_batch', 'data.buckets'):
            if some(draw, 0.9):
                settings.pop(key, None)
    kind = settings['training.optimizer.kind']
    if kind != 'sgd' and some(draw, 0.25):
        neutral['training.optimizer.kind'] = 'paged_' + kind
    if some(draw, 0.4):
        neutral['memory.offload.update'] = 'host'
    return neutral


def sets(settings):
    return [part for key, value in settings.items() for part in ('--set', f'{key}={value}')]


def train(settings, out):
    return run('train', 'plain.yaml', '--out', out, '--json', *sets(settings), timeout=120)


def peak_of(settings):
    """Planned bytes on the device; None where the settings are refused."""
    result = run('plan', 'plain.yaml', '--json', *sets(settings))
    return result.json()['device']['peak_bytes'] if result.code == 0 else None


def budget_draw(draw, settings, neutral):
    """Where checkpointing is open: a budget between what keeping nothing and keeping everything takes."""
    least = peak_of({**settings, **neutral, 'memory.checkpoint': 'every-layer'})
    most = peak_of({**settings, **neutral, 'memory.checkpoint': 'none'})
    if least is None or most is None:
        return
    neutral['memory.budget'] = draw.randint(min(least, most), max(least, most))
    peak = peak_of({**settings, **neutral})
    check(peak is not None and peak <= neutral['memory.budget'],
          f'{settings} with {neutral}: a plan of {peak} bytes, between {least} and {most}')


def refused(result, what):
    """An error of the user's, told in words; never a failure of ours."""
    check(result.code in (2, 3, 5), f'{what}: exit {result.code}\n{result.out[:300]}{result.err[:2000]}')
    error = result.json().get('error', {})
    check(len(error.get('message', '')) > 20, f'{what}: refused without a word: {result.out!r} {result.err!r}')


def contradicts(settings, neutral):
    """Why a combination that is fine by itself may be refused with `neutral` on top."""
    if neutral.get('memory.update') != 'in-backward':
        return False
    return (settings.keys() & {'training.clip_norm', 'training.gradient_accumulation', 'training.effective_batch',
                               'data.buckets'} or '16-mixed' in settings['model.precision'] +
            settings.get('model.precision_overrides', ''))


def combination(name):
    draw = random.Random(name)
    settings = {'training.steps': draw.choice([3, 4]), 'training.seed': draw.randint(1, 9)}
    model_draw(draw, settings)
    data_draw(draw, settings)
    optimizer_draw(draw, settings)
    neutral = neutral_draw(draw, settings)
    if neutral.get('memory.checkpoint') == 'auto':
        budget_draw(draw, settings, neutral)
    plain = train(settings, f'{name}-plain')
    tested = train({**settings, **neutral}, f'{name}-tested')
    what = f'combination {name}: {settings} with {neutral}'
    if plain.code != 0:
        refused(plain, f'combination {name}: {settings}')
        refused(tested, what)
        return 0
    if tested.code != 0 and contradicts(settings, neutral):
        refused(tested, what)
        return 0
    if check(tested.code == 0, f'{what}: exit {tested.code}\n{tested.out[:300]}{tested.err[:2000]}'):
        for key in ('weights_sha256', 'loss', 'eval_loss'):
            check(plain.json().get(key) == tested.json().get(key), f'{what}: another {key}')
    return 1


with Folder() as folder:
    os.chdir(folder.path)
    draw = random.Random(0)
    text = ''.join('a' * draw.randint(0, 5) + ' the b' * draw.randint(0, 5) + '\n' for _ in range(LINES))
    folder.write('lines.txt', text)
    folder.write('plain.yaml', f"""\
model: {{ family: llama, config: {{ vocab_size: 256 }} }}
memory: {{ offload_folder: {folder.path} }}
""")
    seed, count = int(os.environ.get('HR_TEST_SEED', 1)), int(os.environ.get('HR_TEST_COMBINATIONS', 60))
    names = [os.environ['HR_TEST_ONLY']] if 'HR_TEST_ONLY' in os.environ else [f'{seed}.{i}' for i in range(count)]
    trained = sum(combination(name) for name in names)
    print(f'{trained} of {len(names)} combinations trained, the others were refused')
    if len(names) >= 20:
        check(2 * trained > len(names), f'only {trained} of {len(names)} combinations trained')
finish()
