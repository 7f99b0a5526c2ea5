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
for command in ['plan', 'train', 'profile', 'apply', 'dump', 'devices', 'env']:
    check(f'headroom {command}' in readme, f'README does not show headroom {command}')
for code in re.findall(r'X\(HR_\w+, (\d+),', read('src', 'base', 'status.h')):
    check(re.search(rf'\b{code}\b', readme) is not None, f'README does not name exit code {code}')
for link in re.findall(r'\]\(([^)#]+)\)', readme):
    check(link.startswith('http') or os.path.exists(os.path.join(ROOT, link)), f'README links to {link}')
version = re.search(r'HR_VERSION +"([\d.]+)"', read('include', 'headroom.h')).group(1)
check(f'## {version}' in read('CHANGELOG.md'), f'CHANGELOG has no section {version}')
check(run('--version').out.strip() == f'headroom {version}', 'version of the program')
finish()
