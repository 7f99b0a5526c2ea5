#!/usr/bin/env python3
"""The likeliest 128 tokens of `headroom generate` against those of transformers, in every family of decoders.

    python3 test/generate/compare_transformers.py [build/headroom] [--device cpu|cuda] [--types float32,bfloat16,float16]

Needs transformers, torch and safetensors; models are small and random, prompts are bytes. In f32, where rounding does not decide; in bf16 and f16
as far as both agree before two tokens are so close that it does (on random models that is soon). Adapters of PEFT are compared where it is installed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
parser = argparse.ArgumentParser()
parser.add_argument('headroom', nargs='?', default=os.path.join(ROOT, 'build', 'headroom'))
parser.add_argument('--device', default='cpu')
parser.add_argument('--types', default='float32,bfloat16,float16')
asked = parser.parse_args()

TOKENS = 128
PROMPTS = ['And the earth was without form, and void; and darkness was upon the face of the deep.', 'In', 'x' * 300]
SIZES = {'vocab_size': 300, 'hidden_size': 64, 'intermediate_size': 160, 'num_hidden_layers': 3, 'num_attention_heads': 4,
         'num_key_value_heads': 2, 'max_position_embeddings': 1024, 'initializer_range': 0.3, 'bos_token_id': None,
         'eos_token_id': None, 'pad_token_id': 0}
WINDOWED = {'sliding_window': 40}
FAMILIES = {
    'llama': ('LlamaConfig', {}),
    'llama, tied, biases': ('LlamaConfig', {'tie_word_embeddings': True, 'attention_bias': True, 'mlp_bias': True}),
    'llama, stretched': ('LlamaConfig', {'rope_scaling': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0,
                                                          'high_freq_factor': 4.0, 'original_max_position_embeddings': 128}}),
    'mistral': ('MistralConfig', WINDOWED),
    'qwen2': ('Qwen2Config', {}),
    'qwen2, windows': ('Qwen2Config', {'use_sliding_window': True, 'max_window_layers': 1, **WINDOWED}),
    'qwen3': ('Qwen3Config', {'head_dim': 24}),
    'gemma3': ('Gemma3TextConfig', {'head_dim': 24, 'sliding_window_pattern': 2, 'query_pre_attn_scalar': 20, **WINDOWED}),
    # One group: transformers 5.17 norms all groups together, 5.23 and the authors' library each by itself.
    'mamba2': ('Mamba2Config', {'expand': 2, 'num_heads': 8, 'head_dim': 16, 'n_groups': 1, 'state_size': 24, 'chunk_size': 32}),
    'mamba2, tied, biases': ('Mamba2Config', {'expand': 2, 'num_heads': 4, 'head_dim': 32, 'n_groups': 1, 'state_size': 16, 'conv_kernel': 3,
                                              'use_bias': True, 'tie_word_embeddings': True}),
}


def ours(folder, prompts, *more):
    arguments = [asked.headroom, 'generate', folder, '--json', '--max-tokens', str(TOKENS), '--set', 'data.tokenizer=bytes',
                 '--set', f'memory.device={asked.device}', *more]
    for prompt in prompts:
        arguments += ['--prompt', prompt]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{arguments}: exit {done.returncode}\n{done.stdout[-600:]}')
    return [answer['ids'] for answer in json.loads(done.stdout)['answers']]


def theirs(model, prompt):
    ids = torch.tensor([list(prompt.encode())], device=model.device)
    with torch.no_grad():
        return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                              eos_token_id=None)[0, ids.shape[1]:].tolist()


def agreed(a, b):
    return next((i for i in range(len(b)) if i >= len(a) or a[i] != b[i]), len(b))


failures = 0
for name, (kind, settings) in FAMILIES.items():
    for dtype in [getattr(torch, kind_of_float) for kind_of_float in asked.types.split(',')]:
        torch.manual_seed(1)
        config = getattr(transformers, kind)(**{**SIZES, **settings})
        config._attn_implementation = 'eager'
        model = transformers.AutoModelForCausalLM.from_config(config).to(dtype).to(asked.device).eval()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            answers = ours(folder, PROMPTS)
        counts = [agreed(answer, theirs(model, prompt)) for answer, prompt in zip(answers, PROMPTS)]
        exact = dtype == torch.float32
        failures += exact and min(counts) < TOKENS
        print(f'{name}, {str(dtype)[6:]}: {counts} of {TOKENS} tokens agree' + (' FAILED' if exact and min(counts) < TOKENS else ''),
              flush=True)
try:
    import peft
except ImportError:
    peft = None
if peft:
    torch.manual_seed(1)
    base = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**SIZES)).to(asked.device).eval()
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder + '/base')
        base.name_or_path = base.config._name_or_path = folder + '/base'
        lora = peft.LoraConfig(r=4, lora_alpha=16, target_modules=['q_proj', 'v_proj', 'down_proj'], init_lora_weights=False)
        adapted = peft.get_peft_model(base, lora)
        adapted.save_pretrained(folder + '/adapter')
        answers = ours(folder + '/adapter', PROMPTS)
        counts = [agreed(answer, theirs(adapted, prompt)) for answer, prompt in zip(answers, PROMPTS)]
    failures += min(counts) < TOKENS
    print(f'an adapter of PEFT: {counts} of {TOKENS} tokens agree' + (' FAILED' if min(counts) < TOKENS else ''))
sys.exit(1 if failures else 0)
