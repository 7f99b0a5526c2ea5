#!/usr/bin/env python3
"""Golden files for the Llama family, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_llama.py OUTDIR      writes OUTDIR/golden.tar (to be unpacked in test/golden)

The tar holds, per case, llama/<case>/ with the four files that reference.py describes. config.json is as transformers writes
it, or in the older form with rope_theta and rope_scaling.
"""

import json

import reference
from transformers import LlamaConfig, LlamaForCausalLM

GROUPED = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=64,
               intermediate_size=96, vocab_size=300)
ODD = dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
           intermediate_size=80, vocab_size=97)
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# The trained length is short, so that within T positions frequencies fall into all three bands of the rule.
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

CASES = {
    "llama/grouped-tied": dict(shape=GROUPED, batch=2, length=24, tied=True, bias=False, rope=PLAIN_ROPE,
                               old_form=False),
    "llama/grouped-untied-rope": dict(shape=GROUPED, batch=2, length=24, tied=False, bias=False, rope=LLAMA3_ROPE,
                                      old_form=False),
    "llama/odd-untied": dict(shape=ODD, batch=3, length=17, tied=False, bias=False, rope=PLAIN_ROPE, old_form=True),
    "llama/odd-tied-bias-rope": dict(shape=ODD, batch=3, length=17, tied=True, bias=True, rope=LLAMA3_ROPE,
                                     old_form=True),
}


def build(case, seed):
    config = LlamaConfig(**case["shape"], max_position_embeddings=128, rms_norm_eps=1e-5,
                         tie_word_embeddings=case["tied"], attention_bias=case["bias"], mlp_bias=case["bias"],
                         rope_parameters=dict(case["rope"]), use_cache=False)
    model = reference.filled(reference.built(LlamaForCausalLM, config), seed)
    assert ("lm_head.weight" in dict(model.named_parameters())) != case["tied"]
    return model


def config_of(model, case):
    config = json.loads(model.config.to_json_string())
    config["rope_parameters"] = rope = dict(model.config.rope_parameters)
    for key, value in case["rope"].items():
        assert rope[key] == value, f"transformers changed {key} to {rope[key]}"
    if case["old_form"]:
        del config["rope_parameters"]
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["architectures"] = ["LlamaForCausalLM"]
    return config


def make(name, case, number):
    model = build(case, seed=1000 + number)
    data = reference.text_batches(case["shape"]["vocab_size"], case["batch"], case["length"], seed=2000 + number)
    return reference.case_files(name, model, config_of(model, case), data)


if __name__ == "__main__":
    reference.main(__doc__, "golden.tar", CASES, make)
