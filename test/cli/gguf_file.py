"""GGUF files for tests, written value by value: version 3, F32, and a tokenizer as converters write it."""
import json
import os
import struct

TYPES = {'u32': 4, 'i32': 5, 'f32': 6, 'bool': 7, 'str': 8, 'list': 9}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack('<Q', len(data)) + data


def item(kind, value):
    return text(value) if kind == 'str' else struct.pack({'u32': '<I', 'i32': '<i', 'f32': '<f', 'bool': '<?'}[kind], value)


def q8_0(content):
    """Blocks of 32 elements: a scale in f16, and a byte each. Returns them, and what they stand for in F32."""
    stored, meant = b'', b''
    for at in range(0, len(content), 128):
        numbers = struct.unpack('<32f', content[at:at + 128])
        scale = struct.unpack('<e', struct.pack('<e', max(map(abs, numbers)) / 127))[0]
        codes = [max(-127, min(127, round(x / scale))) if scale else 0 for x in numbers]
        stored += struct.pack('<e32b', scale, *codes)
        meant += struct.pack('<32f', *(scale * code for code in codes))
    return stored, meant


def values_bytes(values):
    """key -> (kind, value), a list for an array."""
    head = b''
    for key, (kind, value) in values.items():
        head += text(key)
        if isinstance(value, list):
            head += struct.pack('<IIQ', TYPES['list'], TYPES[kind], len(value)) + b''.join(item(kind, one) for one in value)
        else:
            head += struct.pack('<I', TYPES[kind]) + item(kind, value)
    return head


def tensor_bytes(name, shape, quantized, place):
    """What the header says of a tensor, which is of F32 or Q8_0."""
    dims = b''.join(struct.pack('<Q', n) for n in reversed(shape))
    return text(name) + struct.pack('<I', len(shape)) + dims + struct.pack('<IQ', 8 if quantized else 0, place)


def header(values, listed, count):
    head = b'GGUF' + struct.pack('<IQQ', 3, count, len(values)) + values_bytes(values) + listed
    return head + bytes(-len(head) % 32)


def write(path, values, tensors, quantized=()):
    """values: key -> (kind, value), a list for an array; tensors: name -> (shape, bytes of F32), those of `quantized` as Q8_0."""
    listed, data = b'', b''
    for name, (shape, content) in tensors.items():
        listed += tensor_bytes(name, shape, name in quantized, len(data))
        if name in quantized:
            content = q8_0(content)[0]
        data += content + bytes(-len(content) % 32)
    with open(path, 'wb') as file:
        file.write(header(values, listed, len(tensors)) + data)


def byte_level(folder, pre, **more):
    """The tokenizer of a tokenizer.json with byte-level BPE."""
    with open(os.path.join(folder, 'tokenizer.json'), encoding='utf-8') as file:
        tokenizer = json.load(file)
    vocab = dict(tokenizer['model']['vocab'])
    added = {token['content']: token for token in tokenizer['added_tokens']}
    for content, token in added.items():
        vocab.setdefault(content, token['id'])
    tokens = sorted(vocab, key=vocab.get)
    merges = [merge if isinstance(merge, str) else ' '.join(merge) for merge in tokenizer['model']['merges']]
    types = [NORMAL if t not in added else CONTROL if added[t]['special'] else USER for t in tokens]
    return {'tokenizer.ggml.model': ('str', 'gpt2'), 'tokenizer.ggml.pre': ('str', pre), 'tokenizer.ggml.tokens': ('str', tokens),
            'tokenizer.ggml.token_type': ('i32', types), 'tokenizer.ggml.merges': ('str', merges), **more}


def sentencepiece(folder):
    """That of a tokenizer.json with BPE and byte fallback: the order of merges as scores."""
    with open(os.path.join(folder, 'tokenizer.json'), encoding='utf-8') as file:
        source = json.load(file)
    vocab = source['model']['vocab']
    tokens = sorted(vocab, key=vocab.get)
    ranks = {}
    for rank, merge in enumerate(source['model']['merges']):
        ranks.setdefault(''.join(merge.split(' ') if isinstance(merge, str) else merge), rank)
    special = {token['content'] for token in source['added_tokens']}
    types = [UNKNOWN if t == '<unk>' else CONTROL if t in special else BYTE if t.startswith('<0x') else NORMAL for t in tokens]
    return {'tokenizer.ggml.model': ('str', 'llama'), 'tokenizer.ggml.pre': ('str', 'default'), 'tokenizer.ggml.tokens': ('str', tokens),
            'tokenizer.ggml.scores': ('f32', [-float(ranks.get(t, 100000)) for t in tokens]), 'tokenizer.ggml.token_type': ('i32', types),
            'tokenizer.ggml.bos_token_id': ('u32', vocab['<s>']), 'tokenizer.ggml.eos_token_id': ('u32', vocab['</s>']),
            'tokenizer.ggml.add_bos_token': ('bool', True), 'tokenizer.ggml.add_eos_token': ('bool', True)}


def llama(config, tensors, tokenizer):
    """Keys and tensors of a public checkpoint of Llama, whose rows of q and k lie in pairs."""
    heads, keys = config['num_attention_heads'], config['num_key_value_heads']
    values = {'general.architecture': ('str', 'llama'), 'llama.block_count': ('u32', config['num_hidden_layers']),
              'llama.context_length': ('u32', config['max_position_embeddings']), 'llama.embedding_length': ('u32', config['hidden_size']),
              'llama.feed_forward_length': ('u32', config['intermediate_size']), 'llama.attention.head_count': ('u32', heads),
              'llama.attention.head_count_kv': ('u32', keys), 'llama.attention.layer_norm_rms_epsilon': ('f32', config['rms_norm_eps']),
              'llama.rope.freq_base': ('f32', config['rope_theta']), **tokenizer}
    names = {'input_layernorm': 'attn_norm', 'self_attn.q_proj': 'attn_q', 'self_attn.k_proj': 'attn_k', 'self_attn.v_proj': 'attn_v',
             'self_attn.o_proj': 'attn_output', 'post_attention_layernorm': 'ffn_norm', 'mlp.gate_proj': 'ffn_gate', 'mlp.up_proj': 'ffn_up',
             'mlp.down_proj': 'ffn_down', 'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm', 'lm_head': 'output'}
    made = {}
    for name, (_, shape, content) in tensors.items():
        if name.startswith('model.layers.'):
            number, rest = name[len('model.layers.'):].split('.', 1)
            called = f'blk.{number}.{names[rest[:-len(".weight")]]}.weight'
        else:
            called = names[name[:-len('.weight')]] + '.weight'
        if 'q_proj' in name or 'k_proj' in name:
            content = in_pairs(shape, content, heads if 'q_proj' in name else keys)
        made[called] = (shape, content)
    return values, made


def in_pairs(shape, content, heads):
    width, rows = 4 * shape[1], shape[0] // heads
    made = b''
    for head in range(heads):
        for row in range(rows):
            source = head * rows + row % 2 * (rows // 2) + row // 2
            made += content[source * width:(source + 1) * width]
    return made
