#!/usr/bin/env python3
"""Golden files for Mamba-2 as a language model, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_mamba2.py OUTDIR      writes OUTDIR/mamba2.tar (to be unpacked in test/golden)

The tar holds, per case, mamba2/<case>/ with the four files that reference.py describes.

What the cases are for:
    tied     one group, the head tied to the embedding, chunks shorter than the samples, whose length is no multiple of them
    groups   two groups, biases in the projections, none in the convolution, limits of step sizes, a head of its own
"""

import json

import reference
import torch
import transformers

SMALL = dict(hidden_size=24, num_hidden_layers=2, vocab_size=67, expand=2, residual_in_fp32=True)
CASES = {
    "mamba2/tied": dict(settings=dict(num_heads=6, head_dim=8, n_groups=1, state_size=12, chunk_size=8, conv_kernel=4),
                        batch=2, length=23, tied=True),
    "mamba2/groups": dict(settings=dict(num_heads=4, head_dim=12, n_groups=2, state_size=7, chunk_size=16, conv_kernel=3,
                                        use_bias=True, use_conv_bias=False, time_step_limit=(0.3, 1.1)),
                          batch=3, length=17, tied=False),
}


def build(case, seed):
    config = transformers.Mamba2Config(**SMALL, **case["settings"], tie_word_embeddings=case["tied"], use_cache=False,
                                       pad_token_id=None)
    model = reference.filled(reference.built(transformers.Mamba2ForCausalLM, config), seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():  # weights of the scan in the range that they are made for
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("A_log"):
                parameter.copy_(0.5 * noise)
            elif name.endswith(("dt_bias", ".D", "norm_f.weight")):
                parameter.copy_(noise if not name.endswith("weight") else 1 + 0.1 * noise)
            elif name.endswith("conv1d.weight"):
                parameter.copy_(0.5 * noise)
    return model


def config_of(case, model):
    config = json.loads(model.config.to_json_string())
    config["architectures"] = ["Mamba2ForCausalLM"]
    assert config["model_type"] == "mamba2"
    return config


def make(name, case, number):
    model = build(case, seed=7000 + 10 * number)
    data = reference.text_batches(SMALL["vocab_size"], case["batch"], case["length"], seed=8000 + number)
    names = [key for key, _ in model.named_parameters()]
    wrong = [] if ("lm_head.weight" in names) != case["tied"] else [f"{name}: the head is not as the case wants it"]
    files, faults = reference.case_files(name, model, config_of(case, model), data)
    return files, wrong + faults


if __name__ == "__main__":
    reference.main(__doc__, "mamba2.tar", CASES, make)
