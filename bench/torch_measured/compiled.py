#!/usr/bin/env python3
"""Peaks of training steps on a GPU, eager and by torch.compile: decoders of random weights, each in a fork of its own.

  bench/torch_measured/compiled.py > compiled.jsonl      # PyTorch and transformers; 24 runs, a minute on 16 cores

What test/torch/compiled.json has, and the factors of src/torch/compiled.c were fitted to.
"""
import json
import os
import tempfile
import time

import torch
import transformers
from torch import nn

SHAPES = {  # family, hidden, inner, layers, heads, groups, vocabulary
    'llama-s': ('Llama', 768, 2048, 4, 12, 4, 32000), 'llama-m': ('Llama', 1024, 4096, 4, 16, 8, 128256), 'llama-l': ('Llama', 2048, 8192, 3, 32, 8, 32000),
    'qwen-s': ('Qwen2', 896, 4864, 4, 14, 2, 151936), 'qwen-m': ('Qwen2', 1536, 8960, 3, 12, 2, 151936)}
CASES = [('llama-s', 'bf16', 4, 512), ('llama-s', 'amp', 8, 1024), ('llama-s', 'lora', 4, 1024), ('llama-m', 'bf16', 2, 1024), ('llama-m', 'amp', 4, 512),
         ('llama-m', 'lora', 4, 512), ('llama-l', 'bf16', 4, 1024), ('llama-l', 'lora', 2, 2048), ('qwen-s', 'bf16', 8, 512), ('qwen-s', 'amp', 2, 1024),
         ('qwen-m', 'bf16', 2, 512), ('qwen-m', 'lora', 4, 512)]
JOBS = 12


class Adapted(nn.Module):
    def __init__(self, linear, rank=8):
        super().__init__()
        self.lin = linear
        self.A = nn.Parameter(torch.randn(rank, linear.in_features, device='cuda') * 0.01)
        self.B = nn.Parameter(torch.zeros(linear.out_features, rank, device='cuda'))

    def forward(self, x):
        return self.lin(x) + nn.functional.linear(nn.functional.linear(x, self.A.to(x.dtype)), self.B.to(x.dtype))


def adapt(model):
    for p in model.parameters():
        p.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear) and name != 'lm_head' and not isinstance(module, Adapted):
                setattr(module, name, Adapted(child))


def built(shape, method):
    family, hidden, inner, layers, heads, groups, vocabulary = SHAPES[shape]
    config = getattr(transformers, family + 'Config')(
        hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups,
        vocab_size=vocabulary, max_position_embeddings=8192, tie_word_embeddings=False, use_cache=False)
    kind = torch.float32 if method == 'amp' else torch.bfloat16
    torch.set_default_dtype(kind)
    with torch.device('cuda'):
        model = getattr(transformers, family + 'ForCausalLM')._from_config(config, attn_implementation='sdpa', dtype=kind)
    torch.set_default_dtype(torch.float32)
    if method == 'lora':
        adapt(model)
    return model.train()


def measured(shape, method, batch, tokens, compiled):
    """Peaks of the last four of six steps."""
    import torch._inductor.config  # it asks for the GPU, which the process that forks must not
    torch._inductor.config.compile_threads = 1
    model = built(shape, method)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    ids = torch.randint(0, SHAPES[shape][-1], (batch, tokens), device='cuda')
    model = torch.compile(model) if compiled else model
    for step in range(6):
        if step == 2:
            torch.cuda.reset_peak_memory_stats()
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=method == 'amp'):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return {'allocated_bytes': torch.cuda.max_memory_allocated(), 'reserved_bytes': torch.cuda.max_memory_reserved()}


def child(case, compiled):
    row, begun = {'case': case, 'compiled': compiled}, time.time()
    try:
        with tempfile.TemporaryDirectory() as cache:
            os.environ['TORCHINDUCTOR_CACHE_DIR'] = cache
            row.update(measured(*case, compiled))
    except Exception as error:  # noted: others go on
        row['failed'] = '%s: %s' % (type(error).__name__, str(error)[-600:])
    row['seconds'] = round(time.time() - begun, 1)
    os.write(1, (json.dumps(row) + '\n').encode())
    os._exit(0)


def main():
    torch.set_num_threads(2)
    waiting, live = [(case, compiled) for compiled in (True, False) for case in CASES], 0
    while waiting or live:
        while waiting and live < JOBS:
            run = waiting.pop(0)
            if os.fork() == 0:
                child(*run)
            live += 1
        os.wait()
        live -= 1


if __name__ == '__main__':
    main()
