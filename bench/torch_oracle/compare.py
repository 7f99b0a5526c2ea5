#!/usr/bin/env python3
"""`headroom plan --engine pytorch` against the public Python code, on random settings.

  nice bench/torch_oracle/compare.py --count 1000 -o errors.jsonl        # Python with torch, transformers, peft, bitsandbytes; no GPU
  bench/torch_oracle/compare.py --report errors.jsonl
  bench/torch_oracle/compare.py --excerpt errors.jsonl --rows 64,82,83,144 -o test/torch/drawn.json    # what tests keep: some rows,
  bench/torch_oracle/compare.py --excerpt errors.jsonl --sample 100 -o test/torch/oracle.json          # and a random sample

Each setting is run for six steps by transformers, PEFT, bitsandbytes and torch themselves on tensors without contents (tools/torch_trace.py), and its
events go through an allocator written apart from headroom's (allocator.py); the same setting is planned as a recipe. A third is held
out by a hash of the setting (settings.py): --report shows of those the sums alone. A file that is there is gone on with.
"""
import argparse
import importlib.metadata
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)

import settings


def planned(program, setting):
    """(allocated, reserved) as headroom says; a text where it refuses."""
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        json.dump(settings.recipe(setting), file)
        file.flush()
        done = subprocess.run([program, 'plan', file.name, '--json'], capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: it does not fit, which is an answer
        return json.loads(done.stdout)['error']['message'] if done.stdout else done.stderr.strip()
    torch = json.loads(done.stdout)['torch']
    return torch['allocated_bytes'], torch['reserved_bytes']


def traced(setting):
    import allocator
    import runs
    return allocator.peaks(*runs.traced(setting))[0]


def apart(setting):
    """In a process of its own: what DeepSpeed's engine leaves behind would be in the next trace."""
    with multiprocessing.get_context('fork').Pool(1) as pool:
        return pool.apply(traced, (setting,))


def compare(options):
    import runs  # once for all
    assert runs
    have = set()
    if os.path.exists(options.out):
        with open(options.out) as file:
            have = {json.loads(line)['number'] for line in file}
    with open(options.out, 'a') as out:
        for number, (setting, held_out) in enumerate(settings.drawn(options.count, options.seed, options.evaluated, options.zero)):
            if number in have or number % options.parts != options.part:
                continue
            begin = time.process_time()
            row = {'number': number, 'held_out': held_out, 'setting': setting}
            try:
                row['traced'] = (apart if options.zero else traced)(setting)
            except Exception as error:  # noted, and the next one goes on
                row['failed'] = '%s: %s' % (type(error).__name__, str(error)[:500])
            row['seconds'] = round(time.process_time() - begin, 2)
            row['planned'] = planned(options.program, setting)
            out.write(json.dumps(row) + '\n')
            out.flush()


def again(options):
    """Plans anew what was traced."""
    with open(options.again) as file:
        rows = [json.loads(line) for line in file]
    with open(options.again, 'w') as out:
        for row in rows:
            row['planned'] = planned(options.program, row['setting'])
            out.write(json.dumps(row) + '\n')


def errors_of(rows, which):
    return [abs(row['planned'][which] / row['traced'][which] - 1) for row in rows]


def report(path, worst):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    good = [r for r in rows if 'traced' in r and isinstance(r['planned'], list)]
    print('%d settings, %d not traced, %d refused; %.0f s of tracing' % (
        len(rows), sum('failed' in r for r in rows), sum(isinstance(r['planned'], str) for r in rows), sum(r['seconds'] for r in rows)))
    for held_out in False, True:
        part = [r for r in good if r['held_out'] == held_out]
        if not part:
            continue
        print('| %d %s |' % (len(part), 'held out' if held_out else 'that could be looked at'), end='')
        for which in 0, 1:
            errors = errors_of(part, which)
            print(' %.3f %% | %.3f %% |' % (100 * sum(errors) / len(errors), 100 * max(errors)), end='')
        print()
    seen = [r for r in good if not r['held_out']]
    for row in sorted(seen, key=lambda r: -max(errors_of([r], 0) + errors_of([r], 1)))[:worst]:
        print('%+.3f %% %+.3f %% %d %s' % (*(100 * (row['planned'][i] / row['traced'][i] - 1) for i in (0, 1)), row['number'], json.dumps(row['setting'])))
    for row in [r for r in rows if not r['held_out'] and ('failed' in r or isinstance(r['planned'], str))][:worst]:
        print(row['number'], row.get('failed'), row['planned'], json.dumps(row['setting']))


def excerpt(path, numbers, sample, out):
    """Recipes of rows with the peaks that were traced, for test/job/test_engine.c: the ones named, of which none may be held out, or
    a random sample of all."""
    with open(path) as file:
        rows = {row['number']: row for row in map(json.loads, file)}
    if sample:
        fit = [n for n, row in rows.items() if 'traced' in row and isinstance(row['planned'], list)]
        numbers = sorted(random.Random(1).sample(fit, sample))
    elif any(rows[n]['held_out'] for n in numbers):
        sys.exit('a setting that is held out is not to be looked at')
    cases = [{'number': n, 'held_out': rows[n]['held_out'], 'allocated_bytes': rows[n]['traced'][0],
              'reserved_bytes': rows[n]['traced'][1], 'gpu': rows[n]['setting']['gpu'],
              'recipe': settings.recipe(rows[n]['setting'])} for n in numbers]
    names = ['torch', 'transformers', 'peft', 'bitsandbytes'] + ['deepspeed'] * any('zero' in rows[n]['setting'] for n in numbers)
    versions = {name: importlib.metadata.version(name) for name in names}
    with open(out, 'w') as file:
        file.write('{"format": "headroom torch drawn 1", "versions": %s, "cases": [\n%s\n]}\n' % (
            json.dumps(versions), ',\n'.join(json.dumps(case, separators=(',', ':')) for case in cases)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--count', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--evaluated', action='store_true', help='with an evaluation behind every step')
    parser.add_argument('--zero', action='store_true', help='under DeepSpeed, whose package is needed then')
    parser.add_argument('-o', '--out', default='errors.jsonl')
    parser.add_argument('--parts', type=int, default=1, help='of so many that run at once, each with a file of its own')
    parser.add_argument('--part', type=int, default=0, help='the number of this one')
    parser.add_argument('--program', default=os.path.join(ROOT, 'build', 'headroom'))
    parser.add_argument('--report', metavar='FILE', help='sums of a file, and the worst that may be looked at')
    parser.add_argument('--again', metavar='FILE', help='plan the settings of a file anew, and keep what was traced')
    parser.add_argument('--excerpt', metavar='FILE', help='write rows of a file (--rows) as cases of a test to --out')
    parser.add_argument('--sample', metavar='N', type=int, help='so many rows at random')
    parser.add_argument('--rows', metavar='NUMBERS', type=lambda text: [int(n) for n in text.split(',')])
    parser.add_argument('--worst', type=int, default=10)
    options = parser.parse_args()
    if options.excerpt:
        return excerpt(options.excerpt, options.rows, options.sample, options.out)
    if options.again:
        again(options)
    if options.report:
        report(options.report, options.worst)
    elif not options.again:
        compare(options)


if __name__ == '__main__':
    main()
