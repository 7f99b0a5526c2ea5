#!/usr/bin/env python3
"""What the allocator recorded on a GPU as a test of the one that replays it (test/torch/recorded).

  bench/torch_measured/model_runs.py --measure --history -o measured.jsonl --folder OUT
  bench/torch_measured/recorded.py measured.jsonl OUT -o test/torch/recorded [--most BYTES]

A file has the events of a run without names, what was reserved wherever it changed, and the peak of what was allocated.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
from traced import snapshot
from traced.format import ALLOCATE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('measured')
    parser.add_argument('folder')
    parser.add_argument('-o', '--out', required=True)
    parser.add_argument('--most', type=int, default=1 << 30, help='bytes of a file; larger ones are left out')
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with open(options.measured) as file:
        rows = [row for row in map(json.loads, file) if 'allocated_bytes' in row]
    for row in rows:
        name = row.get('name') or '%s-%d' % (row['model'], row['batch'])
        path = os.path.join(options.folder, name + '.pickle')
        if not os.path.exists(path):
            continue
        trace = snapshot.document(path)
        if 'reserved' not in trace:
            print('%s: memory was taken before recording began' % name)
            continue
        events = [[ALLOCATE, e[1], 0, 0, 0] + e[5:] if e[0] == ALLOCATE else e for e in trace['events']]
        trace.update(names=[''], events=events, allocated_bytes=row['allocated_bytes'], source='recorded on an H200: ' + name)
        text = json.dumps(trace, separators=(',', ':'))
        print('%s: %d events, %d bytes' % (name, len(events), len(text)))
        if len(text) <= options.most:
            with open(os.path.join(options.out, name + '.json'), 'w') as file:
                file.write(text + '\n')


if __name__ == '__main__':
    main()
