#!/usr/bin/env python3
"""Small things that should not be in the tree: unfinished marks, paths of somebody's machine, tabs, wrong include
guards, files that do not say what they are for. Prints file:line; exits 1 if there is any."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIP = {'.git', '.deps'}
TEXT = ('.c', '.h', '.cu', '.cuh', '.def', '.py', '.md', '.cmake', '.txt', '.yaml', '.json', '.yml', '.sh')
PAGE = ('.js', '.css', '.html')  # in src/; elsewhere they may be what the program has written

UNFINISHED = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b')
MACHINE = re.compile(r'(?<![\w.])/(home|root|Users|work|tmp/bash)/[\w.]')
# What only nvcc reads has one home; test/cuda/host has the same in C++.
CUDA_ONLY = re.compile(r'<<<|\basm\b|extern __shared__')
INSTRUCTIONS = ('src/dev/cuda/instructions.cuh', 'src/dev/cuda/warpgroup.cuh')
# The only public header includes nothing of src/.
PUBLIC_INCLUDE = re.compile(r'^\s*#\s*include\s*"')


def tracked():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in SKIP and not f.startswith('build'))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), ROOT)
            if name.endswith(TEXT) or (path.startswith('src/') and name.endswith(PAGE)) or path.startswith(('tools/', '.ci/')) or name in ('Makefile', 'LAYERS'):
                yield path


def check(path, text):
    source = path.endswith(('.c', '.h', '.cu', '.cuh'))
    corpus = path.startswith(('fuzz/corpus', 'test/golden', 'recipes/kjv'))
    for number, line in enumerate(text.splitlines(), 1):
        if corpus:
            break
        if UNFINISHED.search(line):
            yield number, 'unfinished mark: ' + line.strip()[:60]
        if MACHINE.search(line):
            yield number, 'path of one machine: ' + line.strip()[:60]
        if source and '\t' in line:
            yield number, 'tab in a C file'
        if line != line.rstrip() and path != 'recipes/kjv.txt':
            yield number, 'trailing blanks'
        if path.endswith(('.cu', '.cuh')) and path.startswith('src/') and path not in INSTRUCTIONS and CUDA_ONLY.search(line):
            yield number, f'kernels run without nvcc too: launch(), launch_shared() and {INSTRUCTIONS[0]} (docs/architecture.md)'
        if path.startswith('include/') and PUBLIC_INCLUDE.match(line):
            yield number, 'the public header stands alone'
    if text and not text.endswith('\n') and not corpus:
        yield text.count('\n') + 1, 'no newline at the end'
    if path.startswith('src/') and path.endswith('.h'):
        guard = 'HR_' + re.sub(r'[/.]', '_', path[4:]).upper()
        if f'#ifndef {guard}\n' not in text:
            yield 1, f'include guard should be {guard}'
    if path.startswith('src/') and path.endswith(('.c', '.h', '.cu')):
        own_header = f'#include "{path[4:-2]}.h"\n'  # whose head comment then speaks for both
        if not text.startswith('/*') and not (path.endswith('.c') and text.startswith(own_header)):
            yield 1, 'a file begins with a comment that says what it is for'


def main():
    breaches = 0
    for path in tracked():
        with open(os.path.join(ROOT, path), encoding='utf-8', errors='surrogateescape') as file:
            for line, message in check(path, file.read()):
                print(f'{path}:{line}: {message}')
                breaches += 1
    return 1 if breaches else 0


sys.exit(main())
