#!/usr/bin/env python3
"""Two texts as the reference library makes ids and types of them, by every kind of post-processor: test/text/pairs/.

    python test/text/make_pairs.py         needs the package tokenizers

Each folder has a tokenizer.json, made of one of test/text/tokenizers, and pairs.json: two texts, their ids and types with special
tokens and without. Folders of test/text/tokenizers that are taken as they are have only pairs.json.
"""
import json
import os

from tokenizers import Tokenizer, processors

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ['', 'it is', 'The cats sat on the mat.', 'café 你好', '[CLS]it[SEP]', ' two  spaces ']


def bert(t):
    t.post_processor = processors.TemplateProcessing('[CLS]:0 $A:0 [SEP]:0', '[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1', [('[CLS]', 2), ('[SEP]', 3)])


def swapped(t):
    t.post_processor = processors.TemplateProcessing('$A:2', '$B:3 [SEP]:7 [MASK]:0 $A:2', [('[SEP]', 3), ('[MASK]', 4)])


def roberta(t):
    t.post_processor = processors.RobertaProcessing(('[SEP]', 3), ('[CLS]', 2))


def levels(t):
    t.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        '[CLS] $A', '[CLS]:0 $A:0 [SEP]:0 [SEP]:1 $B:1', [('[CLS]', 2), ('[SEP]', 3)])])


def main():
    cases = [('template', 'wordpiece', bert), ('swapped', 'wordpiece', swapped), ('roberta', 'wordpiece', roberta), ('levels', 'wordpiece', levels),
             ('wordpiece', 'wordpiece', None), ('byte-level', 'byte-level', None), ('llama3', 'llama3', None), ('fallback', 'fallback', None)]
    for name, source, change in cases:
        folder = os.path.join(HERE, 'pairs', name)
        os.makedirs(folder, exist_ok=True)
        t = Tokenizer.from_file(os.path.join(HERE, 'tokenizers', source, 'tokenizer.json'))
        t.no_truncation()
        t.no_padding()
        if change:
            change(t)
            with open(os.path.join(folder, 'tokenizer.json'), 'w', encoding='utf-8') as file:
                file.write(json.dumps(json.loads(t.to_str()), ensure_ascii=False, indent=None) + '\n')
        rows = []
        for first in TEXTS:
            for second in TEXTS:
                row = {'first': first, 'second': second}
                for special in (True, False):
                    made = t.encode(first, second, add_special_tokens=special)
                    row['special' if special else 'plain'] = {'ids': made.ids, 'types': made.type_ids}
                rows.append(json.dumps(row))
        with open(os.path.join(folder, 'pairs.json'), 'w', encoding='utf-8') as file:
            file.write('[' + ',\n '.join(rows) + ']\n')


if __name__ == '__main__':
    main()
