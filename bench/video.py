#!/usr/bin/env python3
"""How reading keeps up with steps in source video (docs/systems/001.md): what decoding takes, what a start takes once frames
(and features) are in the cache folder, and steps that read them beside steps on made-up samples of the same shape.

    bench/video.py HEADROOM [FILM]

FILM: any that FFmpeg decodes; without one, 20 s of uncompressed 640 x 360. Decoding is told in seconds of the processor, steps by the
fastest of a round, the rounds in turns: other work on the machine has less part in them.
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPE = os.path.join(HERE, '..', 'recipes', '001-small.yaml')
VIDEOS, SECONDS, FPS, SIDE, STEPS, ROUNDS = 4, 20, 3, 64, 8, 3
COMMON = ['data.video.made=null', f'data.video.fps={FPS}', f'data.video.height={SIDE}', f'data.video.width={SIDE}', 'data.max_frames=32',
          'data.sequence_length=40', 'model.parts.llm.config.max_position_embeddings=64', 'model.parts.visual.train=none',
          'model.parts.visual.config.batch_norm=eval', 'training.batch_size=4', 'training.eval_every=null', 'memory.budget=1GiB']


def film_make(path):
    width, height = 640, 360
    frame = os.urandom(width * height * 3 // 2)
    with open(path, 'wb') as file:
        file.write(b'YUV4MPEG2 W%d H%d F%d:1 Ip A1:1 C420\n' % (width, height, 2 * FPS))
        for i in range(SECONDS * 2 * FPS):
            file.write(b'FRAME\n' + frame[i * 1000:] + frame[:i * 1000])


def train(program, folder, cache, name, settings, steps=STEPS):
    """Seconds of the processor, and the fewest of a step by the clock."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out = os.path.join(folder, name)
    words = [program, 'train', RECIPE, '--out', out, '--steps', str(steps), '--json', '--quiet']
    for setting in [*COMMON, *settings]:
        words += ['--set', setting]
    done = subprocess.run(words, stdout=subprocess.PIPE, env={**os.environ, 'XDG_CACHE_HOME': cache}, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout.decode())
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    shutil.rmtree(out)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, min(line['seconds'] for line in lines if 'loss' in line)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        data, cache = os.path.join(folder, 'data'), os.path.join(folder, 'cache')
        os.makedirs(data)
        rows = []
        for i in range(VIDEOS):  # each of its own
            film = os.path.join(data, f'{i}.film')
            if len(sys.argv) <= 2:
                film_make(film)
            else:
                with open(sys.argv[2], 'rb') as given, open(film, 'wb') as file:
                    file.write(given.read() + bytes([i]))
            rows += [{'video': f'{i}.film', 'start_time': 1, 'end_time': SECONDS - 1, 'caption': 'a small red shape appears'}] * 4
        with open(os.path.join(data, 'captions.json'), 'w', encoding='utf-8') as file:
            json.dump(rows, file)
        own = [f'data.path={data}']
        first, _ = train(program, folder, cache, 'first', [*own, 'data.workers=1'], 1)
        names = os.listdir(os.path.join(cache, 'headroom'))
        frames = sum(os.path.getsize(os.path.join(cache, 'headroom', name)) for name in names) // (SIDE * SIDE * 3 + 4)
        again, _ = train(program, folder, cache, 'again', [*own, 'data.workers=1'], 1)
        print(f'{len(names)} videos, {frames} frames of {SIDE} x {SIDE}: {1000 * (first - again) / frames:.2f} ms of the processor to decode one')
        for what, more in (('frames', []), ('features', ['data.cache_features=true'])):
            steps = {}
            for _ in range(ROUNDS):
                for name, settings in (('made up', ['data.source=synthetic', 'data.workers=1']), ('no thread that reads', [*own, 'data.workers=0']),
                                       ('one thread that reads', [*own, 'data.workers=1'])):
                    _, step = train(program, folder, cache, 'run', [*settings, *more])
                    steps[name] = min(step, steps.get(name, step))
            shown = ', '.join(f'{name} {1000 * step:.2f} ms' for name, step in steps.items())
            print(f"{what}: {shown}: ratio {steps['one thread that reads'] / steps['made up']:.3f}")


main()
