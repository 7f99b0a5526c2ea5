#!/usr/bin/env python3
"""Two of apply on the same files at once: while one stands still at a system call, the other runs to its end. Both
succeed and both are in the files, or one of them says that the other is at work; then all can be put back. Every
fourth system call, unless HR_TEST_KILL_ALL is set."""
import os
import tempfile

from configs import RECIPE
from support import Folder, check, finish, run
from traced import stopped_at

NAMES = ['one.yaml', 'two.yaml']
TEXT = b'a: 1\nb: 1\n'
BEFORE_CHANGES = 30  # calls between the lock and the first change, at least


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def text_of(*keys):
    return b''.join(b'%s: %d\n' % (key.encode(), 2 if key in keys else 1) for key in 'ab')


class Pair:
    """`first` is stopped, `second` runs meanwhile: each a list of files and what is done to them, the key it sets or "revert"."""

    def __init__(self, folder, first, second):
        self.folder, self.first, self.second = folder, first, second
        self.recipe = folder.write('recipe.yaml', RECIPE)
        self.maps = {key: folder.write(f'map-{key}.yaml', f'values: {{{key}: 2}}\n') for key in 'ab'}
        self.paths = [folder.write(name, TEXT) for name in NAMES]
        self.clean = folder.listing()

    def arguments(self, side):
        files, what = side
        paths = [self.paths[NAMES.index(name)] for name in files]
        if what == 'revert':
            return ['apply', '--revert', '--quiet', '--to', *paths]
        return ['apply', self.recipe, '--quiet', '--map', self.maps[what], '--to', *paths]

    def reset(self):
        for name in self.folder.listing():
            if '.apply-' in name or '.backup' in name:
                os.remove(os.path.join(self.folder.path, name))
        for path in self.paths:
            self.folder.write(path, TEXT)
        if 'revert' in (self.first[1], self.second[1]):
            run(*self.arguments((NAMES, 'a'))).expect(0)

    def sequel(self, texts, side):
        """The files when one side has done its work."""
        files, what = side
        return [text if name not in files else TEXT if what == 'revert' else
                text_of(what, *(key for key in 'ab' if f'{key}: 2'.encode() in text)) for name, text in zip(NAMES, texts)]

    def stop(self, number):
        """The second one's exit code; None: the first came to its end before call `number`."""
        self.reset()
        before = [read(path) for path in self.paths]
        seen = []
        code, calls = stopped_at(self.arguments(self.first), self.folder.path, number,
                                 lambda child: seen.append(run(*self.arguments(self.second))))
        if not seen:
            check(code == 0, f'{self.first} alone: {code}')
            return None, calls
        other = seen[0]
        what = f'{self.first} stopped at call {number}, {self.second} meanwhile (exit {code} and {other.code}: {other.err.strip()})'
        check(code in (0, 1) and other.code in (0, 1) and 0 in (code, other.code), what)
        if other.code:
            check('another process is at work' in other.err, what)
        ways = [[self.first, self.second], [self.second, self.first]]
        done = {id(self.first): code == 0, id(self.second): other.code == 0}
        allowed = []
        for way in ways:
            texts = before
            for side in way:
                texts = self.sequel(texts, side) if done[id(side)] else texts
            allowed.append(texts)
        now = [read(path) for path in self.paths]
        check(now in allowed, f'{what}: {now}')
        check(not [name for name in self.folder.listing() if '.apply-' in name], f'{what}: {self.folder.listing()} is left')
        for path in self.paths:
            if os.path.exists(path + '.backup'):
                run('apply', '--revert', '--quiet', '--to', path).expect(0)
        check([read(path) for path in self.paths] == [TEXT] * 2 and self.folder.listing() == self.clean,
              f'{what}: {now} put back: {[read(path) for path in self.paths]} {self.folder.listing()}')
        return other.code, calls

    def every_call(self):
        _, total = self.stop(-1)
        self.reset()
        listing = self.folder.listing()

        def touches(number):
            self.reset()
            seen = []
            stopped_at(self.arguments(self.first), self.folder.path, number,
                       lambda child: seen.append(self.folder.listing() != listing))
            return not seen or seen[0]
        first, last = 0, total
        while first < last:
            middle = (first + last) // 2
            first, last = (first, middle) if touches(middle) else (middle + 1, last)
        step = 1 if os.environ.get('HR_TEST_KILL_ALL') else 4
        codes = [self.stop(number)[0] for number in [0, *range(max(first - BEFORE_CHANGES, 1), total, step)]]
        refused = codes.count(1)
        print(f'{self.first} and {self.second}: {len(codes)} stops, {refused} times the second one was refused')
        check(refused > 5 and codes.count(0) > 0, f'{self.first}, {self.second}: {codes}')


if os.access('/dev/shm', os.W_OK):
    tempfile.tempdir = '/dev/shm'
for first, second in [((NAMES, 'a'), (NAMES, 'b')), ((NAMES, 'a'), (NAMES[:1], 'b')), ((NAMES[1:], 'a'), (NAMES, 'b')),
                      ((NAMES, 'revert'), (NAMES, 'b')), ((NAMES, 'b'), (NAMES, 'revert')), ((NAMES[:1], 'revert'), (NAMES[:1], 'b'))]:
    with Folder() as folder:
        Pair(folder, first, second).every_call()
finish()
