#!/usr/bin/env python3
"""The smoke test of system 003: every variant of its guide, one after another, and what each holds.

    bench/variants.py [--small] [--steps 3] [--device cpu|cuda] [--set KEY=VALUE ..] [--json FILE] [VARIANT ..]

VARIANT: what its name begins with (baseline, bf16, A, B, C); without any all of them.

Each variant trains for a few steps (HEADROOM names the program, else build/headroom) and goes into a table: bytes of the
device and of the host and seconds that were planned, those that were measured (of the host: the most that was resident), and
what the guide claims. A variant fails that does not end, or holds 39 GiB or more. On a GPU at full size take
`--set data.source=synthetic --set data.scenes=null`: scenes are drawn by the processor. --small: frames and widths that a processor trains in seconds; the settings of memory are the same.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADROOM = os.environ.get('HEADROOM', os.path.join(ROOT, 'build', 'headroom'))
MOST = 39 * 2**30
BASELINE = ['model.precision=32-true', 'memory.checkpoint=none', 'memory.offload.optimizer=device', 'training.optimizer.kind=adamw',
            'training.batch_size=1', 'training.gradient_accumulation=8']  # one sample at a time: half of what two take
BF16 = ['memory.offload.optimizer=device', 'training.optimizer.kind=adamw']
# variant, recipe, settings, the guide: GB on the GPU, speed
VARIANTS = [('baseline, f32', '003-a.yaml', BASELINE, '65+', 1.0), ('bf16, checkpointing', '003-a.yaml', BF16, '45-50', 0.8),
            ('A: optimizer on the host', '003-a.yaml', [], '30-35', 0.7),
            ('B: under budgets', '003-b.yaml', [], '35-39', 0.6), ('C: NF4 and adapters', '003-c.yaml', [], '25-30', 0.5)]
SMALL = ['model.config.frames=4', 'model.config.frame_height=32', 'model.config.frame_width=48',
         'model.parts.video.config.width=8', 'model.parts.backbone.config.channel_multiplier=0.1',
         'model.parts.fusion.config.width=64', 'data.scenes.samples=64']


def ask(command, settings):
    """What the program answers as JSON, and the bytes of the host that were resident at most; or what it said instead."""
    for setting in settings:
        command += ['--set', setting]
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as said:
        process = subprocess.Popen([HEADROOM, *command, '--json', '--quiet'], stdout=out, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), said.seek(0)
        text, words = out.read(), said.read()
    try:
        answer = json.loads(text)
    except ValueError:
        return None, 0, (words or text).strip()
    if process.returncode != 0:
        return None, 0, json.dumps(answer.get('error', answer))
    return answer, usage.ru_maxrss * 1024, ''


def run(recipe, settings, steps, folder):
    """One variant, as `headroom train --json` answers, with bytes of the host; or what it said instead."""
    path = os.path.join(ROOT, 'recipes', recipe)
    settings = settings + [f'training.eval_every={steps}', 'training.eval_batches=1']
    plan, _, said = ask(['plan', path], settings)
    if plan is None:
        return None, said
    answer, resident, said = ask(['train', path, '--steps', str(steps), '--out', folder], settings)
    if answer is None:
        return None, said
    answer['planned']['host_bytes'], answer['measured']['host_bytes'] = plan['host']['peak_bytes'], resident
    return answer, ''


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument('--small', action='store_true')
    arguments.add_argument('--steps', type=int, default=3)
    arguments.add_argument('--device', choices=('cpu', 'cuda'), default='cpu')
    arguments.add_argument('--set', action='append', default=[], metavar='KEY=VALUE')
    arguments.add_argument('--json', metavar='FILE')
    arguments.add_argument('variants', nargs='*', metavar='VARIANT')
    given = arguments.parse_args()
    chosen = [it for it in VARIANTS if not given.variants or any(it[0].startswith(begin) for begin in given.variants)]
    common = (SMALL if given.small else []) + [f'memory.device={given.device}'] + given.set
    failed, rows = [], []
    gib = lambda count: f'{count / 2**30:.2f} GiB'
    print(f'{"variant":26} {"planned":>10} {"measured":>10} {"host":>10} {"measured":>10} {"planned":>9} {"measured":>9} {"a second":>9} '
          f'{"speed":>6}   the guide', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, recipe, settings, claim, speed) in enumerate(chosen):
            answer, said = run(recipe, settings + common, given.steps, os.path.join(folder, str(number)))
            if answer is None:
                failed.append(f'{name}: {said}')
                print(f'{name:26} failed: {said}', flush=True)
                continue
            planned, measured = answer['planned'], answer['measured']
            samples = answer['samples_per_second']
            rows.append({'variant': name, 'planned': planned, 'measured': measured, 'samples_per_second': samples})
            if measured['peak_bytes'] >= MOST:
                failed.append(f'{name}: {gib(measured["peak_bytes"])}, 39 GiB or more')
            times = samples / rows[0]['samples_per_second']
            print(f'{name:26} {gib(planned["peak_bytes"]):>10} {gib(measured["peak_bytes"]):>10} '
                  f'{gib(planned["host_bytes"]):>10} {gib(measured["host_bytes"]):>10} '
                  f'{planned["step_seconds"] * 1e3:6.0f} ms {measured["step_seconds"] * 1e3:6.0f} ms {samples:9.2f} {times:5.2f}x   '
                  f'{claim} GB, {speed}x', flush=True)
    if given.json:
        with open(given.json, 'w', encoding='utf-8') as file:
            json.dump(rows, file, indent=1)
    print('\n'.join(failed) if failed else f'all {len(rows)} below 39 GiB')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
