#!/usr/bin/env python3
"""What the documents say about keys, commands and codes is what the program has."""
import os
import re

from support import ROOT, check, finish, run


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


table = run('env', '--keys').expect(0).out
document = read('docs', 'recipe.md')
begin, end = '<!-- keys: made by `headroom env --keys` -->\n', '<!-- end of keys -->\n'
if check(begin in document and end in document, 'docs/recipe.md has the table of keys'):
    check(document.split(begin)[1].split(end)[0].strip() == table.strip(),
          'docs/recipe.md is out of step: put in the output of `build/headroom env --keys`')
for line in table.splitlines()[2:]:
    cells = line.split(' | ')
    check(len(cells) == 4 and len(cells[3]) > 6, f'a key without a meaning: {line}')

readme = read('README.md')
for command in ['plan', 'train', 'profile', 'report', 'monitor', 'log', 'apply', 'dump', 'generate', 'embed', 'merge', 'tokenize', 'devices', 'env']:
    check(f'headroom {command}' in readme, f'README does not show headroom {command}')
for code in re.findall(r'X\(HR_\w+, (\d+),', read('src', 'base', 'status.h')):
    check(re.search(rf'\b{code}\b', readme) is not None, f'README does not name exit code {code}')
for link in re.findall(r'\]\(([^)#]+)\)', readme):
    check(link.startswith('http') or os.path.exists(os.path.join(ROOT, link)), f'README links to {link}')
version = re.search(r'HR_VERSION +"([\d.]+)"', read('include', 'headroom.h')).group(1)
check(f'## {version}' in read('CHANGELOG.md'), f'CHANGELOG has no section {version}')
check(run('--version').out.strip() == f'headroom {version}', 'version of the program')
# The layer of docs/architecture.md: every line of a piece is one of the dump after its stage.
SETTINGS = ['model.precision=bf16-mixed', 'model.adapters={kind: lora, rank: 4, targets: [down_proj]}',
            'memory.checkpoint=every-layer', 'memory.offload.activations=host']
pieces = re.findall(r'<!-- dump: (\w+) -->\n\n((?:    .*\n)+)', read('docs', 'architecture.md'))
check(len(pieces) == 6, f'{len(pieces)} pieces of a layer')
for stage, piece in pieces:
    sets = [part for setting in SETTINGS for part in ('--set', setting)]
    dumped = run('dump', os.path.join(ROOT, 'recipes', 'demo.yaml'), '--after', stage, *sets).expect(0).out
    lines = [' '.join(line.replace('model.layers.1.', '', 1).split()) for line in dumped.splitlines()]
    for line in piece.splitlines():
        pattern = re.escape(' '.join(line.split())).replace('…', r'[\w.+]+')
        check(any(re.fullmatch(pattern, one) for one in lines), f'after {stage} there is no {line.strip()}')

finish()
