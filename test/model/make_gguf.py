#!/usr/bin/env python3
"""Writes test/model/gguf/ARCH/: a tiny model as a GGUF file (model.gguf), with names by the Python package gguf, and the
same as a public checkpoint has it (model.safetensors, config.json)."""
import json
import os
import struct
import sys

import gguf
import numpy

HIDDEN, INNER, HEADS, KV, DIM, LAYERS, VOCAB = 8, 12, 2, 1, 16, 2, 10
ARCHS = {
    'llama': (gguf.MODEL_ARCH.LLAMA, 'llama', 'LlamaForCausalLM', False),
    'qwen2': (gguf.MODEL_ARCH.QWEN2, 'qwen2', 'Qwen2ForCausalLM', True),
    'qwen3': (gguf.MODEL_ARCH.QWEN3, 'qwen3', 'Qwen3ForCausalLM', True),
    'gemma2': (gguf.MODEL_ARCH.GEMMA2, 'gemma2', 'Gemma2ForCausalLM', True),
    'gemma3': (gguf.MODEL_ARCH.GEMMA3, 'gemma3_text', 'Gemma3ForCausalLM', True),
}


def shapes(arch, tied):
    """Names and shapes of a public checkpoint."""
    gemma = arch.startswith('gemma')
    yield 'model.embed_tokens.weight', (VOCAB, HIDDEN)
    yield 'model.norm.weight', (HIDDEN,)
    if not tied:
        yield 'lm_head.weight', (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f'model.layers.{layer}.'
        for name, rows in (('q', HEADS * DIM), ('k', KV * DIM), ('v', KV * DIM)):
            yield f'{at}self_attn.{name}_proj.weight', (rows, HIDDEN)
            if arch == 'qwen2' or arch == 'llama':
                yield f'{at}self_attn.{name}_proj.bias', (rows,)
        yield at + 'self_attn.o_proj.weight', (HIDDEN, HEADS * DIM)
        if arch in ('qwen3', 'gemma3'):
            yield at + 'self_attn.q_norm.weight', (DIM,)
            yield at + 'self_attn.k_norm.weight', (DIM,)
        for name, rows, columns in (('gate', INNER, HIDDEN), ('up', INNER, HIDDEN), ('down', HIDDEN, INNER)):
            yield f'{at}mlp.{name}_proj.weight', (rows, columns)
        norms = ['input_layernorm', 'post_attention_layernorm']
        for name in norms + (['pre_feedforward_layernorm', 'post_feedforward_layernorm'] if gemma else []):
            yield f'{at}{name}.weight', (HIDDEN,)


def in_pairs(weight, heads):
    """Rows of q or k as files of the architecture llama have them."""
    return weight.reshape(heads, 2, DIM // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def rope_freqs(theta, factor=8.0, low=1.0, high=4.0, original=8192):
    made = []
    for pair in range(DIM // 2):
        wave = 2 * numpy.pi * theta ** (2 * pair / DIM)
        smooth = min(max((original / wave - low) / (high - low), 0), 1)
        made.append(1 / ((1 - smooth) / factor + smooth))
    return numpy.array(made, dtype=numpy.float32)


def safetensors_write(path, tensors):
    header, data = {}, b''
    for name, value in tensors.items():
        raw = value.tobytes()
        header[name] = {'dtype': 'F32', 'shape': list(value.shape), 'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)


def make(folder, arch):
    number, model_type, architecture, tied = ARCHS[arch]
    gemma = arch.startswith('gemma')
    rng = numpy.random.default_rng(len(arch))
    names = gguf.get_tensor_name_map(number, LAYERS)
    writer = gguf.GGUFWriter(os.path.join(folder, 'model.gguf'), gguf.MODEL_ARCH_NAMES[number])
    theta = 500000.0 if arch == 'llama' else 10000.0
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_key_length(DIM)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(theta)
    config = {'architectures': [architecture], 'model_type': model_type, 'num_hidden_layers': LAYERS, 'max_position_embeddings': 4096,
              'hidden_size': HIDDEN, 'intermediate_size': INNER, 'num_attention_heads': HEADS, 'num_key_value_heads': KV,
              'head_dim': DIM, 'rms_norm_eps': 1e-6, 'rope_theta': theta, 'vocab_size': VOCAB, 'tie_word_embeddings': tied,
              'hidden_activation' if gemma else 'hidden_act': 'gelu_pytorch_tanh' if gemma else 'silu'}
    if gemma:
        writer.add_sliding_window(512)
        config['sliding_window'] = 512
    if arch == 'gemma3':
        config['query_pre_attn_scalar'] = DIM
    if arch == 'gemma2':
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)
        config |= {'attn_logit_softcapping': 50.0, 'final_logit_softcapping': 30.0}
    if arch == 'llama':
        writer.add_tensor('rope_freqs.weight', rope_freqs(theta))
        config['rope_scaling'] = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
                                  'original_max_position_embeddings': 8192}
    if arch == 'qwen3':
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(32768)
        config['rope_scaling'] = {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32768}
    tensors = {}
    for name, shape in shapes(arch, tied):
        value = rng.integers(-64, 64, shape).astype(numpy.float32) / 16  # 1 can be added to it without rounding
        tensors[name] = value
        if arch == 'llama' and ('q_proj' in name or 'k_proj' in name):
            value = in_pairs(value, HEADS if 'q_proj' in name else KV)
        if gemma and name.endswith('norm.weight'):
            value = value + 1
        writer.add_tensor(names.get_name(name, try_suffixes=('.weight', '.bias')), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    safetensors_write(os.path.join(folder, 'model.safetensors'), tensors)
    with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump(config, file, indent=2)
        file.write('\n')


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'gguf')
    for arch in ARCHS:
        os.makedirs(os.path.join(root, arch), exist_ok=True)
        make(os.path.join(root, arch), arch)
    return 0


sys.exit(main())
