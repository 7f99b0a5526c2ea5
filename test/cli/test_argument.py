#!/usr/bin/env python3
"""What people give in place of a recipe is named for what it is, with what to give instead; faults of recipes stay faults."""
import json

from support import Folder, TINY, check, finish, run

CHECKPOINT = json.dumps({'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_size': 64})
TRAINERS = {
    'axolotl': 'base_model: a/b\nsequence_len: 2048\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nadapter: qlora\n',
    'huggingface': 'per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\nlearning_rate: 1e-4\n',
    'deepspeed': '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}\n',
    'lightning': 'trainer: { precision: 32-true, accumulate_grad_batches: 1 }\ndata: { batch_size: 8 }\n',
}

with Folder() as folder:
    for name in ['meta-llama/Llama-3.1-8B', 'Qwen/Qwen2.5-7B']:
        run('plan', name, '--method', 'lora').expect(5, 'no such file or folder', 'hub', 'config.json')
    for name in ['absent.yaml', './a/b', 'a/b.yaml']:
        for command in ['plan', 'train', 'dump']:
            run(command, name).expect(5, 'no such file or folder', 'give a recipe, or a folder with')
    folder.write('near/demo.yaml', '')
    for typed in ['demo.yml', 'demo', 'dmeo.yaml']:
        run('plan', f'{folder.path}/near/{typed}').expect(5, 'no such file or folder', f'did you mean {folder.path}/near/demo.yaml?')
    run('plan', 'near/demo.ym', cwd=folder.path).expect(5, 'did you mean near/demo.yaml?')
    run('plan', 'nere', cwd=folder.path).expect(5, 'did you mean near?')
    run('generate', f'{folder.path}/near/demo.yaml', '--prompt', 'x').expect(5, 'this is a file', 'headroom train')
    run('plan', folder.path).expect(5, 'no config.json in this folder', 'give a recipe, or a folder with')
    path = folder.write('model/config.json', CHECKPOINT)
    run('plan', path).expect(5, 'config of a checkpoint', f'headroom plan {folder.path}/model --method lora')
    run('train', 'config.json', cwd=folder.path + '/model').expect(5, 'headroom train . --method lora')
    for kind, text in TRAINERS.items():
        path = folder.write('job.json' if text[0] == '{' else 'job.yaml', text)
        for command in ['plan', 'profile']:
            run(command, path).expect(5, f'this is a config of {kind}', f'headroom apply DIR --method lora --to {path}')

    # What an option stands for is named by the option.
    path = folder.write('recipe.yaml', TINY + 'memory: { budget: 1GiB }\n')
    for option, value, key in [('--target-effective-batch', '3', 'training.effective_batch'), ('--margin', '2GiB', 'memory.margin'),
                               ('--batch', '99999999', 'training.batch_size')]:
        check(f'  at {option} {value}\n' in run('plan', path, option, value).expect(5).err, f'{option}: the place')
        run('plan', path, '--set', f'{key}={value}').expect(5, f'at --set {key}={value}')

    # A recipe with a fault is none of these, and neither is a sound one beside something else that is wrong.
    path = folder.write('recipe.yaml', TINY.replace('training:', 'trainig:'))
    run('plan', path).expect(5, 'unknown key "trainig"', 'did you mean')
    path = folder.write('recipe.yaml', TINY)
    run('plan', path, '--set', 'model_type=llama').expect(5, 'unknown key "model_type"')
    run('plan', path, '--compare', 'absent.yaml').expect(5, 'absent.yaml', 'check the path')
    run('apply', path, '--to', folder.path + '/absent.yaml').expect(5, 'check the path')

finish()
