#!/usr/bin/env python3
"""PyTorch on the work of bench/gpu: what headroom is compared with, in the same run on the same GPU.

    gpu_peer.py weights FOLDER                  a random Llama-3.2-1B shape as bf16 safetensors
    gpu_peer.py speed CASE...                   milliseconds of a step and memory, one JSON object a line
    gpu_peer.py losses FOLDER TEXT f32|bf16 N   N losses of full training on the bytes of TEXT, 4 windows of 1024 a step

Times are medians of steady steps; memory is what the driver says the device holds, so nothing else may run there.
"""
import gc
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

RANK, BATCH, LENGTH, WARM, STEPS = 8, 4, 1024, 3, 8
#        name                 (adapters, recompute, torch.compile, storage, autocast)
CASES = {
    'lora': (True, False, False, torch.bfloat16, False),
    'lora-compile': (True, False, True, torch.bfloat16, False),
    'lora-ckpt': (True, True, False, torch.bfloat16, False),
    'full': (False, False, False, torch.bfloat16, False),
    'full-compile': (False, False, True, torch.bfloat16, False),
    'full-ckpt': (False, True, False, torch.bfloat16, False),
    'mixed': (False, False, False, torch.float32, True),
}


def shape():
    return LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                       num_attention_heads=32, num_key_value_heads=8, head_dim=64, max_position_embeddings=131072,
                       rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=True, use_cache=False)


class Adapted(nn.Module):
    """A frozen linear with a low-rank pair beside it, in f32 as adapters are trained."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(RANK, base.in_features, device='cuda') * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, RANK, device='cuda'))

    def forward(self, x):
        low = functional.linear(x, self.down.to(x.dtype))
        return self.base(x) + 2.0 * functional.linear(low, self.up.to(x.dtype))


def adapt(model):
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(part, name, Adapted(child))


def model_make(dtype):
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    with torch.device('cuda'):
        model = LlamaForCausalLM(shape())
    torch.set_default_dtype(torch.float32)
    return model.train()


def speed(case):
    adapters, recompute, compiled, dtype, autocast = CASES[case]
    model = model_make(dtype)
    if adapters:
        adapt(model)
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
        if adapters:
            model.enable_input_require_grads()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    forward = torch.compile(model) if compiled else model
    tokens = torch.randint(0, 128256, (BATCH, LENGTH), device='cuda')

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=autocast):
            loss = forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    began = time.monotonic()
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    warm = time.monotonic() - began
    times = []
    for _ in range(STEPS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    free, total = torch.cuda.mem_get_info()
    print(json.dumps({'case': case, 'ms': statistics.median(times), 'device_mib': (total - free) / 2**20,
                      'allocated_mib': torch.cuda.max_memory_allocated() / 2**20, 'warm_s': warm}), flush=True)


def weights(folder):
    model_make(torch.bfloat16).save_pretrained(folder)


def losses(folder, text, precision, steps):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).cuda().train()
    data = torch.tensor(list(open(text, 'rb').read()), device='cuda')
    windows = torch.stack([data[i * LENGTH:(i + 1) * LENGTH + 1] for i in range((len(data) - 1) // LENGTH)])
    decayed = [p for p in model.parameters() if p.dim() > 1]
    other = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{'params': decayed, 'weight_decay': 0.01}, {'params': other, 'weight_decay': 0.0}],
                                  lr=1e-5, betas=(0.9, 0.999), eps=1e-8, fused=True)
    found = []
    for _ in range(steps):
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=precision == 'bf16'):
            logits = model(input_ids=windows[:, :-1]).logits
        loss = functional.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        found.append(loss.item())
        del logits, loss
    print(json.dumps({'losses': found}), flush=True)


if __name__ == '__main__':
    torch.set_float32_matmul_precision('highest')
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == 'weights':
        weights(arguments[0])
    elif what == 'losses':
        losses(arguments[0], arguments[1], arguments[2], int(arguments[3]))
    else:
        for name in arguments or CASES:
            try:
                speed(name)
            except Exception as problem:  # a case that fails must not take the others with it
                print(json.dumps({'case': name, 'error': repr(problem)[:300]}), flush=True)
            gc.collect()
            torch.cuda.empty_cache()
