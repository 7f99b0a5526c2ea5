#!/usr/bin/env python3
"""Golden files for the decoder families beside Llama, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_families.py OUTDIR      writes OUTDIR/families.tar (to be unpacked in test/golden)

The tar holds, per case, <family>/<case>/ with the four files that make_llama.py describes: config.json, model.safetensors,
io.safetensors and steps.json. Batches, the first batch's logits and gradients, the AdamW steps and the run in f64 that says
how far rounding goes are those of make_llama.py too.

What the cases are for:
    mistral   the window over keys, shorter than the samples; none at all
    qwen2     biases of q, k and v alone; windows from max_window_layers on, and none
    qwen3     norms over the width of every head of q and k, heads wider than hidden / heads; biases and windows
"""

import copy
import io
import json
import sys
import tarfile
from pathlib import Path

import torch
import transformers
from make_llama import CLIP_NORM, OPTIMIZER, batches, first_batch, relative, train
from safetensors.torch import save

SMALL = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, intermediate_size=64,
             vocab_size=67)
FAMILIES = {
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}
WINDOWED = dict(use_sliding_window=True, sliding_window=5, max_window_layers=1)  # layers 1 and 2

# old_form: config.json as checkpoints of before transformers 5 have it, with rope_theta and without layer_types.
CASES = {
    "mistral/window": dict(settings=dict(sliding_window=6, head_dim=16), batch=2, length=23, tied=False, theta=10000.0,
                           old_form=True),
    "mistral/plain": dict(settings=dict(sliding_window=None), batch=3, length=17, tied=True, theta=1000000.0,
                          old_form=False),
    "qwen2/tied": dict(settings={}, batch=2, length=23, tied=True, theta=1000000.0, old_form=True),
    "qwen2/window": dict(settings=WINDOWED, batch=3, length=17, tied=False, theta=10000.0, old_form=False),
    "qwen3/untied": dict(settings=dict(head_dim=16), batch=2, length=23, tied=False, theta=1000000.0, old_form=True),
    "qwen3/window-bias": dict(settings=dict(head_dim=10, attention_bias=True, **WINDOWED), batch=3, length=17, tied=True,
                              theta=10000.0, old_form=True),
}


def build(family, case, seed):
    make_config, make_model = FAMILIES[family]
    config = make_config(**SMALL, **case["settings"], max_position_embeddings=128, rms_norm_eps=1e-5,
                         tie_word_embeddings=case["tied"], use_cache=False,
                         rope_parameters={"rope_type": "default", "rope_theta": case["theta"]})
    config._attn_implementation = "eager"
    model = make_model(config).float().train()
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


def parts_missing(family, case, model, tokens):
    """What the case is for must be in the model: transformers may change its mind about a setting."""
    names = [name for name, _ in model.named_parameters()]
    biased = {name.split(".")[-2] for name in names if name.endswith("bias")}
    projections = {"qwen2": {"q_proj", "k_proj", "v_proj"}}.get(family, set())
    if case["settings"].get("attention_bias"):
        projections = {"q_proj", "k_proj", "v_proj", "o_proj"}
    window = case["settings"].get("sliding_window")
    layers = getattr(model.config, "layer_types", None)
    # With windows in all layers the first token is out of reach of the last one.
    far = tokens.clone()
    far[:, 0] = (far[:, 0] + 1) % SMALL["vocab_size"]
    with torch.no_grad():
        seen = not torch.equal(model(input_ids=tokens).logits[:, -1], model(input_ids=far).logits[:, -1])
    held = {
        "head": ("lm_head.weight" in names) != case["tied"],
        "norms of heads": any("q_norm" in name for name in names) == (family == "qwen3"),
        "biases": biased == projections,
        "rope_theta": model.config.rope_parameters["rope_theta"] == case["theta"],
        "window": model.config.sliding_window == window,
        "windows of layers": family == "mistral" or layers == ["full_attention"] + 2 * [
            "sliding_attention" if window else "full_attention"],
        "reach": seen != (family == "mistral" and window is not None),
    }
    return [part for part, there in held.items() if not there]


def config_text(family, case, model):
    config = json.loads(model.config.to_json_string())
    config["rope_parameters"] = dict(model.config.rope_parameters)
    if case["old_form"]:
        config.pop("rope_parameters")
        config.pop("layer_types", None)
        config["rope_theta"] = case["theta"]
    config.update(case["settings"])
    config["architectures"] = [FAMILIES[family][1].__name__]
    assert config["model_type"] == family
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


def make(name, case, number):
    family = name.split("/")[0]
    model = build(family, case, seed=5000 + number)
    tokens, targets = batches(dict(case, shape=SMALL), seed=6000 + number)
    faults = [f"{name}: {part} is not as the case wants it" for part in parts_missing(family, case, model, tokens[0])]
    weights = {key: p.detach().clone().contiguous() for key, p in model.named_parameters()}

    exact = copy.deepcopy(model).double()
    logits, loss, gradients = first_batch(model, tokens[0], targets[0])
    exact_logits, exact_loss, exact_gradients = first_batch(exact, tokens[0], targets[0])
    losses, norms = train(model, tokens, targets)
    exact_losses, _ = train(exact, tokens, targets)

    of_logits = relative(logits, exact_logits)
    of_loss = abs(loss - exact_loss) / exact_loss
    of_gradients = {key: relative(gradients[key], exact_gradients[key]) for key in gradients}
    worst = max(of_gradients, key=of_gradients.get)
    of_steps = max(abs(a - b) / b for a, b in zip(losses, exact_losses))
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, loss {loss:.6f}, "
          f"norms {min(norms):.3f}..{max(norms):.3f}, f32 against f64: logits {of_logits:.1e}, loss {of_loss:.1e}, "
          f"gradients {of_gradients[worst]:.1e} ({worst}), steps {of_steps:.1e}")
    if not (of_logits < 2e-6 and of_loss < 3e-7 and of_gradients[worst] < 2e-5 and of_steps < 2e-6):
        faults.append(f"{name}: rounding in the reference is near the tolerances")
    if max(norms) <= CLIP_NORM:
        faults.append(f"{name}: no step is clipped")

    tensors = {"tokens": tokens.int(), "targets": targets.int(), "logits": logits, "loss": torch.tensor([loss])}
    tensors.update({f"grad.{key}": value.contiguous() for key, value in gradients.items()})
    steps = {"losses": losses, "norms": norms, "optimizer": OPTIMIZER, "clip_norm": CLIP_NORM,
             "made_by": {"torch": torch.__version__, "transformers": transformers.__version__}}
    files = {
        "config.json": config_text(family, case, model).encode(),
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
    with tarfile.open(out / "families.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (name, case) in enumerate(CASES.items()):
            files, found = make(name, case, number)
            faults += found
            for file, data in files.items():
                entry = tarfile.TarInfo(f"{name}/{file}")
                entry.size = len(data)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(data))
                total += len(data)
    print(f"{out / 'families.tar'}: {total} bytes in {len(CASES)} cases")
    if total >= 4 << 20:
        faults.append("the files are too large to be kept in the tree")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
