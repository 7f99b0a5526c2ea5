"""Random settings of training runs, and the recipe of each. A setting is a dictionary of plain values; which are held out
is decided by a hash of it, before anything ran."""
import hashlib
import json
import random

FAMILIES = {'llama': 'Llama', 'mistral': 'Mistral', 'qwen2': 'Qwen2', 'qwen3': 'Qwen3', 'bert': 'Bert'}
GPUS = {'H200': 90, '4090': 89, 'A100 80GB': 80}
PRECISIONS = {'fp32': '32-true', 'bf16': 'bf16-true', 'amp': 'bf16-mixed', 'fp16amp': '16-mixed'}
OPTIMIZERS = ['adamw_fused', 'adamw_fused', 'adamw_foreach', 'adamw_for-loop', 'adamw8bit', 'paged_adamw', 'paged_adamw8bit',
              'sgd_foreach']


def shape(pick, family):
    """A model of the family: of all widths up to those of 8B, few layers."""
    head = pick.choice([32, 64, 64, 128, 128])
    heads = pick.choice([h for h in (4, 6, 8, 12, 14, 16, 24, 32) if 256 <= h * head <= 4096])
    hidden = heads * head
    config = {'vocab_size': pick.choice([8192, 30522, 32000, 32768, 49152, 50257, 128256, 151936]), 'hidden_size': hidden,
              'intermediate_size': 128 * max(2, round(hidden * pick.uniform(2, 5.5) / 128)),
              'num_hidden_layers': pick.choice([1, 1, 1, 2, 2, 3]), 'num_attention_heads': heads}
    if family == 'bert':
        return dict(config, max_position_embeddings=512, hidden_dropout_prob=pick.choice([0.1, 0.1, 0.0]),
                    attention_probs_dropout_prob=pick.choice([0.1, 0.1, 0.0]))
    config.update(num_key_value_heads=pick.choice([g for g in (1, 2, 4, 8, heads, heads) if heads % g == 0]),
                  max_position_embeddings=32768, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=pick.random() < 0.5)
    if family in ('llama', 'qwen3'):
        config['head_dim'] = head
    if family == 'qwen3' and pick.random() < 0.3:  # heads that are not hidden / heads wide
        config['head_dim'] = 128
    if family == 'mistral':
        config['sliding_window'] = pick.choice([None, 512, 4096])
    return config


def draw(pick):
    family = pick.choice(['llama', 'llama', 'mistral', 'qwen2', 'qwen3', 'bert'])
    method = pick.choice(['full', 'full', 'lora', 'lora', 'qlora'])
    tokens = pick.choice([128, 256, 384, 512] if family == 'bert' else [128, 200, 256, 512, 777, 1024, 1500, 2048, 4096, 8192])
    batch = pick.choice([b for b in (1, 2, 3, 4, 6, 8, 16, 32) if b * tokens <= 16384])
    optimizer = pick.choice(OPTIMIZERS)
    setting = {'family': family, 'config': shape(pick, family), 'method': method,
               'precision': 'bf16' if method == 'qlora' else pick.choice(list(PRECISIONS)), 'batch': batch, 'tokens': tokens,
               'attention': pick.choice(['sdpa', 'sdpa', 'sdpa', 'eager']),
               'checkpoint': pick.choice(['none', 'none', 'none', 'non-reentrant', 'non-reentrant', 'reentrant']),
               'optimizer': optimizer, 'weight_decay': pick.choice([0.0, 0.01]), 'clip': pick.random() < 0.7,
               'accumulation': pick.choice([1, 1, 1, 1, 2, 3]), 'padded': batch > 1 and pick.random() < 0.2,
               'gpu': pick.choice(['H200', 'H200', '4090', 'A100 80GB'])}
    if method != 'full':
        setting.update(rank=pick.choice([4, 8, 16, 64]), dropout=pick.choice([0.0, 0.0, 0.05]))
    return setting


def fraction(setting):
    """A number in [0, 1) that is the setting's own."""
    text = json.dumps(setting, sort_keys=True).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], 'big') / 2.0 ** 64


def partitioned(setting, pick):
    """The same under DeepSpeed on one GPU, where it goes with that."""
    stage = pick.choice([1, 2, 2, 3, 3])
    setting['zero'] = {'stage': stage, 'overlap': pick.choice([stage == 3, stage == 3, stage != 3]), 'bucket': pick.choice([10 ** 7, 10 ** 8, 5 * 10 ** 8]),
                       'sub_group': pick.choice([10 ** 9, 10 ** 9, 5 * 10 ** 7]), 'offload': pick.choice(['none', 'none', 'optimizer'])}
    if setting['method'] == 'qlora':
        setting.update(method='lora', precision='amp')
    if setting['zero']['offload'] != 'none' or setting['optimizer'].startswith(('paged', 'adamw8')):
        setting['optimizer'] = 'adamw_fused'
    if setting['precision'] == 'bf16':
        setting['precision'] = 'amp'
    return setting


def drawn(count, seed, evaluated=False, zero=False):
    """[(setting, whether it is held out)]; `evaluated`: with an evaluation behind every step; `zero`: under DeepSpeed."""
    pick, rows = random.Random(seed), random.Random(seed)
    found = [draw(pick) for _ in range(count)]
    if zero:
        found = [partitioned(setting, rows) for setting in found]
    for setting in found if evaluated else []:
        setting['eval_batch'] = rows.choice([1, 2, 4, 8, 8])
    return [(setting, fraction(setting) < 1 / 3) for setting in found]


def recipe(setting):
    """The same run for `headroom plan`; JSON is YAML."""
    s = setting
    kind, _, by = s['optimizer'].partition('_') if not s['optimizer'].startswith('paged') else (s['optimizer'], '', '')
    model = {'family': s['family'], 'precision': PRECISIONS[s['precision']], 'config': s['config']}
    engine = {'kind': 'pytorch', 'attention': s['attention'], 'optimizer': by or 'fused', 'padded': s['padded']}
    if s['checkpoint'] != 'none':
        engine['checkpoint'] = s['checkpoint']
    if s.get('eval_batch'):
        engine['eval_batch_size'] = s['eval_batch']
    if s.get('zero'):
        engine.update(trainer='deepspeed', zero=s['zero'])
    if s['method'] != 'full':
        model['adapters'] = {'kind': 'lora', 'rank': s['rank'], 'alpha': 16, 'targets': 'all-linear', 'dropout': s['dropout']}
        if s['precision'] in ('amp', 'fp16amp') and not s.get('zero'):
            engine['dtype'] = 'f32'
    if s['method'] == 'qlora':
        model['quantize'] = {'kind': 'nf4'}
    training = {'batch_size': s['batch'], 'gradient_accumulation': s['accumulation'],
                'optimizer': {'kind': kind, 'weight_decay': s['weight_decay']}}
    if s['clip']:
        training['clip_norm'] = 1.0
    if s.get('packed'):
        engine['packed'] = True
    return {'model': model, 'data': {'source': 'synthetic', 'sequence_length': s['tokens']}, 'training': training,
            'memory': {'device': 'cuda', 'gpu': s['gpu'], 'checkpoint': 'none' if s['checkpoint'] == 'none' else 'every-layer'},
            'engine': engine}
