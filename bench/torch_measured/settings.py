#!/usr/bin/env python3
"""The settings that are measured on a GPU: models that people train, 0.1B to 8B, with random methods, types, optimizers and sizes.

  bench/torch_measured/settings.py --count 96 -o settings.jsonl      # needs headroom, for what each is expected to take

Which are held out is decided by a hash of the setting, before anything ran. A setting that is expected to take more than
--most GiB or --longest seconds a step is drawn again.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'torch_oracle'))

import settings as drawn


def decoder(vocabulary, hidden, intermediate, layers, heads, groups, tied, **more):
    return dict(vocab_size=vocabulary, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=groups, max_position_embeddings=32768, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=tied, **more)


def bert(hidden, layers, heads, intermediate):
    return dict(vocab_size=30522, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=intermediate,
                max_position_embeddings=512, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)


SHAPES = {  # billions of parameters: family, config
    'smollm-0.1b': ('llama', decoder(49152, 576, 1536, 30, 9, 3, True, head_dim=64)),
    'llama-1b': ('llama', decoder(128256, 2048, 8192, 16, 32, 8, True, head_dim=64)),
    'llama-3b': ('llama', decoder(128256, 3072, 8192, 28, 24, 8, True, head_dim=128)),
    'llama-8b': ('llama', decoder(128256, 4096, 14336, 32, 32, 8, False, head_dim=128)),
    'tinyllama-1b': ('llama', decoder(32000, 2048, 5632, 22, 32, 4, False, head_dim=64)),
    'mistral-7b': ('mistral', decoder(32000, 4096, 14336, 32, 32, 8, False, sliding_window=4096)),
    'mistral-0.3b': ('mistral', decoder(32768, 1024, 3584, 16, 16, 8, False, sliding_window=None)),
    'qwen2-0.5b': ('qwen2', decoder(151936, 896, 4864, 24, 14, 2, True)),
    'qwen2-1.5b': ('qwen2', decoder(151936, 1536, 8960, 28, 12, 2, True)),
    'qwen2-7b': ('qwen2', decoder(152064, 3584, 18944, 28, 28, 4, False)),
    'qwen3-0.6b': ('qwen3', decoder(151936, 1024, 3072, 28, 16, 8, True, head_dim=128)),
    'qwen3-1.7b': ('qwen3', decoder(151936, 2048, 6144, 28, 16, 8, True, head_dim=128)),
    'qwen3-4b': ('qwen3', decoder(151936, 2560, 9728, 36, 32, 8, True, head_dim=128)),
    'qwen3-8b': ('qwen3', decoder(151936, 4096, 12288, 36, 32, 8, False, head_dim=128)),
    'bert-base': ('bert', bert(768, 12, 12, 3072)),
    'bert-large': ('bert', bert(1024, 24, 16, 4096)),
}
FAMILIES = sorted({family for family, _ in SHAPES.values()})
SIZES = [(1, 128), (2, 128), (4, 128), (16, 128), (1, 512), (3, 512), (8, 512), (3, 777), (1, 1024), (4, 1024), (2, 1500), (2, 2048), (1, 4096),
         (2, 4096), (1, 8192), (2, 8192)]
OPTIMIZERS = ['adamw_fused', 'adamw_foreach', 'sgd_foreach', 'adamw8bit', 'paged_adamw8bit']


def draw(pick):
    family = pick.choice(FAMILIES)
    shape = pick.choice([name for name in sorted(SHAPES) if SHAPES[name][0] == family])
    method = pick.choice(['full', 'full', 'lora', 'qlora'])
    batch, tokens = pick.choice([size for size in SIZES if family != 'bert' or size[1] <= 512])
    setting = {'family': family, 'config': SHAPES[shape][1], 'method': method,
               'precision': 'bf16' if method == 'qlora' else pick.choice(['fp32', 'bf16', 'amp', 'fp16amp']),
               'batch': batch, 'tokens': tokens, 'attention': pick.choice(['sdpa', 'sdpa', 'eager']),
               'checkpoint': pick.choice(['none', 'none', 'non-reentrant', 'non-reentrant', 'reentrant']),
               'optimizer': pick.choice(OPTIMIZERS), 'weight_decay': 0.01, 'clip': pick.random() < 0.7,
               'accumulation': pick.choice([1, 1, 1, 2, 3]), 'padded': batch > 1 and pick.random() < 0.15, 'gpu': 'H200'}
    if method != 'full':
        setting.update(rank=pick.choice([8, 16, 64]), dropout=pick.choice([0.0, 0.0, 0.05]))
    return shape, setting


def plan(program, setting):
    """headroom's answer; None where it refuses."""
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        json.dump(drawn.recipe(setting), file)
        file.flush()
        done = subprocess.run([program, 'plan', file.name, '--json'], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        print(done.stderr.strip(), file=sys.stderr)
        return None
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=96)
    parser.add_argument('--seed', type=int, default=18)
    parser.add_argument('--most', type=float, default=125, help='GiB')
    parser.add_argument('--longest', type=float, default=1.0, help='seconds of a step')
    parser.add_argument('--histories', type=int, default=0, help='of so many, small ones, what the allocator does is recorded')
    parser.add_argument('-o', '--out', default='settings.jsonl')
    parser.add_argument('--program', default=os.path.join(ROOT, 'build', 'headroom'))
    options = parser.parse_args()
    pick, cases = random.Random(options.seed), []
    while len(cases) < options.count:
        shape, setting = draw(pick)
        answer = plan(options.program, setting)
        if answer is None:
            continue
        expected, seconds = answer['torch']['driver_bytes'], answer['step_seconds']
        if expected > options.most * (1 << 30) or seconds > options.longest:
            continue
        cases.append({'name': '%03d-%s' % (len(cases), shape), 'held_out': drawn.fraction(setting) < 1 / 3, 'driver_bytes': expected,
                      'expected_seconds': seconds, 'setting': setting})
    for case in sorted(cases, key=lambda c: c['driver_bytes'])[2::3][:options.histories]:
        case['history'] = True
    cases.sort(key=lambda c: -c['driver_bytes'])  # large ones first: small ones fill what is left
    with open(options.out, 'w') as out:
        for case in cases:
            out.write(json.dumps(case) + '\n')
    print('%d settings, %d held out; %.0f GiB and %.1f s a step in all' % (
        len(cases), sum(c['held_out'] for c in cases), sum(c['driver_bytes'] for c in cases) / (1 << 30), sum(c['expected_seconds'] for c in cases)))


if __name__ == '__main__':
    main()
