#!/usr/bin/env python3
"""headroom tokenize: what it shows, as text and as JSON, and what it says about files and texts that are not right."""
import json
import os

from support import Folder, ROOT, check, finish, run

TOKENIZERS = os.path.join(ROOT, 'test', 'text', 'tokenizers')
LEVEL = os.path.join(TOKENIZERS, 'byte-level')

run('tokenize', LEVEL).expect(0, 'byte-level BPE, 420 ids', 'eos_token', '<|end|>')
facts = run('tokenize', LEVEL, '--json').expect(0).json()['tokenizer']
check(facts['vocabulary'] == 420 and facts['special_tokens'] == {'bos_token': 0, 'eos_token': 0}, f'{facts}')

text = 'it is what it is, café'
shown = run('tokenize', LEVEL, '--text', text).expect(0).out.splitlines()
ids = run('tokenize', LEVEL, '--text', text, '--ids').expect(0).out.split()
check([line.split()[0] for line in shown] == ids, f'{shown} {ids}')
check(''.join(line[10:] for line in shown).replace('\\xc3\\xa9', 'é') == text, f'{shown}')
whole = run('tokenize', LEVEL, '--text', text, '--json').expect(0).json()
check([str(i) for i in whole['ids']] == ids and whole['tokens'] == len(ids) == len(whole['pieces']), f'{whole}')
check(whole['bytes'] == len(text.encode()), f'{whole}')
check(run('tokenize', LEVEL, '--decode', ' '.join(ids)).expect(0).out == text + '\n', 'decoded')
check(run('tokenize', LEVEL, '--decode', str(whole['ids']), '--json').expect(0).json()['text'] == text, 'decoded, JSON')

template = os.path.join(TOKENIZERS, 'fallback')
with_special = run('tokenize', template, '--text', 'it', '--ids').expect(0).out.split()
without = run('tokenize', template, '--text', 'it', '--ids', '--no-special').expect(0).out.split()
check(with_special == ['1', *without, '2'], f'{with_special} {without}')
check(run('tokenize', template, '--decode', '1 2', '--no-special').out == '\n', 'special tokens left out')

# Two texts, as BERT takes them.
pair = [os.path.join(TOKENIZERS, 'wordpiece'), '--text', 'it is', '--pair', 'the cat']
both = run('tokenize', *pair, '--json').expect(0).json()
check(both['types'][0] == 0 and both['types'][-1] == 1 and len(both['types']) == len(both['ids']) and both['bytes'] == 12, f'{both}')
check(both['ids'].count(3) == 2 and both['ids'][0] == 2 and both['ids'][-1] == 3, f'[CLS] first [SEP] second [SEP]: {both}')
rows = [line.split()[:2] for line in run('tokenize', *pair).expect(0).out.splitlines()]
check(rows == [[str(i), str(t)] for i, t in zip(both['ids'], both['types'])], f'{rows}')
check(run('tokenize', *pair, '--ids').expect(0).out.split() == [row[0] for row in rows], 'ids in one line')
run('tokenize', *pair, '--count').expect(0, f"{len(both['ids'])} tokens, 12 bytes")
run('tokenize', pair[0], '--pair', 'x').expect(2, 'second of two texts', '--text')

for name in sorted(os.listdir(TOKENIZERS)):
    run('tokenize', os.path.join(TOKENIZERS, name)).expect(0, ' ids')
    files = [f for f in os.listdir(os.path.join(TOKENIZERS, name)) if f not in ('golden.json', 'tokenizer_config.json', 'merges.txt')]
    run('tokenize', os.path.join(TOKENIZERS, name, files[0])).expect(0, ' ids')

# Wrong calls.
run('tokenize').expect(2, "needs a model's folder")
run('tokenize', LEVEL, 'x').expect(2, "unexpected argument 'x'")
run('tokenize', LEVEL, '--ids').expect(2, 'no text', '--text')
run('tokenize', LEVEL, '--text', 'a', '--file', 'b').expect(2, 'both')
run('tokenize', LEVEL, '--text', 'a', '--decode', '1').expect(2, 'both')
run('tokenize', LEVEL, '--decode', '1 x').expect(2, "'x' is no id")
run('tokenize', LEVEL, '--decode', '420').expect(5, 'no token 420')
run('tokenize', LEVEL + '/absent').expect(5, 'no such file', 'tokenizer.json')
run('tokenize', os.path.join(ROOT, 'docs')).expect(5, 'no tokenizer', 'tokenizer.json')
run('tokenize', os.path.join(ROOT, 'README.md')).expect(5, 'no file of a tokenizer')

with Folder() as folder:
    corpus = folder.write('corpus.txt', 'The cat sat on the mat.\n' * 1000)
    counted = run('tokenize', LEVEL, '--file', corpus, '--count').expect(0, ' tokens, 24000 bytes, ', ' tokens a byte')
    count = run('tokenize', LEVEL, '--file', corpus, '--count', '--json').expect(0).json()
    check(f'{count["tokens"]} tokens' in counted.out and abs(count['tokens_a_byte'] - count['tokens'] / 24000) < 1e-9, f'{count}')
    broken = os.path.join(folder.path, 'broken.txt')
    with open(broken, 'wb') as file:
        file.write(b'fine\nnot \xff fine\n')
    run('tokenize', LEVEL, '--file', broken, '--count').expect(5, 'not UTF-8', 'broken.txt, line 2, byte 5')
    run('tokenize', LEVEL, '--file', folder.path).expect(5)

    # Parts that are not known, and damage, are named with their line.
    with open(os.path.join(LEVEL, 'tokenizer.json'), encoding='utf-8') as file:
        good = file.read()
    state = json.loads(good)

    def bad(*parts, **changes):
        path = folder.write('tokenizer.json', json.dumps({**state, **changes}, indent=1))
        run('tokenize', path).expect(5, *parts)
    bad("unknown normalizer 'Nmt'", 'tokenizer.json:', normalizer={'type': 'Sequence', 'normalizers': [{'type': 'NFC'}, {'type': 'Nmt'}]})
    bad("unknown pre-tokenizer 'UnicodeScripts'", pre_tokenizer={'type': 'UnicodeScripts'})
    bad("unknown decoder 'CTC'", decoder={'type': 'CTC'})
    bad("unknown post-processor 'X'", post_processor={'type': 'X'})
    bad("unknown model 'Y'", model={'type': 'Y', 'vocab': {}})
    bad("'type' is missing", pre_tokenizer={})
    bad("'vocab' is missing", model={'type': 'BPE', 'merges': []})
    bad('dropout', model={**state['model'], 'dropout': 0.1})
    bad('lacks', model={**state['model'], 'merges': ['q zzz']})
    bad('regular expression', pre_tokenizer={'type': 'Split', 'pattern': {'Regex': '(a'}, 'behavior': 'Isolated', 'invert': False})
    bad("unknown behavior 'Glued'", pre_tokenizer={'type': 'Split', 'pattern': {'String': 'a'}, 'behavior': 'Glued', 'invert': False})
    path = folder.write('tokenizer.json', good[:len(good) // 2])
    run('tokenize', path).expect(5, 'not valid JSON')
    # A number that the libraries do not keep is told of.
    gap = {**state, 'added_tokens': state['added_tokens'] + [{'id': 500, 'content': '<gap>', 'special': True, 'normalized': False,
                                                              'single_word': False, 'lstrip': False, 'rstrip': False}]}
    path = folder.write('tokenizer.json', json.dumps(gap))
    told = run('tokenize', path, '--text', '<gap>', '--ids').expect(0, 'warning', "'<gap>' has id 500", 'it is 420')
    check(told.out.strip() == '420', told.out)
    # Older folders: added tokens and roles stand in tokenizer_config.json.
    os.mkdir(folder.path + '/old')
    for name in ['vocab.json', 'merges.txt']:
        with open(os.path.join(TOKENIZERS, 'vocab-json', name), encoding='utf-8') as file:
            folder.write('old/' + name, file.read())
    token = {'content': '<|im_end|>', 'special': True, 'lstrip': False, 'rstrip': False, 'single_word': False, 'normalized': False}
    folder.write('old/tokenizer_config.json', json.dumps({'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|im_end|>', 'added_tokens_decoder': {'425': token}}))
    folder.write('old/generation_config.json', json.dumps({'eos_token_id': [425, 0]}))
    run('tokenize', folder.path + '/old').expect(0, 'byte-level BPE, 426 ids', 'eos_token       425  <|im_end|>')
    check(run('tokenize', folder.path + '/old', '--text', '<|im_end|>', '--ids').out == '425\n', 'an added token')
    folder.write('old/tokenizer_config.json', json.dumps({'tokenizer_class': 'OtherTokenizer'}))
    run('tokenize', folder.path + '/old').expect(5, 'vocab.json of the class OtherTokenizer')
    path = folder.write('tokenizer.model', 'aGk= 0\nISE= 1\n')
    run('tokenize', path).expect(5, 'no vocabulary of 2 tokens is known')
    # Older folders: added tokens and roles stand in tokenizer_config.json.
    for name in ['vocab.json', 'merges.txt']:
        with open(os.path.join(TOKENIZERS, 'vocab-json', name), encoding='utf-8') as file:
            folder.write('old/' + name, file.read()) if os.path.isdir(folder.path + '/old') else (os.mkdir(folder.path + '/old'), folder.write('old/' + name, file.read()))
    token = {'content': '<|im_end|>', 'special': True, 'lstrip': False, 'rstrip': False, 'single_word': False, 'normalized': False}
    folder.write('old/tokenizer_config.json', json.dumps({'tokenizer_class': 'Qwen2Tokenizer', 'eos_token': '<|im_end|>', 'added_tokens_decoder': {'425': token}}))
    folder.write('old/generation_config.json', json.dumps({'eos_token_id': [425, 0]}))
    run('tokenize', folder.path + '/old').expect(0, 'byte-level BPE, 426 ids', 'eos_token       425  <|im_end|>')
    check(run('tokenize', folder.path + '/old', '--text', '<|im_end|>', '--ids').out == '425\n', 'an added token')
    folder.write('old/tokenizer_config.json', json.dumps({'tokenizer_class': 'OtherTokenizer'}))
    run('tokenize', folder.path + '/old').expect(5, 'vocab.json of the class OtherTokenizer')
    path = folder.write('tokenizer.model', 'aGk= 0\nISE= 0\n')
    run('tokenize', path).expect(5, 'tokenizer.model:2', 'given twice')
finish()
