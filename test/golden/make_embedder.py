#!/usr/bin/env python3
"""Golden files for the embedder of taxonomies, made by PyTorch and transformers in f64 on the CPU.

    python3 test/golden/make_embedder.py OUTDIR      writes OUTDIR/embedder.tar (to be unpacked in test/golden)

Per case embedder/<case>.safetensors holds, in f32 under headroom's names,

    w.NAME, g.NAME           weights at the beginning, and gradients of the first step, of what is trained
    title, title_lengths...  the fields of ten batches, one behind the other
    points                   of the first batch
    contrastive, balance     losses of ten steps of AdamW (lr 1e-3, betas 0.9 and 0.95, eps 1e-6, decay 0.1 of
                             matrices, norm 1)

The cases: `whole` trains four encoders from scratch; `adapters` one frozen encoder with low-rank adapters of each channel's own.
Weights are rounded to f32 before anything is computed with them.
"""
import io
import json
import os
import sys
import tarfile

import torch
import transformers

CHANNELS = ["title", "description", "excluded", "examples"]
STEPS, SAMPLES, NEGATIVES, TITLE, LENGTH = 10, 3, 4, 5, 9
HIDDEN, INNER, LAYERS, HEADS, VOCABULARY, POSITIONS = 8, 12, 2, 2, 23, 12
EXPERTS, CHOSEN, EXPERT, PROJECTION, TANGENT, TEMPERATURE, BALANCE = 3, 2, 20, 12, 13, 0.07, 0.01
RANK, ALPHA = 2, 4


class Adapted(torch.nn.Module):
    """A frozen linear with a low-rank adapter beside it."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.a = torch.nn.Parameter(torch.empty(RANK, linear.in_features, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.empty(linear.out_features, RANK, dtype=torch.float64))

    def forward(self, x):
        return self.linear(x) + ALPHA / RANK * (x @ self.a.T @ self.b.T)


def encoder():
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=POSITIONS, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=1e-12, pad_token_id=0)
    config._attn_implementation = "eager"
    return transformers.BertModel(config, add_pooling_layer=False).double().eval()


def adapt(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Adapted(child))
    return model


class Embedder(torch.nn.Module):
    def __init__(self, adapters):
        super().__init__()
        self.adapters = adapters
        self.encoders = torch.nn.ModuleDict({c: adapt(encoder()) if adapters else encoder() for c in CHANNELS})
        width = len(CHANNELS) * HIDDEN
        linear = lambda i, o: torch.nn.Linear(i, o, dtype=torch.float64)
        self.gate = linear(width, EXPERTS)
        self.up = torch.nn.ModuleList(linear(width, EXPERT) for _ in range(EXPERTS))
        self.down = torch.nn.ModuleList(linear(EXPERT, width) for _ in range(EXPERTS))
        self.projection, self.tangent = linear(width, PROJECTION), linear(PROJECTION, TANGENT)

    def named(self):
        """Parameters by headroom's names."""
        for channel, model in self.encoders.items():
            for name, p in model.named_parameters():
                name = name.replace(".linear.", ".")
                for old, new in ((".a", ".lora_A.weight"), (".b", ".lora_B.weight")):
                    if name.endswith(old):
                        name = name[:-2] + new
                yield f"{channel}.bert.{name}", p
        for name in ("gate",):
            for kind, p in getattr(self, name).named_parameters():
                yield f"moe.{name}.{kind}", p
        for name in ("up", "down"):
            for e, module in enumerate(getattr(self, name)):
                for kind, p in module.named_parameters():
                    yield f"moe.experts.{e}.{name}.{kind}", p
        for name, module in (("linear", self.projection), ("tangent", self.tangent)):
            for kind, p in module.named_parameters():
                yield f"projection.{name}.{kind}", p

    def points(self, batch):
        means = []
        for channel in CHANNELS:
            ids = batch[channel].flatten(0, 1)
            mask = batch[channel + "_mask"].flatten(0, 1)
            hidden = self.encoders[channel](input_ids=ids, attention_mask=mask).last_hidden_state
            weight = mask[..., None].double()
            means.append((hidden * weight).sum(1) / weight.sum(1).clamp(min=1))
        x = torch.cat(means, -1)
        logits = self.gate(x)
        top, where = logits.topk(CHOSEN, -1)
        gates = torch.zeros_like(logits).scatter(-1, where, top.softmax(-1))
        y = sum(gates[:, e:e + 1] * self.down[e](torch.relu(self.up[e](x))) for e in range(EXPERTS))
        used = torch.zeros_like(logits).scatter(-1, where, 1.0).mean(0)
        balance = EXPERTS * (used * logits.softmax(-1).mean(0)).sum()
        v = self.tangent(self.projection(y))
        n = v.norm(dim=-1, keepdim=True).clamp(min=1e-8)
        return torch.cat([torch.cosh(n), torch.sinh(n) * v / n], -1), balance

    def losses(self, batch):
        points, balance = self.points(batch)
        grouped = points.view(SAMPLES, 2 + NEGATIVES, -1)
        anchor, others = grouped[:, :1], grouped[:, 1:]
        inner = (anchor * others)[..., 1:].sum(-1) - (anchor * others)[..., 0]
        distance = torch.acosh((-inner).clamp(min=1 + 1e-5))
        logits = (-distance / TEMPERATURE).masked_fill(batch["valid"] == 0, -1e30)
        target = torch.zeros(SAMPLES, dtype=torch.long)
        return points, torch.nn.functional.cross_entropy(logits, target), BALANCE * balance


def filled(model, seed):
    """Weights drawn by a generator of our own, rounded to f32; norms begin near 1."""
    generator = torch.Generator().manual_seed(seed)
    frozen = {}
    with torch.no_grad():
        for name, p in model.named():
            bare = name.split(".", 1)[1] if name.split(".")[0] in CHANNELS else name
            is_base = model.adapters and ".bert." in name and "lora_" not in name
            if is_base and bare in frozen:
                p.copy_(frozen[bare])
            else:
                scale = 0.1 if p.dim() == 1 else 0.4 if ".bert." in name else 0.8 / p.shape[1] ** 0.5
                drawn = torch.randn(p.shape, generator=generator) * scale
                p.copy_((drawn + (1.0 if "LayerNorm.weight" in name else 0.0)).float().double())
            if is_base:
                frozen[bare] = p.detach().clone()
                p.requires_grad_(False)
    return model


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    codes = 2 + NEGATIVES
    out = []
    for _ in range(STEPS):
        batch = {}
        for channel in CHANNELS:
            length = TITLE if channel == "title" else LENGTH
            ids = torch.randint(1, VOCABULARY, (SAMPLES, codes, length), generator=generator)
            lengths = torch.randint(1, length + 1, (SAMPLES, codes), generator=generator)
            mask = (torch.arange(length) < lengths[..., None]).long()
            batch[channel], batch[channel + "_lengths"], batch[channel + "_mask"] = ids * mask, lengths, mask
        valid = (torch.rand(SAMPLES, codes - 1, generator=generator) > 0.2).long()
        valid[:, 0] = 1
        batch["valid"] = valid
        out.append(batch)
    return out


def safetensors(tensors):
    """The bytes of a file: header and values, little-endian."""
    kinds = {torch.float32: "F32", torch.int32: "I32", torch.uint8: "U8"}
    header, data = {}, b""
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        raw = value.numpy().tobytes()
        header[name] = {"dtype": kinds[value.dtype], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def make(adapters, seed):
    model = filled(Embedder(adapters), seed)
    data = batches(seed + 1)
    trained = [(name, p) for name, p in model.named() if p.requires_grad]
    tensors = {}
    for name, p in model.named():
        shared = adapters and ".bert." in name and "lora_" not in name
        if not shared or name.startswith(CHANNELS[0] + "."):
            tensors["w." + name] = p.detach().float()
    for name in data[0]:
        kind = torch.uint8 if name == "valid" or name.endswith("_mask") else torch.int32
        tensors[name] = torch.stack([batch[name] for batch in data]).to(kind)
    groups = [{"params": [p for _, p in trained if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for _, p in trained if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
    contrastive, balance = [], []
    for step, batch in enumerate(data):
        points, first, second = model.losses(batch)
        optimizer.zero_grad()
        (first + second).backward()
        if step == 0:
            tensors["points"] = points.detach().float()
            for name, p in trained:
                if p.grad is not None:
                    tensors["g." + name] = p.grad.float()
        torch.nn.utils.clip_grad_norm_([p for _, p in trained], 1.0)
        optimizer.step()
        contrastive.append(first.item())
        balance.append(second.item())
    tensors["contrastive"], tensors["balance"] = torch.tensor(contrastive), torch.tensor(balance)
    print("adapters" if adapters else "whole", len(trained), "trained tensors; losses", contrastive[0], contrastive[-1],
          balance[0], "largest x0", points[:, 0].max().item())
    return safetensors(tensors)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    os.makedirs(sys.argv[1], exist_ok=True)
    with tarfile.open(os.path.join(sys.argv[1], "embedder.tar"), "w") as tar:
        for name, adapters, seed in (("whole", False, 41), ("adapters", True, 43)):
            data = make(adapters, seed)
            info = tarfile.TarInfo(f"embedder/{name}.safetensors")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print("torch", torch.__version__, "transformers", transformers.__version__)


if __name__ == "__main__":
    main()
