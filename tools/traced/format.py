"""The words of a trace, as src/torch/trace.h has them."""
import json
import os

FORMAT = 'headroom torch trace 1'
CATEGORIES = ['parameters', 'gradients', 'optimizer', 'activations', 'workspace', 'inputs', 'other']
PHASES = ['build', 'forward', 'backward', 'optimizer', 'eval', 'save']
ALLOCATE, FREE, MARK, EMPTY_CACHE = range(4)


def write(path, document):
    """One event a line: small, and still JSON."""
    document = dict(document)
    events = document.pop('events')
    temporary = path + '.part'
    with open(temporary, 'w') as file:
        file.write(json.dumps(document, indent=1)[:-2] + ',\n "events": [\n')
        file.write(',\n'.join(json.dumps(e, separators=(',', ':')) for e in events))
        file.write('\n]}\n')
    os.replace(temporary, path)
