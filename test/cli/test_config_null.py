#!/usr/bin/env python3
"""null in a config.json: an error with its place where the model needs the number, nothing where public files have it."""
import json
import os

from support import ROOT, Folder, check, finish, run

CONFIGS = os.path.join(ROOT, 'test', 'model', 'configs')


def changed(folder, name, **keys):
    with open(os.path.join(CONFIGS, name, 'config.json'), encoding='utf-8') as file:
        config = json.load(file)
    config.update(keys)
    return os.path.dirname(folder.write(f'{name}/config.json', json.dumps(config, indent=2)))


def line_of(folder, key):
    with open(folder + '/config.json', encoding='utf-8') as file:
        return next(number for number, line in enumerate(file, 1) if f'"{key}"' in line)


with Folder() as folder:
    for name, keys in [('Llama-3.2-1B', ['hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads', 'vocab_size',
                                         'max_position_embeddings', 'rms_norm_eps', 'rope_theta']),
                       ('Qwen3-8B', ['hidden_size', 'num_hidden_layers']),
                       ('bert-base-uncased', ['hidden_size', 'type_vocab_size', 'layer_norm_eps'])]:
        for key in keys:
            path = changed(folder, name, **{key: None})
            place = f'config.json:{line_of(path, key)}:'
            run('plan', path, '--method', 'lora', '--gpu', 'H100').expect(5, f'model.config.{key} is null', place,
                                                                            f'--set model.config.{key}=')
            run('train', path, '--out', folder.path + '/out').expect(5, f'model.config.{key} is null', place)
        # A number of the user's own goes before the file's.
        path = changed(folder, name, hidden_size=None)
        with open(os.path.join(CONFIGS, name, 'config.json'), encoding='utf-8') as file:
            size = json.load(file)['hidden_size']
        plans = [run('plan', where, '--method', 'lora', '--gpu', 'H100', '--set', f'model.config.hidden_size={size}', '--json').expect(0)
                 for where in (path, os.path.join(CONFIGS, name))]
        check(plans[0].json()['fingerprint'] == plans[1].json()['fingerprint'], f'{name}: with --set')
    plain = run('plan', changed(folder, 'Llama-3.2-1B'), '--method', 'lora', '--gpu', 'H100', '--json').expect(0).json()
    for key in ['sliding_window', 'head_dim', 'pad_token_id', 'quantization_config']:
        path = changed(folder, 'Llama-3.2-1B', **{key: None})
        plan = run('plan', path, '--method', 'lora', '--gpu', 'H100', '--json').expect(0).json()
        check(plan['fingerprint'] == plain['fingerprint'], f'{key}: null is as if it were not there')
    for key in ['rope_scaling', 'num_key_value_heads']:
        run('plan', changed(folder, 'Llama-3.2-1B', **{key: None}), '--method', 'lora', '--gpu', 'H100', '--quiet').expect(0)
finish()
