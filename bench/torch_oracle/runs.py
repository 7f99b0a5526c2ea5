"""A training run of transformers, PEFT and bitsandbytes by a setting (settings.py), traced on tensors without contents."""
import gc
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import bitsandbytes
import peft
import torch
import transformers
from torch import nn
from torch_trace import headroom_trace

from allocator import ALLOCATE, FREE, MARK
from settings import FAMILIES, GPUS

gc.freeze()  # libraries stay; steps look for cycles among what is theirs
WIDE, HALF = torch.float32, torch.bfloat16
STEPS = 3  # that are traced: the third is as all behind it
REPLAYED = 6


def packed(model):
    """Linear modules but the head in 4 bits, as from_pretrained makes them."""
    for module in list(model.modules()):
        for name, linear in list(module.named_children()):
            if not isinstance(linear, nn.Linear) or name in ('lm_head', 'decoder'):
                continue
            four = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=linear.bias is not None,
                                              compute_dtype=HALF, quant_type='nf4', compress_statistics=True)
            four.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False, quant_type='nf4',
                                                     compress_statistics=True)
            if linear.bias is not None:
                four.bias = linear.bias
            setattr(module, name, four)
    model = model.cuda()
    model.is_loaded_in_4bit = True
    return model


def built(s):
    name = FAMILIES[s['family']]
    config = getattr(transformers, name + 'Config')(**s['config'])
    config.use_cache = False
    kind = HALF if s['precision'] == 'bf16' else WIDE
    whole = getattr(transformers, name + ('ForMaskedLM' if s['family'] == 'bert' else 'ForCausalLM'))
    torch.set_default_dtype(kind)
    try:
        with torch.device('cpu' if s['method'] == 'qlora' else 'cuda'):
            model = whole._from_config(config, attn_implementation=s['attention'], dtype=kind)
    finally:
        torch.set_default_dtype(WIDE)
    if s['method'] == 'qlora':
        model = peft.prepare_model_for_kbit_training(packed(model), use_gradient_checkpointing=False)
    if s['method'] != 'full':
        lora = dict(r=s['rank'], lora_alpha=16, lora_dropout=s['dropout'], target_modules='all-linear')
        if s['family'] != 'bert':
            lora['task_type'] = 'CAUSAL_LM'
        model = peft.get_peft_model(model, peft.LoraConfig(**lora))
    model.train()
    if s['checkpoint'] != 'none':
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': s['checkpoint'] == 'reentrant'})
        if s['method'] != 'full':
            model.enable_input_require_grads()
    return model


def optimizer_of(s, parameters):
    kind, _, by = s['optimizer'].partition('_')
    decay = s['weight_decay']
    if s['optimizer'] == 'adamw8bit':
        return bitsandbytes.optim.AdamW8bit(parameters, weight_decay=decay)
    if kind == 'paged':
        return getattr(bitsandbytes.optim, 'PagedAdamW8bit' if '8bit' in by else 'PagedAdamW')(parameters, weight_decay=decay)
    ways = {'fused': by == 'fused', 'foreach': by == 'foreach'}
    if kind == 'sgd':
        return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9, weight_decay=decay, **ways)
    return torch.optim.AdamW(parameters, lr=1e-5, weight_decay=decay, **ways)


def narrow_of(s):
    """The type of autocast, as Trainer(bf16=True) takes it; None: there is none."""
    kind = {'amp': HALF, 'fp16amp': torch.float16}.get(s['precision'])
    return HALF if s['method'] != 'full' and s['precision'] == 'bf16' else kind


def inputs_of(s):
    size = s['batch'], s['tokens']
    ids = torch.randint(0, s['config']['vocab_size'], size, device='cuda')
    words = {'input_ids': ids, 'labels': ids}
    if s['family'] == 'bert':
        words['labels'] = torch.randint(0, s['config']['vocab_size'], size, device='cuda')
    if s['padded']:
        lengths = torch.arange(s['tokens'], s['tokens'] - s['batch'], -1, device='cuda')
        words['attention_mask'] = (torch.arange(s['tokens'], device='cuda') < lengths[:, None]).long()
    return words


def train(s, tracer):
    """The steps of a plain loop."""
    model = built(s)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer, narrow = optimizer_of(s, parameters), narrow_of(s)
    scaler = torch.amp.GradScaler('cuda') if s['precision'] == 'fp16amp' else None
    words = inputs_of(s)
    for _ in range(STEPS):
        tracer.next_step()
        for _ in range(s['accumulation']):
            with torch.autocast('cuda', dtype=narrow or HALF, enabled=narrow is not None):
                loss = model(**words).loss / s['accumulation']
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        if s['clip']:
            nn.utils.clip_grad_norm_(parameters, 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    tracer.next_step()  # what follows is the end of the process


def steady(events):
    """A trace of STEPS steps gone on with: the last one again, until there are REPLAYED. What it frees of the step before it, it frees
    of its own when it comes again."""
    begins = {}
    for at, event in enumerate(events):
        if event[0] == MARK:
            begins.setdefault(event[2], at)
    last, end = events[begins[STEPS]:begins[STEPS + 1]], begins[STEPS + 1]
    made = [sum(e[0] == ALLOCATE for e in events[:begins[k]]) for k in (STEPS - 1, STEPS, STEPS + 1)]
    count = made[2] - made[1]
    if made[1] - made[0] != count or any(e[0] == FREE and e[1] < made[0] for e in last):
        raise ValueError('the last two steps differ')
    events = events[:end]
    for again in range(1, REPLAYED - STEPS + 1):
        events += [[FREE, e[1] + again * count] if e[0] == FREE else e for e in last]
    return events


def traced(setting, run=train):
    """Events of the run."""
    with headroom_trace(None, setting['batch'], GPUS[setting['gpu']]) as tracer:
        run(setting, tracer)
    gc.collect()
    return steady(tracer.in_order())
