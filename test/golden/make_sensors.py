#!/usr/bin/env python3
"""Golden files for the sensor model, made by PyTorch and transformers in f64 on the CPU.

    python3 test/golden/make_sensors.py OUTDIR      writes OUTDIR/sensors.tar (to be unpacked in test/golden)

Per case sensors/<case>.safetensors holds, in f32 under headroom's names,

    w.NAME, g.NAME           weights at the beginning, and gradients of the first step, of what is trained
    patches, statistics...   the fields of ten batches, one behind the other
    projected, hidden        of the first batch: vectors of patches in the decoder's width, and what its head reads
    loss                     of ten steps of AdamW (lr 1e-3, betas 0.9 and 0.95, eps 1e-6, decay 0.1 of matrices, norm 1)

The model is written as the system is described: patches are padded on the left, channels and patches are permuted
to attend over one of them, attention is torch.nn.MultiheadAttention with a mask of keys. headroom pads on the right, permutes
nothing and has no keys where it pools, and must come to the same.

The cases: `whole` trains a small Llama with everything else (16 points, 3 convolutions); `adapters` low-rank adapters of a
frozen one (32 points, 4 convolutions). Weights are rounded to f32 before anything is computed with them.
"""
import io
import os
import sys
import tarfile

import torch
import transformers

from make_embedder import safetensors

STEPS, SAMPLES, PATCHES, CHANNELS, LENGTH = 10, 3, 5, 4, 14
HIDDEN, CONV_OUT, WIDTH, ENCODING, LAYERS, HEADS = 6, 8, 16, 12, 2, 2
CHANNEL_ROWS, SIZE_ROWS = 6, 20
TEXT, INNER, VOCABULARY = 16, 24, 29
RANK, ALPHA = 2, 4
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

linear = lambda i, o: torch.nn.Linear(i, o, dtype=torch.float64)
norm = lambda: torch.nn.LayerNorm(WIDTH, dtype=torch.float64)


class Adapted(torch.nn.Module):
    """A frozen linear with a low-rank adapter beside it."""

    def __init__(self, frozen):
        super().__init__()
        self.linear = frozen
        self.a = torch.nn.Parameter(torch.empty(RANK, frozen.in_features, dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.empty(frozen.out_features, RANK, dtype=torch.float64))

    def forward(self, x):
        return self.linear(x) + ALPHA / RANK * (x @ self.a.T @ self.b.T)


def attention():
    return torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)


class Half(torch.nn.Module):
    """Attention and an MLP, each behind a norm."""

    def __init__(self):
        super().__init__()
        self.pre_norm_attn, self.pre_norm_mlp = norm(), norm()
        self.self_attn = attention()
        self.ffn = torch.nn.Sequential(linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Identity(),
                                       linear(4 * WIDTH, WIDTH))

    def forward(self, x, padding=None):
        y = self.pre_norm_attn(x)
        x = x + self.self_attn(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.ffn(self.pre_norm_mlp(x))


class Placed(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        if rows:
            self.embedding = torch.nn.Embedding(rows, ENCODING, dtype=torch.float64)
        self.proj, self.norm = linear(ENCODING, WIDTH), norm()
        self.gate = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

    def forward(self, x):
        return self.gate * self.norm(self.proj(x))


class Sensors(torch.nn.Module):
    def __init__(self, points, adapters):
        super().__init__()
        self.points, self.adapters = points, adapters
        conv = lambda i, o, k, s, p: torch.nn.Conv1d(i, o, k, s, p, dtype=torch.float64)
        layers, size = [conv(1, HIDDEN, 7, 2, 3), torch.nn.GELU()], points // 2
        while size > 4:
            layers, size = layers + [conv(HIDDEN, HIDDEN, 5, 2, 2), torch.nn.GELU()], size // 2
        self.tokenizer = torch.nn.ModuleDict({
            "conv_layers": torch.nn.Sequential(*layers, conv(HIDDEN, CONV_OUT, 4, 4, 0)), "proj": linear(CONV_OUT, WIDTH)})
        self.encoder = torch.nn.ModuleDict({
            "positions": torch.nn.ModuleDict({"patch": Placed(0), "channel": Placed(CHANNEL_ROWS),
                                              "patch_size": Placed(SIZE_ROWS)}),
            "scale_mlp": torch.nn.Sequential(linear(6, WIDTH), torch.nn.GELU(), linear(WIDTH, WIDTH)),
            "layers": torch.nn.ModuleList(torch.nn.ModuleDict({"temporal": Half(), "channel": Half()})
                                          for _ in range(LAYERS))})
        self.scale = torch.nn.Parameter(torch.full((1,), 0.5, dtype=torch.float64))
        self.pooling = torch.nn.ModuleDict({"query_norm": norm(), "attention": attention(), "norm": norm()})
        self.query = torch.nn.Parameter(torch.empty(WIDTH, dtype=torch.float64))
        self.projector = torch.nn.ModuleDict({"norm": norm(), "linear": linear(WIDTH, TEXT)})
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=TEXT, intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0,
            tie_word_embeddings=True, pad_token_id=None)
        config._attn_implementation = "eager"
        self.llm = transformers.LlamaForCausalLM(config).double().eval()
        if adapters:
            for module in list(self.llm.modules()):
                for name, child in list(module.named_children()):
                    if name in ADAPTED:
                        setattr(module, name, Adapted(child))

    def named(self):
        """(headroom's name, parameter, rows of it)."""
        everything = slice(None)
        for name, p in self.named_parameters():
            name = name.replace(".linear.weight", ".weight") if name.startswith("llm.") else name
            for old, new in ((".a", ".lora_A.weight"), (".b", ".lora_B.weight")):
                if name.startswith("llm.") and name.endswith(old):
                    name = name[:-2] + new
            name = {"scale": "encoder.positions.scale", "query": "pooling.query"}.get(name, name)
            if ".in_proj_" not in name:
                yield name, p, everything
                continue
            for i, part in enumerate(("q_proj", "k_proj", "v_proj")):
                one = name.replace("in_proj_", part + ".")
                if one != "pooling.attention.k_proj.bias":  # without effect
                    yield one, p, slice(i * WIDTH, (i + 1) * WIDTH)

    def projected(self, batch):
        """Vectors of patches, padded on the left."""
        valid = batch["left_valid"]  # [B, P]
        content = self.tokenizer["conv_layers"](batch["left_patches"].reshape(-1, 1, self.points))
        content = self.tokenizer["proj"](content[..., 0]).view(SAMPLES, PATCHES, CHANNELS, WIDTH)
        keep = valid[:, :, None, None].double()
        where = self.encoder["positions"]
        index = torch.arange(PATCHES, dtype=torch.float64)[:, None]
        angle = index * 10000.0 ** (-torch.arange(ENCODING // 2, dtype=torch.float64) / (ENCODING // 2))
        patch = where["patch"](torch.cat([angle.sin(), angle.cos()], -1))[None, :, None]
        channel = where["channel"](where["channel"].embedding(torch.arange(CHANNELS)))
        size = where["patch_size"](where["patch_size"].embedding(batch["patch_size"]))[:, None, None]
        position = (patch + channel + size) / 3 ** 0.5 * keep
        content = content * keep
        with torch.no_grad():
            count = keep.sum((1, 2, 3), keepdim=True) * CHANNELS * WIDTH
            rms = lambda x: ((x ** 2).sum((1, 2, 3), keepdim=True) / count + 1e-8).sqrt()
            ratio = rms(content) / rms(position)
        factor = (self.scale * ratio).clamp(0.1, 10)
        x = (content + position * factor + self.encoder["scale_mlp"](batch["left_statistics"])) * keep
        for layer in self.encoder["layers"]:
            rows = x.permute(0, 2, 1, 3).reshape(SAMPLES * CHANNELS, PATCHES, WIDTH)
            rows = layer["temporal"](rows, ~valid.repeat_interleave(CHANNELS, 0))
            x = rows.view(SAMPLES, CHANNELS, PATCHES, WIDTH).permute(0, 2, 1, 3)
            x = layer["channel"](x.reshape(SAMPLES * PATCHES, CHANNELS, WIDTH))
            x = x.view(SAMPLES, PATCHES, CHANNELS, WIDTH)
        tokens = x.view(SAMPLES * PATCHES, CHANNELS, WIDTH)
        query = self.pooling["query_norm"](self.query)[None, None].expand(len(tokens), 1, WIDTH)
        x = self.pooling["attention"](query, tokens, tokens, need_weights=False)[0]
        x = self.pooling["norm"](x).view(SAMPLES, PATCHES, WIDTH) * valid[..., None]
        return self.projector["linear"](self.projector["norm"](x))

    def losses(self, batch):
        patches = self.projected(batch)
        words = self.llm.model.embed_tokens(batch["tokens"])
        rows = []
        for sample in range(SAMPLES):
            row = words[sample].clone()
            row[batch["sensor"][sample]] = patches[sample, batch["left_valid"][sample]]
            rows.append(row)
        hidden = self.llm.model(inputs_embeds=torch.stack(rows)).last_hidden_state
        logits = self.llm.lm_head(hidden)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=-1)
        return patches, hidden, loss


def filled(model, seed):
    """Weights drawn by a generator of our own, rounded to f32; norms and gates begin near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            fan_in = p[0].numel() if p.dim() > 1 else 1
            scale = 0.1 if p.dim() == 1 else 1.0 if "embedding" in name else 0.2 if "llm." in name else fan_in ** -0.5
            drawn = torch.randn(p.shape, generator=generator) * (1.0 if name == "query" else scale)
            one = (name.endswith("norm.weight") or "layernorm.weight" in name or "pre_norm" in name and "weight" in name
                   or name.endswith("gate"))
            p.copy_((drawn + (1.0 if one else 0.5 if name == "scale" else 0.0)).float().double())
            if model.adapters and name.startswith("llm.") and not name.endswith((".a", ".b")):
                p.requires_grad_(False)
    return model


def batches(points, seed):
    generator = torch.Generator().manual_seed(seed)
    out = []
    for step in range(STEPS):
        batch = {name: [] for name in ("patches", "statistics", "left_patches", "left_statistics", "left_valid", "patch_mask",
                                       "patch_positions", "sensor", "placement", "tokens", "targets")}
        counts = [1 + (step + 2 * i) % PATCHES for i in range(SAMPLES)]
        for n in counts:
            values = torch.randn(n, CHANNELS, points, generator=generator)
            statistics = torch.randn(n, CHANNELS, 6, generator=generator)
            pad = lambda x, left: torch.cat([torch.zeros(PATCHES - n, *x.shape[1:]), x][::1 if left else -1])
            for name, x in (("patches", values), ("statistics", statistics)):
                batch[name].append(pad(x, False))
                batch["left_" + name].append(pad(x, True).double())
            batch["left_valid"].append(torch.arange(PATCHES) >= PATCHES - n)
            batch["patch_mask"].append((torch.arange(PATCHES) < n).long())
            positions = torch.arange(PATCHES) + PATCHES - n
            batch["patch_positions"].append(torch.where(torch.arange(PATCHES) < n, positions, 0))
            # Words, patches, words, then an answer of two to four tokens; what lies behind counts for nothing.
            first, answer = 2 + step % 2, 2 + (step + n) % 3
            begin = first + n + 2
            tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator)
            tokens[first:first + n] = 0
            targets = torch.full((LENGTH,), -1)
            targets[begin - 1:begin - 1 + answer] = tokens[begin:begin + answer]
            placement = torch.arange(LENGTH)
            placement[first:first + n] = LENGTH + torch.arange(n)
            tokens[begin + answer:] = 0
            batch["sensor"].append(torch.arange(first, first + n))
            batch["placement"].append(placement)
            batch["tokens"].append(tokens)
            batch["targets"].append(targets)
        batch = {name: x if name == "sensor" else torch.stack(x) for name, x in batch.items()}
        batch["patch_counts"] = torch.tensor(counts)
        batch["patch_size"] = torch.randint(0, SIZE_ROWS, (SAMPLES,), generator=generator)
        out.append(batch)
    return out


def make(points, adapters, seed):
    model = filled(Sensors(points, adapters), seed)
    data = batches(points, seed + 1)
    tensors = {"w." + name: p.detach()[rows].float() for name, p, rows in model.named()}
    kinds = {"patches": torch.float32, "statistics": torch.float32, "patch_mask": torch.uint8}
    for name in ("patches", "statistics", "patch_counts", "patch_mask", "patch_positions", "patch_size", "tokens", "targets",
                 "placement"):
        tensors[name] = torch.stack([batch[name] for batch in data]).to(kinds.get(name, torch.int32))
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
    losses = []
    for step, batch in enumerate(data):
        patches, hidden, loss = model.losses(batch)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            right = torch.stack([torch.cat([x[valid], x[~valid]]) for x, valid in zip(patches, batch["left_valid"])])
            tensors["projected"], tensors["hidden"] = right.detach().float(), hidden.detach().float()
            tensors.update({"g." + name: p.grad[rows].float() for name, p, rows in model.named() if p.requires_grad})
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.item())
    tensors["loss"] = torch.tensor(losses)
    print("adapters" if adapters else "whole", len(trained), "trained tensors; losses", losses[0], losses[-1])
    return safetensors(tensors)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    os.makedirs(sys.argv[1], exist_ok=True)
    with tarfile.open(os.path.join(sys.argv[1], "sensors.tar"), "w") as tar:
        for name, points, adapters, seed in (("whole", 16, False, 51), ("adapters", 32, True, 53)):
            data = make(points, adapters, seed)
            info = tarfile.TarInfo(f"sensors/{name}.safetensors")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print("torch", torch.__version__, "transformers", transformers.__version__)


if __name__ == "__main__":
    main()
