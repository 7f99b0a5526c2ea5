#!/usr/bin/env python3
"""apply with a checkpoint's folder plans the training that the config describes: defaults of headroom's do not overwrite it."""
import json
import os

from support import Folder, check, finish, run

SHAPE = {'model_type': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
         'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 320, 'max_position_embeddings': 128}
AXOLOTL = '''base_model: a/b
load_in_4bit: true
adapter: qlora
sequence_len: 48  # short
lora_r: 4
lora_alpha: 8
gradient_accumulation_steps: 6
micro_batch_size: 2
optimizer: paged_adamw_32bit
bf16: true
gradient_checkpointing: true
'''


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


with Folder() as folder:
    folder.write('model/config.json', json.dumps(SHAPE))
    model = os.path.join(folder.path, 'model')

    def applied(text, *flags, name='job.yml'):
        """The values that are other than before, by line of the file."""
        path = folder.write(name, text)
        result = run('apply', model, '--gpu', '4090', *flags, '--to', path).expect(0)
        after = read(path).splitlines()
        for more in ['.backup', '.backup.record']:
            if os.path.exists(path + more):
                os.remove(path + more)
        check(len(after) == len(text.splitlines()), f'{flags}: lines are {after}')
        return {new.split(':')[0].strip() for old, new in zip(text.splitlines(), after) if old != new}, '\n'.join(after), result

    qlora = ('--method', 'qlora')
    changed, text, result = applied(AXOLOTL, *qlora)
    check(changed == {'gradient_checkpointing'} and 'gradient_checkpointing: false' in text, f'{changed}: {text}')
    check('data.sequence_length=48, training.batch_size=2, training.gradient_accumulation=6, model.adapters.rank=4'
          in result.err, f'the remark: {result.err}')

    # With --auto a step has as many samples as before, and the optimizer is not touched.
    changed, text, result = applied(AXOLOTL, *qlora, '--auto')
    values = dict(line.split(': ') for line in text.splitlines() if line.startswith(('micro', 'gradient_acc')))
    check(int(values['micro_batch_size']) * int(values['gradient_accumulation_steps']) == 12, f'{values}')
    check(changed <= {'micro_batch_size', 'gradient_accumulation_steps', 'gradient_checkpointing'}, f'{changed}: {text}')
    check('training.effective_batch=12' in result.err, f'{result.err}')

    # The precision that --method takes where nothing is written is not put over another one.
    for before, precision in [('bf16: auto', None), ('bf16: false\nfp16: true', '16-mixed'), ('fp16: true', '16-mixed'),
                              ('bf16: full', 'bf16-true'), ('bf16: false', '32-true'), ('bf16: no\nfp16: no', '32-true'),
                              ('bf16: maybe', None)]:
        text = AXOLOTL.replace('bf16: true', before)
        changed, after, result = applied(text, *qlora, '--set', 'memory.checkpoint=every-layer')
        check((f'model.precision={precision}' in result.err) == (precision is not None), f'{before}: {result.err}')
        check(changed == ({'bf16'} if 'maybe' in before else set()), f'{before}: {changed} {after}')
    _, text, _ = applied(AXOLOTL.replace('bf16: true', 'fp16: true\nbf16: false'), *qlora, '--set', 'model.precision=bf16-mixed')
    check('fp16: false\nbf16: true\n' in text, f'--set goes before: {text}')

    # Flags and --set go before the file, each for itself.
    changed, text, _ = applied(AXOLOTL, *qlora, '--seq', '64', '--set', 'model.adapters.rank=2')
    check('sequence_len: 64  # short' in text and 'lora_r: 2\n' in text, text)
    check('micro_batch_size: 2\n' in text and 'gradient_accumulation_steps: 6\n' in text, text)
    changed, text, _ = applied(AXOLOTL, *qlora, '--batch', '3')
    check('micro_batch_size: 3\n' in text and 'gradient_accumulation_steps: 6\n' in text, text)
    changed, text, _ = applied(AXOLOTL, *qlora, '--auto', '--set', 'training.gradient_accumulation=3')
    check('micro_batch_size: 2\n' in text and 'gradient_accumulation_steps: 3\n' in text, text)
    changed, text, result = applied(AXOLOTL, *qlora, '--target-effective-batch', '4')
    check('sequence_len: 48' in text and 'micro_batch_size: 2\n' in text and 'accumulation_steps: 2\n' in text, text)
    changed, text, result = applied(AXOLOTL, *qlora, '--target-effective-batch', '5')
    check('micro_batch_size: 1\n' in text and 'accumulation_steps: 5\n' in text, text)
    check('rank' not in applied(AXOLOTL, '--method', 'full')[2].err, 'full training has no rank')
    changed, text, result = applied(AXOLOTL, '--set', 'training.effective_batch=4')
    check('micro_batch_size: 2\n' in text and 'accumulation_steps: 2\n' in text, f'--set as the flag: {text}')

    # Without --method too the precision is the config's.
    for before, precision in [('bf16: true', 'bf16-mixed'), ('bf16: full', 'bf16-true'), ('bf16: false', None)]:
        changed, after, result = applied(AXOLOTL.replace('bf16: true', before))
        check((f'model.precision={precision}' in result.err) == (precision is not None), f'{before}: {result.err}')
        check(changed <= {'gradient_checkpointing'}, f'{before}: {changed} {after}')

    # What is part of the plan and has no key in any of the files is told.
    for setting in ['memory.offload.optimizer=host', 'memory.update=in-backward']:
        name, value = setting.split('=')
        told = f'not written: {name} = {value}; no file has a key for it'
        one = AXOLOTL.replace('steps: 6', 'steps: 1')
        check(told in applied(one, '--method', 'full', '--set', setting)[2].out, f'{setting}: told')
        check('no file has a key' not in applied(one, '--method', 'full')[2].out, 'nothing to tell')
    job, zero = folder.write('job.yml', AXOLOTL), folder.write('ds.json', '{"zero_optimization": {"offload_optimizer": '
                                                               '{"device": "none"}}, "train_micro_batch_size_per_gpu": 2}')
    both = run('apply', model, '--method', 'full', '--set', 'memory.offload.optimizer=host', '--to', job, zero).expect(0)
    check('no file has a key' not in both.out and '"cpu"' in read(zero), f'the other file has it: {both.out}')
    for name in ['job.yml', 'ds.json']:
        for more in ['.backup', '.backup.record']:
            if os.path.exists(os.path.join(folder.path, name + more)):
                os.remove(os.path.join(folder.path, name + more))

    # Nothing is taken from what says nothing, and what a recipe gives is the recipe's.
    check('remark' not in applied('micro_batch_size: auto\nsequence_len: ${len}\nadapter: lora\n', *qlora)[2].err, 'no remark')
    recipe = folder.write('recipe.yaml', f'model: {{ path: {model} }}\ndata: {{ source: synthetic, sequence_length: 16 }}\n')
    path = folder.write('job.yml', AXOLOTL)
    run('apply', recipe, '--to', path).expect(0)
    check('sequence_len: 16' in read(path) and 'micro_batch_size: 1\n' in read(path), read(path))
    run('apply', '--revert').expect(2, 'headroom apply --revert --to FILE')
finish()
