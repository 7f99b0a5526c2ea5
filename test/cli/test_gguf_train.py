#!/usr/bin/env python3
"""A GGUF file as a source of weights and tokenizer: planned, tokenized, trained, and saved as a model's folder."""
import json
import os
import shutil

import gguf_file
from safetensors_file import read
from support import Folder, ROOT, TINY, check, finish, run

TOKENIZERS = os.path.join(ROOT, 'test', 'text', 'tokenizers')
TEXT = os.path.join(ROOT, 'recipes', 'kjv.txt')
SMALL = ['--set', 'training.batch_size=2', '--set', 'data.sequence_length=16', '--steps', 1]


def loss(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [line['loss'] for line in map(json.loads, file) if 'loss' in line][0]


def ids(path, text):
    return run('tokenize', path, '--text', text, '--ids').expect(0).out.strip()


with Folder() as folder:
    os.environ['XDG_CACHE_HOME'] = os.path.join(folder.path, 'cache')

    def at(name):
        return os.path.join(folder.path, name)

    def newest(out):
        return os.path.join(at(out), sorted(name for name in os.listdir(at(out)) if name.startswith('generation'))[-1])

    # A checkpoint as a folder and as a GGUF file of the same weights and the same tokenizer.
    run('train', folder.write('tiny.yaml', TINY.replace('vocab_size: 256', 'vocab_size: 420')), '--steps', 1, '--out', at('first')).expect(0)
    shutil.copytree(newest('first'), at('model'))
    for name in ('tokenizer.json', 'tokenizer_config.json'):
        shutil.copy(os.path.join(TOKENIZERS, 'byte-level', name), at('model'))
    config = json.load(open(at('model/config.json'), encoding='utf-8'))
    end = ('u32', 0)
    tokenizer = gguf_file.byte_level(os.path.join(TOKENIZERS, 'byte-level'), 'gpt-2', **{'tokenizer.ggml.eos_token_id': end, 'tokenizer.ggml.bos_token_id': end,
                                     'tokenizer.chat_template': ('str', '{% for m in messages %}{{ m.content }}{% endfor %}')})
    values, tensors = gguf_file.llama(config, read(at('model/model.safetensors')), tokenizer)
    gguf_file.write(at('model.gguf'), values, tensors)

    # Tokens are those of the folder; the plan, the loss and the saved weights too.
    for text in ('so it is what it is', "it's the café, 30 files\n\n  and more <|end|> \u4f60\u597d", ''):
        check(ids(at('model.gguf'), text) == ids(at('model'), text), f'{text!r}: {ids(at("model.gguf"), text)} {ids(at("model"), text)}')
    run('plan', at('model.gguf'), '--seq', 16, '--batch', 1).expect(0, 'llama')
    run('train', at('model.gguf')).expect(2, 'no data', '--data')

    # Generating holds its tokenizer, not what else the file has; the text is that of the folder.
    def fixed(path):
        return json.loads(run('generate', path, '--plan', '--json', '--max-context', 64, '--set', 'model.precision=32-true').expect(0).out)['device']['fixed_bytes']

    check(fixed(at('model.gguf')) < fixed(at('model')) + 64 * 1024, f"{fixed(at('model.gguf'))} {fixed(at('model'))}")
    answers = [json.loads(run('generate', at(name), '--prompt', 'so it is', '--max-tokens', 8, '--json', '--set', 'model.precision=32-true').expect(0).out)['answers'][0]['ids']
               for name in ('model.gguf', 'model')]
    check(answers[0] == answers[1], f'{answers}')
    data = ['--set', f'data.path={TEXT}', *SMALL]
    run('train', at('model.gguf'), *data, '--out', at('from-gguf')).expect(0)
    run('train', at('model'), *data, '--set', f'data.tokenizer={at("model")}', '--out', at('from-folder')).expect(0)
    check(loss(at('from-gguf')) == loss(at('from-folder')), f'{loss(at("from-gguf"))} {loss(at("from-folder"))}')
    saved = newest('from-gguf')
    check(read(saved + '/model.safetensors') == read(newest('from-folder') + '/model.safetensors'), 'the same bits')
    check(sorted(os.listdir(saved)) == ['chat_template.jinja', 'config.json', 'generation_config.json', 'manifest.json', 'model.safetensors',
                                        'tokenizer.json', 'tokenizer_config.json', 'training'], f'{os.listdir(saved)}')
    check(ids(saved, 'so it is what it is <|end|>') == ids(at('model'), 'so it is what it is <|end|>'), 'the tokenizer that was saved')
    kept = json.load(open(saved + '/config.json', encoding='utf-8'))
    check(all(kept[key] == config[key] for key in ('hidden_size', 'num_key_value_heads', 'vocab_size', 'rms_norm_eps', 'model_type')), f'{kept}')
    check(kept['eos_token_id'] == 0 and kept['architectures'] == ['LlamaForCausalLM'], f'{kept}')
    check(json.load(open(saved + '/generation_config.json', encoding='utf-8'))['eos_token_id'] == 0, 'generation_config.json')
    # It is a checkpoint like any other, and the run goes on.
    run('train', saved, *data, '--out', at('again')).expect(0)
    run('train', at('model.gguf'), *data[:-1], 2, '--out', at('from-gguf'), '--resume').expect(0, 'resumed')
    # As model.path, with rows of conversations by the template inside of the file, as the tokenizer alone, with adapters.
    rows = folder.write('rows.jsonl', '{"messages": [{"role": "user", "content": "so it is"}, {"role": "assistant", "content": " what it is"}]}\n' * 8)
    recipe = folder.write('gguf.yaml', f'model: {{ path: model.gguf }}\ndata: {{ source: rows, path: {rows}, sequence_length: 16 }}\ntraining: {{ batch_size: 1, steps: 1 }}\n')
    run('train', recipe, '--out', at('rows')).expect(0)
    run('train', at('model'), *data, '--set', f'data.tokenizer={at("model.gguf")}', '--out', at('tokens')).expect(0)
    # Tokens are kept by what stands before the weights: other weights have the same, another vocabulary has not.
    def kept():
        return sorted(name for _, _, names in os.walk(at('cache')) for name in names if name.startswith('tokens-'))
    before = kept()
    content = bytearray(open(at('model.gguf'), 'rb').read())
    content[-1] ^= 1
    folder.write('weights.gguf', bytes(content))
    run('train', at('model'), *data, '--set', f'data.tokenizer={at("weights.gguf")}', '--out', at('tokens-weights')).expect(0)
    check(kept() == before, f'{kept()} {before}')
    gguf_file.write(at('vocabulary.gguf'), {**values, 'general.name': ('str', 'another')}, tensors)
    run('train', at('model'), *data, '--set', f'data.tokenizer={at("vocabulary.gguf")}', '--out', at('tokens-vocabulary')).expect(0)
    check(len(kept()) == len(before) + 1, f'{kept()} {before}')
    check(loss(at('tokens')) == loss(at('from-folder')), 'the tokenizer alone')
    run('train', at('model.gguf'), *data[:-1], 3, '--method', 'lora', '--set', 'training.optimizer.lr=0.01', '--set', 'model.precision=32-true', '--out', at('lora')).expect(0)
    check(sorted(os.listdir(newest('lora'))) == ['adapter_config.json', 'adapter_model.safetensors', 'chat_template.jinja', 'manifest.json',
                                                 'tokenizer.json', 'tokenizer_config.json', 'training'], f'{os.listdir(newest("lora"))}')
    run('merge', at('lora'), '--out', at('merged')).expect(0)
    run('train', at('merged'), *data, '--out', at('one')).expect(0)
    run('train', at('model.gguf'), *data, '--set', f'model.adapters.path={newest("lora")}', '--out', at('both')).expect(0)
    check(abs(loss(at('one')) - loss(at('both'))) <= 1e-5 < 1e-3 < abs(loss(at('one')) - loss(at('from-gguf'))), f'{loss(at("one"))} {loss(at("both"))}')

    # Quantized tensors, those whose rows lie in pairs among them, are what their blocks stand for, also in bf16.
    quantized = [name for name, (shape, _) in tensors.items() if len(shape) == 2]
    gguf_file.write(at('q8.gguf'), values, tensors, quantized)
    still = ['--set', 'training.optimizer.lr=0', '--set', 'training.optimizer.weight_decay=0']
    run('train', at('q8.gguf'), *data, *still, '--out', at('q8')).expect(0)
    exact = read(at('model/model.safetensors'))
    for name, (_, shape, content) in read(newest('q8') + '/model.safetensors').items():
        wanted = gguf_file.q8_0(exact[name][2])[1] if len(shape) == 2 else exact[name][2]
        check(content == wanted, f'{name}: what Q8_0 stands for')
    run('merge', at('q8'), '--out', at('q8-merged'), '--dtype', 'bf16').expect(0)
    run('train', at('q8.gguf'), *data, '--set', 'model.precision=bf16-true', '--out', at('q8-half')).expect(0)

    # Every pre-tokenizer that is known, against the tokenizer.json that it comes from.
    for name, pre in (('byte-level', 'gpt-2'), ('llama3', 'llama-bpe'), ('qwen', 'qwen2'), ('smollm', 'smollm'), ('deepseek', 'deepseek-v3'), ('o200k', 'gpt-4o')):
        where = os.path.join(TOKENIZERS, name)
        more = {'tokenizer.ggml.bos_token_id': ('u32', 0), 'tokenizer.ggml.add_bos_token': ('bool', True)} if name == 'llama3' else {}
        gguf_file.write(at(name + '.gguf'), gguf_file.byte_level(where, pre, **more), {})
        texts = [line for line in ("so it is 12345 files, don't we?", 'caf\u00e9 e\u0301 \u4f60\u597d \u3042\u30a2 x\n\n  y', "WE'LL XMLParser https://a.b/c", '  two  spaces ')]
        for text in texts:
            check(ids(at(name + '.gguf'), text) == ids(where, text), f'{name}: {text!r}: {ids(at(name + ".gguf"), text)} {ids(where, text)}')
    # sentencepiece: merges follow from scores, which here are the order of the merges.
    where = os.path.join(TOKENIZERS, 'fallback')
    spm = gguf_file.sentencepiece(where)
    gguf_file.write(at('spm.gguf'), spm, {})
    for text in ('so it is what it is', ' caf\u00e9 \U0001f600 x', 'a<s>b', 'the cat sat on the mat'):
        check(ids(at('spm.gguf'), text) == ids(where, text), f'spm: {text!r}: {ids(at("spm.gguf"), text)} {ids(where, text)}')
    # Refused by name: rules that are not known, kinds that are not read, files without a tokenizer; weights alone do.
    for change, words in (({'tokenizer.ggml.pre': ('str', 'bloom')}, ['bloom']), ({'tokenizer.ggml.pre': ('str', 'default')}, ['default']),
                          ({'tokenizer.ggml.model': ('str', 't5')}, ['t5', 'gpt2 and llama']), ({'tokenizer.ggml.token_type': ('i32', [1])}, ['damaged'])):
        gguf_file.write(at('other.gguf'), {**values, **change}, tensors)
        run('train', at('other.gguf'), *data, '--out', at('x')).expect(1 if words != ['damaged'] else 5, 'data.tokenizer', *words)
    gguf_file.write(at('other.gguf'), {**values, 'tokenizer.ggml.pre': ('str', 'bloom')}, tensors)
    run('train', at('other.gguf'), *data, '--set', 'data.tokenizer=bytes', '--out', at('bytes')).expect(0)
    gguf_file.write(at('bare.gguf'), {k: v for k, v in values.items() if not k.startswith('tokenizer')}, tensors)
    run('train', at('bare.gguf'), *data, '--out', at('x')).expect(5, 'no tokenizer in this GGUF file', 'data.tokenizer')
    run('train', at('bare.gguf'), '--set', 'data.source=synthetic', *SMALL, '--out', at('bare')).expect(0)
    gguf_file.write(at('gemma.gguf'), {**values, 'general.architecture': ('str', 'gemma7')}, tensors)
    run('plan', at('gemma.gguf')).expect(1, 'gemma7')
    run('plan', at('nothing.gguf')).expect(5, 'no such file')
    folder.write('broken.gguf', open(at('model.gguf'), 'rb').read()[:2000])
    run('plan', at('broken.gguf')).expect(5, 'broken.gguf')
    check(not os.path.exists(at('x')), 'nothing is left of what was refused')

finish()
