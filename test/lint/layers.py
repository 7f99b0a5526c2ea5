#!/usr/bin/env python3
"""Holds src/ to LAYERS: a file includes only folders at or left of its own, each library is met in one place, and names of
programs decide nothing (their keys do: graph/graph.h).

Prints file:line for every breach; exits 1 if there is any. `layers.py --self-test` shows that the rules can fail.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# header of a library -> the files and folders of src/ that may include it
LIBRARIES = [
    (re.compile(r'^(oneapi/dnnl/|dnnl)'), ['dev/cpu/onednn*.c']),
    (re.compile(r'^(cuda|cublas|cudnn|nvml|nv[a-z]*\.h)'), ['dev/cuda/', 'op/*.cu']),
    (re.compile(r'^yaml\.h$'), ['format/']),
    (re.compile(r'^pcre2\.h$'), ['text/regex.c']),
    (re.compile(r'^utf8proc\.h$'), ['text/']),
    (re.compile(r'^(xxhash|openssl/)'), ['base/']),
    (re.compile(r'^getopt\.h$'), ['cli/']),
    (re.compile(r'^dlfcn\.h$'), ['dev/', 'format/hdf5.c', 'format/video_libav.c', 'cli/env.c']),
    (re.compile(r'^lib(av|sw)'), ['format/video_libav.c']),
    (re.compile(r'^pthread\.h$'), ['base/', 'format/', 'text/', 'dev/']),
]

# calls with one home: (what, where it is allowed)
CALLS = [
    (re.compile(r'(?<![\w.>])(malloc|calloc|realloc|free|strdup|strndup|asprintf|aligned_alloc|posix_memalign)\s*\('),
     ['base/mem.c', 'op/*.cu', 'dev/cuda/*.cu'], 'heap memory goes through base/mem.h'),
    (re.compile(r'(?<![\w.>])(json_load\w*)\s*\('), ['format/'], 'input is parsed in format/ only'),
    (re.compile(r'(?<![\w.>])(exit|_exit|abort|printf|puts|putchar|perror)\s*\('), ['cli/'],
     'no exit, abort or printing below cli/'),
    (re.compile(r'(?<![\w.>])(srand|rand|random|drand48|srandom)\s*\('), [], 'random numbers come from base/random.h'),
]

# A comparison of texts that reads the name of a program, or that names a kind of program.
COMPARED = re.compile(r'\b(?:str(?:n?case)?n?cmp|strstr|strcspn|strspn|strchr|memcmp|fnmatch)\s*\(((?:[^();]|\([^()]*\))*)\)')
PROGRAM_NAME = re.compile(r'\bprogram\w*(?:\[[^\]]*\]+)?\s*(?:\.|->)\s*name\b|'
                          r'\bhr_program_kind_name\b|'
                          r'"(?:step|micro_first|micro_next|eval|embed|generate)(?:@[^"]*)?"')


def allowed(path, places):
    for place in places:
        if place.endswith('/') and path.startswith(place):
            return True
        if '*' in place:
            folder, suffix = place.split('*')
            if path.startswith(folder) and path.endswith(suffix):
                return True
        if path == place:
            return True
    return False


def strip_comments(text):
    """Comments and string contents become blanks, so that line numbers stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text)


def check_file(path, text, layers):
    """Yields (line, message). `path` is relative to src/."""
    folder = path.split('/')[0]
    if folder not in layers:
        yield 1, f'folder {folder} is not in LAYERS'
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(2)
        target = header.split('/')[0] if '/' in header else None
        if match.group(1) == '"' and target in layers and layers.index(target) > layers.index(folder):
            yield number, f'{folder}/ may not include {header}: {target}/ lies to the right of it in LAYERS'
        for library, places in LIBRARIES:
            if library.match(header) and not (match.group(1) == '"' and target in layers) and not allowed(path, places):
                yield number, f'<{header}> may only be included by {", ".join(places)}'
    for number, line in enumerate(strip_comments(text).splitlines(), 1):
        for call, places, reason in CALLS:
            found = call.search(line)
            if found and not allowed(path, places):
                yield number, f'{found.group(1)}(): {reason}'
    without = re.sub(r'/\*.*?\*/', lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text, flags=re.S)
    for found in COMPARED.finditer(without):
        if PROGRAM_NAME.search(found.group(1)):
            yield without.count('\n', 0, found.start()) + 1, 'the name of a program is a label: compare its key'


def read_layers():
    with open(os.path.join(ROOT, 'LAYERS'), encoding='utf-8') as file:
        return file.read().split()


def self_test(layers):
    bad = {
        'base/a.c': '#include "format/doc.h"\n',
        'graph/a.c': '#include "op/linear.h"\n',
        'op/a.c': '#include <oneapi/dnnl/dnnl.h>\n',
        'dev/cpu/gemm.c': '#include <oneapi/dnnl/dnnl.h>\n',
        'run/a.c': '#include <cuda_runtime.h>\n',
        'recipe/a.c': '#include <yaml.h>\n',
        'plan/a.c': 'x = malloc(3);\n',
        'model/a.c': 'abort();\n',
        'nowhere/a.c': '\n',
        'plan/b.c': 'if (strcmp(g->programs[p].name, "x") == 0) y();\n',
        'plan/c.c': 'return strncmp(program->name,\n  other, 3);\n',
        'plan/d.c': 'if (strcmp(hr_program_kind_name(key.kind), word) == 0) y();\n',
        'train/a.c': 'while (!strcmp(name, "micro_first@16")) z();\n',
    }
    good = {
        'cli/a.c': '#include "base/mem.h"\nprintf("x");\n',
        'op/a.cu': '#include <cuda_runtime.h>\n',
        'plan/a.c': '/* malloc(3) */ hr__free(p); x->free(y); "exit(1)";\n',
        'plan/b.c': 'put(g->programs[p].name); if (strcmp(a, b) == 0) get(object, "step");\n/* strcmp(program->name, x) */',
        'dev/cpu/onednn.c': '#include <oneapi/dnnl/dnnl.h>\n',
        'dev/cpu/onednn_conv.c': '#include <oneapi/dnnl/dnnl.h>\n',
    }
    for path, text in bad.items():
        assert list(check_file(path, text, layers)), f'{path} should be refused'
    for path, text in good.items():
        assert not list(check_file(path, text, layers)), f'{path} should pass'


def main():
    layers = read_layers()
    self_test(layers)
    breaches = 0
    for folder, _, names in sorted(os.walk(os.path.join(ROOT, 'src'))):
        for name in sorted(names):
            if not name.endswith(('.c', '.h', '.cu', '.cuh')):
                continue
            path = os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, 'src'))
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                for line, message in check_file(path, file.read(), layers):
                    print(f'src/{path}:{line}: {message}')
                    breaches += 1
    return 1 if breaches else 0


sys.exit(main())
