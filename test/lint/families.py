#!/usr/bin/env python3
"""What a family of models is, only src/model/ knows: elsewhere in src/ no identifier and no text names one of the rows of
src/model/families.def. A family differs from others by what it declares (hr_model), never by what it is called.

A name counts where it stands as a word: as a part of an identifier between underscores (hr_model_bert), or in a text with
no letter, digit, '_', '-' or '/' beside it. A file or a trainer with it in its name (recipes/llama-3.2-1b.yaml) is not a
family. Comments may tell of families.

Prints file:line for every breach; exits 1 if there is any. The rules are tried on samples first.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = ('.c', '.h', '.def', '.cu', '.cuh', '.cpp')
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|(?P<text>"(?:\\.|[^"\\\n])*")|\'(?:\\.|[^\'\\\n])*\'|(?P<name>[A-Za-z_]\w*)', re.S)


def rows(file, kind):
    with open(os.path.join(ROOT, 'src', *file), encoding='utf-8') as text:
        return re.findall(r'^' + kind + r'\((\w+)', text.read(), re.M)


def families():
    """A source of data may have a family's name: it is the source then that is meant."""
    sources = rows(('data', 'sources.def'), 'HR_SOURCE')
    return [name for name in rows(('model', 'families.def'), 'HR_FAMILY') if name not in sources]


def check(text, names):
    """Yields (line, family)."""
    word = re.compile(r'(?<![\w/-])(' + '|'.join(names) + r')(?![\w/-]|\.\d)', re.I)
    for token in TOKEN.finditer(text):
        found = None
        if token.group('name'):
            found = next((part for part in token.group('name').lower().split('_') if part in names), None)
        elif token.group('text'):
            match = word.search(token.group('text').replace('\\n', '  '))
            found = match and match.group(1)
        if found:
            yield text.count('\n', 0, token.start()) + 1, found


def self_test(names):
    assert 'llama' in names and 'bert' in names, 'families.def is not read'
    bad = ['if (strcmp(model->family, "llama") == 0) x();\n', 'return &hr_model_bert;\n', 'int qwen2 = 1;\n',
           '.meaning = "bert: part of the tokens",\n', 'char *list = "families: llama, mistral";\n', 'HR_BERT_KEYS\n',
           '"kind (Llama)"', 'x("a\\nmistral\\n")', '"It is a bert."', '"bert.encoder.layer"', '"text.bert.x"']
    good = ['/* as Llama 3 does */ x();\n', '// bert\n', '"recipes/llama-3.2-1b.yaml"', '"test/model/configs/Llama-3.1-8B"',
            '"llama-factory", "llamafactory,llama_factory"', 'int llamafactory, alberta;\n', '"x" /* "llama" */', '\'"\' + y', '"Qwen2.5"']
    for text in bad:
        assert list(check(text, names)), f'{text!r} should be refused'
    for text in good:
        assert not list(check(text, names)), f'{text!r} should pass'


def main():
    names = families()
    self_test(names)
    breaches = 0
    for folder, folders, files in sorted(os.walk(os.path.join(ROOT, 'src'))):
        if os.path.relpath(folder, ROOT) == os.path.join('src', 'model'):
            folders[:] = []
            continue
        for name in sorted(files):
            if not name.endswith(SOURCE):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding='utf-8') as file:
                for line, family in check(file.read(), names):
                    print(f'{os.path.relpath(path, ROOT)}:{line}: names the family {family}, which only src/model/ knows')
                    breaches += 1
    return 1 if breaches else 0


sys.exit(main())
