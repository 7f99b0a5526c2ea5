#!/usr/bin/env python3
"""Speed of tokenizers on one core, beside the libraries: MB/s of English prose, in pieces of 4 KB.

    python bench/tokenizer_speed.py build/bench_tokenizers FOLDER [TEXT]

FOLDER is made by test/text/fetch_tokenizers.py; needs the packages tokenizers, tiktoken and sentencepiece. TEXT is recipes/kjv.txt,
repeated to 4 MB, unless given. Times are seconds of the processor, the best of five, taken in turns in one run.
"""
import os
import subprocess
import sys
import tempfile
import time

os.environ['RAYON_NUM_THREADS'] = '1'
os.environ['TOKENIZERS_PARALLELISM'] = 'false'
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'test', 'text'))
from compare_tokenizers import PATTERNS  # noqa: E402

PIECE = 4096


def pieces(data):
    out, at = [], 0
    while at < len(data):
        end = min(at + PIECE, len(data))
        while end < len(data) and data[end] & 0xc0 == 0x80:
            end -= 1
        out.append(data[at:end].decode())
        at = end
    return out


def timed(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def libraries(folder):
    """Name and function over all pieces, for each library that knows the vocabulary."""
    path = lambda name: os.path.join(folder, name)
    if os.path.exists(path('tokenizer.json')):
        from tokenizers import Tokenizer
        t = Tokenizer.from_file(path('tokenizer.json'))
        t.no_truncation()
        t.no_padding()
        yield 'tokenizers', lambda texts: [t.encode(x, add_special_tokens=False).ids for x in texts]
        yield 'tokenizers, batch', lambda texts: t.encode_batch_fast(texts, add_special_tokens=False)
        return
    name = [n for n in os.listdir(folder) if n.endswith(('.tiktoken', '.model'))][0]
    with open(path(name), 'rb') as file:
        ranked = b' 0\n' in file.read(200)
    if ranked:
        import tiktoken
        from tiktoken.load import load_tiktoken_bpe
        ranks = load_tiktoken_bpe(path(name))
        e = tiktoken.Encoding('x', pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={})
        yield 'tiktoken', lambda texts: [e.encode_ordinary(x) for x in texts]
    else:
        import sentencepiece
        s = sentencepiece.SentencePieceProcessor(model_file=path(name))
        yield 'sentencepiece', lambda texts: [s.encode(x) for x in texts]


def main():
    program, folder = sys.argv[1], sys.argv[2]
    with open(sys.argv[3] if len(sys.argv) > 3 else os.path.join(ROOT, 'recipes', 'kjv.txt'), 'rb') as file:
        data = file.read()
    data = (data * (4_000_000 // len(data) + 1))[:4_000_000] if len(sys.argv) <= 3 else data
    texts = pieces(data)
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(data)
        copy.flush()
        for name in ['llama3', 'qwen', 'llama4', 'smollm2', 'deepseek', 'wordpiece', 'unigram', 'mistral7', 'spm-unigram']:
            where = os.path.join(folder, name)
            if not os.path.isdir(where):
                continue
            best = {}
            others = list(libraries(where))
            for _ in range(5):
                told = subprocess.run([program, 'speed', where, copy.name, str(PIECE)], check=True, capture_output=True, text=True)
                best['headroom'] = min(best.get('headroom', 1e9), float(told.stdout.split()[0]))
                for other, run in others:
                    best[other] = min(best.get(other, 1e9), timed(lambda: run(texts)))
            ours = best['headroom']
            print(f'{name:12}', ', '.join(f'{k} {len(data) / v / 1e6:.1f} MB/s' + (f' ({v / ours:.1f} x)' if k != 'headroom' else '')
                                          for k, v in best.items()), flush=True)


main()
