#!/usr/bin/env python3
"""Runs settings on a GPU, several side by side, each in a process of its own.

  bench/torch_measured/run.py settings.jsonl -o measured.jsonl [--within 240] [--jobs 10]

A line of settings.jsonl: {"name", "setting", "driver_bytes": what it is expected to take, "history": whether what the allocator does is
recorded, "limit_bytes": what PyTorch may reserve, "steps"}. Libraries are imported once; each run is a fork of that process, which has not touched the GPU. What a run held is
written as soon as it is known; runs that do not begin within the time are left out.
"""
import argparse
import json
import os
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'tools'))

GIB = 1 << 30


def import_all():
    """Everything a run needs, without the GPU: a process that has touched it cannot be forked. bitsandbytes asks for its kind."""
    os.environ.setdefault('PYTORCH_NVML_BASED_CUDA_CHECK', '1')
    import torch
    asked = 'is_available', 'device_count', 'get_device_capability'
    kept = {name: getattr(torch.cuda, name) for name in asked}
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1
    torch.cuda.get_device_capability = lambda *device: (9, 0)
    try:
        import bitsandbytes
        import peft
        from transformers import (BertForMaskedLM, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
                                  Qwen3ForCausalLM)
        import checked.measure
    finally:
        for name, function in kept.items():
            setattr(torch.cuda, name, function)
    assert not torch.cuda.is_initialized()
    torch.set_num_threads(1)


def child(case, steps, folder):
    """One run, in a process of its own; never returns."""
    from checked import measure
    row, begun = {'name': case['name']}, time.time()
    try:
        import torch
        torch.manual_seed(0)
        if 'limit_bytes' in case:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(case['limit_bytes'] / total)
        history = os.path.join(folder, case['name'] + '.pickle') if case.get('history') else None
        row.update(measure.measured(case['setting'], case.get('steps', steps), history))
    except BaseException as error:  # noted: others go on
        row['failed'] = '%s: %s' % (type(error).__name__, str(error)[:300])
        row['where'] = traceback.format_exc()[-900:]
    row['seconds'] = round(time.time() - begun, 2)
    with open(os.path.join(folder, '%d.row' % os.getpid()), 'w') as file:
        file.write(json.dumps(row))
    os._exit(0)


class Runs:
    def __init__(self, options, out):
        self.options, self.out, self.live, self.begun = options, out, {}, time.time()

    def wait(self):
        """One run ends, or time passes; one that takes too long is ended."""
        for pid in list(self.live):
            case, begun = self.live[pid]
            if time.time() - begun > self.options.limit:
                os.kill(pid, signal.SIGKILL)
            done, _ = os.waitpid(pid, os.WNOHANG)
            if done:
                del self.live[pid]
                self.note(pid, case)
        time.sleep(0.02)

    def note(self, pid, case):
        path = os.path.join(self.options.folder, '%d.row' % pid)
        row = {'name': case['name'], 'failed': 'it ended without a word'}
        if os.path.exists(path):
            with open(path) as file:
                row = json.loads(file.read())
            os.unlink(path)
        row['at'] = round(time.time() - self.begun, 1)
        self.out.write(json.dumps(row) + '\n')
        self.out.flush()

    def room(self, case):
        taken = sum(c['driver_bytes'] for c, _ in self.live.values())
        return len(self.live) < self.options.jobs and (not self.live or taken + case['driver_bytes'] <= self.options.card * GIB)

    def go(self, waiting):
        while waiting and time.time() - self.begun < self.options.within:
            case = next((c for c in waiting if self.room(c)), None)
            if case is None:
                self.wait()
                continue
            waiting.remove(case)
            pid = os.fork()
            if pid == 0:
                child(case, self.options.steps, self.options.folder)
            self.live[pid] = case, time.time()
        while self.live:
            self.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('settings')
    parser.add_argument('-o', '--out', default='measured.jsonl')
    parser.add_argument('--folder', default='.', help='for what the allocator recorded')
    parser.add_argument('--within', type=float, default=1e9, help='no run begins after so many seconds')
    parser.add_argument('--limit', type=float, default=120, help='seconds that a run may take')
    parser.add_argument('--jobs', type=int, default=10, help='runs side by side')
    parser.add_argument('--card', type=float, default=132, help='GiB that they may take together')
    parser.add_argument('--steps', type=int, default=6)
    options = parser.parse_args()
    with open(options.settings) as file:
        cases = [json.loads(line) for line in file]
    begun = time.time()
    import_all()
    from checked import measure
    with open(options.out, 'a') as out:
        out.write(json.dumps({'versions': measure.versions(), 'import_seconds': round(time.time() - begun, 1)}) + '\n')
        Runs(options, out).go(cases)


if __name__ == '__main__':
    main()
