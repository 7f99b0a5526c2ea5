#!/usr/bin/env python3
"""Errors of other ways to know the memory of training, on the runs that were measured: bench/torch_measured/others.py test/torch/h200.json

accelerate estimate-memory looks at parameters and type alone: 16 bytes for each parameter in f32, 8 in 16 bits, activations left out;
get_memory_footprint of transformers is the weights. Both are compared with allocated bytes of full training.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def planned(recipe):
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        json.dump(recipe, file)
        file.flush()
        done = subprocess.run([os.path.join(ROOT, 'build', 'headroom'), 'plan', file.name, '--json'], capture_output=True, text=True)
    return json.loads(done.stdout)


def main():
    with open(sys.argv[1]) as file:
        cases = [case for case in json.load(file)['cases'] if 'adapters' not in case['recipe']['model']]
    errors = {'headroom plan --engine pytorch': [], 'accelerate estimate-memory': [], 'get_memory_footprint': []}
    for case in cases:
        answer = planned(case['recipe'])
        count, wide = answer['model']['parameters'], case['recipe']['model']['precision'] == '32-true'
        half = case['recipe']['model']['precision'] == 'bf16-true'
        for name, said in zip(errors, (answer['torch']['allocated_bytes'], count * (16 if wide else 8), count * (2 if half else 4))):
            errors[name].append(said / case['allocated_bytes'] - 1)
    print('| %d runs, full | average | lowest | highest |\n| --- | ---: | ---: | ---: |' % len(cases))
    for name, e in errors.items():
        print('| %s | %.3f %% | %+.1f %% | %+.1f %% |' % (name, 100 * sum(map(abs, e)) / len(e), 100 * min(e), 100 * max(e)))


if __name__ == '__main__':
    main()
