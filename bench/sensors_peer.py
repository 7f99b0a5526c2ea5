#!/usr/bin/env python3
"""PyTorch on the work of recipes/000-after.yaml: 2 samples of 60 patches of 84 channels, 256 positions of text.

    sensors_peer.py [--encoder] CASE...    eager, ckpt, compile, graphs; a JSON line each

The decoder has the shape of Llama-3.2-1B, frozen in bf16, with adapters of rank 8 (dropout 0.05) on all linears; everything
else is trained under autocast to bf16. --encoder: without the decoder. Times are medians of steady steps. `driver` is what the
GPU holds: nothing else may run there. Without a GPU, what the guide's settings would hold, the decoder's layers recomputed:

    python3 tools/torch_trace.py bench/sensors_peer.py:before -o before.json       and so on: moderate, after
    build/headroom plan before.json --gpu H200
"""
import argparse
import dataclasses
import gc
import json

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

from peer import measured

BATCH, CHANNELS, TEXT, ANSWER, HEADS, LAYERS = 2, 84, 256, 16, 8, 6
WARM, STEPS = 5, 15


@dataclasses.dataclass
class Setting:
    """Of the guide: points and number of patches, channels of the tokenizer's convolutions, width of the encoder, rank."""
    points: int
    patches: int
    hidden: int
    out: int
    width: int
    rank: int


AFTER = Setting(points=32, patches=60, hidden=128, out=256, width=512, rank=8)
MODERATE = Setting(points=64, patches=60, hidden=192, out=384, width=768, rank=8)
BEFORE = Setting(points=128, patches=100, hidden=256, out=512, width=1024, rank=16)


class Adapted(nn.Module):
    def __init__(self, linear, rank):
        super().__init__()
        self.linear, self.drop = linear, nn.Dropout(0.05)
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + 2.0 * self.up(self.down(self.drop(x)))


def adapt(module, rank):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Adapted(child, rank))
        else:
            adapt(child, rank)


def convolutions(s):
    """Halve a patch down to four points, then to one."""
    layers = [nn.Conv1d(1, s.hidden, 7, 2, 3), nn.GELU()]
    points = s.points // 2
    while points > 4:
        layers += [nn.Conv1d(s.hidden, s.hidden, 5, 2, 2), nn.GELU()]
        points //= 2
    return nn.Sequential(*layers, nn.Conv1d(s.hidden, s.out, 4, 4))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.05)
        x = x + functional.dropout(self.out(y.transpose(1, 2).reshape(rows, length, width)), 0.05)
        return x + functional.dropout(self.down(functional.gelu(self.up(self.norm2(x)))), 0.05)


class Encoder(nn.Module):
    def __init__(self, setting, recompute):
        super().__init__()
        width = setting.width
        self.convs = convolutions(setting)
        self.tokens = nn.Linear(setting.out, width)
        self.temporal = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.channel = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.query = nn.Parameter(torch.randn(1, 1, width))
        self.pool = nn.MultiheadAttention(width, HEADS, dropout=0.1, batch_first=True)
        self.project = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2048))
        self.setting, self.recompute = setting, recompute

    def run(self, block, x):
        return checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)

    def forward(self, patches):
        count, width = self.setting.patches, self.setting.width
        x = self.tokens(self.convs(patches.reshape(-1, 1, self.setting.points)).squeeze(-1)).view(BATCH, count, CHANNELS, width)
        for temporal, channel in zip(self.temporal, self.channel):
            x = self.run(temporal, x.transpose(1, 2).reshape(-1, count, width))
            x = x.view(BATCH, CHANNELS, count, width).transpose(1, 2)
            x = self.run(channel, x.reshape(-1, CHANNELS, width)).view(BATCH, count, CHANNELS, width)
        x = x.reshape(BATCH * count, CHANNELS, width)
        x = self.pool(self.query.expand(x.shape[0], 1, width), x, x, need_weights=False)[0]
        return self.project(x.view(BATCH, count, width))


class Whole(nn.Module):
    def __init__(self, setting, recompute_encoder, recompute_decoder, encoder_only):
        super().__init__()
        self.encoder, self.llm, self.patches = Encoder(setting, recompute_encoder), None, setting.patches
        if encoder_only:
            return
        self.llm = LlamaForCausalLM(LlamaConfig(
            vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, rope_theta=500000.0, tie_word_embeddings=True,
            use_cache=False)).to(torch.bfloat16).requires_grad_(False)
        adapt(self.llm.model.layers, setting.rank)
        if recompute_decoder:
            self.llm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})

    def forward(self, patches, tokens, labels):
        projected = self.encoder(patches)
        if self.llm is None:
            return projected.float().pow(2).mean()
        text = self.llm.model.embed_tokens(tokens)
        x = torch.cat([text[:, :100], projected.to(text.dtype), text[:, 100 + self.patches:]], 1)
        return self.llm(inputs_embeds=x, labels=labels).loss


def training(setting, model, mode=None):
    """A function that runs one step; mode: of torch.compile, or None."""
    model = model.cuda().train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    run = torch.compile(model, mode=mode) if mode else model
    patches = torch.randn(BATCH, setting.patches, CHANNELS, setting.points, device='cuda')
    tokens = torch.randint(0, 128000, (BATCH, TEXT), device='cuda')
    labels = torch.full_like(tokens, -100)
    labels[:, -ANSWER:] = tokens[:, -ANSWER:]

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = run(patches, tokens, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def before():
    return training(BEFORE, Whole(BEFORE, False, True, False))


def moderate():
    return training(MODERATE, Whole(MODERATE, False, True, False))


def after():
    return training(AFTER, Whole(AFTER, False, True, False))


def measure(case, encoder_only):
    torch.manual_seed(1)
    recompute = case == 'ckpt'
    step = training(AFTER, Whole(AFTER, recompute, recompute, encoder_only), {'compile': 'default', 'graphs': 'reduce-overhead'}.get(case))
    return measured(step, WARM, STEPS)


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
