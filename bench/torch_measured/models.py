"""Models of torchvision's and transformers' kinds and of our own, each a function of the batch size that returns a training step.

  tools/torch_trace.py bench/torch_measured/models.py:vit --batch 16,48 -o vit.json     # without a GPU
  bench/torch_measured/model_runs.py --measure -o measured.jsonl                              # on one
"""
import torch
from torch import nn
from torch.nn import functional as F

HALF = torch.bfloat16


def steps(model, optimizer, loss_of, narrow=HALF, scaled=False):
    scaler = torch.amp.GradScaler('cuda', init_scale=1024.0) if scaled else None

    def step():
        with torch.autocast('cuda', dtype=narrow or HALF, enabled=narrow is not None):
            loss = loss_of()
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)


def images(name, batch, optimizer=adamw, **config):
    import transformers
    with torch.device('cuda'):
        model = getattr(transformers, name + 'ForImageClassification')(getattr(transformers, name + 'Config')(num_labels=1000, **config))
        pixels, labels = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    model.train()
    return steps(model, optimizer(model), lambda: F.cross_entropy(model(pixel_values=pixels).logits, labels))


def resnet50(batch):
    return images('ResNet', batch, lambda model: torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))


def vit(batch):
    return images('ViT', batch)


def convnext(batch):
    return images('ConvNext', batch)


def swin(batch):
    return images('Swin', batch)


class UNet3d(nn.Module):
    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        double = lambda a, b: nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.GELU(), nn.Conv3d(b, b, 3, padding=1),
                                            nn.GroupNorm(8, b), nn.GELU())
        self.down = nn.ModuleList(double(a, b) for a, b in zip((1,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.back = nn.ModuleList(double(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv3d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool3d(x, 2) if i else x)
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.back[i](torch.cat([self.up[i](x), kept[i]], 1))
        return self.head(x)


def unet3d(batch):
    model = UNet3d().cuda()
    x, y = torch.randn(batch, 1, 32, 96, 96, device='cuda'), torch.randint(0, 2, (batch, 32, 96, 96), device='cuda')
    return steps(model, adamw(model), lambda: F.cross_entropy(model(x), y))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.head = nn.Embedding(10000, 512), nn.LSTM(512, 1024, 2, batch_first=True), nn.Linear(1024, 10000)

    def forward(self, x):
        return self.head(self.lstm(self.words(x))[0])


def lstm(batch):
    model = Recurrent().cuda()
    x = torch.randint(0, 10000, (batch, 128), device='cuda')
    return steps(model, adamw(model), lambda: F.cross_entropy(model(x).flatten(0, 1), x.flatten()), None)


def t5(batch):
    import transformers
    config = transformers.T5Config(d_model=512, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128, decoder_start_token_id=0)
    with torch.device('cuda'):
        model = transformers.T5ForConditionalGeneration(config)
        ids, labels = torch.randint(0, 32128, (batch, 512)), torch.randint(0, 32128, (batch, 128))
    model.train()
    return steps(model, adamw(model), lambda: model(input_ids=ids, labels=labels, use_cache=False).loss)


def mamba2(batch):
    import transformers
    config = transformers.Mamba2Config(hidden_size=512, num_hidden_layers=4, num_heads=16, head_dim=64, vocab_size=8192, state_size=64, n_groups=1,
                                       chunk_size=128, use_cache=False)
    with torch.device('cuda'):
        model = transformers.Mamba2ForCausalLM(config)
        ids = torch.randint(0, 8192, (batch, 1024))
    model.train()
    return steps(model, adamw(model), lambda: model(input_ids=ids, labels=ids, use_cache=False).loss)


class Experts(nn.Module):
    """Each token to two of eight, as many tokens for each as its capacity is."""
    def __init__(self, width=512, inner=2048, count=8):
        super().__init__()
        self.gate, self.count = nn.Linear(width, count, bias=False), count
        self.up, self.down = nn.Parameter(torch.randn(count, width, inner) * 0.02), nn.Parameter(torch.randn(count, inner, width) * 0.02)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        capacity = tokens.shape[0] * 5 // (2 * self.count)
        share = self.gate(tokens).softmax(-1).t()
        weight, chosen = share.topk(capacity, dim=-1)
        inner = F.gelu(torch.bmm(tokens[chosen], self.up))
        y = torch.bmm(inner, self.down) * weight[..., None]
        return x + torch.zeros_like(tokens, dtype=y.dtype).index_add(0, chosen.flatten(), y.flatten(0, 1)).view_as(x)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(16384, 512), nn.Linear(512, 16384)
        self.mix = nn.ModuleList(nn.TransformerEncoderLayer(512, 8, 1024, batch_first=True, dropout=0.0) for _ in range(4))
        self.experts = nn.ModuleList(Experts() for _ in range(4))

    def forward(self, ids):
        x = self.words(ids)
        for mix, experts in zip(self.mix, self.experts):
            x = experts(mix(x))
        return self.head(x)


def experts(batch):
    model = Mixture().cuda()
    ids = torch.randint(0, 16384, (batch, 512), device='cuda')
    return steps(model, adamw(model), lambda: F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()))


def gan(batch):
    up = lambda a, b: [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
    down = lambda a, b: [nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)]
    maker = nn.Sequential(nn.ConvTranspose2d(100, 512, 4), nn.ReLU(), *up(512, 256), *up(256, 128), *up(128, 64), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).cuda()
    judge = nn.Sequential(*down(3, 64), *down(64, 128), *down(128, 256), *down(256, 512), nn.Conv2d(512, 1, 4)).cuda()
    first, second = (torch.optim.Adam(m.parameters(), lr=1e-4) for m in (maker, judge))
    real, noise = torch.randn(batch, 3, 64, 64, device='cuda'), torch.randn(batch, 100, 1, 1, device='cuda')
    ones, zeros = torch.ones(batch, device='cuda'), torch.zeros(batch, device='cuda')

    def step():
        made = maker(noise)
        loss = F.binary_cross_entropy_with_logits(judge(real).flatten(), ones) + F.binary_cross_entropy_with_logits(judge(made.detach()).flatten(), zeros)
        loss.backward()
        second.step()
        second.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(judge(made).flatten(), ones)
        loss.backward()
        first.step()
        first.zero_grad(set_to_none=True)
        second.zero_grad(set_to_none=True)
    return step


def bert(batch):
    import transformers
    with torch.device('cuda'):
        model = transformers.BertForMaskedLM(transformers.BertConfig())
        ids = torch.randint(0, 30522, (batch, 256))
    model.train()
    return steps(model, adamw(model), lambda: model(input_ids=ids, labels=ids).loss, torch.float16, scaled=True)


def encoder(batch):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6).cuda()
    x = torch.randn(batch, 512, 512, device='cuda')
    return steps(model, adamw(model), lambda: model(x).float().pow(2).mean())


BATCHES = {resnet50: (32, 64, 48), vit: (32, 64, 44), convnext: (32, 64, 52), swin: (16, 32, 24), unet3d: (2, 4, 3), lstm: (32, 64, 40), t5: (8, 16, 12),
           mamba2: (2, 4, 3), experts: (8, 16, 11), gan: (64, 128, 100), bert: (16, 32, 23), encoder: (8, 16, 13)}  # two that are traced, one between
