#!/usr/bin/env python3
"""Two programs on one GPU in one run, alternating: how long a step takes with each, as a ratio.

  bench/two_programs.py BEFORE AFTER [--rounds N] [--only SETTING]

Full training and LoRA of the 1B shape of recipes/llama-3.2-1b.yaml, on synthetic data. The fastest half of all rounds
counts: what disturbs a machine makes steps longer, never shorter.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

SETTINGS = {
    'full, bf16-true': ['model.precision=bf16-true', 'training.batch_size=8'],
    'full, bf16-mixed': ['model.precision=bf16-mixed', 'training.batch_size=8'],
    'full, recomputed': ['model.precision=bf16-mixed', 'training.batch_size=8', 'memory.checkpoint=every-layer'],
    'lora': ['model.precision=bf16-true', 'training.batch_size=8', 'model.adapters.rank=16',
             'model.adapters.alpha=32', 'model.adapters.targets=[q_proj, k_proj, v_proj, o_proj]'],
    'lora, parameters in part on the host': [
        'model.precision=bf16-true', 'training.batch_size=4', 'model.adapters.rank=16', 'model.adapters.alpha=32',
        'model.adapters.targets=[q_proj, k_proj, v_proj, o_proj]', 'memory.checkpoint=every-layer',
        'memory.offload.parameters=auto', 'memory.budget=3GiB'],
    'qlora': ['model.precision=bf16-mixed', 'training.batch_size=8', 'model.quantize={kind: nf4}', 'model.adapters.rank=16',
              'model.adapters.alpha=32', 'model.adapters.targets=[q_proj, k_proj, v_proj, o_proj]'],
}


def tokens_per_second(program, settings, steps):
    with tempfile.TemporaryDirectory() as out:
        command = [program, 'train', 'recipes/llama-3.2-1b.yaml', '--out', out, '--json', '--quiet',
                   '--set', 'memory.device=cuda', '--set', 'memory.budget=100GiB', '--set', f'training.steps={steps}',
                   '--set', 'training.schedule.warmup_steps=2']
        for setting in settings:
            command += ['--set', setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}')
    return json.loads(done.stdout.splitlines()[-1] if done.stdout.count('\n') < 2 else done.stdout)['tokens_per_second']


def fastest_half(values):
    return statistics.median(sorted(values, reverse=True)[:(len(values) + 1) // 2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('before')
    parser.add_argument('after')
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--only', default='', help='a part of the names of settings')
    arguments = parser.parse_args()
    for name, settings in SETTINGS.items():
        if arguments.only not in name:
            continue
        seen = {arguments.before: [], arguments.after: []}
        for turn in range(arguments.rounds):
            order = [arguments.before, arguments.after]
            for program in order if turn % 2 == 0 else order[::-1]:
                seen[program].append(tokens_per_second(program, settings, arguments.steps))
        before, after = fastest_half(seen[arguments.before]), fastest_half(seen[arguments.after])
        print(f'{name}: {before:.0f} -> {after:.0f} tokens/s, a step takes {before / after:.4f} of before', flush=True)


if __name__ == '__main__':
    main()
