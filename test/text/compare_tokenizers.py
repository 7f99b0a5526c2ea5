#!/usr/bin/env python3
"""Ids and decoded text of headroom's tokenizers against the libraries that models were trained with.

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install tokenizers sentencepiece tiktoken mistral-common
    /tmp/reference/bin/python test/text/compare_tokenizers.py build/bench_tokenizers FOLDER [NAME...]

FOLDER has a folder for each tokenizer (as models have them), such as test/text/fetch_tokenizers.py makes it. Every text
has to give the same ids as the reference library gives, and the same text back from them. Texts: lines of the files
beside this script's tree and of Python's library, every character there is, and made-up ones: scripts mixed with code,
pictures, marks, control characters, white space, digits; a megabyte without a space; broken UTF-8, which is refused.
LINES=N in the environment sets how many texts there are (100,000).
"""
import glob
import os
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINES = int(os.environ.get('LINES', '100000'))
REFUSED = 0xffffffff

PATTERNS = {}  # split patterns of tiktoken files, by number of ranks, as text/tiktoken.c has them
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r'[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]', r'[\p{Ll}\p{Lm}\p{Lo}\p{M}]'
BEFORE, TAIL = r'[^\r\n\p{L}\p{N}]?', r'|\s*[\r\n]+|\s+(?!\S)|\s+'
PATTERNS[128000] = CONTRACTION + '|' + BEFORE + r'\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL
PATTERNS[151643] = CONTRACTION + '|' + BEFORE + r'\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*' + TAIL
PATTERNS[200000] = (BEFORE + UPPER + '*' + LOWER + '+' + CONTRACTION + '?|' + BEFORE + UPPER + '+' + LOWER + '*' + CONTRACTION +
                    r'?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*' + TAIL)


def lines_of_files():
    names = [os.path.join(ROOT, 'recipes/kjv.txt'), os.path.join(ROOT, 'README.md')]
    names += sorted(glob.glob(os.path.join(ROOT, 'src/*/*.c')))[::4] + sorted(glob.glob(os.path.join(ROOT, 'docs/*.md')))
    names += sorted(glob.glob(os.path.join(sysconfig.get_paths()['stdlib'], '*.py')))[::3]
    for name in names:
        if os.path.exists(name):
            with open(name, encoding='utf-8', errors='ignore', newline='') as file:
                yield from file.read().splitlines(keepends=True)


BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x531, 0x58a), (0x591, 0x5f4),
          (0x600, 0x6ff), (0x900, 0x97f), (0x980, 0x9ff), (0xb80, 0xbff), (0xe01, 0xe5b), (0xf00, 0xfff), (0x10a0, 0x10ff),
          (0x1100, 0x11ff), (0x1200, 0x137f), (0x1680, 0x169c), (0x1780, 0x17f9), (0x1800, 0x18aa), (0x1e00, 0x1fff),
          (0x2000, 0x206f), (0x2070, 0x209c), (0x20a0, 0x20bf), (0x2100, 0x218b), (0x2190, 0x23ff), (0x2460, 0x24ff),
          (0x2500, 0x27bf), (0x2c00, 0x2dff), (0x3000, 0x303f), (0x3040, 0x30ff), (0x3130, 0x318e), (0x3200, 0x33ff),
          (0x4e00, 0x9fff), (0xa640, 0xa7ff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe00, 0xfe0f),
          (0xff00, 0xffef), (0x10330, 0x1034a), (0x10400, 0x1044f), (0x1d400, 0x1d7ff), (0x1f1e6, 0x1f1ff),
          (0x1f300, 0x1faff), (0x20000, 0x2a6df), (0xe0020, 0xe007f)]
PARTS = [' ', '  ', '   ', '\n', '\r\n', '\n\n', '\t', ' \n ', '\u00a0', '\u2003', '\u3000', '\u180e', '\u200b', '\u200d', '\ufe0f',
         "'s", "'S", "'ll", "'LL", "'\u017f", "n't", "I'm", "we'Ve", '’s', '1', '12', '123', '1234', '12345678', '½', '٣', 'Ⅷ', '3.14',
         'the', ' the', 'The', ' THE', 'camelCase', 'HTTPServer', 'snake_case', ' x', 'iPhone', 'ǅ', 'İ', 'ß', 'ﬁ', 'Å', 'A\u030a', 'é',
         'e\u0301', 'ḍ̇', '한국어', '각', '日本語', '你好', 'ひらがな', 'カタカナ', 'ｶﾞ', 'สวัสดี', 'नमस्ते', 'العربية', 'עברית', 'Привет', 'ΣΑΣ',
         '👍🏽', '👩‍👩‍👧', '🇩🇪', '❤️', '✨', '...', '!!', '?!', '--', '—', '/', '//', '\\', '(', ')', '{', '}', '[', ']', '<', '>', '#', '##', '@', '$', '€',
         '=', '==', '+=', '&&', '|', '"', '`', '```', '~', '^', '*', '**', '_', ';', ':', ',', '.', '%', '\x00', '\x01', '\x1b', '\x7f', '\x85',
         '\ufeff', '\ufffd', '\ue000', '\U000e0001', '▁', '▁a', 'Ġ', '<0x0A>', 'return', ' if', ' for', '  def', 'int', 'www.', '.com']


def made_up(rng):
    kind = rng.random()
    if kind < 0.6:
        return ''.join(rng.choice(PARTS) for _ in range(rng.randint(1, 24)))
    if kind < 0.8:
        low, high = rng.choice(BLOCKS)
        return ''.join(rng.choice([chr(rng.randint(low, high)), chr(rng.randint(low, high)), ' ', rng.choice(PARTS)])
                       for _ in range(rng.randint(1, 20)))
    if kind < 0.9:
        return ''.join(chr(rng.choice([rng.randint(0, 0x7f), rng.randint(0, 0xd7ff), rng.randint(0xe000, 0x10ffff)]))
                       for _ in range(rng.randint(1, 12)))
    return ''.join(rng.choice(' \t\n\r\u00a0\u2028a1.') for _ in range(rng.randint(1, 30)))


def texts():
    rng = random.Random(1)
    out = ['', 'x' * 1000000, 'é' * 3000, ' ' * 5000, '\n' * 3000, 'ab' * 40000, '1' * 1000, '你' * 10000]
    out += [chr(c) for c in list(range(0, 0x3000)) + list(range(0xa000, 0xabff)) + list(range(0xf900, 0x10000)) +
            list(range(0x10000, 0x20000, 7))]
    out += ['a' + chr(c) + ' b' for c in range(0, 0x3400, 3)]
    for line in lines_of_files():
        if len(out) >= LINES * 7 // 10:
            break
        out.append(line)
    while len(out) < LINES + LINES // 100:  # some are left out below
        out.append(made_up(rng))
    return out


BROKEN = [b'\xff', b'a\xc3', b'\xed\xa0\x80', b'ok\n\x80', b'\xf4\x90\x80\x80', b'\xc0\xaf', b'\xe2\x82']


class Reference:
    """encode(text) gives ids, decode(ids) text."""

    def __init__(self, folder):
        self.knows_specials = os.path.exists(os.path.join(folder, 'tokenizer.json'))
        path = lambda name: os.path.join(folder, name)
        if os.path.exists(path('tokenizer.json')):
            from tokenizers import Tokenizer
            t = Tokenizer.from_file(path('tokenizer.json'))
            t.no_truncation()
            t.no_padding()
            self.encode = lambda text: t.encode(text, add_special_tokens=False).ids
            self.decode = lambda ids: t.decode(ids, skip_special_tokens=False)
        elif os.path.exists(path('vocab.json')):
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers
            t = Tokenizer(models.BPE.from_file(path('vocab.json'), path('merges.txt')))
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            t.decoder = decoders.ByteLevel()
            self.encode = lambda text: t.encode(text, add_special_tokens=False).ids
            self.decode = lambda ids: t.decode(ids, skip_special_tokens=False)
        elif os.path.exists(path('vocab.txt')):
            from tokenizers import BertWordPieceTokenizer
            t = BertWordPieceTokenizer(path('vocab.txt'))
            self.encode = lambda text: t.encode(text, add_special_tokens=False).ids
            self.decode = lambda ids: t.decode(ids, skip_special_tokens=False)
        elif os.path.exists(path('tekken.json')):
            from mistral_common.tokens.tokenizers.tekken import Tekkenizer
            t = Tekkenizer.from_file(path('tekken.json'))
            self.encode = lambda text: t.encode(text, bos=False, eos=False)
            self.decode = None
        else:
            name = (glob.glob(path('*.tiktoken')) + [path('tokenizer.model')])[0]
            with open(name, 'rb') as file:
                head = file.read(200)
            if b' 0\n' in head or name.endswith('.tiktoken'):
                import tiktoken
                from tiktoken.load import load_tiktoken_bpe
                ranks = load_tiktoken_bpe(name)
                t = tiktoken.Encoding('x', pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={})
                from tokenizers import normalizers
                normal = normalizers.NFC().normalize_str if len(ranks) == 151643 else str
                self.encode = lambda text: t.encode(normal(text), disallowed_special=())
                self.decode = t.decode
            else:
                import sentencepiece
                t = sentencepiece.SentencePieceProcessor(model_file=name)
                self.encode = t.encode
                self.decode = None


def compare(program, folder, all_texts, folder_of_work):
    reference = Reference(folder)
    if not reference.knows_specials:  # they are found in text here, and plain text for these libraries
        all_texts = [t for t in all_texts if '<|' not in t]
    all_texts = all_texts[:LINES]
    texts_path, out_path = os.path.join(folder_of_work, 'texts'), os.path.join(folder_of_work, 'out')
    with open(texts_path, 'wb') as file:
        for data in [t.encode() for t in all_texts] + BROKEN:
            file.write(struct.pack('<I', len(data)) + data)
    subprocess.run([program, 'ids', folder, texts_path, out_path], check=True)
    with open(out_path, 'rb') as file:
        out = file.read()
    at, wrong, refused = 0, 0, 0

    def word():
        nonlocal at
        at += 4
        return struct.unpack_from('<I', out, at - 4)[0]
    for text in all_texts + [None] * len(BROKEN):
        count = word()
        if count == REFUSED:
            refused += 1
            if text is not None:
                print('  refused:', repr(text[:80]))
                wrong += 1
            continue
        ids = list(struct.unpack_from(f'<{count}i', out, at))
        at += 4 * count
        length = word()
        decoded = out[at:at + length].decode()
        at += length
        expected = reference.encode(text)
        fault = ids != expected
        if not fault and reference.decode:
            fault = decoded != reference.decode(expected)
        if fault:
            wrong += 1
            if wrong <= 8:
                print('  text', ascii(text[:60]), '\n    ids', ids[:24], '\n    ref', expected[:24])
                if ids == expected:
                    print('    decoded', ascii(decoded[:80]), '\n    ref    ', ascii(reference.decode(expected)[:80]))
    if refused != len(BROKEN):
        print(f'  {refused} of {len(BROKEN)} broken texts refused')
        wrong += 1
    return len(all_texts), wrong


def main():
    program, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    names = names or sorted(n for n in os.listdir(folder) if os.path.isdir(os.path.join(folder, n)))
    all_texts = texts()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for name in names:
            count, wrong = compare(program, os.path.join(folder, name), all_texts, work)
            print(f'{name}: {count} texts, {wrong} differ', flush=True)
            failed += wrong > 0
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
