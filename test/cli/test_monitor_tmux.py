#!/usr/bin/env python3
"""headroom monitor in a real terminal: windows of all sizes, runs that are killed and resumed, ten runs, broken and
hostile logs, keys, signals, and what it costs. Skipped where there is no tmux."""
import glob
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from support import Folder, HEADROOM, TINY, check, finish
from tmux import TMUX, Tmux

if not TMUX:
    print('no tmux here')
    sys.exit(77)

children = []
TICK = os.sysconf('SC_CLK_TCK')


def has(*parts):
    return lambda lines: all(part in '\n'.join(lines) for part in parts)


def train(recipe, out, *more, save_every=20):
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--quiet', '--steps', '1000000', '--set', f'training.save_every={save_every}',
                              *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children.append(child)
    while child.poll() is None and not os.path.exists(os.path.join(out, 'log.jsonl')):
        time.sleep(0.02)
    return child


def monitor_pid(parent):
    """The process that tmux's shell has started."""
    found = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(parent)], stdout=subprocess.PIPE, text=True, check=False).stdout
    return int(next(line.split()[0] for line in found.splitlines() if 'monitor' in line))


def cpu(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def one_run(folder, recipe):
    """Killed, resumed, resized; ended by SIGTERM with the terminal as it was."""
    out = os.path.join(folder.path, 'runs', 'one')
    child = train(recipe, out)
    command = shlex.join([HEADROOM, 'monitor', 'runs', '--interval', '0.3'])
    with Tmux(folder.path) as tmux:
        tmux.start(f'LC_ALL=C.UTF-8; export LC_ALL; echo before; {command}; echo ended with $?; stty -a; exec sleep 60', cwd=folder.path)
        check(tmux.wait(has('runs/one  running', ' left, until ', 'tokens/s', 'device', 'planned')), f'{tmux.lines()}')
        check('before' not in '\n'.join(tmux.lines()), 'a screen of its own')
        for columns, rows in [(60, 24), (200, 50), (40, 10), (20, 4), (80, 24), (10, 2), (132, 43), (80, 24)]:
            tmux.resize(columns, rows)
            lines = tmux.wait(lambda lines: len(lines) == rows and lines[0].startswith(('runs/one', 'runs/one  running'[:columns])), 10)
            check(lines is not None and all(len(line) <= columns for line in lines), f'{columns} x {rows}: {tmux.lines()}')
        check(tmux.wait(has('step', '? help')), f'{tmux.lines()}')
        child.kill()
        child.wait()
        check(tmux.wait(has('runs/one  dead', f'process {child.pid} is gone')), f'{tmux.lines()}')
        child = train(recipe, out, '--resume', save_every=1000000)  # else saves soon take its place among the last events
        check(tmux.wait(has('runs/one  running', 'resumed')), f'{tmux.lines()}')

        tmux.keys('?')
        check(tmux.wait(has('q         leave', 'signs that something')), f'{tmux.lines()}')
        tmux.keys('?')
        tmux.wait(has('runs/one  running'))
        tmux.keys('s')
        check(tmux.wait(has('saved as headroom-monitor-')), f'{tmux.lines()}')
        saved = glob.glob(os.path.join(folder.path, 'headroom-monitor-*.txt'))
        text = open(saved[0], encoding='utf-8').read() if saved else ''
        check('runs/one  running' in text and '\x1b' not in text and 'q leave' not in text, f'{saved}: {text}')

        pid = monitor_pid(tmux.tell('display-message', '-p', '#{pane_pid}').strip())
        os.kill(pid, signal.SIGTSTP)  # the terminal is given back until it goes on
        check(tmux.wait(lambda lines: lines[0] == 'before'), f'{tmux.lines()}')
        os.kill(pid, signal.SIGCONT)
        check(tmux.wait(has('runs/one  running')), f'{tmux.lines()}')
        os.kill(pid, signal.SIGTERM)
        lines = tmux.wait(has('ended with 143', 'before', 'extproc'))  # the last word of stty
        check(lines is not None, f'{tmux.lines()}')
        text = ' '.join(lines or [])
        check(' icanon' in text and '-icanon' not in text and '-echo ' not in text and ' echo ' in text, f'the terminal is not as it was: {text}')
        check(tmux.tell('display-message', '-p', '#{cursor_flag} #{alternate_on} #{wrap_flag}').split() == ['1', '0', '1'], 'cursor, screen, wrapping')
    child.send_signal(signal.SIGINT)
    child.wait()


HEADER = '{"schema":1,"recipe":"r.yaml","fingerprint":"aa","planned_peak_bytes":1000000,"steps":100000,"step":0}\n'


def ten_runs(folder, recipe):
    """Long logs, broken and hostile ones; one line a run, keys, and at 1 Hz no more than a hundredth of a processor."""
    now = time.time()
    line = '{"step":%d,"loss":%.4f,"lr":0.1,"grad_norm":1,"seconds":0.01,"tokens":10,"samples":1,"time":%.3f}\n'
    for i in range(8):
        text = HEADER + ''.join(line % (n, 5 - n / 10000, now - 100 + n / 200) for n in range(1, 20001 if i == 0 else 200))
        folder.write(f'many/run-{i}/log.jsonl', text)
    folder.write('many/broken/log.jsonl', HEADER + '{"step":\n\xff\xfe\n' + line % (7, 4, now) + '{"torn')
    warning = json.dumps({'step': 7, 'event': 'warning', 'text': '\x1b[2J\x1b]0;owned\x07\x9b31m\u202eoverridden'})
    folder.write('many/e\x1b[2Jvil\r\n\x07/log.jsonl', HEADER + line % (7, 4, now) + warning + '\n')
    child = train(recipe, os.path.join(folder.path, 'many', 'live'))
    command = shlex.join([HEADROOM, 'monitor', 'many'])
    with Tmux(folder.path) as tmux:
        tmux.start(f'LC_ALL=C.UTF-8 {command}; echo ended with $?; exec sleep 60', cwd=folder.path)
        lines = tmux.wait(has('many/live', 'many/run-3', '? help'))
        check(lines is not None and sum('many/' in line for line in lines) >= 10, f'{tmux.lines()}')
        check(tmux.wait(lambda lines: 'reading' not in lines[-1]), 'logs are read')
        tmux.resize(200, 50)
        lines = tmux.wait(has('vil\\x0d\\x0a\\x07', 'many/broken', 'losses'))
        check(lines is not None and any('e\\x1b[2Jvil' in line for line in lines), f'{tmux.lines()}')
        check('owned' not in tmux.tell('display-message', '-p', '#{pane_title}'), 'the title of the window is not for logs to set')
        for _ in range(12):
            tmux.keys('Down')
        tmux.keys('Right')
        tmux.keys('Home')
        check(tmux.wait(lambda lines: lines[0].startswith('many/broken  running')), f'{tmux.lines()}')
        for _ in range(11):
            if 'lines of the log cannot be read' in '\n'.join(tmux.lines()):
                break
            tmux.keys('Down')
            time.sleep(0.2)
        check(tmux.wait(has('many/broken', '2 lines of the log cannot be read'), 5), f'{tmux.lines()}')
        tmux.keys('Left')
        check(tmux.wait(has('losses', 'many/run-0')), f'{tmux.lines()}')
        pid = monitor_pid(tmux.tell('display-message', '-p', '#{pane_pid}').strip())
        before, begin = cpu(pid), time.monotonic()
        time.sleep(6)
        share = (cpu(pid) - before) / (time.monotonic() - begin)
        print(f'{100 * share:.2f} % of a processor at 1 Hz')
        check(share <= 0.01 + 1 / TICK / 6, f'it uses {100 * share:.2f} % of a processor')
        tmux.keys('q')
        check(tmux.wait(has('ended with 0')), f'{tmux.lines()}')
    child.send_signal(signal.SIGINT)
    child.wait()


with Folder() as folder:
    recipe = folder.write('tiny.yaml', TINY)
    try:
        one_run(folder, recipe)
        ten_runs(folder, recipe)
    finally:
        for child in children:
            child.kill()
finish()
