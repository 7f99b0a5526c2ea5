#!/usr/bin/env python3
"""Tokens a second of one sequence against what the memory's bandwidth allows: every token reads all weights once.

    python3 bench/generate.py [build/headroom] [--bandwidth BYTES_PER_SECOND] [--tokens N] [--set KEY=VALUE]...

The model has the shape of Llama-3.2-1B with random bf16 weights, written to a temporary folder (2.5 GB). Bandwidth: the
vendor's by default as the catalogue of `headroom devices --gpus` has it for the GPU that is here; on a CPU it is to be given.
"""
import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
parser = argparse.ArgumentParser()
parser.add_argument('headroom', nargs='?', default=os.path.join(ROOT, 'build', 'headroom'))
parser.add_argument('--bandwidth', type=float)
parser.add_argument('--tokens', type=int, default=256)
parser.add_argument('--layers', type=int, default=16)
parser.add_argument('--set', action='append', default=[])
asked = parser.parse_args()

CONFIG = {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'hidden_act': 'silu', 'vocab_size': 128256,
          'hidden_size': 2048, 'intermediate_size': 8192, 'num_hidden_layers': asked.layers, 'num_attention_heads': 32,
          'num_key_value_heads': 8, 'head_dim': 64, 'max_position_embeddings': 131072, 'rms_norm_eps': 1e-5,
          'rope_theta': 500000.0, 'tie_word_embeddings': True, 'torch_dtype': 'bfloat16'}


def tensors():
    hidden, inner, kv = CONFIG['hidden_size'], CONFIG['intermediate_size'], 512
    yield 'model.embed_tokens.weight', [CONFIG['vocab_size'], hidden]
    yield 'model.norm.weight', [hidden]
    for layer in range(CONFIG['num_hidden_layers']):
        at = f'model.layers.{layer}.'
        for name, shape in [('input_layernorm', [hidden]), ('post_attention_layernorm', [hidden]),
                            ('self_attn.q_proj', [hidden, hidden]), ('self_attn.k_proj', [kv, hidden]),
                            ('self_attn.v_proj', [kv, hidden]), ('self_attn.o_proj', [hidden, hidden]),
                            ('mlp.gate_proj', [inner, hidden]), ('mlp.up_proj', [inner, hidden]),
                            ('mlp.down_proj', [hidden, inner])]:
            yield at + name + '.weight', shape


def write(folder):
    """Random numbers of a spread of about 0.02, the same 1 MiB of them again and again."""
    random.seed(1)
    block = b''.join(struct.pack('<f', random.gauss(0, 0.02))[2:] for _ in range(1 << 19))
    header, end = {}, 0
    for name, shape in tensors():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump(CONFIG, file)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for done in range(0, end, len(block)):
            file.write(block[:end - done])
    return end


def answer(*arguments):
    done = subprocess.run([asked.headroom, *arguments, '--json'], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{arguments}: exit {done.returncode}\n{done.stdout[-600:]}')
    return json.loads(done.stdout)


bandwidth = asked.bandwidth
if not bandwidth:
    here = [device['name'] for device in answer('devices')['devices'] if device['kind'] == 'cuda']
    bandwidth = next((gpu['memory_bytes_per_second'] for gpu in answer('devices', '--gpus')['gpus'] if gpu['name'] in here), 0)
with tempfile.TemporaryDirectory() as folder:
    weights = write(folder)
    settings = [word for setting in ['data.tokenizer=bytes', *asked.set] for word in ('--set', setting)]
    rates = []
    for _ in range(3):
        result = answer('generate', folder, '--prompt', 'x' * 64, '--max-tokens', str(asked.tokens), *settings)
        rates.append(result['tokens_per_second'])
best = max(rates)
print(f'weights {weights / 1e9:.3f} GB, {asked.tokens} tokens, three times: ' + ', '.join(f'{rate:.1f}' for rate in rates) + ' tokens/s, ' f'{1e3 / best:.3f} ms each')
print(f'{best * weights / 1e12:.3f} TB/s' + (f', {best * weights / bandwidth:.3f} of {bandwidth / 1e12:.2f} TB/s' if bandwidth else ''))
