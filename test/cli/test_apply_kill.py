#!/usr/bin/env python3
"""SIGKILL at every system call of apply and of --revert: every file is old or new, never half; what was decided is
finished by the next run on any of the files, what was not is all old. Of the calls before the first one that changes
anything in the folders only some are tried, unless HR_TEST_KILL_ALL is set."""
import hashlib
import os
import signal
import tempfile

from configs import RECIPE, sides
from support import Folder, check, finish, run
from traced import stopped_at

FILES = {'conf/config.yaml': 'trainer:\n  precision: "⟦16-mixed|bf16-mixed⟧"  # é\n  accumulate_grad_batches: ⟦2|8⟧\n',
         'conf/data/small.yaml': 'batch_size: ⟦45|4⟧\n',
         'ds_config.json': '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": ⟦2|4⟧}'}
ENDS = ['.apply-new', '.apply-backup', '.apply-record', '.apply-journal', '.apply-journal.tmp']


def killed_at(arguments, cwd, number):
    """Runs the program and kills it when it enters its system call `number`; whether it came to its end before."""
    code, calls = stopped_at(arguments, cwd, number, lambda child: os.kill(child, signal.SIGKILL))
    return code >= 0, calls


def read(path):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except FileNotFoundError:
        return None


def state_check(paths, before, after, what, back):
    """The files right after the kill; whether the change was decided."""
    now = [read(path) for path in paths]
    for path, text, old, new in zip(paths, now, before, after):
        check(text in (old, new), f'{what}: {path} is neither old nor new: {text}')
        if text == new and not back:
            check(read(path + '.backup') == old, f'{what}: {path} is new without its backup')
    changed = [text == new for text, new in zip(now, after)]
    decided = os.path.exists(paths[0] + '.apply-journal')
    check(decided or all(changed) or not any(changed), f'{what}: mixed without a journal: {changed}')
    return decided or all(changed)


def every_call(folder, recipe, back):
    paths = [os.path.join(folder.path, name) for name in FILES]
    old, new = zip(*(sides(text) for text in FILES.values()))
    arguments = ['apply', '--revert', '--to', *paths] if back else ['apply', recipe, '--to', *paths]
    before, after = (new, old) if back else (old, new)

    def reset():
        for path, text, backup in zip(paths, before, after):
            for end in ENDS + ['.backup', '.backup.record']:
                if os.path.exists(path + end):
                    os.remove(path + end)
            name = os.path.relpath(path, folder.path)
            folder.write(name, text)
            if back:
                folder.write(name + '.backup', backup)
                sums = [hashlib.sha256(text).hexdigest() for text in (backup, backup, text)]
                folder.write(name + '.backup.record', '\n'.join(['headroom apply backup 1', *sums, '']))

    def settled():
        return not any(os.path.exists(path + end) for path in paths for end in ENDS)

    def touches(number):
        """Whether something in the folders has changed when call `number` is entered."""
        reset()
        listing = folder.listing()
        killed_at(arguments, folder.path, number)
        return folder.listing() != listing

    reset()
    _, total = killed_at(arguments, folder.path, -1)
    check([read(path) for path in paths] == list(after) and settled(), 'untouched, it comes to its end')
    first, last = 0, total
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if touches(middle) else (middle + 1, last)
    step = 1 if os.environ.get('HR_TEST_KILL_ALL') else 16
    kills, behind, number = 0, 0, 0
    while True:
        reset()
        ended, _ = killed_at(arguments, folder.path, number)
        if ended:
            break
        kills += 1
        what = f'{"revert" if back else "apply"} killed at call {number} of {total}'
        if state_check(paths, before, after, what, back):
            behind += 1
            one = paths[number % len(paths)]
            if back:
                run('apply', '--revert', '--to', one).expect(5, 'no backup')
                check(not [name for name in folder.listing() if '.backup' in name], f'{what}: backups are left')
            else:
                run('apply', recipe, '--quiet', '--to', one).expect(0)
            check([read(path) for path in paths] == list(after), f'{what}: not finished by the next run on {one}')
            if not back:
                run('apply', recipe, '--quiet', '--to', *paths).expect(0)
        else:
            run(*arguments, '--quiet').expect(0)
            check([read(path) for path in paths] == list(after), f'{what}: not done by the next run')
        check(back or settled(), f'{what}: something is left behind')
        number += 1 if number + step > first else step
    check(behind > 3 and kills - behind > 20, f'{behind} of {kills} kills behind the decision')
    print(f'{"revert" if back else "apply"}: {total} system calls, {kills} kills, {behind} behind the decision')


def again(folder, recipe, hand):
    """One file, applied to before; with `hand` it was changed by hand since. Its original is never lost: it stays the backup
    until the text that was changed by hand is the backup."""
    path = os.path.join(folder.path, 'one.yaml')
    original, applied, after = (b'trainer: {x: 1}\nbatch_size: %d\n' % size for size in (45, 4, 2))
    before = applied.replace(b'x: 1', b'x: 2') if hand else applied
    after = after.replace(b'x: 1', b'x: 2') if hand else after
    kept = before if hand else original
    arguments = ['apply', recipe, '--set', 'training.batch_size=2', '--to', path]
    total, number, kills = None, -1, 0
    while True:
        for end in ENDS:
            if os.path.exists(path + end):
                os.remove(path + end)
        folder.write(path, before)
        folder.write(path + '.backup', original)
        sums = [hashlib.sha256(text).hexdigest() for text in (original, original, applied)]
        folder.write(path + '.backup.record', '\n'.join(['headroom apply backup 1', *sums, '']))
        ended, calls = killed_at(arguments, folder.path, number)
        what = f'{"changed by hand" if hand else "applied before"}, killed at call {number} of {total}'
        if total is None:
            total, number = calls, 0 if os.environ.get('HR_TEST_KILL_ALL') else calls - 70
            check((read(path), read(path + '.backup')) == (after, kept), what)
            continue
        if ended:
            break
        kills += 1
        now = read(path), read(path + '.backup')
        check(now in ((before, original), (before, kept), (after, kept)), f'{what}: {now}')
        run(*arguments, '--quiet').expect(0)
        check((read(path), read(path + '.backup')) == (after, kept), f'{what}: not done by the next run')
        run('apply', '--revert', '--quiet', '--to', path).expect(0)
        check(read(path) == kept and folder.listing() == listing, f'{what}: not put back, or something is left: {folder.listing()}')
        number += 1
    print(f'{"changed by hand" if hand else "applied before"}: {total} system calls, {kills} kills')


# Kills lose nothing that was written, so waiting for a disk would only slow the test down.
if os.access('/dev/shm', os.W_OK):
    tempfile.tempdir = '/dev/shm'
with Folder() as folder:
    every_call(folder, folder.write('recipe.yaml', RECIPE), False)
with Folder() as folder:
    every_call(folder, folder.write('recipe.yaml', RECIPE), True)
for hand in [False, True]:
    with Folder() as folder:
        recipe = folder.write('recipe.yaml', RECIPE)
        folder.write('one.yaml', '')
        listing = folder.listing()
        again(folder, recipe, hand)
finish()
