#!/usr/bin/env python3
"""PyTorch on the work of the recipes of system 002: vectors in six orders through three pairs of stacks of Mamba-2, fused and classified.

    gesture_peer.py [--length L] [--batch B] [--width H] [--state N] [--f32] CASE...      plain, ckpt; a JSON line each

The scan is written in plain calls, chunk by chunk, as it is where no kernels of its own are installed. AdamW, autocast to bf16
unless --f32 is given. Times are medians of steady steps. `driver` is what the GPU holds: nothing else may run there. Without a
GPU, what the steps of the guide's ladder would hold:

    python3 tools/torch_trace.py bench/gesture_peer.py:ladder_1 -o 1.json       and so on up to ladder_6; ladder_1_ckpt, ladder_6_ckpt
    build/headroom plan 1.json --gpu H200
"""
import argparse
import dataclasses
import gc
import json

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from peer import measured

INPUTS, CLASSES, ORDERS, LAYERS, CHUNK, HEAD, WARM, STEPS = 128, 16, 6, 6, 256, 64, 2, 5


@dataclasses.dataclass
class Setting:
    length: int = 8192
    batch: int = 1
    width: int = 256
    state: int = 128
    narrow: bool = True  # autocast to bf16


# Of the guide: f32; bf16; a quarter fewer vectors; 192/96; two samples. The last is what was measured.
LADDER = [Setting(narrow=False), Setting(), Setting(length=6144), Setting(length=6144, width=192, state=96),
          Setting(length=6144, width=192, state=96, batch=2), Setting(batch=2)]


def decays(steps):
    """exp of the sums of steps from j + 1 up to i, 0 above the diagonal."""
    sums = steps.cumsum(-1)
    apart = sums[..., :, None] - sums[..., None, :]
    below = torch.ones(apart.shape[-2:], dtype=torch.bool, device=steps.device).tril()
    return torch.exp(apart.masked_fill(~below, -1e30)), sums


def scan(x, steps, b, c):
    """x [B, L, H, P], steps d A [B, L, H], b and c [B, L, N], all in chunks."""
    batch, length, heads, dim = x.shape
    chunks = length // CHUNK
    x, b, c = x.view(batch, chunks, CHUNK, heads, dim), b.view(batch, chunks, CHUNK, -1), c.view(batch, chunks, CHUNK, -1)
    inside, sums = decays(steps.view(batch, chunks, CHUNK, heads).permute(0, 3, 1, 2))
    y = torch.einsum('bcln,bcsn,bhcls,bcshp->bclhp', c, b, inside.to(x.dtype), x)
    states = torch.einsum('bcln,bhcl,bclhp->bchpn', b, torch.exp(sums[..., -1:] - sums).to(x.dtype), x)
    across, _ = decays(functional.pad(sums[..., -1], (1, 0)))
    states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
    states = torch.einsum('bhzc,bchpn->bzhpn', across.to(x.dtype), states)[:, :-1]
    y = y + torch.einsum('bcln,bchpn,bhcl->bclhp', c, states, torch.exp(sums).to(x.dtype))
    return y.reshape(batch, length, heads, dim)


class Layer(nn.Module):
    def __init__(self, width, state):
        super().__init__()
        inner, self.state, self.heads = 2 * width, state, 2 * width // HEAD
        self.norm = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 2 * inner + 2 * state + self.heads, bias=False)
        self.conv = nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, padding=3, groups=inner + 2 * state)
        self.a_log = nn.Parameter(torch.log(torch.linspace(1, 16, self.heads)))
        self.bias, self.skip = nn.Parameter(torch.zeros(self.heads)), nn.Parameter(torch.ones(self.heads))
        self.weight = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, u):
        batch, length, width = u.shape
        inner = 2 * width
        gate, mixed, steps = self.in_proj(self.norm(u)).split([inner, inner + 2 * self.state, self.heads], -1)
        steps = functional.softplus(steps.float() + self.bias)
        mixed = functional.silu(self.conv(mixed.transpose(1, 2))[..., :length].transpose(1, 2))
        x, b, c = mixed.split([inner, self.state, self.state], -1)
        x = x.view(batch, length, self.heads, HEAD)
        y = scan(x * steps[..., None].to(x.dtype), -torch.exp(self.a_log) * steps, b, c) + x * self.skip[:, None].to(x.dtype)
        y = y.reshape(batch, length, inner) * functional.silu(gate)
        y = functional.rms_norm(y.float(), (inner,)).to(y.dtype) * self.weight
        return u + self.out_proj(y)


class Gestures(nn.Module):
    def __init__(self, setting, recompute):
        super().__init__()
        width, self.recompute = setting.width, recompute
        self.embed = nn.Linear(INPUTS, width)
        self.stacks = nn.ModuleList(nn.ModuleList(Layer(width, setting.state) for _ in range(LAYERS)) for _ in range(ORDERS // 2))
        self.fuse, self.classify = nn.Linear(ORDERS * width, width), nn.Linear(width, CLASSES)

    def forward(self, vectors, orders, inverses):
        x, seen = self.embed(vectors), []
        for i in range(ORDERS):
            y = x[:, orders[i]]
            for layer in self.stacks[i % len(self.stacks)]:
                y = checkpoint(layer, y, use_reentrant=False) if self.recompute else layer(y)
            seen.append(y[:, inverses[i]])
        return self.classify(functional.gelu(self.fuse(torch.cat(seen, -1))).mean(1))


def training(setting, recompute):
    """A function that runs one step."""
    model = Gestures(setting, recompute).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    vectors = torch.randn(setting.batch, setting.length, INPUTS, device='cuda')
    orders = [torch.randperm(setting.length, device='cuda') for _ in range(ORDERS)]
    inverses = [order.argsort() for order in orders]
    classes = torch.randint(0, CLASSES, (setting.batch,), device='cuda')

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16, enabled=setting.narrow):
            loss = functional.cross_entropy(model(vectors, orders, inverses).float(), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def __getattr__(name):
    """ladder_1 to ladder_6, and the same recomputed: what tools/torch_trace.py asks for."""
    word, _, rest = name.partition('_')
    number, _, mode = rest.partition('_')
    if word != 'ladder' or not number.isdigit() or not 1 <= int(number) <= len(LADDER) or mode not in ('', 'ckpt'):
        raise AttributeError(name)
    return lambda: training(LADDER[int(number) - 1], mode == 'ckpt')


def measure(case, setting):
    torch.manual_seed(1)
    step = training(setting, case == 'ckpt')
    return measured(step, WARM, STEPS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ('length', 'batch', 'width', 'state'):
        parser.add_argument(f'--{name}', type=int, default=getattr(Setting, name))
    parser.add_argument('--f32', action='store_true')
    parser.add_argument('cases', nargs='+', choices=['plain', 'ckpt'])
    given = parser.parse_args()
    setting = Setting(given.length, given.batch, given.width, given.state, not given.f32)
    for case in given.cases:
        torch.cuda.reset_peak_memory_stats()
        try:
            result = measure(case, setting)
        except torch.cuda.OutOfMemoryError as error:
            result = {'error': str(error).split('. ')[0]}
        print(json.dumps({'case': case, **dataclasses.asdict(setting), **result}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == '__main__':
    main()
