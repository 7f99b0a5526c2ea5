"""A terminal's screen, computed from what a program writes to it: as much of one as redrawn lines and tables need.
And a program that runs on one, whose window can change its size."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

SEQUENCE = re.compile(r'\x1b\[(\??)([0-9;]*)([A-Za-z])')


def width(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in 'WF' else 1


class Row:
    def __init__(self):
        self.cells = []
        self.wraps = False  # goes on in the next row


class Screen:
    """Rows without an end at the top: nothing scrolls out. `reflows`: a window that changes its width breaks long rows
    anew and joins them again (tmux, VTE, kitty); otherwise it cuts them off (xterm)."""

    def __init__(self, columns, reflows):
        self.columns = columns
        self.reflows = reflows
        self.rows = [Row()]
        self.y = self.x = 0
        self.pending = False  # the last column is written: the next character goes to the next row
        self.autowrap = True
        self.rest = ''
        self.wrapped = 0  # how often anything was too long for its row

    def lines(self):
        return [''.join(row.cells).rstrip() for row in self.rows]

    def whole_lines(self):
        """With what goes on in the next row joined to one line again."""
        found, begun = [], True
        for row in self.rows:
            text = ''.join(row.cells)
            found = found + [text] if begun else found[:-1] + [found[-1] + text]
            begun = not row.wraps
        return [line.rstrip() for line in found]

    def put(self, character):
        columns = width(character)
        if columns == 0:
            return
        if self.pending or self.x + columns > self.columns:
            if self.autowrap:
                self.wrapped += 1
                self.rows[self.y].wraps = True
                self.next_row()
                self.x = 0
            else:
                self.x = self.columns - columns
        self.pending = False
        cells = self.rows[self.y].cells
        cells += [' '] * (self.x + columns - len(cells))
        cells[self.x:self.x + columns] = [character] + [''] * (columns - 1)
        self.x += columns
        if self.x == self.columns:
            self.x -= 1
            self.pending = self.autowrap

    def next_row(self):
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append(Row())

    def sequence(self, private, number, letter):
        row = self.rows[self.y]
        if private and number == '7' and letter in 'hl':
            self.autowrap = letter == 'h'
            self.pending = False
        elif letter in 'JK' and number in ('', '0'):
            del row.cells[self.x + self.pending:]
            row.wraps = False
            if letter == 'J':
                del self.rows[self.y + 1:]
        elif letter != 'm':
            raise ValueError(f'sequence that this screen does not know: {private}{number}{letter}')

    def feed(self, text):
        text = self.rest + text
        at = 0
        while at < len(text):
            if text[at] == '\x1b':
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at > 16:
                        raise ValueError(f'no sequence: {text[at:at + 16]!r}')
                    break
                self.sequence(*found.groups())
                at = found.end()
                continue
            if text[at] == '\r':
                self.x, self.pending = 0, False
            elif text[at] == '\n':
                self.next_row()
                self.pending = False
            elif text[at] >= ' ':
                self.put(text[at])
            at += 1
        self.rest = text[at:]

    def resize(self, columns):
        if not self.reflows:
            for row in self.rows:
                del row.cells[columns:]
                row.wraps = False
            self.columns, self.pending = columns, False
            self.x = min(self.x, columns - 1)
            return
        rows, y, x = [], 0, 0
        cells, begun, cursor = [], True, None
        for number, row in enumerate(self.rows):
            if begun:
                cells, cursor = [], None
            if number == self.y:
                cursor = len(cells) + self.x
            cells = cells + row.cells
            begun = not row.wraps
            if not begun and number + 1 < len(self.rows):
                continue
            first = len(rows)
            for at in range(0, max(len(cells), 1), columns):
                rows.append(Row())
                rows[-1].cells = cells[at:at + columns]
                rows[-1].wraps = at + columns < len(cells)
            if cursor is not None:
                y, x = first + min(cursor // columns, len(rows) - first - 1), cursor % columns
        self.rows, self.y, self.x = rows, y, x
        self.columns, self.pending = columns, False


class Terminal:
    """A program on a pseudo-terminal of that width."""

    def __init__(self, command, columns, reflows=True, prompt='$ headroom\r\n', env=None, cwd=None):
        self.screen = Screen(columns, reflows)
        self.screen.feed(prompt)
        self.master, slave = pty.openpty()
        self.written = ''
        self.size_set(columns)
        self.child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True,
                                      env={**os.environ, 'TERM': 'xterm', **(env or {})})
        os.close(slave)

    def size_set(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))

    def resize(self, columns):
        """What was written before comes to the window of before, as far as it has been read."""
        self.size_set(columns)
        self.screen.resize(columns)

    def read(self):
        """One piece of output; False: there is no more."""
        if not select.select([self.master], [], [], 60)[0]:
            raise TimeoutError('the program writes nothing for a minute')
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # the other side is closed
            data = b''
        text = data.decode(errors='replace')
        self.written += text
        self.screen.feed(text)
        return len(data) > 0

    def drawings(self, count):
        """Reads until the line was drawn so many times more."""
        until = self.written.count('\x1b[J') + count
        while self.written.count('\x1b[J') < until:
            if not self.read():
                return False
        return True

    def pause(self, after, seconds):
        """Holds the program for some time, a while from now."""
        time.sleep(after)
        self.child.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.child.send_signal(signal.SIGCONT)

    def finish(self, interrupt=False):
        if interrupt:
            self.child.send_signal(signal.SIGINT)
        begin = time.monotonic()
        while self.read():
            if time.monotonic() - begin > 120:
                self.child.kill()
        os.close(self.master)
        return self.child.wait()
