#!/usr/bin/env python3
"""Golden files for the Llama family, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_llama.py OUTDIR      writes OUTDIR/golden.tar (to be unpacked in test/golden)

The tar holds, per case, llama/<case>/:
    config.json         as transformers writes it, or in the older form with rope_theta and rope_scaling
    model.safetensors   initial weights, under the names of the public checkpoints
    io.safetensors      tokens, targets i32 [steps, B, T] (target -100: no loss there); for batch 0: logits f32 [B, T, V],
                        loss f32 [1], and one gradient per parameter as grad.<name>
    steps.json          losses and gradient norms of AdamW steps, step i on batch i, and the settings that made them

Every case is run a second time with its products in f64 (transformers keeps norms and softmax in f32); the script
writes the files, then fails when f32 is not well inside the tolerances of test_decoders.c: a miss there must be headroom's
and not rounding in the reference.
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
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = 10
OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP_NORM = 1.0
IGNORE = -100

GROUPED = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=64,
               intermediate_size=96, vocab_size=300)
ODD = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
           intermediate_size=80, vocab_size=97)
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# The trained length is short, so that within T positions frequencies fall into all three bands of the rule.
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

CASES = {
    "grouped-tied": dict(shape=GROUPED, batch=2, length=24, tied=True, bias=False, rope=PLAIN_ROPE, old_form=False),
    "grouped-untied-rope": dict(shape=GROUPED, batch=2, length=24, tied=False, bias=False, rope=LLAMA3_ROPE,
                                old_form=False),
    "odd-untied": dict(shape=ODD, batch=3, length=17, tied=False, bias=False, rope=PLAIN_ROPE, old_form=True),
    "odd-tied-bias-rope": dict(shape=ODD, batch=3, length=17, tied=True, bias=True, rope=LLAMA3_ROPE, old_form=True),
}


def build(case, seed):
    config = LlamaConfig(**case["shape"], max_position_embeddings=128, rms_norm_eps=1e-5,
                         tie_word_embeddings=case["tied"], attention_bias=case["bias"], mlp_bias=case["bias"],
                         rope_parameters=dict(case["rope"]), use_cache=False)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).float().train()
    # Weights far from the usual small start: every part of the model then matters in the logits and gradients.
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if name.endswith("norm.weight"):
                parameter.copy_(1.0 + 0.1 * noise)
            else:
                parameter.copy_((0.05 if name.endswith("bias") else 0.15) * noise)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert model.config._attn_implementation == "eager"
    return model


def batches(case, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (STEPS, case["batch"], case["length"] + 1)
    text = torch.randint(0, case["shape"]["vocab_size"], shape, generator=generator)
    targets = text[..., 1:].clone()
    targets[:, -1, -3:] = IGNORE  # the end of the last row is padding, in every batch
    return text[..., :-1].contiguous(), targets.contiguous()


def forward(model, tokens, targets):
    logits = model(input_ids=tokens).logits
    loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE)
    return logits, loss


def first_batch(model, tokens, targets):
    model.zero_grad(set_to_none=True)
    logits, loss = forward(model, tokens, targets)
    loss.backward()
    gradients = {name: p.grad.detach().clone() for name, p in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return logits.detach().clone(), loss.item(), gradients


def train(model, tokens, targets):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": OPTIMIZER["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["eps"],
                                  foreach=False, fused=False)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        _, loss = forward(model, tokens[step], targets[step])
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms


def relative(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def config_text(model, case):
    config = json.loads(model.config.to_json_string())
    config["rope_parameters"] = rope = dict(model.config.rope_parameters)
    for key, value in case["rope"].items():
        assert rope[key] == value, f"transformers changed {key} to {rope[key]}"
    if case["old_form"]:
        del config["rope_parameters"]
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["architectures"] = ["LlamaForCausalLM"]
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


def make(name, case, number):
    model = build(case, seed=1000 + number)
    tokens, targets = batches(case, seed=2000 + number)
    weights = {key: p.detach().clone().contiguous() for key, p in model.named_parameters()}
    assert ("lm_head.weight" in weights) != case["tied"]

    exact = copy.deepcopy(model).double()
    logits, loss, gradients = first_batch(model, tokens[0], targets[0])
    exact_logits, exact_loss, exact_gradients = first_batch(exact, tokens[0], targets[0])
    losses, norms = train(model, tokens, targets)
    exact_losses, _ = train(exact, tokens, targets)

    of_logits = relative(logits, exact_logits)
    of_loss = abs(loss - exact_loss) / exact_loss
    of_gradients = max(relative(gradients[key], exact_gradients[key]) for key in gradients)
    of_steps = max(abs(a - b) / b for a, b in zip(losses, exact_losses))
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, loss {loss:.6f}, "
          f"norms {min(norms):.3f}..{max(norms):.3f}, f32 against f64: logits {of_logits:.1e}, loss {of_loss:.1e}, "
          f"gradients {of_gradients:.1e}, steps {of_steps:.1e}")
    faults = []
    if not (of_logits < 2e-6 and of_loss < 3e-7 and of_gradients < 2e-5 and of_steps < 2e-6):
        faults.append(f"{name}: rounding in the reference is near the tolerances")
    if max(norms) <= CLIP_NORM:
        faults.append(f"{name}: no step is clipped")

    tensors = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits, "loss": torch.tensor([loss])}
    tensors.update({f"grad.{key}": value.contiguous() for key, value in gradients.items()})
    steps = {"losses": losses, "norms": norms, "optimizer": OPTIMIZER, "clip_norm": CLIP_NORM,
             "made_by": {"torch": torch.__version__, "transformers": transformers.__version__}}
    files = {
        "config.json": config_text(model, case).encode(),
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
    with tarfile.open(out / "golden.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (name, case) in enumerate(CASES.items()):
            files, found = make(name, case, number)
            faults += found
            for file, data in files.items():
                entry = tarfile.TarInfo(f"llama/{name}/{file}")
                entry.size = len(data)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(data))
                total += len(data)
    print(f"{out / 'golden.tar'}: {total} bytes in {len(CASES)} cases")
    if total >= 4 << 20:
        faults.append("the files are too large to be kept in the tree")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
