#!/usr/bin/env python3
"""Golden files for the gesture model, made by PyTorch in f64 on the CPU.

    python3 test/golden/make_gesture.py OUTDIR      writes OUTDIR/gesture.tar (to be unpacked in test/golden)

Per case gesture/<case>.safetensors holds, in f32 under headroom's names,

    w.NAME, g.NAME           weights at the beginning, and gradients of the first step
    vectors, orders...       the fields of ten batches, one behind the other: two samples of different lengths, and a row that
                             only fills the batch up
    logits, evaluated        of the first batch: logits of its samples, and the loss without smoothing
    loss                     of ten steps of AdamW (lr 1e-3, betas 0.9 and 0.95, eps 1e-6, decay 0.1 of matrices, norm 1)

The model is written as the system is described: a sample at a time, without padding; events are sorted by numpy's lexsort;
each order runs through its stack by itself; the scan goes position by position; scales are pooled window by window.

The cases are the three ways of sharing weights. Weights are rounded to f32 before anything is computed with them.
"""
import io
import os
import sys
import tarfile

import numpy
import torch
from torch.nn.functional import cross_entropy, silu, softplus

from make_embedder import safetensors

STEPS, ROWS, LENGTHS, ROOM = 10, 3, (13, 9), 13
ENCODING, HIDDEN, HEAD_DIM, STATE, CLASSES, KERNEL = 3, 8, 4, 5, 4, 4
INNER = 2 * HIDDEN
HEADS = INNER // HEAD_DIM
SCALES, SMOOTHING = (1, 2, 4), 0.05
ORDERS = ("xyt", "tyx", "xty", "ytx", "yxt", "txy")  # pairs side by side
SHARED = {"none": lambda order: order, "pairs": lambda order: order // 2, "all": lambda order: 0}

linear = lambda i, o, bias=True: torch.nn.Linear(i, o, bias=bias, dtype=torch.float64)
norm = lambda n: torch.nn.LayerNorm(n, dtype=torch.float64)
vector = lambda n: torch.nn.Parameter(torch.empty(n, dtype=torch.float64))


class Mamba(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mixed = INNER + 2 * STATE
        self.in_proj = linear(HIDDEN, INNER + self.mixed + HEADS, bias=False)
        self.conv1d = torch.nn.Conv1d(self.mixed, self.mixed, KERNEL, groups=self.mixed, padding=KERNEL - 1,
                                      dtype=torch.float64)
        self.dt_bias, self.A_log, self.D = vector(HEADS), vector(HEADS), vector(HEADS)
        self.norm = torch.nn.Module()
        self.norm.weight = vector(INNER)
        self.out_proj = linear(INNER, HIDDEN, bias=False)

    def forward(self, u):  # [L, HIDDEN]
        z, mixed, dt = self.in_proj(u).split([INNER, self.mixed, HEADS], -1)
        mixed = silu(self.conv1d(mixed.T[None])[0, :, :len(u)]).T
        x, b, c = mixed.split([INNER, STATE, STATE], -1)
        x, dt, a = x.view(-1, HEADS, HEAD_DIM), softplus(dt + self.dt_bias), -self.A_log.exp()
        state, rows = torch.zeros(HEADS, HEAD_DIM, STATE, dtype=torch.float64), []
        for t in range(len(u)):
            state = state * (dt[t] * a).exp()[:, None, None] + (dt[t][:, None] * x[t])[:, :, None] * b[t]
            rows.append(state @ c[t] + self.D[:, None] * x[t])
        y = torch.stack(rows).view(-1, INNER) * silu(z)
        y = y * (y.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.norm.weight
        return self.out_proj(y)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mamba = norm(HIDDEN), Mamba()

    def forward(self, x):
        return x + self.mamba(self.norm(x))


class Stack(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.Sequential(*(Layer() for _ in range(layers)))


class Gesture(torch.nn.Module):
    def __init__(self, sharing, layers):
        super().__init__()
        self.stack_of = SHARED[sharing]
        gelu, nothing = torch.nn.GELU, torch.nn.Identity
        self.input_proj = torch.nn.Sequential(linear(2 * ENCODING, HIDDEN), norm(HIDDEN), gelu())
        self.stacks = torch.nn.ModuleList(Stack(layers) for _ in {self.stack_of(i) for i in range(6)})
        self.fusion = torch.nn.Sequential(norm(6 * HIDDEN), linear(6 * HIDDEN, HIDDEN), gelu())
        self.classifier = torch.nn.Sequential(
            norm(3 * HIDDEN), linear(3 * HIDDEN, 2 * HIDDEN), gelu(), nothing(), linear(2 * HIDDEN, HIDDEN), gelu(), nothing(),
            linear(HIDDEN, CLASSES))

    def forward(self, vectors, orders):
        x = self.input_proj(vectors)
        seen = []
        for i, order in enumerate(orders):
            y = self.stacks[self.stack_of(i)].layers(x[order])
            seen.append(y[torch.argsort(order)])
        x = self.fusion(torch.cat(seen, -1))
        pooled = []
        for scale in SCALES:
            stride = max(1, len(x) // scale)
            pooled.append(torch.stack([w.mean(0) for w in x.split(stride)]).mean(0) if scale > 1 else x.mean(0))
        return self.classifier(torch.cat(pooled))


def filled(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith("A_log"):
                value = 0.7 * noise
            elif name.endswith(("dt_bias", ".D")):
                value = noise
            elif p.dim() == 1 and name.endswith("weight"):
                value = 1 + 0.1 * noise
            elif p.dim() == 1:
                value = 0.1 * noise
            else:
                value = noise / p[0].numel() ** 0.5
            p.copy_(value.double())
    return model


def windows_of(length):
    """Weights of positions, as the loop over windows has them."""
    rows = torch.zeros(len(SCALES), ROOM)
    for row, scale in zip(rows, SCALES):
        stride = max(1, length // scale)
        pieces = torch.arange(length).split(stride if scale > 1 else length)
        for piece in pieces:
            row[piece] = 1 / (len(pieces) * len(piece))
    return rows


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(STEPS):
        own = torch.arange(ROOM)
        batch = {"vectors": torch.zeros(ROWS, ROOM, 2 * ENCODING), "orders": torch.zeros(ROWS, 6, ROOM).long(),
                 "inverses": torch.zeros(ROWS, 6, ROOM).long(), "pooling": torch.zeros(ROWS, len(SCALES), ROOM),
                 "labels": torch.zeros(ROWS).long()}
        for row, length in enumerate(LENGTHS):
            batch["vectors"][row, :length] = torch.randn(length, 2 * ENCODING, generator=generator)
            places = torch.randint(0, 4, (length, 3), generator=generator).numpy()  # many are equal: the sort is stable
            for k, letters in enumerate(ORDERS):
                keys = [places[:, "xyt".index(letter)] for letter in reversed(letters)]
                order = torch.from_numpy(numpy.lexsort(keys))
                batch["orders"][row, k] = torch.cat([order, own[length:]])
                batch["inverses"][row, k] = torch.argsort(batch["orders"][row, k])
            batch["pooling"][row] = windows_of(length)
            batch["labels"][row] = torch.randint(0, CLASSES, (1,), generator=generator)
        out.append(batch)
    return out


def logits_of(model, batch):
    return torch.stack([model(batch["vectors"][row, :n].double(), batch["orders"][row, :, :n])
                        for row, n in enumerate(LENGTHS)])


def make(sharing, layers, seed):
    model = filled(Gesture(sharing, layers), seed)
    data = batches(seed + 1)
    tensors = {"w." + name: p.detach().float() for name, p in model.named_parameters()}
    for name in data[0]:
        value = torch.stack([batch[name] for batch in data])
        tensors[name] = value.float() if value.is_floating_point() else value.int()
    every = list(model.parameters())
    groups = [{"params": [p for p in every if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in every if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
    losses = []
    for step, batch in enumerate(data):
        logits, labels = logits_of(model, batch), batch["labels"][:len(LENGTHS)]
        loss = cross_entropy(logits, labels, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            tensors["logits"] = logits.detach().float()
            tensors["evaluated"] = cross_entropy(logits, labels).detach().float()[None]
            tensors.update({"g." + name: p.grad.float() for name, p in model.named_parameters()})
        torch.nn.utils.clip_grad_norm_(every, 1.0)
        optimizer.step()
        losses.append(loss.item())
    tensors["loss"] = torch.tensor(losses)
    print(sharing, sum(p.numel() for p in every), "parameters; losses", losses[0], losses[-1])
    return safetensors(tensors)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    os.makedirs(sys.argv[1], exist_ok=True)
    with tarfile.open(os.path.join(sys.argv[1], "gesture.tar"), "w") as tar:
        for name, layers, seed in (("pairs", 2, 71), ("none", 1, 73), ("all", 2, 75)):
            data = make(name, layers, seed)
            info = tarfile.TarInfo(f"gesture/{name}.safetensors")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print("torch", torch.__version__)


if __name__ == "__main__":
    main()
