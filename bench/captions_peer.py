"""PyTorch on the work of the balanced recipe of system 001: frames through a frozen ResNet-50, a detector, an encoder and LSTMs, and a frozen
Gemma 3 1B that captions. Without a GPU, what a step would hold:

    python3 tools/torch_trace.py bench/captions_peer.py:balanced -o 001.json       plain: nothing recomputed
    build/headroom plan 001.json --gpu H200

On a GPU, milliseconds of a step (the least of 12) and allocated bytes, each way in turn; cuDNN may choose by trying, frames lie channels last:

    python3 bench/captions_peer.py [plain] [balanced] [plain-compiled] [balanced-compiled]
"""
import sys
import time

import torch
import transformers
from torch import nn
from torch.nn import functional

SAMPLES, FRAMES, SIDE, CAPTION, FEATURES, WIDTH = 4, 100, 224, 92, 2048, 768
BLOCKS, HIDDEN = (3, 4, 6, 3), 512


class Bottleneck(nn.Module):
    def __init__(self, given, inner, stride):
        super().__init__()
        made = 4 * inner
        self.parts = nn.Sequential(nn.Conv2d(given, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
                                   nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
                                   nn.Conv2d(inner, made, 1, bias=False), nn.BatchNorm2d(made))
        self.past = None
        if stride != 1 or given != made:
            self.past = nn.Sequential(nn.Conv2d(given, made, 1, stride, bias=False), nn.BatchNorm2d(made))

    def forward(self, x):
        y = self.parts(x)
        y += x if self.past is None else self.past(x)
        return functional.relu(y, inplace=True)


def backbone():
    """ResNet-50 without its classifier."""
    parts = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    given = 64
    for stage, count in enumerate(BLOCKS):
        inner = 64 << stage
        for i in range(count):
            parts.append(Bottleneck(given, inner, 2 if stage > 0 and i == 0 else 1))
            given = 4 * inner
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def decoder(recomputes):
    config = transformers.Gemma3TextConfig(vocab_size=262144, hidden_size=1152, intermediate_size=6912, num_hidden_layers=26, num_attention_heads=4,
                                           num_key_value_heads=1, head_dim=256, sliding_window=512, max_position_embeddings=32768)
    config.use_cache = False
    with torch.device('cuda'):
        model = transformers.Gemma3ForCausalLM._from_config(config, dtype=torch.bfloat16, attn_implementation='sdpa')
    model.requires_grad_(False)
    model.train()
    if recomputes:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})
    return model


def followed(lstm, x):
    """In f32: traced step by step, autocast would cast the weights for each step, which cuDNN does once."""
    with torch.autocast('cuda', enabled=False):
        return lstm(x.float())[0]


class Captions(nn.Module):
    def __init__(self, recomputes):
        super().__init__()
        self.frames = backbone().cuda().eval().requires_grad_(False)
        with torch.device('cuda'):
            self.project = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Dropout(0.1), nn.Linear(HIDDEN, HIDDEN))
            self.detect = nn.Sequential(nn.Linear(HIDDEN, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU())
            self.follow = nn.LSTM(256, 256, batch_first=True)
            self.answer = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 2))
            self.widen, self.time, self.norm = nn.Linear(HIDDEN, WIDTH), nn.Linear(1, WIDTH), nn.LayerNorm(WIDTH)
            self.encode = nn.ModuleList([nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, 0.1, batch_first=True) for _ in range(4)])
            self.both = nn.LSTM(WIDTH, HIDDEN, 2, batch_first=True, bidirectional=True)
            self.narrow = nn.Linear(2 * HIDDEN, WIDTH)
            self.into = nn.Sequential(nn.Linear(WIDTH, 1152), nn.LayerNorm(1152), nn.GELU(), nn.Dropout(0.1))
        self.language = decoder(recomputes)

    def forward(self, video, seconds, sines, tokens, triggers):
        with torch.no_grad():
            seen = self.frames(video.flatten(0, 1)).view(SAMPLES, FRAMES, FEATURES)
        seen = self.project(seen)
        logits = self.answer(followed(self.follow, self.detect(seen)))
        y = self.norm(self.widen(seen) + self.time(seconds) + sines)
        for layer in self.encode:
            y = layer(y)
        y = self.into(self.narrow(followed(self.both, y)))
        words = self.language.get_input_embeddings()(tokens)
        out = self.language(inputs_embeds=torch.cat([y.to(words.dtype), words], 1)).logits[:, FRAMES - 1:-1]
        caption = functional.cross_entropy(out.float().flatten(0, 1), tokens.flatten())
        chance = logits.float().softmax(-1)[..., 1]
        apart = (chance[:, 1:] - chance[:, :-1]).abs().mean()
        return caption + functional.cross_entropy(logits.float().flatten(0, 1), triggers.flatten()) + 0.5 * apart


def stepping(recomputes, fastest=False, compiles=False):
    model = Captions(recomputes)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    video = torch.rand(SAMPLES, FRAMES, 3, SIDE, SIDE, device='cuda')
    if fastest:
        torch.backends.cudnn.benchmark = True
        model.frames.to(memory_format=torch.channels_last)
        video = video.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (SAMPLES, FRAMES))
    if compiles:
        model.frames, model.language = torch.compile(model.frames), torch.compile(model.language)
        model.encode = nn.ModuleList([torch.compile(layer) for layer in model.encode])
    seconds, sines = torch.rand(SAMPLES, FRAMES, 1, device='cuda'), torch.rand(1, FRAMES, WIDTH, device='cuda')
    tokens = torch.randint(0, 262144, (SAMPLES, CAPTION), device='cuda')
    triggers = torch.randint(0, 2, (SAMPLES, FRAMES), device='cuda')

    def step():
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = model(video, seconds, sines, tokens, triggers)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def balanced():
    return stepping(True)


def plain():
    return stepping(False)


def measured(name):
    step = stepping(name.startswith('balanced'), True, name.endswith('compiled'))
    best, began = float('inf'), time.time()
    for i in range(16):
        torch.cuda.synchronize()
        begin = time.time()
        step()
        torch.cuda.synchronize()
        if i == 0:
            first = time.time() - begin
        if i == 3:
            torch.cuda.reset_peak_memory_stats()
        if i >= 4:
            best = min(best, time.time() - begin)
    print(f'{name:20} {1e3 * best:8.1f} ms a step   {torch.cuda.max_memory_allocated() / 2**30:6.2f} GiB allocated at most   '
          f'first step {first:.1f} s, all {time.time() - began:.1f} s', flush=True)


if __name__ == '__main__':
    for way in sys.argv[1:] or ['plain', 'balanced']:
        measured(way)
        torch.cuda.empty_cache()
