"""A training run of transformers (and PEFT) under DeepSpeed's engine on one GPU, by a setting (settings.py) with 'zero'."""
import os

import torch
import transformers

from checked import runs

TYPES = {'fp32': torch.float32, 'amp': torch.bfloat16, 'bf16': torch.bfloat16, 'fp16amp': torch.float16}


def group_of_one():
    """The process group that DeepSpeed asks for; without a GPU one that does nothing, made before a trace pretends that there is one."""
    if torch.distributed.is_initialized():
        return
    os.environ.update(RANK='0', WORLD_SIZE='1', LOCAL_RANK='0', MASTER_ADDR='127.0.0.1')
    os.environ.setdefault('MASTER_PORT', '29521')
    if torch.cuda.is_available():
        torch.distributed.init_process_group('nccl', rank=0, world_size=1)
    else:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group('fake', rank=0, world_size=1, store=FakeStore())


def config_of(s):
    """ds_config.json"""
    z = s['zero']
    zero = {'stage': z['stage'], 'reduce_bucket_size': z['bucket'], 'overlap_comm': z['overlap']}
    if z['stage'] == 3:
        zero['sub_group_size'] = z['sub_group']
    if z['offload'] != 'none':
        zero['offload_optimizer'] = {'device': 'cpu', 'pin_memory': True}
    if z['offload'] == 'all':
        zero['offload_param'] = {'device': 'cpu', 'pin_memory': True}
    config = {'train_micro_batch_size_per_gpu': s['batch'], 'gradient_accumulation_steps': s['accumulation'],
              'zero_optimization': zero, 'gradient_clipping': 1.0 if s['clip'] else 0.0,
              'zero_allow_untested_optimizer': True, 'zero_force_ds_cpu_optimizer': False, 'steps_per_print': 1 << 30}
    if s['precision'] == 'fp16amp':  # a scale at which no step is skipped: whether one is depends on contents
        config['fp16'] = {'enabled': True, 'loss_scale': 1024.0}
    elif s['precision'] != 'fp32':
        config['bf16'] = {'enabled': True}
    return config


def built(s):
    """As from_pretrained leaves it: on the host, cast there, then moved."""
    name = runs.FAMILIES[s['family']]
    config = getattr(transformers, name + 'Config')(**s['config'])
    config.use_cache = False
    whole = getattr(transformers, name + ('ForMaskedLM' if s['family'] == 'bert' else 'ForCausalLM'))
    kind = TYPES[s['precision']]
    model = runs.on_host(whole, config, {'attn_implementation': s['attention'], 'dtype': kind})
    if s['method'] != 'full':
        model = runs.adapted(s, model)
        for p in model.parameters():
            p.data = p.data.to(kind)
    model = model.cuda()
    model.train()
    if s['checkpoint'] != 'none':
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': s['checkpoint'] == 'reentrant'})
        if s['method'] != 'full':
            model.enable_input_require_grads()
    return model


def train(s, steps, begins):
    """Some steps; `begins` is called before each of them, and behind the last one."""
    import deepspeed
    group_of_one()
    model = built(s)
    optimizer = runs.optimizer_of(s, [p for p in model.parameters() if p.requires_grad])
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config_of(s))[0]
    words = runs.inputs_of(s, s['batch'])
    for _ in range(steps):
        begins()
        for _ in range(s['accumulation']):
            loss = engine(**words).loss
            engine.backward(loss)
            engine.step()
        if s.get('eval_batch'):
            runs.evaluate(s, engine, None)
    begins()
    engine.destroy()
