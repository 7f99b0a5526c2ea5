#!/usr/bin/env python3
"""PyTorch on the work of recipes/004-24gb.yaml, stage 01: 45 samples of 26 codes, titles of 24 tokens and three texts of 512.

    embedder_peer.py [--batch B] [--drop-attention P] CASE...      ckpt, ckpt-compile, plain, plain-compile; a JSON line each

Encoders of MiniLM's shape with adapters of rank 8 (dropout 0.1) on all linears, autocast to bf16, AdamW. What stands behind the
encoders is little work; here it is two linears and the same loss. Times are medians of steady steps. `driver` is what the GPU
holds: nothing else may run there. Without a GPU, what it would hold at any batch:

    python3 tools/torch_trace.py bench/embedder_peer.py:recomputed -o out.json --batch 4,8,16      writes out-4.json and so on
    build/headroom plan out-*.json --gpu H200 --batch 46
"""
import argparse
import gc
import json
import time

import torch
from torch import nn
from torch.nn import functional
from transformers import BertConfig, BertModel

from peer import measured

NEGATIVES, LENGTHS, WARM, STEPS = 24, (24, 512, 512, 512), 2, 5


class Adapted(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear, self.drop = linear, nn.Dropout(0.1)
        self.down = nn.Linear(linear.in_features, 8, bias=False)
        self.up = nn.Linear(8, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + 2.0 * self.up(self.down(self.drop(x)))


def adapt(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Adapted(child))
        else:
            adapt(child)


def encoder(drop_attention, recompute):
    shape = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
                       attention_probs_dropout_prob=drop_attention)
    model = BertModel(shape, add_pooling_layer=False)
    model.requires_grad_(False)
    adapt(model.encoder)
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
        model.enable_input_require_grads()
    return model.cuda().train()


class Embedder(nn.Module):
    def __init__(self, drop_attention, recompute):
        super().__init__()
        self.encoders = nn.ModuleList(encoder(drop_attention, recompute) for _ in LENGTHS)
        self.head = nn.Sequential(nn.Linear(4 * 384, 384), nn.Linear(384, 385)).cuda()

    def forward(self, texts, batch):
        means = [e(input_ids=t, attention_mask=torch.ones_like(t)).last_hidden_state.mean(1)
                 for e, t in zip(self.encoders, texts)]
        points = functional.normalize(self.head(torch.cat(means, -1)).float(), dim=-1).view(batch, 2 + NEGATIVES, -1)
        logits = torch.einsum('bd,bnd->bn', points[:, 0], points[:, 1:]) / 0.07
        return functional.cross_entropy(logits, torch.zeros(batch, dtype=torch.long, device='cuda'))


def training(case, batch, drop_attention):
    """A function that runs one step."""
    model = Embedder(drop_attention, case.startswith('ckpt'))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4, fused=True)
    run = torch.compile(model) if case.endswith('compile') else model
    texts = [torch.randint(0, 30000, (batch * (2 + NEGATIVES), length), device='cuda') for length in LENGTHS]

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = run(texts, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def recomputed(batch):
    return training('ckpt', batch, 0.0)


def kept(batch):
    return training('plain', batch, 0.0)


def measure(case, batch, drop_attention):
    torch.manual_seed(1)
    step = training(case, batch, drop_attention)
    began = time.time()
    result = measured(step, WARM, STEPS)
    return {**result, 'warm_s': round(time.time() - began, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--batch', type=int, default=45)
    parser.add_argument('--drop-attention', type=float, default=0.0)
    parser.add_argument('cases', nargs='+', choices=['ckpt', 'ckpt-compile', 'plain', 'plain-compile'])
    given = parser.parse_args()
    for case in given.cases:
        torch.cuda.reset_peak_memory_stats()
        try:
            result = measure(case, given.batch, given.drop_attention)
        except torch.cuda.OutOfMemoryError as error:
            result = {'error': str(error).split('. ')[0]}
        print(json.dumps({'case': case, 'batch': given.batch, **result}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch._dynamo.reset()


if __name__ == '__main__':
    main()
