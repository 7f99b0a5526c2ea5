#!/usr/bin/env python3
"""Training on text that is packed, against random tokens of the same shape, in one run, alternating.

  bench/real_text.py HEADROOM [--rounds N] [--steps N] [--device cuda|cpu] [--set KEY=VALUE]...

Conversations of many lengths are written as JSON lines, tokenized (by a small vocabulary of the tests: that does not change the work of a step) and packed
with borders that attention respects. LoRA of the 1B shape, whose checkpoints are small. Prints the ratio of seconds of a step: what reading, packing and borders cost.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECIPE = os.path.join(ROOT, 'recipes', 'llama-3.2-1b.yaml')
TOKENIZER = os.path.join(ROOT, 'test', 'text', 'tokenizers', 'byte-level')
WORDS = ('memory plan step batch layer weight gradient loss token text model train device host disk budget the of and to in a is that it '
         'for with as on be by at this from or one have an not are but what all were when we there can more').split()


def rows_write(path, count):
    """Rows of 20 to 4,000 characters, most of them short, as conversations are."""
    draw = random.Random(7)
    with open(path, 'w', encoding='utf-8') as file:
        for _ in range(count):
            words = int(min(700, 5 + draw.expovariate(1 / 90)))
            file.write(json.dumps({'prompt': ' '.join(draw.choices(WORDS, k=8)) + '? ',
                                   'completion': ' '.join(draw.choices(WORDS, k=words))}) + '\n')


def train(headroom, device, steps, settings):
    with tempfile.TemporaryDirectory() as out:
        command = [headroom, 'train', RECIPE, '--out', out, '--json', '--quiet', '--set', f'memory.device={device}',
                   '--set', f'training.steps={steps}', '--set', 'training.schedule.warmup_steps=2', '--set', 'memory.budget=100GiB',
                   '--set', 'model.precision=bf16-mixed', '--set', 'training.batch_size=8', '--set', 'model.adapters.rank=16',
                   '--set', 'model.adapters.targets=all-linear']
        for setting in settings:
            command += ['--set', setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
    return json.loads(done.stdout)['samples_per_second']


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('headroom')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--rows', type=int, default=20000)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--set', action='append', default=[])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'rows.jsonl')
        rows_write(path, asked.rows)
        rows = [f'data.path={path}', 'data.source=rows', f'data.tokenizer={TOKENIZER}', 'data.loss=all']
        kinds = {'random tokens': ['data.source=synthetic'], 'rows, packed': rows + ['data.packing=true']}
        seen = {name: [] for name in kinds}
        for _ in range(asked.rounds):
            for name, settings in kinds.items():
                seen[name].append(train(asked.headroom, asked.device, asked.steps, settings + asked.set))
    rates = {name: statistics.median(sorted(values, reverse=True)[:(len(values) + 1) // 2]) for name, values in seen.items()}
    for name, rate in rates.items():
        print(f'{name}: {rate:.2f} samples/s')
    print(f"a step on packed text takes {rates['random tokens'] / rates['rows, packed']:.4f} of one on random tokens")


if __name__ == '__main__':
    main()
