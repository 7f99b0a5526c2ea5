#!/usr/bin/env python3
"""What was measured as cases of a test, beside those that are there already: bench/torch_measured/keep.py SETTINGS MEASURED... -o test/torch/h200.json"""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'torch_oracle'))

from settings import recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('settings')
    parser.add_argument('measured', nargs='+')
    parser.add_argument('-o', '--out', required=True)
    options = parser.parse_args()
    with open(options.settings) as file:
        settings = {case['name']: case for case in map(json.loads, file)}
    versions, cases = {}, []
    if os.path.exists(options.out):
        with open(options.out) as file:
            cases = json.load(file)['cases']
    known = {case['name'] for case in cases}
    for path in options.measured:
        with open(path) as file:
            for row in map(json.loads, file):
                versions.update(row.get('versions', {}))
                if 'name' not in row or 'failed' in row or row['name'] in known:
                    continue
                case = settings[row['name']]
                cases.append({'name': row['name'], 'held_out': case['held_out'], 'step_ms': row['step_ms'], 'recipe': recipe(case['setting']),
                              **{key: row[key] for key in ('allocated_bytes', 'reserved_bytes', 'driver_bytes')}})
    cases.sort(key=lambda case: case['name'])
    head = {'format': 'headroom torch h200 1', 'device': 'NVIDIA H200, driver 580.159.04', 'versions': versions,
            'about': 'Peaks of six training steps, each run in a process of its own beside others: torch.cuda.max_memory_allocated, max_memory_reserved, '
                     'and what NVML shows of the process. held_out: by a hash of the setting, before anything ran (bench/torch_measured).'}
    with open(options.out, 'w') as out:
        out.write('%s, "cases": [\n%s\n]}\n' % (json.dumps(head)[:-1], ',\n'.join(json.dumps(case) for case in cases)))
    print('%d cases, %d held out' % (len(cases), sum(case['held_out'] for case in cases)))


if __name__ == '__main__':
    main()
