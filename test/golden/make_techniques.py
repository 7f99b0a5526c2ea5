#!/usr/bin/env python3
"""Golden files for the memory techniques, made by PyTorch from their formulas.

    python3 test/golden/make_techniques.py OUTDIR      writes OUTDIR/techniques.tar (to be unpacked in test/golden)

Reads the weights and batches of test/golden/llama. The tar holds techniques/:
    codes.safetensors    signed, unsigned: the two dynamic 8-bit codes, f32 [256]
    nf4.safetensors      per tensor <n>: <n>.weight f32; <n>.codes u8 (first element in the high nibble), <n>.absmax f32 per
                         block of 64; doubly quantized: <n>.nested u8, <n>.nested_absmax f32 per 256 blocks, <n>.offset f32;
                         <n>.plain and <n>.double: the weights as both come back, f32
    adam8.safetensors    8-bit AdamW, for every step <s> the state before (<s>.param, .m, .v, .m_absmax, .v_absmax), the
                         gradient, and the state after (<s>.after.*)
    lora-<case>.safetensors, qlora-<case>.safetensors
                         adapters on all linears of a llama case: <module>.lora_A.weight / .lora_B.weight, on batch 0 loss and
                         grad.<name>; qlora: the base is doubly quantized NF4
    losses.json          ten steps of every llama case in f32, autocast bf16, autocast f16 with loss scaling (on a GPU), and
                         bf16 weights with stochastic rounding; ten steps of the adapters
"""

import json
import math
import sys
from pathlib import Path

import reference
import torch
from reference import CLIP_NORM, OPTIMIZER, STEPS, adamw
from safetensors.torch import load_file, save
from torch.nn.functional import linear
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).resolve().parent
RANK, ALPHA = 4, 8.0

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]
NF4_LIMITS = [-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544,
              -0.23460740596055984, -0.13791173323988914, -0.045525018125772476, 0.03979014977812767,
              0.1202552504837513, 0.2035212516784668, 0.2920137718319893, 0.3893125355243683, 0.5016634166240692,
              0.6427869200706482, 0.8614784181118011]


# --- codes and NF4 ----------------------------------------------------------------------------------------------------


def dynamic_code(signed):
    """Seven decades; decade i is [0.1, 1] x 10^(i-6), cut into 2^i (signed) or 2^(i+1) intervals, by their middles."""
    values = [0.0, 1.0]
    for i in range(7):
        count = 2 ** i if signed else 2 ** (i + 1)
        for k in range(count):
            middle = 0.1 + 0.9 * (k + 0.5) / count
            values.append(middle * 10.0 ** (i - 6))
            if signed:
                values.append(-middle * 10.0 ** (i - 6))
    assert len(values) == 256
    return torch.tensor(sorted(values), dtype=torch.float64).float()


SIGNED, UNSIGNED = dynamic_code(True), dynamic_code(False)


def nearest(code, x):
    """Index of the nearest value; in the middle between two, the lower."""
    middles = (code[1:] + code[:-1]) / 2
    return torch.bucketize(x, middles)


def blocks_of(x, size):
    flat = x.reshape(-1)
    pad = (-flat.numel()) % size
    return torch.cat([flat, flat.new_zeros(pad)]).reshape(-1, size)


def nf4_quantize(weight):
    blocks = blocks_of(weight.float(), 64)
    absmax = blocks.abs().max(dim=1).values
    scale = torch.where(absmax > 0, 1.0 / absmax, torch.zeros_like(absmax))
    scaled = blocks * scale[:, None]
    codes = (scaled[..., None] > torch.tensor(NF4_LIMITS)).sum(dim=-1)
    codes[absmax == 0] = 7
    codes = codes.reshape(-1)[: weight.numel()]
    if codes.numel() % 2:
        codes = torch.cat([codes, codes.new_tensor([7])])
    packed = (codes[0::2] * 16 + codes[1::2]).to(torch.uint8)
    return packed, absmax


def nf4_unpack(packed, absmax, shape):
    codes = torch.stack([packed // 16, packed % 16], dim=1).reshape(-1).long()
    levels = torch.tensor(NF4)[codes]
    count = math.prod(shape)
    return (levels[:count] * absmax.repeat_interleave(64)[:count]).reshape(shape)


def double_quantize(absmax):
    offset = (absmax.double().sum() / absmax.numel()).float()
    blocks = blocks_of(absmax - offset, 256)
    blocks.reshape(-1)[absmax.numel():] = 0
    nested = blocks.abs().max(dim=1).values
    scaled = torch.where(nested[:, None] > 0, blocks / nested[:, None], torch.zeros_like(blocks))
    codes = nearest(SIGNED, scaled).reshape(-1)[: absmax.numel()].to(torch.uint8)
    return codes, nested, offset


def double_unpack(codes, nested, offset):
    return SIGNED[codes.long()] * nested.repeat_interleave(256)[: codes.numel()] + offset


def nf4_round_trip(weight):
    packed, absmax = nf4_quantize(weight)
    return nf4_unpack(packed, double_unpack(*double_quantize(absmax)), weight.shape)


def nf4_files():
    generator = torch.Generator().manual_seed(7)
    tensors = {"square": torch.randn(96, 128, generator=generator) * 0.02,
               "zeros": torch.randn(64, 64, generator=generator),
               "odd": torch.randn(37, 45, generator=generator) * 3.0,
               "large": torch.randn(160, 512, generator=generator) * torch.rand(160, 1, generator=generator)}
    tensors["zeros"][3] = 0.0
    out = {}
    for name, weight in tensors.items():
        packed, absmax = nf4_quantize(weight)
        codes, nested, offset = double_quantize(absmax)
        out.update({f"{name}.weight": weight, f"{name}.codes": packed, f"{name}.absmax": absmax,
                    f"{name}.nested": codes, f"{name}.nested_absmax": nested, f"{name}.offset": offset.reshape(1),
                    f"{name}.plain": nf4_unpack(packed, absmax, weight.shape),
                    f"{name}.double": nf4_unpack(packed, double_unpack(codes, nested, offset), weight.shape)})
    return {"codes.safetensors": save({"signed": SIGNED, "unsigned": UNSIGNED}),
            "nf4.safetensors": save({k: v.contiguous() for k, v in out.items()})}


# --- 8-bit AdamW ------------------------------------------------------------------------------------------------------


def adam8_step(param, gradient, state, step):
    lr, (b1, b2), eps, wd = OPTIMIZER["lr"], OPTIMIZER["betas"], OPTIMIZER["eps"], OPTIMIZER["weight_decay"]
    count = param.numel()
    m = SIGNED[state["m"].long()] * state["m_absmax"].repeat_interleave(256)[:count]
    v = UNSIGNED[state["v"].long()] * state["v_absmax"].repeat_interleave(256)[:count]
    v = b2 * v + (1 - b2) * gradient * gradient
    m = b1 * m + (1 - b1) * gradient
    c1, c2 = 1 - b1 ** step, math.sqrt(1 - b2 ** step)
    m_absmax = blocks_of(m, 256).abs().max(dim=1).values
    v_absmax = blocks_of(v, 256).abs().max(dim=1).values
    updated = param - (lr * c2 / c1) * m / (v.sqrt() + c2 * eps)
    updated = updated * (1 - lr * wd)

    def encode(code, x, absmax):
        each = absmax.repeat_interleave(256)[:count]
        return nearest(code, torch.where(each > 0, x / each, torch.zeros_like(x)))

    m_codes = encode(SIGNED, m, m_absmax)
    decoded = SIGNED[m_codes]
    wrong = torch.signbit(decoded) != torch.signbit(m)
    m_codes = torch.where(wrong, m_codes + torch.where(m > 0, 1, -1), m_codes)
    v_codes = encode(UNSIGNED, v, v_absmax)
    return updated, {"m": m_codes.to(torch.uint8), "v": v_codes.to(torch.uint8), "m_absmax": m_absmax,
                     "v_absmax": v_absmax}


def adam8_files():
    generator = torch.Generator().manual_seed(11)
    count = 8192 + 300
    blocks = -(-count // 256)
    param = torch.randn(count, generator=generator) * 0.1
    state = {"m": torch.zeros(count, dtype=torch.uint8), "v": torch.zeros(count, dtype=torch.uint8),
             "m_absmax": torch.zeros(blocks), "v_absmax": torch.zeros(blocks)}
    spread = 10.0 ** (4 * torch.rand(count, generator=generator) - 4)
    out = {}
    for step in range(1, 7):
        gradient = torch.randn(count, generator=generator) * spread
        out.update({f"{step}.{key}": value.clone() for key, value in state.items()})
        out.update({f"{step}.param": param.clone(), f"{step}.gradient": gradient})
        param, state = adam8_step(param, gradient, state, step)
        out.update({f"{step}.after.{key}": value.clone() for key, value in state.items()})
        out[f"{step}.after.param"] = param.clone()
    return {"adam8.safetensors": save(out)}


# --- llama cases ------------------------------------------------------------------------------------------------------


def case_read(name):
    folder = HERE / "llama" / name
    config = json.loads((folder / "config.json").read_text())
    if "rope_parameters" not in config:
        rope = config.pop("rope_scaling") or {"rope_type": "default"}
        config["rope_parameters"] = {**rope, "rope_theta": config.pop("rope_theta")}
    config = LlamaConfig(**{k: v for k, v in config.items() if k not in ("architectures", "model_type", "dtype")})
    model = reference.built(LlamaForCausalLM, config)
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    model.tie_weights()
    data = load_file(folder / "io.safetensors")
    return model, data["tokens"].long(), data["targets"].long()


def loss_of(model, tokens, targets):
    return reference.loss_of(reference.decoder_logits(model, tokens).float(), targets)


def train(name, dtype, device):
    """Losses of ten steps under autocast (dtype None: plain f32), with loss scaling for f16."""
    model, tokens, targets = case_read(name)
    model, tokens, targets = model.to(device), tokens.to(device), targets.to(device)
    optimizer = adamw(list(model.parameters()))
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    losses, scales = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of(model, tokens[step], targets[step])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale() if scaler.is_enabled() else 1.0)
    return losses, scales


def round_stochastic(x, generator):
    bits = x.contiguous().view(torch.int32)
    noise = torch.randint(0, 1 << 16, x.shape, generator=generator, dtype=torch.int32)
    return ((bits + noise) & -65536).view(torch.float32)


def train_true(name, seed):
    """bf16 weights and gradients, f32 moments, stochastic rounding of the weights."""
    model, tokens, targets = case_read(name)
    model = model.bfloat16()
    generator = torch.Generator().manual_seed(seed)
    masters = [p.detach().float() for p in model.parameters()]
    optimizer = adamw(masters)
    losses = []
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        loss = loss_of(model, tokens[step], targets[step])
        loss.backward()
        for master, p in zip(masters, model.parameters()):
            master.grad = p.grad.float()
        torch.nn.utils.clip_grad_norm_(masters, CLIP_NORM)
        optimizer.step()
        with torch.no_grad():
            for master, p in zip(masters, model.parameters()):
                master.copy_(round_stochastic(master, generator))
                p.copy_(master)
        losses.append(loss.item())
    return losses


class Adapted(torch.nn.Module):
    def __init__(self, base, generator):
        super().__init__()
        out, width = base.weight.shape
        self.base = base
        self.lora_A = torch.nn.Parameter(torch.randn(RANK, width, generator=generator) / math.sqrt(width))
        self.lora_B = torch.nn.Parameter(torch.randn(out, RANK, generator=generator) * 0.05)

    def forward(self, x):
        return self.base(x) + (ALPHA / RANK) * linear(linear(x, self.lora_A), self.lora_B)


def adapted(name, quantized):
    model, tokens, targets = case_read(name)
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(13)
    adapters = {}
    for path, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or path == "lm_head":
            continue
        if quantized:
            module.weight.data = nf4_round_trip(module.weight.data)
        wrapped = Adapted(module, generator)
        parent, leaf = path.rsplit(".", 1)
        setattr(model.get_submodule(parent), leaf, wrapped)
        adapters[f"{path}.lora_A.weight"] = wrapped.lora_A
        adapters[f"{path}.lora_B.weight"] = wrapped.lora_B
    return model, tokens, targets, adapters


def adapter_files(name, quantized):
    model, tokens, targets, adapters = adapted(name, quantized)
    out = {key: p.detach().clone() for key, p in adapters.items()}
    loss = loss_of(model, tokens[0], targets[0])
    loss.backward()
    out.update({f"grad.{key}": p.grad.detach().clone() for key, p in adapters.items()})
    out["loss"] = loss.detach().reshape(1)
    optimizer = adamw(list(adapters.values()))
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, tokens[step], targets[step])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapters.values(), CLIP_NORM)
        optimizer.step()
        losses.append(loss.item())
    return save({k: v.contiguous() for k, v in out.items()}), losses


def main():
    out = reference.folder_asked(__doc__)
    assert torch.cuda.is_available(), "f16 autocast needs a GPU"
    files = {**nf4_files(), **adam8_files()}
    cases = sorted(p.name for p in (HERE / "llama").iterdir())
    losses = {"optimizer": OPTIMIZER, "clip_norm": CLIP_NORM, "rank": RANK, "alpha": ALPHA,
              "made_by": {**reference.made_by(), "gpu": torch.cuda.get_device_name()}}
    for number, case in enumerate(cases):
        plain, _ = train(case, None, "cpu")
        bf16, _ = train(case, torch.bfloat16, "cuda")
        f16, scales = train(case, torch.float16, "cuda")
        losses[case] = {"32-true": plain, "bf16-mixed": bf16, "16-mixed": f16, "16-mixed scale": scales,
                        "bf16-true": train_true(case, number)}
        for kind in ("lora", "qlora"):
            if case not in ("grouped-tied", "odd-untied"):
                continue
            files[f"{kind}-{case}.safetensors"], losses[case][kind] = adapter_files(case, kind == "qlora")
        for precision in ("bf16-mixed", "16-mixed", "bf16-true"):
            worst = max(abs(a - b) / b for a, b in zip(losses[case][precision], plain))
            print(f"{case} {precision}: within {worst:.1e} of f32")
    files["losses.json"] = (json.dumps(losses, indent=1) + "\n").encode()
    faults = reference.write_tar(out / "techniques.tar", {f"techniques/{name}": data for name, data in files.items()})
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
