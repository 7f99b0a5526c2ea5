#!/usr/bin/env python3
"""Golden files for the decoder families beside Llama, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_families.py OUTDIR      writes OUTDIR/families.tar (to be unpacked in test/golden)

The tar holds, per case, <family>/<case>/ with the four files that reference.py describes.

What the cases are for:
    mistral   the window over keys, shorter than the samples; none at all
    qwen2     biases of q, k and v alone; windows from max_window_layers on, and none
    qwen3     norms over the width of every head of q and k, heads wider than hidden / heads; biases and windows
"""

import json

import reference
import torch
import transformers

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
    return reference.filled(reference.built(make_model, config), seed)


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


def config_of(family, case, model):
    config = json.loads(model.config.to_json_string())
    config["rope_parameters"] = dict(model.config.rope_parameters)
    if case["old_form"]:
        config.pop("rope_parameters")
        config.pop("layer_types", None)
        config["rope_theta"] = case["theta"]
    config.update(case["settings"])
    config["architectures"] = [FAMILIES[family][1].__name__]
    assert config["model_type"] == family
    return config


def make(name, case, number):
    family = name.split("/")[0]
    model = build(family, case, seed=5000 + number)
    data = reference.text_batches(SMALL["vocab_size"], case["batch"], case["length"], seed=6000 + number)
    wrong = [f"{name}: {part} is not as the case wants it" for part in parts_missing(family, case, model, data[0][0])]
    files, faults = reference.case_files(name, model, config_of(family, case, model), data)
    return files, wrong + faults


if __name__ == "__main__":
    reference.main(__doc__, "families.tar", CASES, make)
