#!/usr/bin/env python3
"""apply with a checkpoint's folder plans the training that the config describes: defaults of headroom's do not overwrite it."""
import json
import os

from support import Folder, check, finish, run

SHAPE = {'model_type': 'llama', 'hidden_size': 32, 'intermediate_size': 64, 'num_hidden_layers': 2,
         'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 320, 'max_position_embeddings': 512}
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

    def refused(text, *flags, name='job.yml', code=5, words=()):
        """Stops, and has written nothing."""
        path = folder.write(name, text)
        result = run('apply', model, '--gpu', '4090', *flags, '--to', path).expect(code, *words)
        check(read(path) == text and not os.path.exists(path + '.backup'), f'{flags}: nothing is written')
        return result

    # The config is the truth: method, quantization, precision, optimizer, checkpointing, attention and rows are read.
    changed, text, result = applied(AXOLOTL)
    check(changed == set(), f'{changed}: {text}')
    for said in ['model.adapters.kind=lora', 'model.quantize.kind=nf4', 'model.precision=bf16-mixed', 'engine.dtype=bf16',
                 'training.optimizer.kind=paged_adamw', 'memory.checkpoint=every-layer', 'engine.checkpoint=reentrant', 'engine.padded=true',
                 'data.sequence_length=48', 'model.adapters.rank=4', 'training.batch_size=2', 'training.gradient_accumulation=6']:
        check(said in result.err, f'{said} is not in the remark: {result.err}')
    check(result.out.splitlines()[-1].startswith('read back, PyTorch will hold ') and ', margin ' in result.out.splitlines()[-1], result.out)
    qlora = ('--method', 'qlora')
    check(applied(AXOLOTL, *qlora)[0] == set(), 'a flag that says the same')

    # With --auto a step has as many samples as before, and the optimizer is not touched.
    changed, text, result = applied(AXOLOTL, '--auto')
    values = dict(line.split(': ') for line in text.splitlines() if line.startswith(('micro', 'gradient_acc')))
    check(int(values['micro_batch_size']) * int(values['gradient_accumulation_steps']) == 12, f'{values}')
    check(changed <= {'micro_batch_size', 'gradient_accumulation_steps', 'gradient_checkpointing'}, f'{changed}: {text}')
    check('training.effective_batch=12' in result.err, f'{result.err}')

    # What has no place in the file is not searched: neither checkpointing nor accumulation.
    short = 'base_model: a/b\nsequence_len: 48\nmicro_batch_size: 4\nadapter: lora\nlora_r: 4\nlora_target_linear: true\noptimizer: adamw_torch\n'
    changed, text, result = applied(short, '--auto')
    check(changed == set() and 'memory.checkpoint=none' in result.err and 'training.batch_size=4' in result.err, f'{changed} {result.err}')
    # Offload of checkpoints is not turned off, nor what goes with it.
    changed, text, result = applied(AXOLOTL.replace('checkpointing: true', 'checkpointing: offload'), '--auto')
    check('gradient_checkpointing: offload' in text and 'holds no more than is planned' in result.err, f'{text} {result.err}')

    # The precision is the config's, in its own words and by what is not there.
    for before, precision in [('bf16: auto', 'bf16-mixed'), ('bf16: false\nfp16: true', '16-mixed'), ('fp16: true', '16-mixed'),
                              ('bf16: full', 'bf16-true'), ('bf16: false', '32-true'), ('bf16: no\nfp16: no', '32-true'), ('', 'bf16-mixed')]:
        changed, after, result = applied(AXOLOTL.replace('bf16: true', before))
        check(f'model.precision={precision}' in result.err and changed == set(), f'{before}: {result.err} {changed}')
    refused(AXOLOTL.replace('bf16: true', 'bf16: maybe'), words=['job.yml:10:7', 'bf16: maybe', '--set model.precision='])

    # A flag that contradicts the file stops with both places; --override goes on.
    for flags, words in [(('--seq', '64'), ['job.yml:4:15', 'sequence_len: 48', 'data.sequence_length=64']),
                         (('--method', 'full'), ['job.yml:3:10', 'adapter: qlora', 'model.adapters.kind=none']),
                         (('--method', 'lora'), ['model.quantize.kind=none']), (('--set', 'model.adapters.rank=2'), ['lora_r: 4', 'rank=2']),
                         (('--set', 'memory.checkpoint=none'), ['gradient_checkpointing: true']),
                         (('--set', 'model.precision=16-mixed'), ['bf16: true'])]:
        refused(AXOLOTL, *flags, words=[*words, '--override'])
    refused(short.replace('adapter: lora\n', ''), *qlora, words=['adapter is not there', 'model.adapters.kind=lora'])
    changed, text, _ = applied(AXOLOTL, '--seq', '64', '--set', 'model.adapters.rank=2', '--override')
    check('sequence_len: 64  # short' in text and 'lora_r: 2\n' in text, text)
    check('micro_batch_size: 2\n' in text and 'gradient_accumulation_steps: 6\n' in text, text)
    _, text, _ = applied(AXOLOTL.replace('bf16: true', 'fp16: true\nbf16: false'), '--set', 'model.precision=bf16-mixed', '--override')
    check('fp16: false\nbf16: true\n' in text, f'--set goes before: {text}')
    # How a step is cut is what apply is for.
    changed, text, _ = applied(AXOLOTL, '--batch', '3')
    check('micro_batch_size: 3\n' in text and 'gradient_accumulation_steps: 6\n' in text, text)
    changed, text, _ = applied(AXOLOTL, '--auto', '--set', 'training.gradient_accumulation=3')
    check('micro_batch_size: 2\n' in text and 'gradient_accumulation_steps: 3\n' in text, text)
    changed, text, result = applied(AXOLOTL, '--target-effective-batch', '4')
    check('sequence_len: 48' in text and 'micro_batch_size: 2\n' in text and 'accumulation_steps: 2\n' in text, text)
    changed, text, result = applied(AXOLOTL, '--target-effective-batch', '5')
    check('micro_batch_size: 1\n' in text and 'accumulation_steps: 5\n' in text, text)
    # batch_size beside micro_batch_size is the whole step.
    both = AXOLOTL.replace('gradient_accumulation_steps: 6', 'batch_size: 12')
    check('training.gradient_accumulation=6' in applied(both)[2].err, 'accumulation follows')

    # Numbers as this trainer reads them, or a stop with the line.
    for value, number in [('5_0', 50), ('"48"', 48), ("'4_8'", 48), ('48.0', 48)]:
        changed, text, result = applied(AXOLOTL.replace('sequence_len: 48', f'sequence_len: {value}'))
        check(f'data.sequence_length={number},' in result.err and changed == set(), f'{value}: {result.err}')
    for value in ['-1', '0', '48.5', 'many', '${len}', '"{{ len }}"']:
        refused(AXOLOTL.replace('sequence_len: 48', f'sequence_len: {value}'), words=['job.yml:4:15', 'sequence_len'])
    refused(AXOLOTL.replace('paged_adamw_32bit', 'adafactor'), words=['optimizer: adafactor', 'job.yml:9:12'])
    refused(AXOLOTL.replace('sequence_len: 48', 'sequence_len: 500_000'), words=['job.yml:4:15', '500000', 'max_position_embeddings'])
    check('data.sequence_length=512' in applied(AXOLOTL.replace('sequence_len: 48  # short\n', ''))[2].err, "axolotl's own default")
    hf = 'output_dir: x\nper_device_train_batch_size: 2\nbf16: true\nmax_length: {}\n'
    for value in ['"48"', '48.0']:
        refused(hf.format(value), words=['job.yml:4:13', 'to this trainer'])
    refused(hf.replace('max_length: {}\n', ''), words=['how long samples are is not said', '--seq'])
    check('planned as the config says' in applied(hf.format('4_8'))[2].err, 'underscores are digits to PyYAML')

    # No limit is not a number: the length is planned for, and the data stay whole.
    tune = """model: {{ _component_: torchtune.models.llama3_2.{} }}
tokenizer:
  max_seq_len: null
batch_size: 4
gradient_accumulation_steps: 2
optimizer: {{ _component_: torch.optim.AdamW, fused: True }}
dtype: bf16
enable_activation_checkpointing: False
"""
    refused(tune.format('lora_llama3_2_1b'), words=['job.yml:3:16', 'no limit', '--seq N'])
    changed, text, result = applied(tune.format('lora_llama3_2_1b'), '--seq', '64', '--auto')
    check('max_seq_len: null' in text and 'model.adapters.kind=lora' in result.err, f'{text} {result.err}')
    check('max_seq_len: 64' in applied(tune.format('lora_llama3_2_1b'), '--seq', '64', '--override')[1], '--override writes it')
    check('model.quantize.kind=nf4' in applied(tune.format('qlora_llama3_2_1b'), '--seq', '64')[2].err, 'builders say by their name what they are')
    check('model.adapters=null' in applied(tune.format('llama3_2_1b'), '--seq', '64')[2].err, 'full training')
    # With updates in backward there is no accumulation.
    changed, text, result = applied(tune.format('llama3_2_1b').replace('steps: 2', 'steps: 1') + 'optimizer_in_bwd: True\n', '--seq', '64', '--auto')
    check('gradient_accumulation_steps: 1' in text and 'batch_size: 4' in text, text)

    # Kinds of configs that are not planned, by name.
    for kind, text in [('reinforcement learning', AXOLOTL + 'rl: grpo\n'), ('knowledge distillation', AXOLOTL + 'kd_trainer: true\n'),
                       ('quantization-aware', AXOLOTL + 'qat: {activation_dtype: int8}\n'), ('LLaMA-Factory v1', 'model: a/b\nmodel_class: llm\ntrain_dataset: x\n'),
                       ('preferences', 'stage: dpo\nfinetuning_type: lora\ncutoff_len: 48\n'), ('merging', 'model_name_or_path: a\ntemplate: x\nexport_dir: y\nfinetuning_type: lora\n'),
                       ('evaluation', tune.format('llama3_2_1b') + 'tasks: [a]\n'), ('knowledge distillation', tune.format('llama3_2_1b') + 'kd_loss: {a: 1}\n'),
                       ('generation', 'model: {_component_: a.b}\ntokenizer: {_component_: a.c}\nmax_new_tokens: 3\n')]:
        result = refused(text, '--seq', '48', words=[kind, 'does not plan'])
        check('job.yml:' in result.err and 'try:' in result.err, result.err)
    # What PyTorch's memory is not known with, by name; --override plans without.
    for more in ['deepspeed: zero3.json', 'load_in_8bit: true', 'torch_compile: true', 'lora_modules_to_save: [embed_tokens]']:
        refused(AXOLOTL + more + '\n', words=[more.split(':')[0], 'job.yml:12:', '--override'])
    check('not planned' in applied(AXOLOTL + 'fsdp: [full_shard]\n')[2].err, 'FSDP is named')
    applied(AXOLOTL + 'torch_compile: true\n', '--override')
    # DeepSpeed's config that a trainer's names is read with it, from the folder that it lies in or one above, and goes before.
    zero = {'train_micro_batch_size_per_gpu': 'auto', 'bf16': {'enabled': 'auto'}, 'optimizer': {'type': 'AdamW'},
            'zero_optimization': {'stage': 2, 'reduce_bucket_size': 'auto', 'overlap_comm': True, 'offload_optimizer': {'device': 'cpu'}}}
    folder.write('ds/zero2.json', json.dumps(zero))
    args = 'output_dir: x\nper_device_train_batch_size: 2\nbf16: true\nmax_length: 48\noptim: adamw_torch\ndeepspeed: {}\n'
    for name in ['job.yml', 'a/b/job.yml']:
        changed, text, result = applied(args.format('ds/zero2.json'), name=name)
        check(changed == set(), f'{changed}: {text}')
        for said in ['engine.trainer=deepspeed', 'engine.zero.stage=2', 'engine.zero.bucket=0', 'engine.zero.overlap=true', 'engine.zero.offload=optimizer',
                     'engine.optimizer=fused', 'model.precision=bf16-mixed', 'training.batch_size=2']:
            check(said in result.err, f'{said} is not in the remark: {result.err}')
    for change, words in [({'stage': 0}, ['without ZeRO']), ({'stage': 3, 'offload_param': {'device': 'cpu'}}, ['zero2.json:', 'not modelled']),
                          ({'offload_optimizer': {'device': 'nvme'}}, ['zero2.json:', 'nvme']), ({'contiguous_gradients': False}, ['zero2.json:']),
                          ({'reduce_bucket_size': '5e8 elements'}, ['zero2.json:'])]:
        folder.write('ds/zero2.json', json.dumps(dict(zero, zero_optimization=dict(zero['zero_optimization'], **change))))
        refused(args.format('ds/zero2.json'), words=words)
    # Whole numbers may be written as 5e8, as the documentation of both does, and go as far as the setting.
    for stage, bucket, group in [(3, '5e8', '1e9'), (2, '5000000000', '1e12'), (3, '500000000.0', '1000000000')]:
        folder.write('ds/zero2.json', f'{{"zero_optimization": {{"stage": {stage}, "reduce_bucket_size": {bucket}, "sub_group_size": {group}}}}}')
        for said in [f'engine.zero.bucket={float(bucket):.0f}', f'engine.zero.sub_group={float(group):.0f}']:
            check(said in applied(args.format('ds/zero2.json'))[2].err, said)
    for number in ['1e13', '5e-1', '1.5', '0', '"many"']:
        folder.write('ds/zero2.json', f'{{"zero_optimization": {{"stage": 3, "sub_group_size": {number}}}}}')
        refused(args.format('ds/zero2.json'), words=['zero2.json:1:', 'sub_group_size'])
    folder.write('ds/zero2.json', json.dumps({'bf16': {'enabled': True}}))
    refused(args.format('ds/zero2.json'), words=['without ZeRO'])
    # Nor are keys that change what is held dropped; as they are anyway they stop nothing.
    host = {'device': 'cpu'}
    for more, word in [({'zero_optimization': {'stage': 3, 'offload_optimizer': dict(host, ratio=0.3)}}, 'ratio'),
                       ({'zero_optimization': {'stage': 3, 'memory_efficient_linear': False}}, 'memory_efficient_linear'),
                       ({'zero_optimization': {'stage': 2}, 'communication_data_type': 'fp32'}, 'communication_data_type')]:
        folder.write('ds/zero2.json', json.dumps(more))
        refused(args.format('ds/zero2.json'), words=['zero2.json:1:', word, '--override'])
    folder.write('ds/zero2.json', json.dumps({'zero_optimization': {'stage': 3, 'offload_optimizer': dict(host, ratio=1.0), 'memory_efficient_linear': True},
                                              'communication_data_type': None}))
    applied(args.format('ds/zero2.json'))
    # Nor is one that says nothing of ZeRO, or not so that it is a stage, a plain loop: its place is told.
    for text, place in [('{}', 'zero2.json'), ('{"steps_per_print": 10}', 'zero2.json'), ('{"zero_optimization": {"stage": "two"}}', 'zero2.json:1:'),
                        ('{"zero_optimization": {"stage": null}}', 'zero2.json:1:'), ('{"zero_optimization": {"stage": "auto"}}', 'zero2.json:1:'),
                        ('{"zero_optimization": {}}', 'zero2.json'), ('{"zero_optimization": {"stage": []}}', 'zero2.json:1:')]:
        named = folder.write('ds/zero2.json', text)
        refused(args.format('ds/zero2.json'), words=[place, 'zero_optimization.stage', 'without ZeRO', '--override'])
    applied(args.format('ds/zero2.json'), '--override')
    folder.write('ds/zero2.json', '{"steps_per_print": 10}')
    refused(args.format('auto'), '--to', named, words=['zero2.json', 'without ZeRO'])
    refused(args.format('ds/none.json'), words=['job.yml:6:', 'none.json', 'no file', '--override'])
    # Without a GPU nothing can be said of DeepSpeed, and what to do is.
    folder.write('ds/zero2.json', json.dumps(zero))
    path = folder.write('job.yml', args.format('ds/zero2.json'))
    run('apply', model, '--dry-run', '--to', path).expect(5, 'memory.device', 'not for the processor', 'name the card: --gpu 4090')
    # A file that is named, and not to be written to, keeps its numbers: a pair that contradicts is not written.
    for key, flags in [('train_micro_batch_size_per_gpu', ('--batch', '3')), ('gradient_accumulation_steps', ('--set', 'training.gradient_accumulation=3'))]:
        text = args.format('ds/zero2.json') + 'gradient_accumulation_steps: 4\n'
        named = folder.write('ds/zero2.json', json.dumps({**zero, key: 8}))
        refused(text, *flags, words=['zero2.json:1:', f'{key}: 8', 'job.yml:', 'in --to'])
        applied(text)  # what that file says goes before
        run('apply', model, '--gpu', '4090', *flags, '--dry-run', '--to', folder.write('job.yml', text), named).expect(0)
    # What is wrong with it is told in its own words.
    for text, words in [('{\n "bf16": ]\n}', ['zero2.json:2:', '--override']), ('{"zero_optimization": {"stage": 7}}', ['zero2.json:1:', 'engine.zero.stage', 'between 1 and 3'])]:
        folder.write('ds/zero2.json', text)
        result = refused(args.format('ds/zero2.json'), words=words)
        check('no file' not in result.err, result.err)
    folder.write('ds/zero2.json', json.dumps({'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'nvme'}}}))
    check('known are none, cpu' in refused(args.format('ds/zero2.json')).err and 'cpu, cpu' not in refused(args.format('ds/zero2.json')).err, 'once')
    folder.write('ds/zero2.json', json.dumps(zero))
    # A recipe says nothing of the trainer that runs it: what is held beside is the config's.
    recipe = folder.write('zero.yaml', f'model: {{ path: {model}, precision: bf16-mixed }}\ndata: {{ source: synthetic, sequence_length: 48 }}\n'
                                       'training: { batch_size: 2 }\n')
    call = ('apply', recipe, '--dry-run', '--to', path, '--gpu', '4090')
    result = run(*call).expect(0, 'engine.trainer=deepspeed', 'engine.zero.stage=2', 'read back, PyTorch will hold')
    shown = result.err[result.err.index('will show') + 10:].split()[0]
    check(f'will hold {shown}' in ' '.join(result.err.split()), f'the plan is what is read back: {result.err}')
    for change, word in [({'offload_param': host, 'stage': 3}, 'not modelled'), ({'offload_optimizer': {'device': 'nvme'}}, 'nvme')]:
        folder.write('ds/zero2.json', json.dumps(dict(zero, zero_optimization=dict(zero['zero_optimization'], **change))))
        run(*call).expect(5, 'zero2.json:1:', word)
    folder.write('ds/zero2.json', json.dumps(zero))
    # Evaluations between steps are planned with the rows that they take at a time, where there are any.
    args = 'output_dir: x\nper_device_train_batch_size: 2\nbf16: true\nmax_length: 48\n'
    for text, said in [(AXOLOTL + 'val_set_size: 0.05\neval_batch_size: 3\n', 'engine.eval_batch_size=3'),
                       (AXOLOTL + 'val_set_size: 0.05\n', 'by as many rows at a time as it trains on'),
                       (args + 'eval_strategy: steps\n', 'engine.eval_batch_size=8'),
                       (args + 'eval_strategy: epoch\nper_device_eval_batch_size: 5\n', 'engine.eval_batch_size=5'),
                       (tune.format('llama3_2_1b') + 'run_val_every_n_steps: 100\nbatch_size_val: 7\n', 'engine.eval_batch_size=7')]:
        seen = ' '.join(applied(text, *(['--seq', '48'] if text.startswith(tune[:5]) else []))[2].err.split())
        check(said in seen, f'{said}: {seen}')
    for text in [AXOLOTL + 'val_set_size: 0.0\neval_batch_size: 3\n', args + 'per_device_eval_batch_size: 5\n', args + 'eval_strategy: "no"\n']:
        check('eval' not in applied(text)[2].err, f'no evaluation: {text}')
    refused(args + 'eval_strategy: steps\nper_device_eval_batch_size: 65536\n', '--gpu-memory', '4GiB', code=3)
    # The type that weights are loaded in, and what SGD keeps, as the trainer reads them.
    args = 'output_dir: x\nper_device_train_batch_size: 2\nbf16: true\nmax_length: 48\noptim: {}\ndtype: {}\n'
    for optim, dtype, words in [('sgd', 'bfloat16', ['engine.dtype=bf16', 'training.optimizer.momentum=0', 'training.optimizer.weight_decay=0']),
                                ('sgd\nweight_decay: 0.1', 'float32', ['engine.dtype=f32', 'training.optimizer.weight_decay=0.1'])]:
        result = applied(args.format(optim, dtype))[2]
        check(all(word in result.err for word in words), f'{words}: {result.err}')
    check('momentum' not in applied(args.format('adamw_torch', 'float32'))[2].err, 'AdamW has none')
    refused(args.format('sgd', 'auto'), words=['job.yml:6:8', 'dtype: auto'])
    sgd = tune.replace('torch.optim.AdamW, fused: True', 'torch.optim.SGD, momentum: 0.9').format('llama3_2_1b')
    check('training.optimizer.momentum=0.9' in applied(sgd, '--seq', '64')[2].err, 'momentum of torchtune')
    check('training.optimizer.momentum=0,' in applied(sgd.replace(', momentum: 0.9', ''), '--seq', '64')[2].err, 'none')

    # The base model: a folder that the config names is another one than is planned, or the same; a name is told.
    os.makedirs(os.path.join(folder.path, 'other'), exist_ok=True)
    refused(AXOLOTL.replace('a/b', os.path.join(folder.path, 'other')), words=['job.yml:1:13', 'another folder', '--override'])
    check('remark: ' + os.path.join(folder.path, 'job.yml:1:13') not in applied(AXOLOTL.replace('a/b', model))[2].err, 'the same folder')
    check('base_model is a/b, and what is planned is' in ' '.join(applied(AXOLOTL)[2].err.split()), 'another name')
    check('what is planned is' not in applied(AXOLOTL.replace('a/b', 'them/Model'))[2].err, 'the same name')

    # LLaMA-Factory: QLoRA stays QLoRA, and a type of its own is read.
    factory = 'stage: sft\ndo_train: true\nfinetuning_type: lora\ntemplate: x\ncutoff_len: 48\nquantization_bit: 4\nbf16: true\nflash_attn: fa2\n'
    changed, text, result = applied(factory, '--auto')
    check('quantization_bit: 4\n' in text and 'model.quantize.kind=nf4' in result.err and 'engine.attention=flash' in result.err, result.err)
    pure = factory.replace('bf16: true', 'pure_bf16: true').replace('lora\n', 'full\n').replace('quantization_bit: 4\n', '')
    check('model.precision=bf16-true' in applied(pure)[2].err, 'pure_bf16')

    # The new text is read back: what does not fit is not written, and the cheapest change is named.
    big = AXOLOTL.replace('sequence_len: 48', 'sequence_len: 128').replace('micro_batch_size: 2', 'micro_batch_size: 4096')
    refused(big, '--gpu-memory', '1GiB', code=3)
    # A value that the plan changes and that has to stay, as another key would change too: what is left does not fit.
    held = AXOLOTL.replace('sequence_len: 48', 'sequence_len: 128').replace('micro_batch_size: 2', 'micro_batch_size: &b 2048\neval_batch_size: *b')
    small = ('--gpu-memory', '2GiB', '--batch', '2')
    result = refused(held.replace('steps: 6', 'steps: 1'), *small, code=3,
                     words=['read back, this config would make PyTorch hold', 'job.yml:8', 'micro_batch_size: 2, which was left alone', 'the anchor &b'])
    answer = run('apply', model, '--gpu', '4090', *small, '--json', '--to', os.path.join(folder.path, 'job.yml')).expect(3).json()
    check(answer['error']['code'] == 'HR_NO_FIT' and answer['error']['place'].endswith('job.yml:8'), f'{answer}')
    check(applied(held.replace('&b ', '').replace('*b', '2').replace('steps: 6', 'steps: 1'), *small)[0] == {'micro_batch_size'}, 'without the anchor')
    # What the recipe leaves out is the file's: attention that is written out does not fit, and the change that is named does.
    gave = folder.write('gave.yaml', f'model: {{ path: {model}, precision: bf16-true }}\nengine: {{ kind: pytorch }}\nmemory: {{ device: cuda }}\n'
                                     'data: { source: synthetic, sequence_length: 512 }\ntraining: { batch_size: 256 }\n')
    eager = ('base_model: a/b\nsequence_len: 512\ngradient_accumulation_steps: 1\nmicro_batch_size: 2\neager_attention: true\n'
             'optimizer: adamw_torch_fused\nbf16: full\n')
    path = folder.write('eager.yml', eager)
    run('apply', gave, '--gpu', '4090', '--gpu-memory', '9GiB', '--dry-run', '--to', path).expect(0, 'read back')
    call = ('apply', gave, '--gpu', '4090', '--gpu-memory', '3GiB', '--to', path)
    result = run(*call).expect(3, 'read back, this config', 'eager.yml', 'the cheapest change that fits:')
    check(read(path) == eager and not os.path.exists(path + '.backup'), 'nothing is written')
    change = result.err[result.err.index('fits:') + 5:].split()
    run(*call, *change).expect(0, 'read back, PyTorch will hold')
    check('micro_batch_size: 2\n' not in read(path), f'{change}: {read(path)}')

    # What is part of the plan and has no key in any of the files is told.
    full = AXOLOTL.replace('adapter: qlora\n', '').replace('load_in_4bit: true\n', '')
    for setting in ['memory.offload.optimizer=host', 'memory.update=in-backward']:
        name, value = setting.split('=')
        told = f'not written: {name} = {value}; no file has a key for it'
        one = full.replace('steps: 6', 'steps: 1')
        check(told in applied(one, '--method', 'full', '--set', setting)[2].out, f'{setting}: told')
        check('no file has a key' not in applied(one, '--method', 'full')[2].out, 'nothing to tell')
    job, zero = folder.write('job.yml', full), folder.write('ds.json', '{"zero_optimization": {"offload_optimizer": '
                                                            '{"device": "none"}}, "train_micro_batch_size_per_gpu": 2}')
    both = run('apply', model, '--method', 'full', '--set', 'memory.offload.optimizer=host', '--to', job, zero).expect(0)
    check('no file has a key' not in both.out and '"cpu"' in read(zero), f'the other file has it: {both.out}')
    for name in ['job.yml', 'ds.json']:
        for more in ['.backup', '.backup.record']:
            if os.path.exists(os.path.join(folder.path, name + more)):
                os.remove(os.path.join(folder.path, name + more))

    # What a recipe gives is the recipe's.
    recipe = folder.write('recipe.yaml', f'model: {{ path: {model} }}\ndata: {{ source: synthetic, sequence_length: 16 }}\n')
    path = folder.write('job.yml', AXOLOTL)
    run('apply', recipe, '--to', path).expect(0)
    check('sequence_len: 16' in read(path) and 'micro_batch_size: 1\n' in read(path), read(path))
    run('apply', '--revert').expect(2, 'headroom apply --revert --to FILE')
finish()
