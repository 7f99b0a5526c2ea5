#!/usr/bin/env python3
"""Small tokenizers of every kind, and what the reference libraries make of some texts with them: test/text/tokenizers/.

    python test/text/make_golden.py        needs the packages tokenizers, sentencepiece, protobuf and mistral-common

Each folder has a vocabulary file and golden.json: texts with their ids, and the text that the ids give. Vocabularies are trained
here on a few lines, so that they are small and nobody's.
"""
import base64
import json
import os
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from compare_tokenizers import PARTS, PATTERNS

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'tokenizers')
LINES = """It is what it is, and that is all there is to it.
The cat sat on the mat; the cats sat on the mats. We'll see what they've said, I'm sure.
def encode(text, size=3): return [int(x) for x in text.split(',')]  # 12, 345, 6789
    if value == 0: print("nothing here", file=stream)
Straße, café, naïve, déjà vu, Ångström, Ünïcödé. Привет, мир! Как дела? 你好，世界。 日本語のテキスト 안녕하세요
http://example.com/path/to/file.html?key=value&other=1#top  HTTPServer camelCase snake_case XMLParser
One two three four five six seven eight nine ten, 1 2 3 4 5 6 7 8 9 10, 2026-11-16 08:30, 3.14159, $1,000.00
=== ======== == ==== ====== * ** **** ******** ... ........ ..
the the the and and of of to to in in that that it it is is was was he he for for on on are are as as with with
""".splitlines()
TEXTS = [*(sign * count for sign in '=*.' for count in (7, 9, 13, 17, 23, 29, 47)),  # ways to cut that score nearly the same
         '', ' ', 'it is what it is', 'The cats', "WE'LL see it's", ' leading', 'trailing ', 'two  spaces\n\nlines\r\n\r\n x', '\ttab',
         '12345 678 9', 'café cafe\u0301', 'Straße ﬁ ①', '你好 world 世界', 'Привет мир', '👍🏽 ok 👩‍👩‍👧', 'a\x00b\x01c', 'İstanbul ΣΑΣ', '½ ٣ Ⅷ',
         'x' * 90, 'ab' * 60, ' \u00a0\u3000\u180e end', '<s>[CLS]<|end|>the', 'no<mask> yes <mask>', 'wordword word.word',
         'def f(x):\n    return x/2 # //\n', "'ſ 'S", '한국어 각', 'HTTPServer.XMLParser', '▁ ▁▁a', '-the--final-', 'A\u030a\u0301 \u0344', '\U00011935\U00011930\U0001e031']


def texts():
    rng = random.Random(7)
    return TEXTS + [''.join(rng.choice(PARTS) for _ in range(rng.randint(1, 14))) for _ in range(60)]


def put(name, encode, decode):
    rows = []
    for text in texts():
        ids = encode(text)
        rows.append({'text': text, 'ids': ids, 'back': decode(ids)} if decode else {'text': text, 'ids': ids})
    with open(os.path.join(HERE, name, 'golden.json'), 'w', encoding='utf-8') as file:
        file.write('[' + ',\n '.join(json.dumps(row) for row in rows) + ']\n')


def save(name, tokenizer, keep=None, config=None):
    """tokenizer.json, a value a line; `keep` changes the JSON before. Golden ids come from the file."""
    os.makedirs(os.path.join(HERE, name), exist_ok=True)
    state = json.loads(tokenizer.to_str())
    if keep:
        keep(state)
    path = os.path.join(HERE, name, 'tokenizer.json')
    with open(path, 'w', encoding='utf-8') as file:
        model = state.pop('model')
        head = json.dumps(state, ensure_ascii=False, indent=1)
        file.write(head[:-2] + ',\n "model": ' + json.dumps(model, ensure_ascii=False) + '\n}\n')
    if config:
        with open(os.path.join(HERE, name, 'tokenizer_config.json'), 'w', encoding='utf-8') as file:
            file.write(json.dumps(config, indent=1) + '\n')
    t = Tokenizer.from_file(path)
    t.no_truncation()
    t.no_padding()
    put(name, lambda text: t.encode(text).ids, lambda ids: t.decode(ids, skip_special_tokens=False))


def byte_level(name, pre, size=420, normalizer=None, special=('<|end|>',), keep=None, post=None, config=None, **options):
    t = Tokenizer(models.BPE(**options))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoders.ByteLevel()
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if post:
        t.post_processor = post
    save(name, t, keep, config)


def split(pattern, *more):
    parts = [pre_tokenizers.Split(Regex(p), 'isolated') for p in (pattern, *more)]
    return pre_tokenizers.Sequence([*parts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def whole_words(state):
    state['model']['ignore_merges'] = True


def pairs(state):
    state['model']['merges'] = [' '.join(m) for m in state['model']['merges']]


def main():
    level = pre_tokenizers.ByteLevel
    byte_level('byte-level', level(add_prefix_space=False), config={'eos_token': '<|end|>', 'bos_token': {'content': '<|end|>'}}, keep=pairs)
    byte_level('llama3', split(PATTERNS[128000]), keep=whole_words, special=('<s>', '</s>', '<|end|>'),
               post=processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing('<s> $A', None, [('<s>', 0)])]))
    byte_level('qwen', split(PATTERNS[151643]), normalizer=normalizers.NFC())
    byte_level('o200k', split(PATTERNS[200000]))
    byte_level('deepseek', split(r'\p{N}{1,3}', '[一-龥぀-ゟ゠-ヿ]+', r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'''))
    byte_level('smollm', pre_tokenizers.Sequence([pre_tokenizers.Digits(True), level(add_prefix_space=False)]))
    byte_level('behind-bytes', pre_tokenizers.Sequence([pre_tokenizers.Punctuation('contiguous'), level(add_prefix_space=True), pre_tokenizers.Digits(False),
                                                        pre_tokenizers.Split(Regex('[0-9][0-9][0-9]'), 'isolated')]))
    byte_level('suffix', level(add_prefix_space=False), normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
               end_of_word_suffix='</w>', unk_token='<|end|>')

    # Added tokens with every habit.
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer, t.decoder = level(add_prefix_space=True), decoders.ByteLevel()
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=360, show_progress=False, initial_alphabet=level.alphabet()))
    t.add_special_tokens([AddedToken('<mask>', lstrip=True), AddedToken('<s>', rstrip=True), '[CLS]'])
    t.add_tokens([AddedToken('word', single_word=True), AddedToken('The', normalized=True), AddedToken('cats', normalized=False), 'CAFÉ'])
    save('added', t)

    # BERT.
    special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']
    t = Tokenizer(models.WordPiece(unk_token='[UNK]', max_input_chars_per_word=80))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    t.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False))
    t.post_processor = processors.BertProcessing(('[SEP]', 3), ('[CLS]', 2))
    t.enable_truncation(8)
    t.enable_padding(length=8)
    save('wordpiece', t)
    vocab = t.get_vocab()
    os.makedirs(os.path.join(HERE, 'vocab-txt'), exist_ok=True)
    with open(os.path.join(HERE, 'vocab-txt', 'vocab.txt'), 'w', encoding='utf-8') as file:
        file.write(''.join(token + '\n' for token in sorted(vocab, key=vocab.get)))
    t.model = models.WordPiece(vocab, unk_token='[UNK]', max_input_chars_per_word=100)
    t.no_truncation()
    t.no_padding()
    put('vocab-txt', lambda text: t.encode(text).ids, lambda ids: t.decode(ids, skip_special_tokens=False))

    # Whole words, and the pre-tokenizers that nothing else here has.
    for name, pre in [('whitespace', pre_tokenizers.Whitespace()), ('whitespace-split', pre_tokenizers.WhitespaceSplit()),
                      ('delimiter', pre_tokenizers.CharDelimiterSplit('-')), ('merged-next', pre_tokenizers.Split('-', 'merged_with_next')),
                      ('merged-previous', pre_tokenizers.Split('-', 'merged_with_previous')), ('inverted', pre_tokenizers.Split(Regex(r'\w+'), 'removed', invert=True))]:
        t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(['[UNK]', 'the', 'final', '-the', '-final', '-', 'the-', 'final-', 'it', 'is', 'what', 'The', 'cats', '.', 'word'])}, unk_token='[UNK]'))
        t.pre_tokenizer = pre
        save(name, t)

    # Byte fallback: Llama-2's ways, old and new, and one whose bytes are not all there.
    learn = Tokenizer(models.BPE(unk_token='<unk>'))
    learn.pre_tokenizer = pre_tokenizers.Metaspace()
    byte_tokens = [f'<0x{b:02X}>' for b in range(256)]
    learn.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=560, special_tokens=['<unk>', '<s>', '</s>', *byte_tokens], show_progress=False))
    state = json.loads(learn.to_str())['model']
    decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ', 1, 0)])
    for name in ['fallback', 'fallback-first', 'fallback-some']:
        t = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
        t.decoder = decoder
        if name == 'fallback-first':
            t.pre_tokenizer = pre_tokenizers.Metaspace('▁', 'first', False)
        else:
            t.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
        t.post_processor = processors.TemplateProcessing('<s> $A </s>', None, [('<s>', 1), ('</s>', 2)])

        def fill(whole, some=name == 'fallback-some'):
            whole['model']['vocab'] = {('x' + k if some and k in ('<0xC3>', '<0x01>') else k): v for k, v in state['vocab'].items()}
            whole['model']['merges'] = state['merges']
            whole['added_tokens'] = [{'id': i, 'content': c, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': True}
                                     for i, c in enumerate(['<unk>', '<s>', '</s>'])]
        # The template asks for tokens that only the filled vocabulary has.
        post, t.post_processor = json.loads(t.post_processor.__getstate__()), None

        def with_post(whole):
            fill(whole)
            whole['post_processor'] = post
        save(name, t, with_post)

    # sentencepiece, with a few rewrites of characters; then the same Unigram as tokenizer.json.
    work = os.path.join(HERE, 'lines.txt')
    rules = os.path.join(HERE, 'rules.tsv')
    with open(work, 'w', encoding='utf-8') as file:
        file.write('\n'.join(LINES * 3) + '\n')
    with open(rules, 'w', encoding='utf-8') as file:
        for source, target in [('ﬁ', 'fi'), ('①', '1'), ('\u00a0', ' '), ('\u3000', ' '), ('\r\n', ' '), ('\n', ' '), ('\t', ' '), ('A\u030a', 'Å'), ('½', '1/2'), ('\u200b', '')]:
            file.write(' '.join(f'{ord(c):X}' for c in source) + '\t' + ' '.join(f'{ord(c):X}' for c in target) + '\n')
    for name, kind, extra in [('spm-unigram', 'unigram', {}), ('spm-unigram-bytes', 'unigram', {'byte_fallback': True, 'remove_extra_whitespaces': False}),
                              ('spm-bpe', 'bpe', {'byte_fallback': True, 'remove_extra_whitespaces': False}), ('spm-bpe-plain', 'bpe', {'add_dummy_prefix': False})]:
        os.makedirs(os.path.join(HERE, name), exist_ok=True)
        prefix = os.path.join(HERE, name, 'tokenizer')
        sentencepiece.SentencePieceTrainer.train(input=work, model_prefix=prefix, model_type=kind, minloglevel=2, num_threads=1, vocab_size=420 if extra.get('byte_fallback') else 200,
                                                 character_coverage=0.98, normalization_rule_tsv=rules, user_defined_symbols=['[CLS]', '--'], hard_vocab_limit=False, **extra)
        os.remove(prefix + '.vocab')
        s = sentencepiece.SentencePieceProcessor(model_file=prefix + '.model')
        # Control pieces in text are special tokens for headroom and plain text for the library.
        put_texts = [t for t in texts() if '<s>' not in t]
        rows = [{'text': text, 'ids': [s.bos_id()] + s.encode(text)} for text in put_texts]
        with open(os.path.join(HERE, name, 'golden.json'), 'w', encoding='utf-8') as file:
            file.write('[' + ',\n '.join(json.dumps(row) for row in rows) + ']\n')
    from sentencepiece import sentencepiece_model_pb2 as pb
    model = pb.ModelProto()
    with open(os.path.join(HERE, 'spm-unigram', 'tokenizer.model'), 'rb') as file:
        model.ParseFromString(file.read())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in model.pieces], 0, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap), normalizers.Strip(),
                                         normalizers.Replace(Regex(' {2,}'), ' ')])
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing('$A </s>', None, [('</s>', 2)])
    save('unigram', t)
    os.remove(work)
    os.remove(rules)

    # Ranks: tekken (a tiktoken file has to be whole to be known).
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    state = json.load(open(os.path.join(HERE, 'o200k', 'tokenizer.json'), encoding='utf-8'))['model']
    alphabet = {c: b for b, c in byte_alphabet().items()}
    tokens = [bytes(alphabet[c] for c in token) for token in sorted(state['vocab'], key=state['vocab'].get) if token != '<|end|>']
    order = [bytes([b]) for b in range(256)] + [t for t in tokens if len(t) > 1]
    vocab = [{'rank': i, 'token_bytes': base64.b64encode(t).decode(), 'token_str': None} for i, t in enumerate(order)]
    pattern = PATTERNS[200000].replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", '').replace('{1,3}', '')
    os.makedirs(os.path.join(HERE, 'tekken'), exist_ok=True)
    path = os.path.join(HERE, 'tekken', 'tekken.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({'config': {'pattern': pattern, 'num_vocab_tokens': len(vocab), 'default_vocab_size': len(vocab) - 20 + 24, 'default_num_special_tokens': 24,
                              'version': 'v3'}, 'vocab': vocab}, file)
        file.write('\n')
    k = Tekkenizer.from_file(path)
    rows = [{'text': text, 'ids': k.encode(text, bos=True, eos=False)} for text in texts() if '<s>' not in text]
    with open(os.path.join(HERE, 'tekken', 'golden.json'), 'w', encoding='utf-8') as file:
        file.write('[' + ',\n '.join(json.dumps(row) for row in rows) + ']\n')

    # vocab.json and merges.txt of the first one.
    state = json.load(open(os.path.join(HERE, 'byte-level', 'tokenizer.json'), encoding='utf-8'))['model']
    os.makedirs(os.path.join(HERE, 'vocab-json'), exist_ok=True)
    with open(os.path.join(HERE, 'vocab-json', 'vocab.json'), 'w', encoding='utf-8') as file:
        json.dump(state['vocab'], file, ensure_ascii=False)
        file.write('\n')
    with open(os.path.join(HERE, 'vocab-json', 'merges.txt'), 'w', encoding='utf-8') as file:
        file.write('#version: 0.2\n' + '\n'.join(state['merges']) + '\n')
    t = Tokenizer(models.BPE.from_file(os.path.join(HERE, 'vocab-json', 'vocab.json'), os.path.join(HERE, 'vocab-json', 'merges.txt')))
    t.pre_tokenizer, t.decoder = level(add_prefix_space=False), decoders.ByteLevel()
    put('vocab-json', lambda text: t.encode(text).ids, lambda ids: t.decode(ids, skip_special_tokens=False))


def byte_alphabet():
    itself = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    table, free = {b: chr(b) for b in itself}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + free)
            free += 1
    return table


main()
