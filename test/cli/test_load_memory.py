#!/usr/bin/env python3
"""Training from checkpoints of 200 MB, of each kind that is read: the process, as the operating system counts its peak (VmHWM),
stays within the plan from reading the tokenizer over loading and training to saving. Also where text is made into tokens, and
where there are many samples to find again."""
import json
import os
import random
import shutil
import struct

import gguf_file
from support import Folder, check, finish, run

HEADS, VOCABULARY, ROOM = 8, 64000, 4 << 20  # what the system takes for itself, a few pages more or less
DRAW = random.Random(3)
FLOATS = [DRAW.gauss(0, 0.02) for _ in range(1 << 14)]
CONTENT = {'F32': struct.pack(f'<{len(FLOATS)}f', *FLOATS), 'Q8_0': b''.join(
    struct.pack('<e32b', 2e-4, *(DRAW.randrange(-127, 128) for _ in range(32))) for _ in range(512))}
CONTENT['BF16'] = b''.join(CONTENT['F32'][at + 2:at + 4] for at in range(0, len(CONTENT['F32']), 4))
LORA = 'model.adapters={rank: 8, targets: all-linear}'


def shapes(hidden, inner, layers):
    made = {'model.embed_tokens.weight': [VOCABULARY, hidden], 'lm_head.weight': [VOCABULARY, hidden], 'model.norm.weight': [hidden]}
    for layer in range(layers):
        path = f'model.layers.{layer}.'
        for name in 'qkvo':
            made[f'{path}self_attn.{name}_proj.weight'] = [hidden, hidden]
        made[path + 'mlp.gate_proj.weight'] = made[path + 'mlp.up_proj.weight'] = [inner, hidden]
        made[path + 'mlp.down_proj.weight'] = [hidden, inner]
        made[path + 'input_layernorm.weight'] = made[path + 'post_attention_layernorm.weight'] = [hidden]
    config = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': hidden, 'intermediate_size': inner,
              'num_hidden_layers': layers, 'num_attention_heads': HEADS, 'num_key_value_heads': HEADS, 'vocab_size': VOCABULARY,
              'max_position_embeddings': 512, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'tie_word_embeddings': False}
    return made, config


def content_write(file, kind, count):
    """Pieces of one piece: what they say does not matter."""
    piece = CONTENT[kind]
    while count > 0:
        count -= file.write(piece[:count])


def elements(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def folder_write(path, dtype, hidden, inner, layers):
    made, config = shapes(hidden, inner, layers)
    width = 4 if dtype == 'F32' else 2
    header, at = {}, 0
    for name, shape in made.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [at, at + width * elements(shape)]}
        at += width * elements(shape)
    os.mkdir(path)
    with open(os.path.join(path, 'config.json'), 'w', encoding='utf-8') as file:
        json.dump(config, file)
    text = json.dumps(header).encode()
    with open(os.path.join(path, 'model.safetensors'), 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        content_write(file, dtype, at)
    return at


def tokenizer_write(path):
    """Byte-level BPE with as many tokens as the models have."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    base = [chr(byte) for byte in visible] + [chr(256 + i) for i in range(len(hidden))]
    vocab, merges, known = {token: i for i, token in enumerate(base)}, [], list('abcdefghijklmnopqrstuvwxyz')
    while len(vocab) < VOCABULARY - 1:
        left, right = DRAW.choice(known), DRAW.choice(known[:26])
        if left + right not in vocab and len(left) < 12:
            vocab[left + right] = len(vocab)
            merges.append([left, right])
            known.append(left + right)
    level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
    end = {'id': VOCABULARY - 1, 'content': '<|end|>', 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False,
           'special': True}
    os.mkdir(path)
    with open(os.path.join(path, 'tokenizer.json'), 'w', encoding='utf-8') as file:
        json.dump({'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': [end], 'normalizer': None, 'pre_tokenizer': level,
                   'post_processor': None, 'decoder': level,
                   'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                             'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
                             'vocab': vocab, 'merges': merges}}, file, ensure_ascii=False, indent=1)
    with open(os.path.join(path, 'tokenizer_config.json'), 'w', encoding='utf-8') as file:
        json.dump({'eos_token': '<|end|>'}, file)


def gguf_write(path, tokenizer, hidden, inner, layers):
    """Q8_0, with the vocabulary in the header."""
    made, config = shapes(hidden, inner, layers)
    values, named = gguf_file.llama(config, {name: (None, shape, b'') for name, shape in made.items() if 'norm' not in name and
                                             '.q_' not in name and '.k_' not in name},
                                    gguf_file.byte_level(tokenizer, 'gpt-2', **{'tokenizer.ggml.eos_token_id': ('u32', VOCABULARY - 1)}))
    tensors = {name: shape for name, (shape, _) in named.items()}
    for layer in range(layers):
        tensors[f'blk.{layer}.attn_q.weight'] = tensors[f'blk.{layer}.attn_k.weight'] = [hidden, hidden]
        tensors[f'blk.{layer}.attn_norm.weight'] = tensors[f'blk.{layer}.ffn_norm.weight'] = [hidden]
    tensors['output_norm.weight'] = [hidden]
    listed, place, parts = b'', 0, []
    for name, shape in tensors.items():
        kind = 'F32' if len(shape) == 1 else 'Q8_0'
        count = elements(shape) * 4 if kind == 'F32' else elements(shape) // 32 * 34
        listed += gguf_file.tensor_bytes(name, shape, kind == 'Q8_0', place)
        parts.append((kind, count))
        place += count + -count % 32
    with open(path, 'wb') as file:
        file.write(gguf_file.header(values, listed, len(tensors)))
        for kind, count in parts:
            content_write(file, kind, count)
            file.write(bytes(-count % 32))


with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = os.path.join(folder.path, 'cache')

    def at(name):
        return os.path.join(folder.path, name)

    def within(name, model, *settings):
        """Trains a step and saves; planned and measured."""
        arguments = [part for setting in settings for part in ('--set', setting)]
        answer = run('train', model, '--steps', 1, '--out', at('run-' + name), '--json', '--set', 'training.batch_size=1', '--set',
                     'data.sequence_length=32', *arguments).expect(0).json()
        if not answer.get('measured'):
            return
        planned, measured = answer['planned']['peak_bytes'], answer['measured']['peak_bytes']
        print(f'{name}: planned {planned / 2**20:.1f} MiB, process {measured / 2**20:.1f} MiB', flush=True)
        check(measured <= planned + ROOM, f'{name}: the process held {measured}, planned were {planned}')

    def newest(name):
        return os.path.join(at(name), sorted(entry for entry in os.listdir(at(name)) if entry.startswith('generation'))[-1])

    tokenizer_write(at('tokenizer'))
    random_tokens = 'data.source=synthetic'
    check(folder_write(at('wide'), 'F32', 320, 864, 8) > 190e6, 'F32 is large')
    check(folder_write(at('narrow'), 'BF16', 512, 1408, 12) > 190e6, 'BF16 is large')
    gguf_write(at('model.gguf'), at('tokenizer'), 1024, 2816, 5)
    check(os.path.getsize(at('model.gguf')) > 190e6, f'{os.path.getsize(at("model.gguf"))} bytes of GGUF')

    within('whole', at('narrow'), random_tokens, 'training.optimizer.kind=sgd', 'model.precision=bf16-true')
    within('lora', at('wide'), random_tokens, LORA)
    within('adapters', at('wide'), random_tokens, f'model.adapters.path={newest("run-lora")}')
    within('nf4', at('narrow'), random_tokens, LORA, 'model.quantize.kind=nf4', 'model.precision=bf16-true')
    within('nf4-f32', at('wide'), random_tokens, LORA, 'model.quantize.kind=nf4')
    within('offloaded', at('narrow'), random_tokens, LORA, 'model.precision=bf16-true', 'memory.offload.parameters=disk',
           f'memory.offload_folder={folder.path}')
    within('gguf', at('model.gguf'), random_tokens, LORA, 'model.precision=bf16-true')
    within('gguf-nf4', at('model.gguf'), random_tokens, LORA, 'model.precision=bf16-true', 'model.quantize.kind=nf4')

    # Small models: what is held before there are arenas, and beside them, is more than they are.
    text = folder.write('text.txt', ''.join(DRAW.choice('abcdefgh ij\n') for _ in range(1 << 20)))
    many = folder.write('many.txt', 'ab c\n' * 1000000)
    tiny = folder.write('tiny.yaml', f'model: {{ family: llama, precision: bf16-true, config: {{ hidden_size: 8, intermediate_size: 16, '
                        f'num_hidden_layers: 1, num_attention_heads: 2, vocab_size: {VOCABULARY} }} }}\n'
                        f'data: {{ source: text, path: {text}, tokenizer: {at("tokenizer")}, sequence_length: 32 }}\n'
                        'training: { optimizer: { kind: sgd } }\n')
    within('tokens', tiny)
    within('lines', tiny, 'data.source=lines', f'data.path={many}')
    within('packed', tiny, 'data.source=lines', f'data.path={many}', 'data.packing=true')
    words = 'ab cd efg hi ' * (1 << 20)
    long = folder.write('long.jsonl', ''.join(json.dumps(row) + '\n' for row in
                                              [{'text': 'ab c'}, {'text': words[:8 << 20]}, {'text': 'a'}]))
    answered = folder.write('answered.jsonl', json.dumps({'prompt': 'ab c', 'completion': words[:8 << 20]}) + '\n')
    for workers in (1, 4):
        for name in (long, answered):
            shutil.rmtree(os.environ['XDG_CACHE_HOME'])
            within(f'{os.path.basename(name)}-{workers}', tiny, 'data.source=rows', f'data.path={name}', f'data.workers={workers}')
    within('long-text', tiny, f'data.path={folder.write("long.txt", words * 2)}')
    within('bytes', tiny, 'data.source=lines', f'data.path={many}', 'data.packing=true', 'data.tokenizer=bytes')

    # The plan says so, and a host that is too small for it is found before anything is read.
    answer = run('plan', tiny, '--json').expect(0).json()
    file_bytes = os.path.getsize(at('tokenizer/tokenizer.json'))
    check(answer['host_phases']['prepare'] == 10 * file_bytes, f'{answer["host_phases"]}, {file_bytes}')
    check(answer['host_phases']['load'] == answer['host_phases']['save'] == answer['host']['peak_bytes'], f'{answer["host_phases"]}')
    run('plan', tiny).expect(0, 'while the tokenizer is read')
    small = ['--set', 'memory.host_budget=1MiB']
    check(run('plan', tiny, '--json', *small).expect(3).json().get('fits') is False, 'a host of 1 MiB')
    run('plan', tiny, *small).expect(3, 'does not fit', 'tokenizer')
    run('train', tiny, *small, '--out', at('refused')).expect(3, 'reading the tokenizer takes', 'memory.host_budget')
    check(run('plan', tiny, '--json', '--set', random_tokens, *small).expect(0).json()['host_phases']['prepare'] == 0, 'nothing to read')
    run('train', tiny, '--set', 'data.source=lines', '--set', f'data.path={many}', '--set', 'data.tokenizer=bytes', '--set', 'data.packing=true',
        '--set', 'memory.host_budget=2MiB', '--out', at('refused')).expect(3, 'where the samples are takes', 'memory.host_budget')

finish()
