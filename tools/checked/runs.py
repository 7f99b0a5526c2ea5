"""A training run of transformers, PEFT and bitsandbytes by a setting (settings.py): a plain loop over made-up rows."""
import torch
from torch import nn

FAMILIES = {'llama': 'Llama', 'mistral': 'Mistral', 'qwen2': 'Qwen2', 'qwen3': 'Qwen3', 'bert': 'Bert'}
WIDE, HALF = torch.float32, torch.bfloat16
SMALL = 1 << 18  # elements; host memory of larger tensors comes zeroed from the system


def packed(model):
    """Linear modules but the head in 4 bits, as from_pretrained makes them."""
    import bitsandbytes
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


def on_host(whole, config, words):
    """A model on the host whose large weights are left as memory comes: nobody reads what it learns, and drawing 8 billion takes minutes."""
    from transformers.initialization import no_init_weights
    with torch.device('cpu'), no_init_weights():
        model = whole._from_config(config, **words)
    model.tie_weights()
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() < SMALL:
                p.normal_(0, 0.02)
    return model


def built(s):
    import transformers
    name = FAMILIES[s['family']]
    config = getattr(transformers, name + 'Config')(**s['config'])
    config.use_cache = False
    kind = HALF if s['precision'] == 'bf16' else WIDE
    whole = getattr(transformers, name + ('ForMaskedLM' if s['family'] == 'bert' else 'ForCausalLM'))
    words = {'attn_implementation': s['attention'], 'dtype': kind}
    torch.set_default_dtype(kind)
    try:
        if s['method'] == 'qlora':
            model = on_host(whole, config, words)
        else:
            with torch.device('cuda'):
                model = whole._from_config(config, **words)
    finally:
        torch.set_default_dtype(WIDE)
    if s['method'] != 'full':
        model = adapted(s, model)
    model.train()
    if s['checkpoint'] != 'none':
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': s['checkpoint'] == 'reentrant'})
        if s['method'] != 'full':
            model.enable_input_require_grads()
    return model


def adapted(s, model):
    import peft
    if s['method'] == 'qlora':
        model = peft.prepare_model_for_kbit_training(packed(model), use_gradient_checkpointing=False)
    lora = dict(r=s['rank'], lora_alpha=16, lora_dropout=s['dropout'], target_modules='all-linear')
    if s['family'] != 'bert':
        lora['task_type'] = 'CAUSAL_LM'
    return peft.get_peft_model(model, peft.LoraConfig(**lora))


def optimizer_of(s, parameters):
    kind, _, by = s['optimizer'].partition('_')
    decay = s['weight_decay']
    if kind in ('paged', 'adamw8bit'):
        import bitsandbytes
        name = 'AdamW8bit' if '8bit' in s['optimizer'] else 'AdamW'
        return getattr(bitsandbytes.optim, ('Paged' if kind == 'paged' else '') + name)(parameters, weight_decay=decay)
    ways = {'fused': by == 'fused', 'foreach': by == 'foreach'}
    if kind == 'sgd':
        return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9, weight_decay=decay, **ways)
    return torch.optim.AdamW(parameters, lr=1e-5, weight_decay=decay, **ways)


def narrow_of(s):
    """The type of autocast, as Trainer(bf16=True) takes it; None: there is none."""
    kind = {'amp': HALF, 'fp16amp': torch.float16}.get(s['precision'])
    return HALF if s['method'] != 'full' and s['precision'] == 'bf16' else kind


def inputs_of(s, rows):
    size = rows, s['tokens']
    ids = torch.randint(0, s['config']['vocab_size'], size, device='cuda')
    words = {'input_ids': ids, 'labels': ids}
    if s['family'] == 'bert':
        words['labels'] = torch.randint(0, s['config']['vocab_size'], size, device='cuda')
    if s.get('packed'):  # as trainers pack rows: positions begin anew with every document
        words['position_ids'] = (torch.arange(s['tokens'], device='cuda') % (s['tokens'] // 3 + 1)).repeat(rows, 1)
    if s['padded']:
        lengths = torch.arange(s['tokens'], s['tokens'] - rows, -1, device='cuda')
        words['attention_mask'] = (torch.arange(s['tokens'], device='cuda') < lengths[:, None]).long()
    return words


def evaluate(s, model, narrow):
    """Two batches, as transformers' Trainer goes through them where nobody asks for more than the loss."""
    model.eval()
    for _ in range(2):
        words = inputs_of(s, s['eval_batch'])
        with torch.no_grad(), torch.autocast('cuda', dtype=narrow or HALF, enabled=narrow is not None):
            model(**words).loss.mean()
        del words
    model.train()


def train(s, steps, begins):
    """Some steps; `begins` is called before each of them, and behind the last one."""
    model = built(s)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer, narrow = optimizer_of(s, parameters), narrow_of(s)
    # a scale at which no step is skipped: whether one is depends on contents
    scaler = torch.amp.GradScaler('cuda', init_scale=1024.0) if s['precision'] == 'fp16amp' else None
    words = inputs_of(s, s['batch'])
    for _ in range(steps):
        begins()
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
        if s.get('eval_batch'):
            evaluate(s, model, narrow)
    begins()
