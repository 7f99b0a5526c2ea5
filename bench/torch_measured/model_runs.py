#!/usr/bin/env python3
"""models.py on a GPU (--measure), or traced without one (--trace): a fork for each model and batch size.

  bench/torch_measured/model_runs.py --measure -o measured.jsonl --folder OUT [--history]
  bench/torch_measured/model_runs.py --trace --folder OUT [--jobs 8]
  bench/torch_measured/model_runs.py --report measured.jsonl --folder OUT      # both side by side
"""
import argparse
import importlib
import json
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', '..', 'tools')]


def measure(model, batch, history):
    import torch
    from checked.measure import driver_bytes
    if history:
        torch.cuda.memory._record_memory_history(context=None, max_entries=2000000)
    step = model(batch)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    if history:
        torch.cuda.memory._dump_snapshot(history)
    return {'allocated_bytes': torch.cuda.max_memory_allocated(), 'reserved_bytes': torch.cuda.max_memory_reserved(), 'driver_bytes': driver_bytes()}


def trace(model, batch, path):
    from torch_trace import headroom_trace
    with headroom_trace(path, batch) as tracer:
        step = model(batch)
        for _ in range(5):
            tracer.next_step()
            step()
    return {'events': len(tracer.events)}


def child(model, batch, options):
    name = '%s-%d' % (model.__name__, batch)
    row = {'model': model.__name__, 'batch': batch}
    begun = time.process_time()
    try:
        if options.trace:
            row.update(trace(model, batch, os.path.join(options.folder, name + '.json')))
        else:
            row.update(measure(model, batch, os.path.join(options.folder, name + '.pickle') if options.history else None))
    except BaseException as error:
        row['failed'] = '%s: %s' % (type(error).__name__, str(error)[:300])
        row['where'] = traceback.format_exc()[-700:]
    row['cpu_seconds'] = round(time.process_time() - begun, 1)
    with open(os.path.join(options.folder, name + '.row'), 'w') as file:
        file.write(json.dumps(row) + '\n')
    os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--measure', action='store_true')
    parser.add_argument('--trace', action='store_true')
    parser.add_argument('--report', metavar='MEASURED', help='compare with the traces in the folder')
    parser.add_argument('--history', action='store_true', help='keep what the allocator recorded')
    parser.add_argument('--models', default='models', help='the file that has them: models, or held_out')
    parser.add_argument('--only', help='models, by comma')
    parser.add_argument('--folder', default='.')
    parser.add_argument('--jobs', type=int, default=8)
    parser.add_argument('-o', '--out', default='models.jsonl')
    options = parser.parse_args()
    import torch
    import transformers
    models = importlib.import_module(options.models)
    torch.set_num_threads(1)
    assert transformers and not torch.cuda.is_initialized()  # children are forks
    if options.report:
        from report import report
        report(options.report, options.folder, models.BATCHES)
        return
    runs = [(model, batch) for at in range(3) for model, batches in models.BATCHES.items() for batch in batches[at:at + 1]
            if not options.only or model.__name__ in options.only.split(',')]
    live = {}
    with open(options.out, 'a') as out:
        while runs or live:
            while runs and len(live) < options.jobs:
                model, batch = runs.pop(0)
                pid = os.fork()
                if pid == 0:
                    child(model, batch, options)
                live[pid] = '%s-%d' % (model.__name__, batch)
            pid, _ = os.wait()
            path = os.path.join(options.folder, live.pop(pid) + '.row')
            if os.path.exists(path):
                with open(path) as file:
                    out.write(file.read())
                out.flush()
                os.unlink(path)


if __name__ == '__main__':
    main()
