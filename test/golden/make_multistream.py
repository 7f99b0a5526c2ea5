#!/usr/bin/env python3
"""Golden files for the multistream model, made by PyTorch in f64 on the CPU.

    python3 test/golden/make_multistream.py OUTDIR      writes OUTDIR/multistream.tar (to be unpacked in test/golden)

multistream/whole.safetensors holds, in f32 under headroom's names,

    w.NAME, g.NAME           weights at the beginning, and gradients of the first step where there are any
    rgb, frame_mask...       the fields of ten batches, one behind the other
    points, mask, importance, tau, kinds       of the first batch
    event, outcome, brier, order, mask_loss    losses of ten steps of AdamW (lr 1e-3, betas 0.9 and 0.95, eps 1e-6, decay
                             0.1 of matrices, norm 1), each the mean over samples

The model is written as the system is described, by PyTorch's own functions: probabilities are taken first and the smaller of
the two after that, cross-entropy is of probabilities. headroom takes the smaller logit, and must come to the same.
Weights are rounded to f32 before anything is computed with them.
"""
import io
import math
import os
import sys
import tarfile

import torch
import torch.nn.functional as F

from make_embedder import safetensors

SEED = 41
STEPS, SAMPLES, FRAMES, HEIGHT, WIDTH, TRACKS = 10, 3, 4, 12, 14, 10
VIDEO, GROUPS, EMBEDDING = 2, 1, 6
HIDDEN, GEOMETRY, IMPORTANCE = 10, 6, 4
TEMPORAL, HEADS, LAYERS, INNER = 8, 2, 2, 12
COOLING, COOLED = 16, 5
FUSED, FUSED_HEADS, IMAGE, THERMAL, MOTION, CLASS, CLASSES = 12, 3, 8, 6, 16, 4, 5
HEAD, LAST = 7, 5


class Model:
    """Parameters by name, drawn when they are first asked for."""

    def __init__(self, seed):
        self.generator, self.at = torch.Generator().manual_seed(seed), {}

    def p(self, name, *shape, near=0.0):
        if name not in self.at:
            inner = math.prod(shape[1:]) if len(shape) > 1 else 1
            scale = 0.1 if len(shape) == 1 else 1.0 if "kinds.weight" in name or "classes" in name else inner ** -0.5
            scale *= 2.0 if name.startswith("heads.") else 1.0  # so that the two heads differ, now one way, now the other
            near = 0.5 if name == "heads.outcome.5.bias" else near
            drawn = torch.randn(shape, generator=self.generator) * scale + near
            self.at[name] = drawn.float().double().requires_grad_()
        return self.at[name]

    def linear(self, name, i, o, x):
        return F.linear(x, self.p(name + ".weight", o, i), self.p(name + ".bias", o))

    def norm(self, name, n, x):
        return F.layer_norm(x, (n,), self.p(name + ".weight", n, near=1.0), self.p(name + ".bias", n))

    # ---- video

    def conv(self, name, i, o, k, x, **more):
        return F.conv3d(x, self.p(name + ".weight", o, i, k, k, k), self.p(name + ".bias", o), **more)

    def level(self, name, i, o, x):
        x = self.conv(name + ".conv", i, o, 3, x, padding=1)
        name += ".norm"
        return F.gelu(F.group_norm(x, GROUPS, self.p(name + ".weight", o, near=1.0), self.p(name + ".bias", o)))

    def doubled(self, name, i, o, x):
        return F.conv_transpose3d(x, self.p(name + ".weight", i, o, 2, 2, 2), self.p(name + ".bias", o), stride=2)

    def joined(self, x, skip):
        return torch.cat([x, F.interpolate(skip, x.shape[2:], mode="trilinear", align_corners=False)], 1)

    def halved(self, name, n, x):
        return self.conv(name, n, n, 2, x, stride=2, padding=(0, 1, 1))

    def video(self, x):
        w = VIDEO
        a = self.level("video.down.0", 3, w, x)
        b = self.level("video.down.1", w, 2 * w, self.halved("video.down.1.halve", w, a))
        c = self.level("video.down.2", 2 * w, 4 * w, self.halved("video.down.2.halve", 2 * w, b))
        x = self.level("video.bottleneck", 4 * w, 8 * w, c)
        embedding = self.linear("video.embedding.linear", 8 * w, EMBEDDING, x.mean((2, 3, 4)))
        x = self.level("video.up.2", 12 * w, 4 * w, self.joined(x, c))
        x = self.level("video.up.1", 4 * w, 2 * w, self.joined(self.doubled("video.up.1.double", 4 * w, 2 * w, x), b))
        x = self.level("video.up.0", 2 * w, w, self.joined(self.doubled("video.up.0.double", 2 * w, w, x), a))
        mask = self.conv("video.mask", w, 1, 1, x)
        return embedding, F.interpolate(mask, (FRAMES, HEIGHT, WIDTH), mode="trilinear", align_corners=False)

    # ---- motion

    def layered(self, name, number, i, o, x):
        return F.gelu(self.norm(f"{name}.{number + 1}", o, self.linear(f"{name}.{number}", i, o, x)))

    def geometry(self, motion, features):
        x = torch.cat([motion.flatten(1), (motion[:, 1:] - motion[:, :-1]).flatten(1), features], 1)
        x = self.layered("geometry.mlp", 0, 69, HIDDEN, x)
        x = self.layered("geometry.mlp", 4, HIDDEN, GEOMETRY, x)
        y = F.gelu(self.linear("geometry.importance.0", GEOMETRY, IMPORTANCE, x))
        return x, self.linear("geometry.importance.2", IMPORTANCE, 69, y).sigmoid()

    def attention(self, name, width, heads, x):
        q, k, v = (self.linear(f"{name}.{part}_proj", width, width, x).unflatten(2, (heads, -1)).transpose(1, 2)
                   for part in "qkv")
        x = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.linear(name + ".out_proj", width, width, x)

    def mlp(self, name, width, inner, x):
        return self.linear(name + ".linear2", inner, width, F.gelu(self.linear(name + ".linear1", width, inner, x)))

    def temporal(self, motion):
        x = self.linear("temporal.input.linear", 32, TEMPORAL, F.pad(motion, (0, 23)))
        angle = torch.arange(3).double()[:, None] * 10000.0 ** (-torch.arange(TEMPORAL // 2).double() / (TEMPORAL // 2))
        x = x + torch.cat([angle.sin(), angle.cos()], -1)
        for i in range(LAYERS):
            at = f"temporal.layers.{i}"
            x = x + self.attention(at + ".self_attn", TEMPORAL, HEADS, self.norm(at + ".norm1", TEMPORAL, x))
            x = x + self.mlp(at, TEMPORAL, INNER, self.norm(at + ".norm2", TEMPORAL, x))
        x = self.layered("temporal.output", 0, 3 * TEMPORAL, TEMPORAL, x.flatten(1))
        return self.linear("temporal.output.4", TEMPORAL, TEMPORAL, x)

    # ---- cooling

    def stack(self, name, i, hidden, o, x):
        x = self.linear(name + ".0", i, hidden, x).relu()
        return self.linear(name + ".5", hidden // 2, o, self.linear(name + ".3", hidden, hidden // 2, x).relu())

    def cooling(self, curves, areas, mask):
        def features(v):
            return [v.mean(-1), v[..., 0] - v[..., 2], (v[..., 2] - v[..., 0]) / 2, v[..., 0] - 2 * v[..., 1] + v[..., 2]]
        a, c, e = areas, curves, 1e-3
        ratios = [c[..., 2] / (c[..., 0] + e), a[..., 2] / (a[..., 0] + e), c[..., 0] / (a[..., 0] + e), c[..., 2] / (a[..., 2] + e)]
        x = torch.cat([c, a, torch.stack(features(c) + features(a) + ratios, -1)], -1)
        x = self.stack("cooling.tracks", 18, COOLING, COOLING // 2, x)
        n = COOLING // 2
        score = self.linear("cooling.attention.2", n // 2, 1, self.linear("cooling.attention.0", n, n // 2, x).relu())[..., 0]
        weights = score.masked_fill(mask == 0, -1e9).softmax(-1)
        x = (x * weights[..., None]).sum(1)
        x = self.linear("cooling.output.2", COOLED, COOLED, self.linear("cooling.output.0", n, COOLED, x).relu())
        tau = F.softplus(self.stack("cooling.tau", COOLED, COOLING, 1, x))
        return x, tau, self.stack("cooling.kinds", COOLED, COOLING, 2, x)

    # ---- fusion

    def noticed(self, mask):
        mask = mask.detach()[:, 0]  # [B, T, H, W]
        sure, x = mask.amax(2).max(-1)
        y = mask.amax(3).argmax(-1)
        rows = torch.stack([sure.sigmoid(), (x + 0.5) / WIDTH, (y + 0.5) / HEIGHT], -1)
        order = sure.argsort(1, descending=True)[:, :5]
        return rows.gather(1, order[..., None].expand(-1, -1, 3))

    def fusion(self, image, thermal, motion, class_id, noticed):
        modality = self.p("fusion.modality_embeddings", 4, FUSED)
        tokens = []
        for i, (name, size, x) in enumerate((("image", IMAGE, image), ("thermal", THERMAL, thermal), ("motion", MOTION, motion))):
            tokens.append(self.linear("fusion.projection." + name, size, FUSED, F.pad(x, (0, size - x.shape[1]))) + modality[i])
        classes = self.p("fusion.classes.weight", CLASSES + 1, CLASS)
        tokens.append(self.linear("fusion.projection.class", CLASS, FUSED, classes[class_id]) + modality[3])
        kind = self.p("fusion.noticed.kinds.weight", 6, FUSED // 4)[0].expand(*noticed.shape[:2], -1)
        x = self.linear("fusion.noticed.0", FUSED // 4 + 3, FUSED // 2, torch.cat([kind, noticed], -1)).relu()
        tokens.append(self.linear("fusion.noticed.3", FUSED // 2, FUSED, x).mean(1))
        x = torch.stack(tokens, 1)
        for i in range(LAYERS):
            at = f"fusion.layers.{i}"
            x = self.norm(at + ".norm1", FUSED, x + self.attention(at + ".self_attn", FUSED, FUSED_HEADS, x))
            x = self.norm(at + ".norm2", FUSED, x + self.mlp(at, FUSED, 4 * FUSED, x))
        return self.layered("fusion.output", 0, FUSED, FUSED, x.mean(1))

    def head(self, name, x):
        x = self.linear(name + ".3", HEAD, LAST, self.linear(name + ".0", FUSED, HEAD, x).relu())
        return self.linear(name + ".5", LAST, 1, x.relu()).sigmoid()

    def losses(self, batch):
        image, mask = self.video(batch["rgb"].double() / 255)
        geometry, importance = self.geometry(batch["motion"].double(), batch["motion_features"].double())
        motion = torch.cat([geometry, self.temporal(batch["motion"].double())], 1)
        thermal, tau, kinds = self.cooling(batch["curves"].double(), batch["curve_areas"].double(), batch["curve_mask"])
        x = self.fusion(image, thermal, motion, batch["class_id"].long(), self.noticed(mask))
        event, raw = self.head("heads.event", x), self.head("heads.outcome", x)
        outcome = torch.minimum(raw, event)
        is_event, is_outcome = batch["event_label"].double(), batch["outcome_label"].double()
        target, p = batch["frame_mask"].double(), mask.sigmoid()
        over = (1, 2, 3, 4)
        dice = 1 - (2 * (p * target).sum(over) + 1) / (p.sum(over) + target.sum(over) + 1)
        entropy = F.binary_cross_entropy_with_logits(mask, target, reduction="none").mean(over)
        losses = {"event": F.binary_cross_entropy(event, is_event), "outcome": F.binary_cross_entropy(outcome, is_outcome),
                  "brier": F.mse_loss(event, is_event) + F.mse_loss(outcome, is_outcome), "order": (raw - event).relu().mean(),
                  "mask_loss": (0.5 * entropy + 0.5 * dice).mean()}
        whole = losses["event"] + losses["outcome"] + 0.25 * losses["brier"] + 0.2 * losses["order"] + losses["mask_loss"]
        shown = {"points": torch.cat([event, outcome], 1), "mask": mask, "importance": importance, "tau": tau, "kinds": kinds}
        return whole, losses, shown


def batches(seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(STEPS):
        event = torch.randint(0, 2, (SAMPLES, 1), generator=g)
        out.append({
            "rgb": torch.randint(0, 256, (SAMPLES, 3, FRAMES, HEIGHT, WIDTH), generator=g).to(torch.uint8),
            "frame_mask": (torch.rand(SAMPLES, 1, FRAMES, HEIGHT, WIDTH, generator=g) < 0.3).to(torch.uint8),
            "motion": torch.randn(SAMPLES, 3, 9, generator=g), "motion_features": torch.randn(SAMPLES, 24, generator=g),
            "curves": torch.rand(SAMPLES, TRACKS, 3, generator=g) + 0.1,
            "curve_areas": torch.rand(SAMPLES, TRACKS, 3, generator=g) + 0.1,
            "curve_mask": (torch.arange(TRACKS) < torch.randint(1, TRACKS + 1, (SAMPLES, 1), generator=g)).to(torch.uint8),
            "class_id": torch.randint(0, CLASSES + 1, (SAMPLES,), generator=g).int(),
            "event_label": event.to(torch.uint8),
            "outcome_label": (event * torch.randint(0, 2, (SAMPLES, 1), generator=g)).to(torch.uint8)})
    return out


def make(seed):
    model, data = Model(seed), batches(seed + 1)
    model.losses(data[0])  # draws the weights
    tensors = {"w." + name: p.detach().float() for name, p in model.at.items()}
    for name in data[0]:
        tensors[name] = torch.stack([batch[name] for batch in data])
    trained = list(model.at.values())
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-6)
    told = {}
    for step, batch in enumerate(data):
        whole, losses, shown = model.losses(batch)
        optimizer.zero_grad()
        whole.backward()
        if step == 0:
            tensors.update({name: x.detach().float() for name, x in shown.items()})
            tensors.update({"g." + name: p.grad.float() for name, p in model.at.items() if p.grad is not None})
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        for name, loss in losses.items():
            told.setdefault(name, []).append(loss.item())
    tensors.update({name: torch.tensor(x) for name, x in told.items()})
    return tensors


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    with tarfile.open(os.path.join(out, "multistream.tar"), "w") as tar:
        data = safetensors(make(SEED))
        info = tarfile.TarInfo("multistream/whole.safetensors")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        print(f"multistream/whole.safetensors: {len(data)} bytes")


main()
