#!/usr/bin/env python3
"""What may happen to a run from outside, at random moments: a limit of file sizes that falls below its checkpoints, a
disk that fills up (a small tmpfs, where one can be mounted), a terminal that is closed. Nothing that was saved is lost,
and the run ends with the weights of one that was left alone. And the limits of real control groups, with
HR_TEST_CGROUPS=1 by root. HR_TEST_STOPS sets the number of moments of each kind (default 8)."""
import contextlib
import json
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import time

from support import Folder, HEADROOM, TINY, check, finish, run

MOMENTS = int(os.environ.get('HR_TEST_STOPS', '8'))
STEPS = 60
RECIPE = TINY.replace('steps: 8', f'steps: {STEPS}\n  save_every: 6').replace('sequence_length: 16', 'sequence_length: 64')
CHANCE = random.Random(7)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(recipe, out, *more):
    return subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--resume', '--json', *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(child):
    text, errors = child.communicate(timeout=120)
    try:
        return child.returncode, json.loads(text), errors
    except ValueError:
        return child.returncode, {}, errors


def newest(out):
    """Step of the newest checkpoint with a manifest."""
    names = os.listdir(out) if os.path.isdir(out) else []
    return max([int(name[11:]) for name in names if name.startswith('generation-')
                and os.path.exists(os.path.join(out, name, 'manifest.json'))], default=0)


def undisturbed(recipe, folder):
    begin = time.monotonic()
    answer = run('train', recipe, '--out', os.path.join(folder, 'whole'), '--json').expect(0).json()
    seconds = time.monotonic() - begin
    shutil.rmtree(os.path.join(folder, 'whole'))
    return answer.get('weights_sha256'), seconds


def disturbed(name, recipe, out, seconds, sha, disturb):
    """Runs of which each is disturbed once, `disturb(child)` at a random moment, until there were MOMENTS of them."""
    went_on = stopped = 0
    for _ in range(MOMENTS):
        before = newest(out)
        child = start(recipe, out)
        time.sleep(CHANCE.random() * seconds)
        disturb(child)
        code, answer, errors = end(child)
        saved = newest(out)
        check(saved >= before, f'{name}: step {before} was saved, now {saved}')
        if code == 0:
            went_on += 1
            check(answer.get('weights_sha256') == sha, f'{name}: a run that went on has other weights')
            check(saved == STEPS, f'{name}: exit 0, but step {saved} is saved')
            shutil.rmtree(out)
            continue
        stopped += 1
        said = json.dumps(answer) + errors
        check(code == 1, f'{name}: exit {code}: {said[:500]}')
        check(saved == 0 or f'checkpoint of step {saved} is whole' in said, f'{name}: {saved} is not told: {said[:500]}')
    if os.path.isdir(out):
        answer = run('train', recipe, '--out', out, '--resume', '--json').expect(0).json()
        check(answer.get('weights_sha256') == sha, f'{name}: resumed, the weights differ')
        shutil.rmtree(out)
    print(f'{name}: {MOMENTS} moments, {went_on} times the run went on, {stopped} times it ended with 1')


# SIGXFSZ: the limit of file sizes falls below a checkpoint, and for half of the runs rises again later.
with Folder() as folder:
    recipe = folder.write('tiny.yaml', RECIPE)
    sha, seconds = undisturbed(recipe, folder.path)

    def ignores_it(child):
        """Whether the program has come as far as its own first lines; before them nothing is written."""
        with contextlib.suppress(OSError), open(f'/proc/{child.pid}/status', encoding='utf-8') as file:
            ignored = [line for line in file if line.startswith('SigIgn:')]
            return ignored and int(ignored[0].split()[1], 16) >> (signal.SIGXFSZ - 1) & 1
        return False

    def limit(child):
        while child.poll() is None and not ignores_it(child):
            time.sleep(0.001)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (CHANCE.randrange(1, 60000), resource.RLIM_INFINITY))
            child.send_signal(signal.SIGXFSZ)
            if CHANCE.random() < 0.5:
                time.sleep(CHANCE.random() * seconds / 2)
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    disturbed('limit of file sizes', recipe, os.path.join(folder.path, 'out'), seconds, sha, limit)

    # The whole story once, as a person sees it.
    out = os.path.join(folder.path, 'story')
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--set', 'training.save_every=1'],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while child.poll() is None and newest(out) == 0:
        time.sleep(0.002)
    if child.poll() is None:
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        _, errors = child.communicate()
        for part in ['warning: ', 'IS NOT SAVED', 'File too large', 'Training goes on', 'is whole', 'in 5 minutes',
                     'error: ', 'go on from it with --resume', out]:
            check(part in errors, f'no room: {part!r} is not in {errors[:2000]}')
        check(child.returncode == 1, f'no room for the last save: exit {child.returncode}')
    else:
        child.communicate()


@contextlib.contextmanager
def small_disk(size):
    """A tmpfs of so many bytes; None where this may not be mounted."""
    with Folder() as folder:
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'tmpfs', folder.path], check=False,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        try:
            yield folder.path if mounted else None
        finally:
            if mounted:
                subprocess.run(['umount', folder.path], check=True)


# A full disk: another program takes all that is left, and for half of the runs gives it back later.
with Folder() as folder, small_disk(2 << 20) as disk:
    if disk is None:
        print('full disk: nothing can be mounted here; train/test_stops and train/test_room have it without')
    else:
        recipe = folder.write('tiny.yaml', RECIPE)
        sha, seconds = undisturbed(recipe, folder.path)
        ballast = os.path.join(disk, 'ballast')

        def fill(_):
            with open(ballast, 'wb') as file, contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), b'x' * 4096)
            if CHANCE.random() < 0.5:
                time.sleep(CHANCE.random() * seconds / 2)
                os.remove(ballast)

        def fill_and_free(child):
            fill(child)
            child.wait()
            with contextlib.suppress(FileNotFoundError):
                os.remove(ballast)

        disturbed('full disk', recipe, os.path.join(disk, 'out'), seconds, sha, fill_and_free)
        fill_left = shutil.disk_usage(disk).free
        folder.write('x', '')
        with open(ballast, 'wb') as file:
            file.write(b'x' * (fill_left - (200 << 10)))
        result = run('train', recipe, '--out', os.path.join(disk, 'out'))
        result.expect(1, 'two checkpoints need', 'bytes', 'are free', '--out')
        check(not os.path.exists(os.path.join(disk, 'out')), 'a run without room has made its folder')

# Data that is another when a run goes on, and data that goes away while it runs.
with Folder() as folder:
    text = ''.join(chr(97 + n * n % 23) for n in range(20000))
    data = folder.write('text.txt', text)
    recipe = folder.write('text.yaml', RECIPE.replace('source: synthetic', 'source: text, path: text.txt'))
    sha, _ = undisturbed(recipe, folder.path)
    out = os.path.join(folder.path, 'out')
    run('train', recipe, '--out', out, '--steps', '20').expect(0)
    folder.write('text.txt', text.replace('b', 'c'))
    run('train', recipe, '--out', out, '--resume').expect(2, 'same length, but other bytes', data, '--accept-changed-data')
    other = os.path.join(folder.path, 'other')
    shutil.copytree(out, other)
    accepted = run('train', recipe, '--out', other, '--resume', '--accept-changed-data', '--json')
    accepted.expect(0, 'warning: the data has changed')
    check(accepted.json().get('weights_sha256') not in (None, sha), 'other data, the same weights')
    folder.write('text.txt', text)
    child = start(recipe, out, '--set', 'training.save_every=1000')
    log = os.path.join(out, 'log.jsonl')
    size = os.path.getsize(log)
    while child.poll() is None and os.path.getsize(log) < size + 300:
        time.sleep(0.001)
    os.truncate(data, 10)
    code, answer, errors = end(child)
    if code != 0:  # else it was quicker
        said = json.dumps(answer) + errors
        check(code == 5, f'data that goes away: exit {code} {said[:500]}')
        for part in ['became shorter while training', 'put the file back', f'step {newest(out)} is whole', '--resume', out]:
            check(part in said, f'data that goes away: {part!r} is not in {said[:800]}')
    folder.write('text.txt', text)
    answer = run('train', recipe, '--out', out, '--resume', '--json').expect(0).json()
    check(answer.get('weights_sha256') == sha, 'data that was put back: other weights')

# A closed terminal: the kernel sends SIGHUP, and nothing can be shown any more.
with Folder() as folder:
    recipe = folder.write('tiny.yaml', RECIPE.replace(f'steps: {STEPS}', 'steps: 100000').replace('save_every: 6',
                                                                                                   'save_every: 50000'))
    out = os.path.join(folder.path, 'out')
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HEADROOM, [HEADROOM, 'train', recipe, '--out', out])
    log = os.path.join(out, 'log.jsonl')
    until = time.monotonic() + 60
    while time.monotonic() < until and not (os.path.exists(log) and os.path.getsize(log) > 500):
        time.sleep(0.005)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    check(os.waitstatus_to_exitcode(status) == 129, f'closed terminal: exit {os.waitstatus_to_exitcode(status)}')
    check(newest(out) > 0, 'closed terminal: nothing is saved')


# Real control groups, one inside of the other: the outer one has the lower limit.
def group_limit_file():
    """Folder in which groups can be made, and the name of the file that limits one."""
    for line in open('/proc/self/mountinfo', encoding='utf-8'):
        fields, tail = line.split(' - ')
        kind, _, options = tail.split()[:3]
        if kind == 'cgroup' and 'memory' in options.split(','):
            return fields.split()[4], 'memory.limit_in_bytes'
        if kind == 'cgroup2' and os.path.exists(os.path.join(fields.split()[4], 'cgroup.controllers')):
            with open(os.path.join(fields.split()[4], 'cgroup.controllers'), encoding='utf-8') as file:
                if 'memory' in file.read().split():
                    return fields.split()[4], 'memory.max'
    return None, None


if os.environ.get('HR_TEST_CGROUPS') == '1':
    mount, name = group_limit_file()
    outer = os.path.join(mount, f'headroom-test-{os.getpid()}')
    inner = os.path.join(outer, 'inner')
    try:
        os.mkdir(outer)
        if name == 'memory.max':
            with open(os.path.join(outer, 'cgroup.subtree_control'), 'w', encoding='utf-8') as file:
                file.write('+memory')
        os.mkdir(inner)
        for group, size in [(outer, 300 << 20), (inner, 400 << 20)]:
            with open(os.path.join(group, name), 'w', encoding='utf-8') as file:
                file.write(str(size))
        enter = f'echo $$ > {inner}/cgroup.procs && exec "$@"'
        command = ['sh', '-c', enter, 'sh', HEADROOM]
        seen = subprocess.run(command + ['devices', '--json'], stdout=subprocess.PIPE, check=True, text=True).stdout
        memory = json.loads(seen)['devices'][0]['memory_bytes']
        check(memory == 300 << 20, f'nested groups of 300 and 400 MiB: {memory} bytes are seen')
        with Folder() as folder:
            recipe = folder.write('wide.yaml', TINY.replace('hidden_size: 32', 'hidden_size: 1024').replace(
                'intermediate_size: 64', 'intermediate_size: 4096'))
            told = subprocess.run(command + ['plan', recipe], stdout=subprocess.PIPE, check=False, text=True)
            check(told.returncode == 3 and '300.00 MiB' in told.stdout, f'plan: {told.returncode} {told.stdout[:300]}')
            told = subprocess.run(command + ['train', recipe, '--out', os.path.join(folder.path, 'out')],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
            check(told.returncode == 3, f'train: {told.returncode} {told.stderr[:300]}')
        print(f'control groups: {name}, 300 MiB around 400 MiB: {memory >> 20} MiB are planned with')
    finally:
        for group in (inner, outer):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(group)
finish()
