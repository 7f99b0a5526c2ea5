#!/usr/bin/env python3
"""Whether batch sizes that headroom chooses for PyTorch run, and larger ones do not: 12 budgets of 8 to 80 GiB, full, LoRA and QLoRA.

  bench/torch_measured/budgets.py -o budgets.jsonl                    # asks headroom: no GPU
  bench/torch_measured/run.py budgets.jsonl -o ran.jsonl              # on a GPU
  bench/torch_measured/budgets.py --report budgets.jsonl ran.jsonl

A budget is what the driver may show. PyTorch is held to it with set_per_process_memory_fraction: the budget without the context. The
batch that is chosen runs for 20 steps. The next larger one (x 1.25, rounded up) should run out; where it does not, because PyTorch gives
back what it has cached before it gives up, it should take more than the budget when it is not held to it.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'torch_oracle'))

GIB = 1 << 30
BUDGETS = [8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 56, 80]
MODELS = {'full': 'smollm-0.1b', 'lora': 'qwen2-0.5b', 'qlora': 'qwen2-0.5b'}


def largest(program, setting, budget):
    """The largest batch that headroom says fits."""
    from settings import recipe
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        json.dump(recipe(setting), file)
        file.flush()
        done = subprocess.run([program, 'plan', file.name, '--json', '--gpu-memory', '%dGiB' % budget, '--largest', 'batch'],
                              capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout[:500])
    return json.loads(done.stdout)['value']


def choose(options):
    import importlib.util
    spec = importlib.util.spec_from_file_location('shapes', os.path.join(HERE, 'settings.py'))
    shapes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shapes)
    cases = []
    for method, shape in MODELS.items():
        family, config = shapes.SHAPES[shape]
        for budget in BUDGETS:
            setting = {'family': family, 'config': config, 'method': method, 'precision': 'bf16', 'batch': 1, 'tokens': 512, 'attention': 'sdpa',
                       'checkpoint': 'none', 'optimizer': 'adamw_fused', 'weight_decay': 0.01, 'clip': True, 'accumulation': 1, 'padded': False,
                       'gpu': 'H200'}
            if method != 'full':
                setting.update(rank=16, dropout=0.0)
            batch = largest(options.program, setting, budget)
            more = math.ceil(1.25 * batch)
            for which, size, steps in ('chosen', batch, 20), ('larger', more, 20), ('free', more, 3):
                said = shapes.plan(options.program, dict(setting, batch=size))['torch']
                case = {'name': '%s-%02d-%s' % (method, budget, which), 'setting': dict(setting, batch=size), 'steps': steps,
                        'budget_bytes': budget * GIB, 'driver_bytes': budget * GIB, 'planned_bytes': said['driver_bytes']}
                if which == 'free':
                    case['driver_bytes'] = said['driver_bytes'] * 21 // 20
                else:
                    case['limit_bytes'] = budget * GIB - said['context_bytes']
                cases.append(case)
    cases.sort(key=lambda c: -c['budget_bytes'])
    with open(options.out, 'w') as out:
        for case in cases:
            out.write(json.dumps(case) + '\n')


def report(planned, ran):
    with open(planned) as file:
        cases = {c['name']: c for c in map(json.loads, file)}
    with open(ran) as file:
        rows = {r['name']: r for r in map(json.loads, file) if 'name' in r}
    mib = lambda row: row['failed'].split(':')[0] if 'failed' in row else '%.0f' % (row['driver_bytes'] / (1 << 20))
    print('| method | budget, GiB | batch | planned, MiB | driver showed | larger batch | held to the budget | planned | not held |\n' + '| --- ' * 9 + '|')
    for method in MODELS:
        good = out = over = 0
        for budget in BUDGETS:
            names = ['%s-%02d-%s' % (method, budget, which) for which in ('chosen', 'larger', 'free')]
            chosen, larger, free = (rows.get(name, {'failed': 'not run'}) for name in names)
            good += 'failed' not in chosen and chosen['driver_bytes'] <= budget * GIB
            runs_out = larger.get('failed', '').startswith('OutOfMemoryError')
            out += runs_out
            over += runs_out or free.get('driver_bytes', 0) > budget * GIB
            planned_mib = ['%.0f' % (cases[name]['planned_bytes'] / (1 << 20)) for name in names]
            print('| %s | %d | %d | %s | %s | %d | %s | %s | %s |' % (
                method, budget, cases[names[0]]['setting']['batch'], planned_mib[0], mib(chosen), cases[names[1]]['setting']['batch'], mib(larger),
                planned_mib[2], mib(free)))
        print('%s: %d of %d run within the budget; of the larger ones %d run out, %d run out or take more than the budget' % (
            method, good, len(BUDGETS), out, over))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-o', '--out', default='budgets.jsonl')
    parser.add_argument('--report', nargs=2, metavar='FILE')
    parser.add_argument('--program', default=os.path.join(ROOT, 'build', 'headroom'))
    options = parser.parse_args()
    if options.report:
        report(*options.report)
    else:
        choose(options)


if __name__ == '__main__':
    main()
