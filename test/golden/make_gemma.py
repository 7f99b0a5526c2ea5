#!/usr/bin/env python3
"""Golden files for gemma3, made by PyTorch and transformers in f32 on the CPU (x86-64; the versions are in steps.json).

    python3 test/golden/make_gemma.py OUTDIR      writes OUTDIR/gemma.tar (to be unpacked in test/golden)

The tar holds, per case, gemma3/<case>/ with the four files that reference.py describes.

What the cases are for:
    text      config.json as gemma-3-1b has it: rope_theta, rope_local_base_freq, layers by sliding_window_pattern; scores
              that are not scaled by the width of a head; heads wider than hidden / heads; a token of padding
    seeing    config.json as newer files of models that also see have it: text_config with layer_types and rope_parameters
              by types of layers, those of full attention stretched; names with a prefix, and tensors of the tower
"""

import json

import reference
import torch
import transformers
from safetensors.torch import load, save

SMALL = dict(hidden_size=48, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2, intermediate_size=64,
             vocab_size=67, head_dim=16, sliding_window=6, max_position_embeddings=128)
PATTERN = 3  # layers 2 and, were there one, 5 see everything
CASES = {
    "gemma3/text": dict(settings=dict(query_pre_attn_scalar=24), batch=2, length=23, full={}),
    "gemma3/seeing": dict(settings=dict(query_pre_attn_scalar=16), batch=3, length=17,
                          full={"rope_type": "linear", "factor": 8.0}),
}


def build(case, seed):
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 1000000.0, **case["full"]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
    config = transformers.Gemma3TextConfig(**SMALL, **case["settings"], rms_norm_eps=1e-6, use_cache=False,
                                           sliding_window_pattern=PATTERN, rope_parameters=rope)
    model = reference.filled(reference.built(transformers.Gemma3ForCausalLM, config), seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.sub_(1.0)  # what is added to 1
    return model


def parts_missing(case, model, tokens):
    """What the case is for must be in the model: transformers may change its mind about a setting."""
    config, embedding = model.config, model.model.embed_tokens
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]
    held = {
        "layers": config.layer_types == kinds,
        "tied head": model.lm_head.weight is embedding.weight,
        "scaled embedding": embedding.embed_scale.item() == torch.tensor(48 ** 0.5).item(),
        "padding": embedding.padding_idx == 0 and bool((tokens == 0).any()),
        "scores": all(layer.self_attn.scaling == config.query_pre_attn_scalar ** -0.5 for layer in model.model.layers),
        "windows": [layer.self_attn.sliding_window for layer in model.model.layers] == [6, 6, None, 6, 6],
        "frequencies": not torch.equal(model.model.rotary_emb.full_attention_inv_freq,
                                       model.model.rotary_emb.sliding_attention_inv_freq),
        "norms": sum("norm" in name for name, _ in model.named_parameters()) == 5 * 6 + 1,
    }
    return [part for part, there in held.items() if not there]


def config_of(name, case, model):
    config = json.loads(model.config.to_json_string())
    config["rope_parameters"] = {kind: dict(model.config.rope_parameters[kind])
                                 for kind in ("full_attention", "sliding_attention")}
    assert config["model_type"] == "gemma3_text"
    if name.endswith("seeing"):
        return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": config,
                "vision_config": {"hidden_size": 8, "num_hidden_layers": 1, "model_type": "siglip_vision_model"},
                "mm_tokens_per_image": 4, "initializer_range": 0.02}
    for key in ("rope_parameters", "layer_types"):
        config.pop(key)
    return {**config, "architectures": ["Gemma3ForCausalLM"], "rope_theta": 1000000.0, "rope_scaling": None,
            "rope_local_base_freq": 10000.0, "sliding_window_pattern": PATTERN}


def as_seeing(weights):
    """Under the names of a model that also sees, as gemma-3-4b has them."""
    named = {f"language_model.{name}": value for name, value in load(weights).items()}
    tower = {"vision_tower.vision_model.post_layernorm.weight": torch.arange(8.0),
             "multi_modal_projector.mm_soft_emb_norm.weight": torch.arange(4.0)}
    return save({**named, **tower}, metadata={"format": "pt"})


def make(name, case, number):
    model = build(case, seed=7000 + number)
    data = reference.text_batches(SMALL["vocab_size"], case["batch"], case["length"], seed=8000 + number)
    wrong = [f"{name}: {part} is not as the case wants it" for part in parts_missing(case, model, data[0][0])]
    files, faults = reference.case_files(name, model, config_of(name, case, model), data)
    if name.endswith("seeing"):
        files["model.safetensors"] = as_seeing(files["model.safetensors"])
    return files, wrong + faults


if __name__ == "__main__":
    reference.main(__doc__, "gemma.tar", CASES, make)
