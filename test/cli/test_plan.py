#!/usr/bin/env python3
"""plan --json holds what its schema says, adds up, and is the same for the same input."""
import os

from support import Folder, RECIPES, TINY, check, finish, run

CATEGORIES = ['parameters', 'gradients', 'optimizer', 'state', 'cache', 'activations', 'workspace', 'staging', 'inputs', 'gaps',
              'fixed']
PHASES = ['load', 'first_step', 'steady', 'eval', 'save', 'resume']
HOST_PHASES = ['prepare', 'load', 'train', 'save']


def schema(plan, name):
    for key, kind in [('schema', int), ('fits', bool), ('fingerprint', str), ('settings', dict), ('model', dict),
                      ('device', dict), ('host', dict), ('disk', dict), ('phases', dict), ('host_phases', dict), ('techniques', list),
                      ('step_seconds', float), ('changes', list)]:
        check(isinstance(plan.get(key), kind), f'{name}: {key} is {plan.get(key)!r}')
    device = plan['device']
    for key in ['budget_bytes', 'peak_bytes', 'fixed_bytes', 'lower_bound_bytes']:
        check(isinstance(device.get(key), int) and device[key] > 0, f'{name}: device.{key} is {device.get(key)!r}')
    check(isinstance(device.get('name'), str), f'{name}: device.name')
    check(list(device['categories']) == CATEGORIES, f'{name}: categories are {list(device["categories"])}')
    check(sum(device['categories'].values()) == device['peak_bytes'], f'{name}: categories do not sum to the peak')
    check(device['categories']['fixed'] == device['fixed_bytes'], f'{name}: fixed')
    check(sorted(plan['phases']) == sorted(PHASES), f'{name}: phases are {list(plan["phases"])}')
    check(max(plan['phases'].values()) <= device['peak_bytes'], f'{name}: a phase above the peak')
    check(sorted(plan['host_phases']) == sorted(HOST_PHASES), f'{name}: phases of the host are {list(plan["host_phases"])}')
    check(plan['host_phases']['train'] == plan['host']['peak_bytes'], f'{name}: the host while it trains')
    for key in ['family', 'parameters', 'trainable_parameters', 'adapters']:
        check(key in plan['model'], f'{name}: model.{key}')
    check(plan['step_seconds'] > 0, f'{name}: step_seconds')
    arena = device['peak_bytes'] - device['fixed_bytes']
    check(arena <= 1.01 * device['lower_bound_bytes'], f'{name}: {arena} over 1.01 x {device["lower_bound_bytes"]}')
    check(arena >= device['lower_bound_bytes'], f'{name}: below the lower bound')


shipped = [os.path.join(folder, name) for folder, _, names in os.walk(RECIPES) for name in names
           if name.endswith('.yaml')]
check(len(shipped) >= 7, f'shipped recipes: {shipped}')
for path in sorted(shipped):
    for setting in [[], ['--set', 'training.gradient_accumulation=4'], ['--set', 'model.precision=bf16-true'],
                    ['--set', 'training.eval_every=5']]:
        name = os.path.relpath(path, RECIPES) + ' ' + ' '.join(setting)
        result = run('plan', path, '--json', '--set', 'memory.budget=64GiB', *setting)
        result.expect(0)
        plan = result.json()
        if plan:
            schema(plan, name)
            check(run('plan', path, '--json', '--set', 'memory.budget=64GiB', *setting).out == result.out,
                  f'{name}: the same input, another plan')

llama = run('plan', os.path.join(RECIPES, 'llama-3.2-1b.yaml'), '--json').json()
check(llama['model']['parameters'] == 1235814400, f'Llama-3.2-1B has {llama["model"]["parameters"]} parameters')
check(llama['model']['trainable_parameters'] == 1235814400, 'all trained')
# What a technique saves and costs is the difference of two plans.
path = os.path.join(RECIPES, 'llama-3.2-1b.yaml')
for mode in ['selective', 'every-layer']:
    plan = run('plan', path, '--json', '--set', f'memory.checkpoint={mode}').json()
    told = {technique['name']: technique for technique in plan['techniques']}
    check(sorted(told) == [f'checkpoint: {mode}', 'precision: bf16-true'], f'techniques are {sorted(told)}')
    saved = llama['device']['peak_bytes'] - plan['device']['peak_bytes']
    check(saved > 1 << 30 and told[f'checkpoint: {mode}']['saves_bytes'] == saved, f'{mode} saves {saved}: {told}')
    cost = plan['step_seconds'] - llama['step_seconds']
    check(abs(told[f'checkpoint: {mode}']['costs_seconds'] - cost) < 1e-6, f'{mode} costs {cost}: {told}')
    check(plan['choices'] is None, 'nothing was left to be chosen')
    run('plan', path, '--set', f'memory.checkpoint={mode}').expect(0, 'saves', 'costs a step', f'checkpoint: {mode}')
plan = run('plan', path, '--json', '--set', 'memory.checkpoint=auto', '--set', 'memory.budget=15GiB').json()
check(plan['fits'] and sum(int(part.split(' x ')[0]) for part in plan['choices']['checkpoint']) == 16,
      f'choices are {plan["choices"]}')
demo = run('plan', os.path.join(RECIPES, 'demo.yaml')).expect(0, 'fits', 'parameters', 'peak', 'a step: ', 'tokens/s')

with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    base = run('plan', recipe, '--json').json()
    # Bytes per parameter: 32-true is 4 + 8 for the moments; bf16-true is 2 + 8.
    count = base['model']['parameters']
    for precision, each in [('32-true', 4), ('bf16-true', 2)]:
        sizes = run('plan', recipe, '--json', '--set', f'model.precision={precision}').json()['device']['categories']
        check(0 <= sizes['parameters'] - each * count < 64 * 64, f'{precision}: parameters {sizes["parameters"]}')
        check(0 <= sizes['optimizer'] - 8 * count < 64 * 128, f'{precision}: optimizer {sizes["optimizer"]}')
    more = run('plan', recipe, '--json', '--set', 'training.batch_size=16').json()
    check(more['device']['peak_bytes'] > base['device']['peak_bytes'], 'a larger batch needs more')
    check(more['settings']['training']['batch_size'] == 16, 'settings show what was set')
    check(more['fingerprint'] != base['fingerprint'], 'another plan, another fingerprint')
    run('plan', recipe, '--set', 'memory.budget=500TiB').expect(0, 'fits')
    # Every divisor of the effective batch is a choice, however many there are, and large ones are found quickly.
    small = run('plan', recipe, '--json', '--set', 'training.batch_size=1').json()['device']['peak_bytes'] + (1 << 20)
    chosen = run('plan', recipe, '--json', '--batch', 'auto', '--target-effective-batch', '27720',
                 '--gpu-memory', str(small)).expect(0).json()
    check(chosen['search']['settings'] == 96 and 27720 % chosen['settings']['training']['batch_size'] == 0,
          f'of 27720 samples: {chosen["search"]}')
    run('plan', recipe, '--batch', 'auto', '--target-effective-batch', '10007').expect(0)
    run('plan', recipe, '--rank', '8').expect(0, 'lora, rank 8')
    run('plan', recipe, '--sweep', 'training.batch_size=1,,2').expect(2, 'empty')
    names = ','.join(f'a_module_with_a_long_name_{n}' for n in range(12))
    run('plan', recipe, '--compare', f'model.adapters.targets=[{names}]').expect(5, 'a_module_with_a_long_name_0')
    run('plan', recipe, '--set', 'model.config.is_decoder=true').expect(5, 'is_decoder')
    # A folder with config.json is a recipe as well.
    folder.write('model/config.json', '{"model_type": "llama", "architectures": ["LlamaForCausalLM"], '
                 '"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, '
                 '"num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 2048, '
                 '"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "float32"}')
    plan = run('plan', os.path.join(folder.path, 'model'), '--json').expect(0, '"parameters"').json()
    check(plan['settings']['data']['sequence_length'] == 1024, 'a folder is planned for 1024 tokens')
    with open(os.path.join(folder.path, 'model', 'config.json'), encoding='utf-8') as file:
        folder.write('short/config.json', file.read().replace('2048', '256'))
    plan = run('plan', os.path.join(folder.path, 'short'), '--json').expect(0).json()
    check(plan['settings']['data']['sequence_length'] == 256, 'no longer than the model is made for')
    plan = run('plan', os.path.join(folder.path, 'short'), '--json', '--set', 'data.sequence_length=64').expect(0).json()
    check(plan['settings']['data']['sequence_length'] == 64, 'what is set stays')
finish()
