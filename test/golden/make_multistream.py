#!/usr/bin/env python3
"""Golden files for the multistream model, made by PyTorch in f64 on the CPU.

    python3 test/golden/make_multistream.py OUTDIR [CASE...]     writes OUTDIR/multistream.tar (to be unpacked in test/golden)

multistream/CASE.safetensors holds, in f32 under headroom's names (cases: whole, the video, motion and cooling branches;
infrared, the detector and motion; pair, two frames and motion; course, ConvNeXt over three frames and motion),

    w.NAME, g.NAME           weights at the beginning, and gradients of the first step where there are any
    rgb, frame_mask...       the fields of ten batches, one behind the other
    points, mask, importance, tau, kinds       of the first batch
    event, outcome, brier, order, mask_loss    losses of ten steps of AdamW (lr 1e-3, betas 0.9 and 0.95, eps 1e-6, of all but whole 1e-4, decay
                             0.1 of matrices, norm 1), each the mean over samples; pair_mask, course_mask, spot_found...: likewise
    eval.LOSS                of all but whole, whose norms go by the batch in training: of the first batch, by running
                             statistics, before the first step and behind the last one

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


SPOTS, TRACKED, LEAST, REACH, NEAR = 24, 16, 0.45, 0.2, 0.1
HOT, PYRAMID, MAPS, HEATED = 4, 6, 5, 6
PAIR, PAIR_HEADS, PAIR_LAYERS, PAIR_INNER, PAIRED = 16, 2, 2, 12, 6
# what a case has: branches, samples, frames, height, width
CASES = {"whole": ({"video", "motion", "cooling"}, SAMPLES, FRAMES, HEIGHT, WIDTH),
         "infrared": ({"infrared", "motion"}, 3, 3, 40, 48), "pair": ({"pair", "motion"}, 2, 4, 34, 66),
         "course": ({"course", "motion"}, 2, 5, 40, 48)}
STAGES = [(1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
          (1, 3, 1, 6, 320)]  # of EfficientNet-B0: blocks, kernel, stride, expansion, channels
MULTIPLIER = 0.05
NEXT, NEXT_BLOCKS = 4, (3, 3, 9, 3)  # ConvNeXt
FOLLOWED, COURSE_HEIGHT, COURSE_WIDTH, COURSE_PYRAMID, COURSE_MAP, COURSED = 3, 64, 32, 6, 4, 6


def scaled(channels):
    wanted = channels * MULTIPLIER
    near = max(8, int(wanted + 4) // 8 * 8)
    return near + 8 if near < 0.9 * wanted else near


class Model:
    """Parameters by name, drawn when they are first asked for."""

    def __init__(self, seed, branches):
        self.generator, self.at, self.branches = torch.Generator().manual_seed(seed), {}, branches
        self.running, self.training, self.norms_near = {}, True, 1e-5

    def p(self, name, *shape, near=0.0):
        if name not in self.at:
            inner = math.prod(shape[1:]) if len(shape) > 1 else 1
            scale = 0.1 if len(shape) == 1 else 1.0 if "kinds.weight" in name or "classes" in name else inner ** -0.5
            scale *= 2.0 if name.startswith("heads.") else 1.0  # so that the two heads differ, now one way, now the other
            scale *= 0.1 if name.endswith("gamma") else 1.0
            near = 0.5 if name == "heads.outcome.5.bias" else near
            drawn = torch.randn(shape, generator=self.generator) * scale + near
            self.at[name] = drawn.float().double().requires_grad_()
        return self.at[name]

    def linear(self, name, i, o, x):
        return F.linear(x, self.p(name + ".weight", o, i), self.p(name + ".bias", o))

    def norm(self, name, n, x):
        return F.layer_norm(x, (n,), self.p(name + ".weight", n, near=1.0), self.p(name + ".bias", n), self.norms_near)

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

    # ---- infrared

    def batch_norm(self, name, n, x, by_batch):
        mean, variance = self.running.setdefault(name, (torch.zeros(n).double(), torch.ones(n).double()))
        weight, bias = self.p(name + ".weight", n, near=1.0), self.p(name + ".bias", n)
        return F.batch_norm(x, mean, variance, weight, bias, by_batch and self.training, 0.1, 1e-5)

    def conv2(self, name, i, o, k, x, **more):
        return F.conv2d(x, self.p(name + ".weight", o, i, k, k), self.p(name + ".bias", o), **more)

    def normed(self, path, number, i, o, k, x, **more):
        x = self.conv2(f"{path}.conv{number}", i, o, k, x, padding=k // 2, **more)
        return self.batch_norm(f"{path}.norm{number}", o, x, True)

    def residual(self, path, i, o, x):
        y = self.normed(path, 2, o, o, 3, self.normed(path, 1, i, o, 3, x).relu())
        return (y + (x if i == o else self.conv2(path + ".shortcut", i, o, 1, x))).relu()

    def frame(self, x):
        """Maps of one frame of all samples, and the pyramid's middle level."""
        x = F.max_pool2d(self.normed("detector.stem", "", 1, HOT, 7, x, stride=2).relu(), 3, 2, 1)
        a = self.residual("detector.stages.0", HOT, HOT, x)
        b = self.residual("detector.stages.1", HOT, 2 * HOT, F.max_pool2d(a, 3, 2, 1))
        c = self.residual("detector.stages.2", 2 * HOT, 4 * HOT, F.max_pool2d(b, 3, 2, 1))
        for name, i, k in (("lateral.0", HOT, 1), ("smooth.0", PYRAMID, 3), ("smooth.2", PYRAMID, 3)):
            self.p(f"detector.{name}.weight", PYRAMID, i, k, k), self.p(f"detector.{name}.bias", PYRAMID)
        top = self.conv2("detector.lateral.2", 4 * HOT, PYRAMID, 1, c)
        x = self.conv2("detector.lateral.1", 2 * HOT, PYRAMID, 1, b)
        x = x + F.interpolate(top, x.shape[2:], mode="bilinear", align_corners=False)
        x = self.conv2("detector.smooth.1", PYRAMID, PYRAMID, 3, x, padding=1)
        maps = []
        for name, o in (("found", 1), ("offset", 2), ("size", 2), ("brightness", 1)):
            y = self.normed("detector.maps." + name, "", PYRAMID, MAPS, 3, x).relu()
            y = self.conv2(f"detector.maps.{name}.out", MAPS, o, 1, y)
            maps.append(y.relu() if name in ("size", "brightness") else y)
        return torch.cat(maps, 1), x

    def infrared(self, video):
        maps, levels = zip(*[self.frame(video[:, :, t] / 255) for t in range(video.shape[2])])
        embedding = torch.stack(levels).mean((0, 3, 4))
        return torch.stack(maps, 1), self.linear("detector.embedding.linear", PYRAMID, HEATED, embedding)

    def spot_losses(self, maps, batch):
        """By sums over each frame's spots; maps [B, T, 6, h, w]."""
        h, w = maps.shape[3:]
        spots, mask = batch["spots"].double(), batch["spot_mask"].bool()
        losses = {"spot_found": 0.0, "spot_offset": 0.0, "spot_size": 0.0, "spot_brightness": 0.0}
        for n in range(len(maps)):
            sums = dict.fromkeys(losses, 0.0)
            for t in range(maps.shape[1]):
                target = torch.zeros(h, w).double()
                for spot in spots[n, t][mask[n, t]]:
                    x, y = spot[0] * w, spot[1] * h
                    i, j = min(int(y), h - 1), min(int(x), w - 1)
                    target[i, j] = 1
                    said = maps[n, t, :, i, j]
                    sums["spot_offset"] += F.l1_loss(said[1:3], torch.stack([x - j, y - i]), reduction="sum")
                    sums["spot_size"] += F.smooth_l1_loss(said[3:5], torch.stack([spot[2] * w, spot[3] * h]), reduction="sum")
                    sums["spot_brightness"] += (said[5] - spot[4]).abs()
                p = maps[n, t, 0].sigmoid()
                right = torch.where(target > 0, p, 1 - p)
                sums["spot_found"] += (-0.5 * (1 - right) ** 2 * right.log()).sum()
            for name in losses:
                losses[name] += sums[name] / max(1, int(mask[n].sum())) / len(maps)
        return losses

    def spots(self, maps, batch):
        """What is picked, how it is followed, and how much of it is right: by loops."""
        samples, frames, _, h, w = maps.shape
        count = min(SPOTS, h * w)
        detections, tracks = torch.zeros(samples * frames, count, 6).double(), torch.zeros(samples, TRACKED, frames, 6).double()
        counted = torch.zeros(samples, 4).double()
        for n in range(samples):
            last = [None] * TRACKED
            for t in range(frames):
                found, best = maps[n, t, 0], F.max_pool2d(maps[n, t, :1], 3, 1, 1)[0]
                score = torch.where(found == best, found, torch.full_like(found, -1e4)).flatten()
                order = score.argsort(descending=True, stable=True)[:count]
                taken = set()
                known = batch["spots"][n, t][batch["spot_mask"][n, t].bool()].double()
                for k, cell in enumerate(order.tolist()):
                    i, j = divmod(cell, w)
                    said = maps[n, t, :, i, j]
                    one = torch.stack([score[cell].sigmoid(), (j + said[1]) / w, (i + said[2]) / h, said[3] / w, said[4] / h, said[5]])
                    detections[n * frames + t, k] = one
                    if one[0] < LEAST:
                        continue
                    counted[n, 3] += 1
                    counted[n, 2] += any(torch.dist(spot[:2], one[1:3]) < NEAR for spot in known)
                    near = [(torch.dist(last[i][1:3], one[1:3]).item(), i) for i in range(TRACKED) if last[i] is not None and i not in taken]
                    near = [pair for pair in near if pair[0] <= REACH] or [(0, i) for i in range(TRACKED) if last[i] is None]
                    if near:
                        last[min(near)[1]] = one
                        taken.add(min(near)[1])
                        tracks[n, min(near)[1], t] = one
                counted[n, 1] += len(known)
                sure = detections[n * frames + t][detections[n * frames + t, :, 0] > LEAST]
                counted[n, 0] += sum(any(torch.dist(spot[:2], one[1:3]) < NEAR for one in sure) for spot in known)
        return detections, tracks, counted

    # ---- two frames

    def folded(self, conv, norm, i, o, k, x, **more):
        x = F.conv2d(x, self.p(f"backbone.{conv}.weight", o, i, k, k), padding=k // 2, **more)
        return self.batch_norm("backbone." + norm, o, x, False)

    def apart(self, path, norm, n, k, stride, x):
        x = F.conv2d(x, self.p(f"backbone.{path}.weight", n, 1, k, k), padding=k // 2, stride=stride, groups=n)
        return self.batch_norm("backbone." + norm, n, x, False)

    def backbone(self, x):
        mean, deviation = torch.tensor([0.485, 0.456, 0.406]).double(), torch.tensor([0.229, 0.224, 0.225]).double()
        x = (x / 255 - mean[:, None, None]) / deviation[:, None, None]
        i = scaled(32)
        x = F.silu(self.folded("conv_stem", "bn1", 3, i, 3, x, stride=2))
        for s, (blocks, k, stride, expansion, channels) in enumerate(STAGES):
            for n in range(blocks):
                path, o, y, inner = f"blocks.{s}.{n}.", scaled(channels), x, i * expansion
                step, wide = stride if n == 0 else 1, expansion > 1
                if wide:
                    y = F.silu(self.folded(path + "conv_pw", path + "bn1", i, inner, 1, y))
                y = F.silu(self.apart(path + "conv_dw", path + ("bn2" if wide else "bn1"), inner, k, step, y))
                gate = F.silu(self.conv2(f"backbone.{path}se.conv_reduce", inner, i // 4, 1, y.mean((2, 3), keepdim=True)))
                y = y * self.conv2(f"backbone.{path}se.conv_expand", i // 4, inner, 1, gate).sigmoid()
                y = self.folded(path + ("conv_pwl" if wide else "conv_pw"), path + ("bn3" if wide else "bn2"), inner, o, 1, y)
                x, i = (x + y if i == o and step == 1 else y), o
        return x

    def pair(self, rgb):
        frames = rgb.shape[2]
        maps = [self.backbone(rgb[:, :, t]) for t in (frames // 4, 3 * frames // 4)]
        channels, h, w = maps[0].shape[1:]
        x = torch.cat([self.linear("pair.input.linear", channels, PAIR, m.flatten(2).transpose(1, 2)) for m in maps], 1)
        x = x + self.p("pair.positions.weight", 2 * h * w, PAIR)
        for i in range(PAIR_LAYERS):
            at = f"pair.layers.{i}"
            x = self.norm(at + ".norm1", PAIR, x + self.attention(at + ".self_attn", PAIR, PAIR_HEADS, x))
            x = self.norm(at + ".norm2", PAIR, x + self.mlp(at, PAIR, PAIR_INNER, x))
        y, n = (x[:, h * w:] - x[:, :h * w]).transpose(1, 2).unflatten(2, (h, w)), PAIR
        for i in range(3):
            weight, bias = self.p(f"pair.mask.{i}.double.weight", n, n // 2, 4, 4), self.p(f"pair.mask.{i}.double.bias", n // 2)
            y = F.conv_transpose2d(y, weight, bias, stride=2, padding=1)
            n //= 2
            y = self.batch_norm(f"pair.mask.{i}.norm", n, y, True).relu()
        y = self.conv2("pair.mask.out", n, 1, 3, y, padding=1)
        mask = F.interpolate(y, rgb.shape[3:], mode="bilinear", align_corners=False)
        x = x.mean(1)
        integrity = self.linear("pair.integrity.2", PAIR // 4, 1, self.linear("pair.integrity.0", PAIR, PAIR // 4, x).relu()).tanh()
        return self.linear("pair.embedding.linear", PAIR, PAIRED, x), mask, integrity

    # ---- a few frames, one after the other

    def convnext(self, x):
        def places(name, n, x):
            return self.norm(name, n, x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        mean, deviation = torch.tensor([0.485, 0.456, 0.406]).double(), torch.tensor([0.229, 0.224, 0.225]).double()
        x = (x - mean[:, None, None]) / deviation[:, None, None]
        self.norms_near = 1e-6
        x, n, maps = places("convnext.stem.1", NEXT, self.conv2("convnext.stem.0", 3, NEXT, 4, x, stride=4)), NEXT, []
        for s, blocks in enumerate(NEXT_BLOCKS):
            at = f"convnext.stages.{s}."
            if s > 0:
                x = self.conv2(at + "downsample.1", n, 2 * n, 2, places(at + "downsample.0", n, x), stride=2)
                n *= 2
            for i in range(blocks):
                block = f"{at}blocks.{i}."
                weight, bias = self.p(block + "conv_dw.weight", n, 1, 7, 7), self.p(block + "conv_dw.bias", n)
                y = self.norm(block + "norm", n, F.conv2d(x, weight, bias, padding=3, groups=n).permute(0, 2, 3, 1))
                y = F.gelu(self.linear(block + "mlp.fc1", n, 4 * n, y))
                y = self.linear(block + "mlp.fc2", 4 * n, n, y) * self.p(block + "gamma", n, near=0.5)
                x = x + y.permute(0, 3, 1, 2)
            maps.append(x)
        self.norms_near = 1e-5
        return maps

    def course(self, rgb):
        """By a loop over frames where there is one in time; means are of maps in the size of frames."""
        frames, samples, n = rgb.shape[2], len(rgb), COURSE_PYRAMID
        followed, size = [(2 * i + 1) * frames // (2 * FOLLOWED) for i in range(FOLLOWED)], (COURSE_HEIGHT, COURSE_WIDTH)
        levels = []
        for t in followed:
            frame = F.interpolate(rgb[:, :, t] / 255, size, mode="bilinear", align_corners=False)
            maps, level = self.convnext(frame), None
            for i in (3, 2, 1, 0):
                own = self.conv2(f"course.lateral.{i}", NEXT << i, n, 1, maps[i])
                above = level
                level = own if above is None else own + F.interpolate(above, own.shape[2:], mode="bilinear", align_corners=False)
                if i > 0:
                    self.p(f"course.smooth.{i}.weight", n, n, 3, 3), self.p(f"course.smooth.{i}.bias", n)
            levels.append(self.conv2("course.smooth.0", n, n, 3, level, padding=1))
        h, w = levels[0].shape[2:]
        x = torch.stack(levels, -1).permute(0, 2, 3, 1, 4).reshape(samples * h * w, n, FOLLOWED)
        x = F.conv1d(x, self.p("course.time.conv.weight", n, n, 3), self.p("course.time.conv.bias", n), padding=1)
        x = self.batch_norm("course.time.norm", n, x, True).relu()
        x = x.reshape(samples, h, w, n, FOLLOWED).permute(0, 4, 3, 1, 2).flatten(0, 1)
        x = F.interpolate(x, size, mode="bilinear", align_corners=False)
        mean = x.mean((2, 3)).unflatten(0, (samples, FOLLOWED)).mean(1)
        mean = self.linear("course.embedding.3", COURSED, COURSED, self.linear("course.embedding.0", n, COURSED, mean).relu())
        for i, (a, b) in enumerate(((n, COURSE_MAP), (COURSE_MAP, COURSE_MAP // 2))):
            x = self.normed(f"course.saliency.{i}", "", a, b, 3, x).relu()
        return mean, self.conv2("course.saliency.out", COURSE_MAP // 2, 1, 1, x), followed

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
            if x is None:
                continue
            tokens.append(self.linear("fusion.projection." + name, size, FUSED, F.pad(x, (0, size - x.shape[1]))) + modality[i])
        classes = self.p("fusion.classes.weight", CLASSES + 1, CLASS)
        tokens.append(self.linear("fusion.projection.class", CLASS, FUSED, classes[class_id]) + modality[3])
        if noticed is not None:
            tokens.append(self.noticed_token(noticed))
        x = torch.stack(tokens, 1)
        for i in range(LAYERS):
            at = f"fusion.layers.{i}"
            x = self.norm(at + ".norm1", FUSED, x + self.attention(at + ".self_attn", FUSED, FUSED_HEADS, x))
            x = self.norm(at + ".norm2", FUSED, x + self.mlp(at, FUSED, 4 * FUSED, x))
        return self.layered("fusion.output", 0, FUSED, FUSED, x.mean(1))

    def noticed_token(self, noticed):
        kind = self.p("fusion.noticed.kinds.weight", 6, FUSED // 4)[0].expand(*noticed.shape[:2], -1)
        x = self.linear("fusion.noticed.0", FUSED // 4 + 3, FUSED // 2, torch.cat([kind, noticed], -1)).relu()
        return self.linear("fusion.noticed.3", FUSED // 2, FUSED, x).mean(1)

    def head(self, name, x):
        x = self.linear(name + ".3", HEAD, LAST, self.linear(name + ".0", FUSED, HEAD, x).relu())
        return self.linear(name + ".5", LAST, 1, x.relu()).sigmoid()

    def losses(self, batch):
        image = thermal = noticed = None
        losses, shown = {}, {}
        if "video" in self.branches:
            image, mask = self.video(batch["rgb"].double() / 255)
            noticed = self.noticed(mask)
            losses["mask_loss"] = mask_loss(mask, batch["frame_mask"].double())
            shown["mask"] = mask
        geometry, shown["importance"] = self.geometry(batch["motion"].double(), batch["motion_features"].double())
        motion = torch.cat([geometry, self.temporal(batch["motion"].double())], 1)
        if "cooling" in self.branches:
            thermal, shown["tau"], shown["kinds"] = self.cooling(batch["curves"].double(), batch["curve_areas"].double(), batch["curve_mask"])
        if "infrared" in self.branches:
            maps, thermal = self.infrared(batch["infrared"].double())
            losses.update(self.spot_losses(maps, batch))
            with torch.no_grad():
                shown["detections"], shown["tracks"], shown["counted"] = self.spots(maps, batch)
        if "pair" in self.branches:
            image, mask, shown["integrity"] = self.pair(batch["rgb"].double())
            losses["pair_mask"] = mask_loss(mask[:, :, None], batch["frame_mask"].double()[:, :, 3 * batch["rgb"].shape[2] // 4][:, :, None])
        if "course" in self.branches:
            image, saliency, followed = self.course(batch["rgb"].double())
            mask = F.interpolate(saliency, batch["rgb"].shape[3:], mode="bilinear", align_corners=False)
            losses["course_mask"] = mask_loss(mask.unflatten(0, (-1, FOLLOWED)).transpose(1, 2), batch["frame_mask"].double()[:, :, followed])
            shown["saliency"] = saliency
        x = self.fusion(image, thermal, motion, batch["class_id"].long(), noticed)
        event, raw = self.head("heads.event", x), self.head("heads.outcome", x)
        outcome = torch.minimum(raw, event)
        is_event, is_outcome = batch["event_label"].double(), batch["outcome_label"].double()
        losses |= {"event": F.binary_cross_entropy(event, is_event), "outcome": F.binary_cross_entropy(outcome, is_outcome),
                   "brier": F.mse_loss(event, is_event) + F.mse_loss(outcome, is_outcome), "order": (raw - event).relu().mean()}
        weights = {"brier": 0.25, "order": 0.2, "spot_offset": 0.25, "spot_size": 0.25, "spot_brightness": 0.25}
        whole = sum(weights.get(name, 1.0) * loss for name, loss in losses.items())
        shown["points"] = torch.cat([event, outcome] + ([shown.pop("counted")] if "counted" in shown else []), 1)
        return whole, losses, shown


def mask_loss(mask, target):
    over, p = (1, 2, 3, 4), mask.sigmoid()
    dice = 1 - (2 * (p * target).sum(over) + 1) / (p.sum(over) + target.sum(over) + 1)
    entropy = F.binary_cross_entropy_with_logits(mask, target, reduction="none").mean(over)
    return (0.5 * entropy + 0.5 * dice).mean()


def spots_of(g, samples, frames, h, w):
    """Up to 5 spots of a frame, with the cells of 8 x 8 that they are in."""
    spots = torch.rand(samples, frames, SPOTS, 5, generator=g) * torch.tensor([1, 1, 0.3, 0.3, 1.0])
    mask = torch.arange(SPOTS) < torch.randint(0, 6, (samples, frames, 1), generator=g)
    rows, columns = -(-h // 8), -(-w // 8)
    cells = (spots[..., 1] * rows).floor() * columns + (spots[..., 0] * columns).floor()
    return {"spots": spots * mask[..., None], "spot_cells": torch.where(mask, cells, torch.tensor(float(rows * columns))).int(),
            "spot_mask": mask.to(torch.uint8)}


def batches(seed, case):
    branches, samples, frames, h, w = case
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(STEPS):
        event = torch.randint(0, 2, (samples, 1), generator=g)
        batch = {}
        if branches & {"video", "pair", "course"}:
            batch["rgb"] = torch.randint(0, 256, (samples, 3, frames, h, w), generator=g).to(torch.uint8)
            batch["frame_mask"] = (torch.rand(samples, 1, frames, h, w, generator=g) < 0.3).to(torch.uint8)
        if "infrared" in branches:
            batch["infrared"] = torch.randint(0, 256, (samples, 1, frames, h, w), generator=g).to(torch.uint8)
            batch |= spots_of(g, samples, frames, h, w)
        batch |= {"motion": torch.randn(samples, 3, 9, generator=g), "motion_features": torch.randn(samples, 24, generator=g)}
        if "cooling" in branches:
            batch["curves"] = torch.rand(samples, TRACKS, 3, generator=g) + 0.1
            batch["curve_areas"] = torch.rand(samples, TRACKS, 3, generator=g) + 0.1
            batch["curve_mask"] = (torch.arange(TRACKS) < torch.randint(1, TRACKS + 1, (samples, 1), generator=g)).to(torch.uint8)
        out.append(batch | {
            "class_id": torch.randint(0, CLASSES + 1, (samples,), generator=g).int(), "event_label": event.to(torch.uint8),
            "outcome_label": (event * torch.randint(0, 2, (samples, 1), generator=g)).to(torch.uint8)})
    return out


def evaluated(model, batch, told, tensors=None):
    """Losses of a batch by running statistics."""
    model.training = False
    _, losses, shown = model.losses(batch)
    for name, loss in losses.items():
        told.setdefault("eval." + name, []).append(loss.item())
    if tensors is not None:
        tensors.update({name: x.detach().float() for name, x in shown.items()})
    model.training = True


def make(seed, case):
    model, data = Model(seed, case[0]), batches(seed + 1, case)
    model.training = False
    model.losses(data[0])  # draws the weights
    model.training = True
    by_batch = "video" not in case[0]
    tensors, told = {"w." + name: p.detach().float() for name, p in model.at.items()}, {}
    for name in data[0]:
        tensors[name] = torch.stack([batch[name] for batch in data])
    trained = list(model.at.values())
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-4 if by_batch else 1e-6)
    if by_batch:
        evaluated(model, data[0], told, tensors)
    for step, batch in enumerate(data):
        whole, losses, shown = model.losses(batch)
        optimizer.zero_grad()
        whole.backward()
        if step == 0:
            if not by_batch:
                tensors.update({name: x.detach().float() for name, x in shown.items()})
            tensors.update({"g." + name: p.grad.float() for name, p in model.at.items() if p.grad is not None})
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        for name, loss in losses.items():
            told.setdefault(name, []).append(loss.item())
    if by_batch:
        evaluated(model, data[0], told)
    tensors.update({name: torch.tensor(x) for name, x in told.items()})
    return tensors


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    with tarfile.open(os.path.join(out, "multistream.tar"), "w") as tar:
        for name in sys.argv[2:] or CASES:
            data = safetensors(make(SEED + list(CASES).index(name), CASES[name]))
            info = tarfile.TarInfo(f"multistream/{name}.safetensors")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            print(f"multistream/{name}.safetensors: {len(data)} bytes")


main()
