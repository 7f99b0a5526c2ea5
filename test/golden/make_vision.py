#!/usr/bin/env python3
"""Golden files for backbones and for the pieces of the video model, made by PyTorch in f64 on the CPU.

    python3 test/golden/make_vision.py OUTDIR [CASE...]      writes OUTDIR/vision.tar (to be unpacked in test/golden)

vision/<backbone>.safetensors holds, in f32 under headroom's names,

    w.NAME                    weights and running statistics at the beginning
    images, wanted            u8 [B, H, W, 3] and f32 [B, features]: the batch of all steps
    MODE.features, MODE.map   of the first batch, with norms by running statistics (eval) or by the batch (train)
    MODE.g.NAME               gradients of the first step, of all but the largest weights
    MODE.loss                 of ten steps of AdamW on the mean square of features - wanted
    train.s.NAME              running statistics behind them

EfficientNet and ConvNeXt (which has no batch norms, so that both modes are one) are timm's own, with fewer channels. timm's ResNets have no narrow form, so theirs is written anew; the script
first holds it to timm's at full width, weight by weight and number by number.

vision/pieces.safetensors has the same of the video model's pieces (torch.nn.LSTM over packed sequences, torch.nn's
encoder layers with a mask of padded frames): features, logits, and what goes to the decoder, of samples of 5, 7, 1 and 4 frames.

vision/groups.safetensors: a norm that sees the images of a batch in three groups, one after another, as a loop over frames has
it; vision/checkpoint: resnet18's weights in a folder as timm writes it, with a classifier and counts of batches.
"""
import io
import json
import os
import sys
import tarfile

import timm
import torch
from safetensors.torch import save
from timm.models.convnext import ConvNeXt
from timm.models.efficientnet import _gen_efficientnet
from torch import nn

from make_embedder import safetensors

STEPS, SAMPLES, SIZE = 10, 4, 64
LARGEST = 1024  # elements of gradients that are kept: files stay small, and an error anywhere shows in front of it
MEAN, DEVIATION = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


class Block(nn.Module):
    def __init__(self, bottleneck, inputs, width, stride):
        super().__init__()
        out = width * (4 if bottleneck else 1)
        conv = lambda i, o, k, s: nn.Conv2d(i, o, k, s, k // 2, bias=False)
        kinds = [(inputs, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)] if bottleneck else \
            [(inputs, width, 3, stride), (width, width, 3, 1)]
        for i, (a, b, k, s) in enumerate(kinds):
            setattr(self, f"conv{i + 1}", conv(a, b, k, s))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(b))
        self.count = len(kinds)
        self.downsample = None
        if stride != 1 or inputs != out:
            self.downsample = nn.Sequential(conv(inputs, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = y if i == self.count else y.relu()
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    def __init__(self, bottleneck, blocks, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        inputs = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(Block(bottleneck, inputs, width << stage, 2 if i == 0 and stage > 0 else 1))
                inputs = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))

    def forward_map(self, x):
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return x

    def forward(self, x):
        return self.forward_map(x).mean((2, 3))


class Efficient(nn.Module):
    def __init__(self, multiplier):
        super().__init__()
        self.net = _gen_efficientnet("efficientnet_b0", channel_multiplier=multiplier, depth_multiplier=1.0, num_classes=0)

    def forward_map(self, x):
        return self.net.blocks(self.net.bn1(self.net.conv_stem(x)))

    def forward(self, x):
        return self.net(x)


class Next(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = ConvNeXt(dims=tuple(width << i for i in range(4)), num_classes=0)

    def forward_map(self, x):
        return self.net.stages(self.net.stem(x))

    def forward(self, x):
        return self.net(x)


RESNETS = {"resnet18": (False, (2, 2, 2, 2)), "resnet50": (True, (3, 4, 6, 3))}


def check_against_timm():
    for name, (bottleneck, blocks) in RESNETS.items():
        theirs, ours = timm.create_model(name, num_classes=0).eval(), ResNet(bottleneck, blocks, 64).eval()
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(2, 3, 64, 64)
        assert torch.allclose(theirs(x), ours(x), atol=1e-5), name


def drawn(model, seed):
    """Weights near those of trained networks, rounded to f32."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            noise = torch.randn(p.shape, generator=generator) if p.dim() else None
            if name.endswith("running_var"):
                p.copy_(0.5 + noise.abs())
            elif p.dim() > 1:
                p.copy_(noise * (1.4 / p[0].numel() ** 0.5))
            elif name.endswith("gamma"):
                p.copy_(0.5 + noise * 0.1)
            elif p.dim() == 1:
                weight = 0.0 if not name.endswith("weight") else 0.4 if "bn3" in name else 1.0  # of a norm
                p.copy_(noise * 0.1 + weight)
    return model.double()


def named(model):
    short = lambda name: name[4:] if name.startswith("net.") else name
    parameters = [(short(name), p) for name, p in model.named_parameters()]
    return parameters, [(short(name), p) for name, p in model.named_buffers() if p.dim()]


def optimizer_of(parameters):
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-4)


def trained(model, pixels, wanted):
    """Features and gradients of the first step, losses of all, what the buffers are then."""
    parameters, buffers = named(model)
    optimizer, losses = optimizer_of([p for _, p in parameters]), []
    for step in range(STEPS):
        y = model(pixels)
        loss = ((y - wanted) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            features = y.detach().float()
            gradients = {name: p.grad.clone() for name, p in parameters if p.numel() <= LARGEST}
        nn.utils.clip_grad_norm_([p for _, p in parameters], 1.0)
        optimizer.step()
        losses.append(loss.item())
    return features, gradients, losses, {name: p.clone() for name, p in buffers}


def distance(ours, theirs):
    """The largest of relative distances, as the test takes them: what is tiny beside the others is rounding."""
    least = 1e-3 * max(p.norm() for p in theirs.values())
    return max(((ours[name].double() - p).norm() / max(p.norm(), least)).item() for name, p in theirs.items())


def backbone(make, seed):
    model = drawn(make(), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    images = torch.randint(0, 256, (SAMPLES, SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
    pixels = ((images.double() / 255 - MEAN.double()) / DEVIATION.double()).permute(0, 3, 1, 2)
    features = model.eval()(pixels).shape[1]
    wanted = torch.randn(SAMPLES, features, generator=generator)
    parameters, buffers = named(model)
    tensors = {"w." + name: p.detach().float() for name, p in parameters + buffers}
    tensors |= {"images": images, "wanted": wanted}
    for mode in ("eval", "train"):
        features, gradients, losses, states = trained(drawn(make(), seed).train(mode == "train"), pixels, wanted.double())
        tensors[mode + ".features"] = features
        tensors |= {f"{mode}.g.{name}": p.float() for name, p in gradients.items()}
        tensors[mode + ".loss"] = torch.tensor(losses)
        # How far PyTorch itself is off in f32: norms by the batch, of few images and many layers, raise rounding.
        _, near, close, next_to = trained(drawn(make(), seed).float().train(mode == "train"), pixels.float(), wanted)
        off = [distance(near, gradients), max(abs(a - b) / abs(b) for a, b in zip(close, losses)), distance(next_to, states) if states else 0.0]
        tensors[mode + ".f32_off"] = torch.tensor(off)
        print(mode, losses[0], losses[-1], "f32 is off by", off)
    tensors |= {"train.s." + name: p.float() for name, p in states.items()}
    tensors["eval.map"] = drawn(make(), seed).eval().forward_map(pixels).detach().float()
    return safetensors(tensors)


# ---- pieces of the video model ----

FRAMES, FEATURE, TRIGGER, WIDTH, LAYERS, HEADS, MLP, UNITS, COLUMNS, DECODER = 7, 12, 8, 16, 2, 2, 24, 6, 10, 14
LENGTHS = (5, 7, 1, 4)


class Pieces(nn.Module):
    def __init__(self):
        super().__init__()
        two = lambda a, b, c: nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Identity(), nn.Linear(b, c))
        self.visual_encoder = nn.ModuleDict({"projection": two(COLUMNS, FEATURE, FEATURE)})
        self.trigger_detector = nn.ModuleDict({"feature_extractor": two(FEATURE, TRIGGER, TRIGGER),
                                               "lstm": nn.LSTM(TRIGGER, TRIGGER, batch_first=True),
                                               "classifier": two(TRIGGER, TRIGGER // 2, 2)})
        encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, MLP, 0.0, "gelu", batch_first=True)
        self.time_encoder = nn.ModuleDict({"feature_proj": nn.Linear(FEATURE, WIDTH), "time_proj": nn.Linear(1, WIDTH),
                                           "norm": nn.LayerNorm(WIDTH),
                                           "layers": nn.TransformerEncoder(encoder, LAYERS, enable_nested_tensor=False).layers})
        self.temporal = nn.ModuleDict({"lstm": nn.LSTM(WIDTH, UNITS, 2, batch_first=True, bidirectional=True),
                                       "proj": nn.Linear(2 * UNITS, WIDTH)})
        self.llm_projection = nn.Sequential(nn.Linear(WIDTH, DECODER), nn.LayerNorm(DECODER), nn.GELU())

    def named(self):
        for name, p in self.named_parameters():
            if "in_proj_" not in name:
                yield name, p, slice(None)
                continue
            for i, part in enumerate(("q_proj", "k_proj", "v_proj")):
                yield name.replace("in_proj_", part + "."), p, slice(i * WIDTH, (i + 1) * WIDTH)

    @staticmethod
    def recurrent(lstm, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=FRAMES)[0]

    def forward(self, x, times):
        x = self.visual_encoder["projection"](x)
        trigger = self.trigger_detector
        logits = trigger["classifier"](self.recurrent(trigger["lstm"], trigger["feature_extractor"](x).relu()))
        time = self.time_encoder
        angle = torch.arange(FRAMES, dtype=torch.float64)[:, None] * 10000.0 ** (
            -2 * torch.arange(WIDTH // 2, dtype=torch.float64) / WIDTH)
        places = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
        y = time["norm"](time["feature_proj"](x) + time["time_proj"](times[..., None]) + places)
        padding = torch.arange(FRAMES) >= torch.tensor(LENGTHS)[:, None]
        for layer in time["layers"]:
            y = layer(y, src_key_padding_mask=padding)
        y = self.temporal["proj"](self.recurrent(self.temporal["lstm"], y))
        return logits, self.llm_projection(y)


def pieces(seed):
    torch.backends.mha.set_fastpath_enabled(False)
    model = drawn(Pieces(), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    x = torch.randn(SAMPLES, FRAMES, COLUMNS, generator=generator)
    times = (torch.arange(FRAMES) / 3.0 + torch.rand(SAMPLES, 1, generator=generator)).float()
    wanted = torch.randn(SAMPLES, FRAMES, 2 + DECODER, generator=generator)
    valid = (torch.arange(FRAMES) < torch.tensor(LENGTHS)[:, None]).float()
    tensors = {"w." + name: p.detach()[rows].float() for name, p, rows in model.named()}
    tensors |= {"x": x, "timestamps": times, "wanted": wanted, "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
                "valid": valid}
    optimizer, losses = optimizer_of(list(model.parameters())), []
    for step in range(STEPS):
        logits, out = model(x.double(), times.double())
        y = torch.cat([logits, out], -1)
        loss = (((y - wanted.double()) * valid[..., None].double()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            tensors["result"] = (y.detach() * valid[..., None].double()).float()
            tensors |= {"g." + name: p.grad[rows].float() for name, p, rows in model.named()}
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    tensors["loss"] = torch.tensor(losses)
    print("pieces", losses[0], losses[-1])
    return safetensors(tensors)


def groups(seed):
    generator = torch.Generator().manual_seed(seed)
    norm = drawn(nn.BatchNorm2d(5), seed)
    x, wanted = (torch.randn(6, 5, 3, 4, generator=generator) for _ in range(2))
    tensors = {"w.norm." + name: p.detach().float() for name, p in norm.state_dict().items() if p.dim()}
    tensors |= {"images": x, "wanted": wanted}
    y = torch.cat([norm.train()(part) for part in x.double().split(2)])
    loss = ((y - wanted.double()) ** 2).mean()
    loss.backward()
    tensors |= {"features": y.detach().float(), "loss": torch.tensor([loss.item()])}
    tensors |= {"g.norm." + name: p.grad.float() for name, p in norm.named_parameters()}
    tensors |= {"s.norm." + name: p.float() for name, p in norm.named_buffers() if p.dim()}
    return safetensors(tensors)


def checkpoint(seed):
    model = drawn(ResNet(*RESNETS["resnet18"], 2), seed)
    model.fc = nn.Linear(16, 3)
    return save({name: p if p.dtype == torch.int64 else p.float() for name, p in model.state_dict().items()})


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    check_against_timm()
    os.makedirs(sys.argv[1], exist_ok=True)
    cases = {name: (lambda kind=kind: backbone(lambda: ResNet(*kind, 2), 61)) for name, kind in RESNETS.items()}
    cases["efficientnet_b0"] = lambda: backbone(lambda: Efficient(0.1), 63)
    cases["convnext_tiny"] = lambda: backbone(lambda: Next(4), 69)
    cases["pieces"] = lambda: pieces(65)
    cases["groups"] = lambda: groups(67)
    cases["checkpoint/model"] = lambda: checkpoint(61)
    cases = {name: make for name, make in cases.items() if name in sys.argv[2:] or len(sys.argv) == 2}
    config = json.dumps({"architecture": "resnet18", "num_classes": 3, "num_features": 16, "width": 2}).encode()
    with tarfile.open(os.path.join(sys.argv[1], "vision.tar"), "w") as tar:
        for name, make in cases.items():
            print(name)
            files = {f"vision/{name}.safetensors": make()}
            if name.startswith("checkpoint"):
                files["vision/checkpoint/config.json"] = config
            for path, data in files.items():
                info = tarfile.TarInfo(path)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    print("torch", torch.__version__, "timm", timm.__version__)


if __name__ == "__main__":
    main()
