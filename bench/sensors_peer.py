#!/usr/bin/env python3
"""PyTorch on the work of recipes/000-after.yaml: 2 samples of 60 patches of 84 channels, 256 positions of text.

    sensors_peer.py [--encoder] CASE...    eager, ckpt, compile, graphs; a JSON line each

The decoder has the shape of Llama-3.2-1B, frozen in bf16, with adapters of rank 8 (dropout 0.05) on all linears; everything
else is trained under autocast to bf16. --encoder: without the decoder. Times are medians of steady steps. `driver` is what the
GPU holds: nothing else may run there.
"""
import argparse
import gc
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

BATCH, PATCHES, CHANNELS, POINTS, TEXT, ANSWER, WIDTH, HEADS, LAYERS = 2, 60, 84, 32, 256, 16, 512, 8, 6
WARM, STEPS = 5, 15


class Adapted(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear, self.drop = linear, nn.Dropout(0.05)
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


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.05)
        x = x + functional.dropout(self.out(y.transpose(1, 2).reshape(rows, length, WIDTH)), 0.05)
        return x + functional.dropout(self.down(functional.gelu(self.up(self.norm2(x)))), 0.05)


class Encoder(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv1d(1, 128, 7, 2, 3), nn.GELU(), nn.Conv1d(128, 128, 5, 2, 2), nn.GELU(),
                                   nn.Conv1d(128, 128, 5, 2, 2), nn.GELU(), nn.Conv1d(128, 256, 4, 4))
        self.tokens = nn.Linear(256, WIDTH)
        self.temporal = nn.ModuleList(Block() for _ in range(LAYERS))
        self.channel = nn.ModuleList(Block() for _ in range(LAYERS))
        self.query = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pool = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True)
        self.project = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2048))
        self.recompute = recompute

    def run(self, block, x):
        return checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)

    def forward(self, patches):
        x = self.tokens(self.convs(patches.reshape(-1, 1, POINTS)).squeeze(-1)).view(BATCH, PATCHES, CHANNELS, WIDTH)
        for temporal, channel in zip(self.temporal, self.channel):
            x = self.run(temporal, x.transpose(1, 2).reshape(-1, PATCHES, WIDTH))
            x = x.view(BATCH, CHANNELS, PATCHES, WIDTH).transpose(1, 2)
            x = self.run(channel, x.reshape(-1, CHANNELS, WIDTH)).view(BATCH, PATCHES, CHANNELS, WIDTH)
        x = x.reshape(BATCH * PATCHES, CHANNELS, WIDTH)
        x = self.pool(self.query.expand(x.shape[0], 1, WIDTH), x, x, need_weights=False)[0]
        return self.project(x.view(BATCH, PATCHES, WIDTH))


class Whole(nn.Module):
    def __init__(self, recompute, encoder_only):
        super().__init__()
        self.encoder, self.llm = Encoder(recompute), None
        if encoder_only:
            return
        self.llm = LlamaForCausalLM(LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=True,
            use_cache=False)).to(torch.bfloat16).requires_grad_(False)
        adapt(self.llm.model.layers)
        if recompute:
            self.llm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})

    def forward(self, patches, tokens, labels):
        projected = self.encoder(patches)
        if self.llm is None:
            return projected.float().pow(2).mean()
        text = self.llm.model.embed_tokens(tokens)
        x = torch.cat([text[:, :100], projected.to(text.dtype), text[:, 100 + PATCHES:]], 1)
        return self.llm(inputs_embeds=x, labels=labels).loss


def measure(case, encoder_only):
    torch.manual_seed(1)
    model = Whole(case == 'ckpt', encoder_only).cuda().train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    mode = {'compile': None, 'graphs': 'reduce-overhead'}
    run = torch.compile(model, mode=mode[case]) if case in mode else model
    patches = torch.randn(BATCH, PATCHES, CHANNELS, POINTS, device='cuda')
    tokens = torch.randint(0, 128000, (BATCH, TEXT), device='cuda')
    labels = torch.full_like(tokens, -100)
    labels[:, -ANSWER:] = tokens[:, -ANSWER:]
    times = []
    for _ in range(WARM + STEPS):
        start = time.perf_counter()
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = run(patches, tokens, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    free, total = torch.cuda.mem_get_info()
    return {'ms': round(1e3 * statistics.median(times[WARM:]), 2), 'allocated_mib': torch.cuda.max_memory_allocated() >> 20,
            'reserved_mib': torch.cuda.max_memory_reserved() >> 20, 'driver_mib': (total - free) >> 20}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--encoder', action='store_true')
    parser.add_argument('cases', nargs='+', choices=['eager', 'ckpt', 'compile', 'graphs'])
    given = parser.parse_args()
    for case in given.cases:
        torch.cuda.reset_peak_memory_stats()
        try:
            result = measure(case, given.encoder)
        except Exception as error:  # a mode that PyTorch cannot do here is a result as well
            result = {'error': f'{type(error).__name__}: {error}'.splitlines()[0][:200]}
        print(json.dumps({'case': case, 'encoder': given.encoder, **result}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch._dynamo.reset()


if __name__ == '__main__':
    main()
