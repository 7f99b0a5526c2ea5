"""Models that no rule of the tracer was made from, as models.py has its own: traced before any of them was measured.

  bench/torch_measured/model_runs.py --models held_out --trace --folder OUT
  bench/torch_measured/model_runs.py --models held_out --measure -o measured.jsonl --folder OUT      # on a GPU
"""
import torch
from torch import nn
from torch.nn import functional as F

from models import adamw, images, steps


def regnet(batch):
    return images('RegNet', batch)


def whisper(batch):
    import transformers
    config = transformers.WhisperConfig(d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6,
                                        encoder_ffn_dim=1536, decoder_ffn_dim=1536, vocab_size=51865, use_cache=False)
    with torch.device('cuda'):
        model = transformers.WhisperForConditionalGeneration(config)
        sound, labels = torch.randn(batch, 80, 3000), torch.randint(0, 50000, (batch, 128))
    model.train()
    return steps(model, adamw(model), lambda: model(input_features=sound, labels=labels).loss)


def deberta(batch):
    import transformers
    config = transformers.DebertaV2Config(vocab_size=32000, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048,
                                          relative_attention=True, position_buckets=256, pos_att_type=['p2c', 'c2p'], max_position_embeddings=512)
    with torch.device('cuda'):
        model = transformers.DebertaV2ForMaskedLM(config)
        ids = torch.randint(0, 32000, (batch, 256))
    model.train()
    return steps(model, adamw(model), lambda: model(input_ids=ids, labels=ids).loss)


class UNet2d(nn.Module):
    """As diffusion models have it: residual blocks with group norm, attention at the lowest level, a vector of the time."""
    def __init__(self, widths=(64, 128, 256)):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 256), nn.SiLU(), nn.Linear(256, 256))
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = list(zip((widths[0],) + widths, widths))
        self.down = nn.ModuleList(Residual(a, b) for a, b in pairs)
        self.shrink = nn.ModuleList(nn.Conv2d(b, b, 3, stride=2, padding=1) for b in widths[:-1])
        self.mix = nn.MultiheadAttention(widths[-1], 4, batch_first=True)
        self.up = nn.ModuleList(Residual(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1]))
        self.last = nn.Conv2d(widths[0], 3, 3, padding=1)

    def forward(self, x, time):
        time, x, kept = self.time(time), self.first(x), []
        for i, block in enumerate(self.down):
            x = block(x, time)
            if i < len(self.shrink):
                kept.append(x)
                x = self.shrink[i](x)
        flat = x.flatten(2).transpose(1, 2)
        x = x + self.mix(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(x)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2), kept.pop()], 1), time)
        return self.last(x)


class Residual(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.one, self.two = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        self.before, self.between, self.time = nn.GroupNorm(8, a), nn.GroupNorm(8, b), nn.Linear(256, b)
        self.past = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, time):
        y = self.one(F.silu(self.before(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.past(x) + self.two(F.silu(self.between(y)))


def unet2d(batch):
    model = UNet2d().cuda()
    x, time, noise = torch.randn(batch, 3, 64, 64, device='cuda'), torch.randn(batch, 128, device='cuda'), torch.randn(batch, 3, 64, 64, device='cuda')
    return steps(model, adamw(model), lambda: F.mse_loss(model(x, time).float(), noise))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.gru, self.head = nn.Embedding(8000, 384), nn.GRU(384, 512, 2, batch_first=True), nn.Linear(512, 8000)

    def forward(self, x):
        return self.head(self.gru(self.words(x))[0])


def gru(batch):
    model = Gated().cuda()
    x = torch.randint(0, 8000, (batch, 96), device='cuda')
    return steps(model, adamw(model), lambda: F.cross_entropy(model(x).flatten(0, 1), x.flatten()), None)


BATCHES = {regnet: (32, 64, 44), whisper: (4, 8, 6), deberta: (8, 16, 12), unet2d: (16, 32, 24), gru: (32, 64, 48)}  # two that are traced, one between
