#!/usr/bin/env python3
"""Golden files for the video model, made by PyTorch and transformers in f64 on the CPU.

    python3 test/golden/make_video.py OUTDIR      writes OUTDIR/video.tar (to be unpacked in test/golden)

Per case video/<case>.safetensors holds, in f32 under headroom's names,

    w.NAME                   weights and running statistics at the beginning
    frames, timestamps...    the fields of two batches, one behind the other: steps take them by turns
    points, hidden           of the first batch, evaluated: how much likelier a trigger is, and what the decoder's head reads
    eval                     the three losses of it, each with its weight
    g.NAME                   gradients of the first step, of what is trained and not large
    loss                     of ten steps of AdamW: the three losses, [10, 3]

The model is put together of torch.nn's modules as the system is described, with the losses as they are meant: cross-entropy of the detector's
two logits over valid frames, of the caption's tokens, and mean |p(t) - p(t - 1)| of valid neighbours; the caption follows the valid
frames at once.

The cases: `whole` trains everything, `frozen` neither backbone nor decoder; norms go by running statistics. (Norms by the batch, of few rows, would make
ten steps a matter of rounding; make_vision.py has them.)
"""
import io
import os
import sys
import tarfile

import torch
import transformers
from torch import nn

import make_vision
from make_embedder import safetensors

STEPS, BATCHES, SAMPLES, FRAMES, SIZE, LENGTH, VOCABULARY = 10, 2, 2, 5, 16, 12, 23
LARGEST = 600  # elements of gradients that are kept
WEIGHTS = (1.0, 1.0, 0.5)  # caption, trigger, smoothness
make_vision.FRAMES, make_vision.COLUMNS = FRAMES, 16


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = make_vision.ResNet(False, (2, 2, 2, 2), 2)
        self.pieces = make_vision.Pieces()
        rope = {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        config = transformers.Gemma3TextConfig(
            hidden_size=make_vision.DECODER, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
            intermediate_size=20, vocab_size=VOCABULARY, sliding_window=6, sliding_window_pattern=2, query_pre_attn_scalar=8,
            max_position_embeddings=64, rms_norm_eps=1e-6, use_cache=False, rope_parameters=rope)
        config._attn_implementation = "eager"
        self.llm = transformers.Gemma3ForCausalLM(config)

    def named(self):
        """(headroom's name, tensor, rows of it)."""
        for name, p, rows in self.pieces.named():
            yield name, p, rows
        for part, module in (("visual", self.visual), ("llm", self.llm)):
            for name, p in module.named_parameters():
                yield f"{part}.{name}", p, slice(None)
        for name, p in self.visual.named_buffers():
            if p.dim():
                yield f"visual.{name}", p, slice(None)

    def forward(self, batch):
        pixels = batch["frames"].flatten(0, 1).double() / 255
        pixels = ((pixels - make_vision.MEAN.double()) / make_vision.DEVIATION.double()).permute(0, 3, 1, 2)
        lengths = batch["frame_lengths"]
        make_vision.LENGTHS = tuple(lengths.tolist())
        features = self.visual(pixels).view(SAMPLES, FRAMES, -1)
        logits, vectors = self.pieces(features, batch["timestamps"].double())
        words = self.llm.model.embed_tokens(batch["tokens"].long())
        rows = [torch.cat([vectors[i, :n], words[i, n:]]) for i, n in enumerate(lengths.tolist())]
        hidden = self.llm.model(inputs_embeds=torch.stack(rows)).last_hidden_state
        text = self.llm.lm_head(hidden)
        caption = nn.functional.cross_entropy(text.flatten(0, 1), batch["targets"].flatten().long(), ignore_index=-1)
        valid = torch.arange(FRAMES) < lengths[:, None]
        trigger = nn.functional.cross_entropy(logits[valid], batch["triggers"][valid].long())
        p = logits.softmax(-1)[..., 1]
        smoothness = (p[:, 1:] - p[:, :-1])[valid[:, 1:]].abs().mean()
        return logits[..., 1] - logits[..., 0], hidden, [w * x for w, x in zip(WEIGHTS, (caption, trigger, smoothness))]


def filled(seed, frozen):
    model = Video()
    kept = {name: p.clone() for name, p in model.llm.named_buffers()}  # frequencies of rotations, and the like
    make_vision.drawn(model, seed)
    with torch.no_grad():
        for name, p in model.llm.named_buffers():
            p.copy_(kept[name])
        for name, p in model.llm.named_parameters():
            if name.endswith("norm.weight"):
                p.sub_(1.0)  # what is added to 1
        for p in model.parameters():
            p.copy_(p.float().double())
    for part in (model.visual, model.llm) if frozen else ():
        part.requires_grad_(False)
    return model


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    out = []
    for number in range(BATCHES):
        lengths = torch.tensor([[4, 5], [2, 3]][number])
        frames = torch.randint(0, 256, (SAMPLES, FRAMES, SIZE, SIZE, 3), generator=generator, dtype=torch.uint8)
        valid = torch.arange(FRAMES) < lengths[:, None]
        frames[~valid] = 0
        times = (torch.arange(FRAMES) / 3.0 + torch.rand(SAMPLES, 1, generator=generator)) * valid
        tokens = torch.zeros(SAMPLES, LENGTH, dtype=torch.long)
        targets = torch.full((SAMPLES, LENGTH), -1)
        placement = torch.arange(LENGTH).repeat(SAMPLES, 1)
        for i, n in enumerate(lengths.tolist()):
            caption = torch.randint(1, VOCABULARY, (3 + i + number,), generator=generator)
            tokens[i, n:n + len(caption) - 1] = caption[:-1]
            targets[i, n - 1:n - 1 + len(caption)] = caption
            placement[i, :n] = LENGTH + torch.arange(n)
        triggers = torch.randint(0, 2, (SAMPLES, FRAMES), generator=generator) * valid
        pairs = valid.clone()
        pairs[:, 0] = False
        out.append({"frames": frames, "timestamps": times.float(), "frame_lengths": lengths, "triggers": triggers,
                    "frame_mask": valid, "pair_mask": pairs, "tokens": tokens, "targets": targets,
                    "caption_mask": targets >= 0, "placement": placement})
    return out


def make(frozen, seed):
    model, data = filled(seed, frozen), batches(seed + 1)
    kinds = {"frames": torch.uint8, "timestamps": torch.float32, "frame_mask": torch.uint8, "pair_mask": torch.uint8,
             "caption_mask": torch.uint8}
    tensors = {"w." + name: p.detach()[rows].float() for name, p, rows in model.named()}
    tensors |= {name: torch.stack([batch[name] for batch in data]).to(kinds.get(name, torch.int32)) for name in data[0]}
    points, hidden, losses = model.eval()(data[0])
    valid = data[0]["frame_mask"].double()
    tensors |= {"points": (points * valid).detach().float(), "hidden": hidden.detach().float(),
                "eval": torch.stack(losses).detach().float()}
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer, history = make_vision.optimizer_of(trained), []
    for step in range(STEPS):
        _, _, losses = model(data[step % BATCHES])
        optimizer.zero_grad()
        sum(losses).backward()
        if step == 0:
            tensors |= {"g." + name: p.grad[rows].float() for name, p, rows in model.named()
                        if p.requires_grad and p[rows].numel() <= LARGEST}
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        history.append(torch.stack(losses).detach())
    tensors["loss"] = torch.stack(history).float()
    print("frozen" if frozen else "whole", len(trained), "trained tensors; losses", history[0].tolist(), history[-1].tolist())
    return safetensors(tensors)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    os.makedirs(sys.argv[1], exist_ok=True)
    with tarfile.open(os.path.join(sys.argv[1], "video.tar"), "w") as tar:
        for name, frozen, seed in (("whole", False, 79), ("frozen", True, 73)):
            data = make(frozen, seed)
            info = tarfile.TarInfo(f"video/{name}.safetensors")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print("torch", torch.__version__, "transformers", transformers.__version__)


if __name__ == "__main__":
    main()
