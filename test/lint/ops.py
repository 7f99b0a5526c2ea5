#!/usr/bin/env python3
"""Every op of op/ops.def has its source, its descriptor in that source, a meaning, and kernels only there; every source
in op/ is named by ops.def."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OP = os.path.join(ROOT, 'src', 'op')
LINE = re.compile(r'^HR_OP\((\w+),\s*(\w+)\)\s*/\*\s*(.*?)\s*\*/\s*$')
OTHER = {'ops.c'}


def main():
    problems = []
    sources = set()
    seen = set()
    with open(os.path.join(OP, 'ops.def'), encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if not line.startswith('HR_OP'):
                continue
            match = LINE.match(line)
            if not match or not match.group(3):
                problems.append(f'src/op/ops.def:{number}: expected HR_OP(name, source) /* meaning */')
                continue
            name, source, _ = match.groups()
            sources.add(source + '.c')
            if name in seen:
                problems.append(f'src/op/ops.def:{number}: {name} is there twice')
            seen.add(name)
            path = os.path.join(OP, source + '.c')
            if not os.path.exists(path):
                problems.append(f'src/op/ops.def:{number}: src/op/{source}.c does not exist')
                continue
            with open(path, encoding='utf-8') as code:
                if not re.search(rf'const hr_op hr_op_{name}\s*=', code.read()):
                    problems.append(f'src/op/{source}.c:1: no descriptor hr_op_{name}')
    for name in sorted(os.listdir(OP)):
        path = os.path.join(OP, name)
        if not name.endswith('.c') or name in OTHER or name in sources:
            continue
        with open(path, encoding='utf-8') as code:
            if 'const hr_op hr_op_' in code.read():
                problems.append(f'src/op/{name}:1: holds an op that ops.def does not name')
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
