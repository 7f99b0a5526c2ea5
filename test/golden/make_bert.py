#!/usr/bin/env python3
"""Golden files for BERT with its masked-language-model head, made by PyTorch and transformers in f32 on the CPU.

    python3 test/golden/make_bert.py OUTDIR      writes OUTDIR/bert.tar (to be unpacked in test/golden)

The tar holds, per case, bert/<case>/ with the four files that reference.py describes. io.safetensors has lengths i32
[steps, B] in padded cases, and no gradients of the keys' biases: such a bias shifts all scores of a query alike, so that its
gradient is rounding and nothing else.

What the cases are for:
    plain     the exact gelu, every position seen by every other
    tanh      gelu by tanh, one token type, more positions than are used
    padded    rows of different lengths: what lies behind a row's end is seen by nobody

Dropout is off, as nothing can be compared under it.
"""

import json

import reference
import torch
from reference import IGNORE, STEPS
from transformers import BertConfig, BertForMaskedLM

MASK_TOKEN = 4

CASES = {
    "bert/plain": dict(batch=2, length=24, padded=False, shape=dict(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=150,
        max_position_embeddings=24, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12)),
    "bert/tanh": dict(batch=3, length=17, padded=False, shape=dict(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=6, intermediate_size=80, vocab_size=97,
        max_position_embeddings=40, type_vocab_size=1, hidden_act="gelu_new", layer_norm_eps=1e-5)),
    "bert/padded": dict(batch=3, length=19, padded=True, shape=dict(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=97,
        max_position_embeddings=32, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12)),
}


def build(case, seed):
    config = BertConfig(**case["shape"], hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                        tie_word_embeddings=True)
    model = reference.built(BertForMaskedLM, config)
    model.tie_weights()
    predictions = model.cls.predictions
    predictions.bias = predictions.decoder.bias
    reference.filled(model, seed)
    assert predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert predictions.decoder.bias is predictions.bias
    return model


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


def logits_of(model, tokens, lengths):
    mask = (torch.arange(tokens.shape[-1])[None, :] < lengths[:, None]).long()
    return model(input_ids=tokens, attention_mask=mask, token_type_ids=torch.zeros_like(tokens)).logits


def config_of(model):
    config = json.loads(model.config.to_json_string())
    config["architectures"] = ["BertForMaskedLM"]
    config["tie_word_embeddings"] = True
    return config


def make(name, case, number):
    model = build(case, seed=5000 + number)
    tokens, targets, lengths = batches(case, seed=6000 + number)
    names = [key for key, _ in model.named_parameters()]
    assert "cls.predictions.bias" in names and not any(".decoder." in key for key in names)
    return reference.case_files(name, model, config_of(model), (tokens, targets, lengths), logits_of,
                                nothing=[key for key in names if key.endswith("self.key.bias")],
                                more={"lengths": lengths.int()} if case["padded"] else None)


if __name__ == "__main__":
    reference.main(__doc__, "bert.tar", CASES, make)
