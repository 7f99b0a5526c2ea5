#!/usr/bin/env python3
"""Golden files for BERT with its masked-language-model head, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_bert.py OUTDIR      writes OUTDIR/bert.tar (to be unpacked in test/golden)

The tar holds, per case, bert/<case>/:
    config.json         as transformers writes it
    model.safetensors   initial weights, under the names of the public checkpoints
    io.safetensors      tokens, targets i32 [steps, B, T] (target -100: no loss there); for batch 0: logits f32 [B, T, V],
                        loss f32 [1], and one gradient per parameter as grad.<name>; in padded cases lengths i32 [steps, B]
    steps.json          losses and gradient norms of AdamW steps, step i on batch i, and the settings that made them

What the cases are for:
    plain     the exact gelu, every position seen by every other
    tanh      gelu by tanh, one token type, more positions than are used
    padded    rows of different lengths: what lies behind a row's end is seen by nobody

Dropout is off, as nothing can be compared under it. Every case is run a second time in f64; the script writes the files,
then fails when f32 is not well inside the tolerances of test_bert.c.
"""

import copy
import io
import json
import sys
import tarfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import save
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

STEPS = 10
OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP_NORM = 1.0
IGNORE = -100
MASK_TOKEN = 4

CASES = {
    "plain": dict(shape=dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                             vocab_size=150, max_position_embeddings=24, type_vocab_size=2, hidden_act="gelu",
                             layer_norm_eps=1e-12),
                  batch=2, length=24, padded=False),
    "tanh": dict(shape=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, intermediate_size=80,
                            vocab_size=97, max_position_embeddings=40, type_vocab_size=1, hidden_act="gelu_new",
                            layer_norm_eps=1e-5),
                 batch=3, length=17, padded=False),
    "padded": dict(shape=dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                              vocab_size=97, max_position_embeddings=32, type_vocab_size=2, hidden_act="gelu",
                              layer_norm_eps=1e-12),
                   batch=3, length=19, padded=True),
}


def assert_tied(model):
    predictions = model.cls.predictions
    assert predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert predictions.decoder.bias is predictions.bias


def build(case, seed):
    config = BertConfig(**case["shape"], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                        tie_word_embeddings=True)
    config._attn_implementation = "eager"
    model = BertForMaskedLM(config).float().train()
    model.tie_weights()
    model.cls.predictions.bias = model.cls.predictions.decoder.bias
    # Weights far from the usual small start: every part of the model then matters in the logits and gradients.
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if name.endswith("LayerNorm.weight"):
                parameter.copy_(1.0 + 0.1 * noise)
            else:
                parameter.copy_((0.05 if name.endswith("bias") else 0.15) * noise)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert model.config._attn_implementation == "eager"
    assert_tied(model)
    return model


def parameters(model):
    """Every parameter once, under the name that public checkpoints have."""
    named = dict(model.named_parameters())  # a shared one under its first name only
    assert "cls.predictions.bias" in named and not any(".decoder." in name for name in named)
    return named


def batches(case, seed):
    """A sixth of the positions is asked for; most of these show the mask, some another token, some their own."""
    generator = torch.Generator().manual_seed(seed)
    rows, length = case["batch"], case["length"]
    text = torch.randint(5, case["shape"]["vocab_size"], (STEPS, rows, length), generator=generator)
    lengths = torch.full((STEPS, rows), length)
    if case["padded"]:
        lengths = torch.randint(length // 3, length + 1, (STEPS, rows), generator=generator)
        lengths[:, 0] = length
        lengths[0, -1] = length // 2
    inside = torch.arange(length)[None, None, :] < lengths[:, :, None]
    asked = (torch.rand(text.shape, generator=generator) < 1 / 6) & inside
    asked[:, :, 1] = True
    way = torch.rand(text.shape, generator=generator)
    other = torch.randint(5, case["shape"]["vocab_size"], text.shape, generator=generator)
    tokens = torch.where(asked & (way < 0.8), torch.full_like(text, MASK_TOKEN), text)
    tokens = torch.where(asked & (way >= 0.9), other, tokens)
    tokens = torch.where(inside, tokens, torch.zeros_like(tokens))
    targets = torch.where(asked, text, torch.full_like(text, IGNORE))
    return tokens.contiguous(), targets.contiguous(), lengths.contiguous()


def forward(model, tokens, targets, lengths):
    mask = (torch.arange(tokens.shape[-1])[None, :] < lengths[:, None]).long()
    logits = model(input_ids=tokens, attention_mask=mask, token_type_ids=torch.zeros_like(tokens)).logits
    loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE)
    return logits, loss


def first_batch(model, batch):
    model.zero_grad(set_to_none=True)
    logits, loss = forward(model, *batch)
    loss.backward()
    missing = [name for name, p in parameters(model).items() if p.grad is None]
    assert not missing, f"no gradient: {missing}"
    gradients = {name: p.grad.detach().clone() for name, p in parameters(model).items()}
    model.zero_grad(set_to_none=True)
    return logits.detach().clone(), loss.item(), gradients


def train(model, batch_of):
    every = list(parameters(model).values())
    groups = [{"params": [p for p in every if p.dim() >= 2], "weight_decay": OPTIMIZER["weight_decay"]},
              {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["eps"],
                                  foreach=False, fused=False)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        _, loss = forward(model, *batch_of(step))
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(every, CLIP_NORM).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def make(name, case, number):
    model = build(case, seed=5000 + number)
    data = batches(case, seed=6000 + number)

    def batch_of(step):
        return tuple(part[step] for part in data)

    weights = {key: p.detach().clone().contiguous() for key, p in parameters(model).items()}
    exact = copy.deepcopy(model).double()
    assert_tied(exact)
    logits, loss, gradients = first_batch(model, batch_of(0))
    exact_logits, exact_loss, exact_gradients = first_batch(exact, batch_of(0))
    losses, norms = train(model, batch_of)
    exact_losses, _ = train(exact, batch_of)

    # A key's bias shifts all scores of a query alike: its gradient is rounding and nothing else.
    nothing = [key for key in gradients if key.endswith("self.key.bias")]
    seen = {key: value for key, value in gradients.items() if key not in nothing}
    size = max(value.double().norm().item() for value in seen.values())
    of_nothing = max(gradients[key].double().norm().item() for key in nothing) / size
    of_logits = relative(logits, exact_logits)
    of_loss = abs(loss - exact_loss) / exact_loss
    of_gradients = max(relative(value, exact_gradients[key]) for key, value in seen.items())
    of_steps = max(abs(a - b) / b for a, b in zip(losses, exact_losses))
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, loss {loss:.6f}, "
          f"norms {min(norms):.3f}..{max(norms):.3f}, f32 against f64: logits {of_logits:.1e}, loss {of_loss:.1e}, "
          f"gradients {of_gradients:.1e}, of key biases {of_nothing:.1e} of the largest, steps {of_steps:.1e}")
    faults = []
    if not (of_logits < 2e-6 and of_loss < 3e-7 and of_gradients < 2e-5 and of_nothing < 1e-6 and of_steps < 2e-6):
        faults.append(f"{name}: rounding in the reference is near the tolerances")
    if max(norms) <= CLIP_NORM:
        faults.append(f"{name}: no step is clipped")

    tokens, targets, lengths = data
    tensors = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.contiguous(),
               "loss": torch.tensor([loss])}
    if case["padded"]:
        tensors["lengths"] = lengths.int()
    tensors.update({f"grad.{key}": value.contiguous() for key, value in seen.items()})
    steps = {"losses": losses, "norms": norms, "optimizer": OPTIMIZER, "clip_norm": CLIP_NORM,
             "made_by": {"torch": torch.__version__, "transformers": transformers.__version__}}
    config = json.loads(model.config.to_json_string())
    config["architectures"] = ["BertForMaskedLM"]
    config["tie_word_embeddings"] = True
    files = {
        "config.json": (json.dumps(config, indent=2, sort_keys=True) + "\n").encode(),
        "model.safetensors": save(weights, metadata={"format": "pt"}),
        "io.safetensors": save(tensors),
        "steps.json": (json.dumps(steps, indent=2) + "\n").encode(),
    }
    return files, faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    total, faults = 0, []
    with tarfile.open(out / "bert.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (name, case) in enumerate(CASES.items()):
            files, found = make(name, case, number)
            faults += found
            for file, data in files.items():
                entry = tarfile.TarInfo(f"bert/{name}/{file}")
                entry.size = len(data)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(data))
                total += len(data)
    print(f"{out / 'bert.tar'}: {total} bytes in {len(CASES)} cases")
    if total >= 4 << 20:
        faults.append("the files are too large to be kept in the tree")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
