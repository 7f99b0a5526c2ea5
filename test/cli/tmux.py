"""A program in a real terminal: tmux, with its own server, whose window can change its size."""
import os
import shutil
import subprocess
import time

TMUX = shutil.which('tmux')


class Tmux:
    def __init__(self, folder):
        self.socket = os.path.join(folder, 'socket')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([TMUX, '-S', self.socket, 'kill-server'], stderr=subprocess.DEVNULL, check=False)

    def tell(self, *arguments):
        return subprocess.run([TMUX, '-S', self.socket, '-f', '/dev/null', *arguments], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'LC_ALL': 'C.UTF-8'}, timeout=60, check=True).stdout

    def start(self, script, columns=80, rows=24, cwd='/'):
        self.tell('new-session', '-d', '-x', str(columns), '-y', str(rows), '-c', cwd, 'sh', '-c', script)

    def resize(self, columns, rows):
        self.tell('resize-window', '-x', str(columns), '-y', str(rows))

    def keys(self, *keys):
        self.tell('send-keys', *keys)

    def lines(self):
        """The rows of the window, each without blanks at its end."""
        return [line.rstrip() for line in self.tell('capture-pane', '-p').split('\n')][:-1]

    def wait(self, condition, seconds=30):
        """The rows once they meet a condition; None: they never did."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lines = self.lines()
            if condition(lines):
                return lines
            time.sleep(0.05)
        return None
