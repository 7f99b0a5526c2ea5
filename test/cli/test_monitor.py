#!/usr/bin/env python3
"""headroom monitor as plain text and JSON: what it says of runs that go on, were killed, resumed, failed or are done, of
broken logs and hostile names; and that it changes nothing of theirs."""
import hashlib
import json
import os
import signal
import subprocess
import time

from schema import conforms
from support import Folder, HEADROOM, TINY, check, finish, run


def state_of(folder):
    """Names, sizes and times of all that is in a folder."""
    seen = []
    for where, folders, names in os.walk(folder):
        for name in folders + names:
            facts = os.lstat(os.path.join(where, name))
            seen.append((os.path.join(where, name), facts.st_size, facts.st_mtime_ns, facts.st_ino))
    return hashlib.sha256(repr(sorted(seen)).encode()).hexdigest()


def start(recipe, out, *more):
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', out, '--quiet', *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = os.path.join(out, 'log.jsonl')
    until = time.monotonic() + 60
    while time.monotonic() < until:  # its own first steps, behind what a process before it wrote
        text = open(log, 'rb').read() if os.path.exists(log) else b''
        if text.partition(b'"pid":%d,' % child.pid)[2].count(b'"loss"') >= 3:
            break
        time.sleep(0.02)
    return child


def seen(*arguments):
    answer = run('monitor', *arguments, '--json').expect(0).json()
    conforms(answer, 'monitor', f'monitor {arguments}')
    return {one['folder']: one for one in answer.get('runs', [])}


HEADER = '{"schema":1,"recipe":"%s","fingerprint":"aa","planned_peak_bytes":1000000,"steps":%d,"step":0}\n'


def log(folder, name, steps, lines, recipe='r.yaml'):
    return folder.write(f'{name}/log.jsonl', HEADER % (recipe, steps) + lines)


def step(number, loss, **more):
    return json.dumps({'step': number, 'loss': loss, 'lr': 0.1, 'grad_norm': 1, 'seconds': 1, 'tokens': 10, 'samples': 1,
                       'time': time.time() - 100 + number / 10, **more}) + '\n'


with Folder() as folder:
    at = lambda name: os.path.join(folder.path, name)
    recipe = folder.write('tiny.yaml', TINY)

    # A run that goes on, is paused, goes on, is killed, and is resumed.
    child = start(recipe, at('runs/one'), '--steps', '100000', '--set', 'training.save_every=2')
    one = seen(at('runs'))[at('runs/one')]
    check(one['state'] == 'running' and one['process']['pid'] == child.pid and one['process']['there'], f'{one}')
    check(one['process']['resident_bytes'] > 1 << 20 and one['process']['processors'] is not None, f'{one["process"]}')
    check(one['steps'] == 100000 and one['step'] >= 3 and 0 < one['loss'] < 10 and one['left_seconds'] > 0, f'{one}')
    check(one['tiers']['device']['planned_bytes'] > one['tiers']['device']['held_bytes'] > 1 << 20, f'{one["tiers"]}')
    check(one['tokens_per_second'] > 0 and one['step_seconds'] > 0 and one['planned_step_seconds'] > 0, f'{one}')
    child.send_signal(signal.SIGSTOP)
    one = seen(at('runs/one'))[at('runs/one')]
    check(one['state'] == 'paused' and one['signs'][0]['sign'] == 'paused', f'{one["state"]} {one["signs"]}')
    before = state_of(folder.path)
    run('monitor', at('runs'), '--once').expect(0, 'paused', f'kill -CONT {child.pid}')
    run('monitor', '--once', cwd=folder.path).expect(0, 'runs/one')
    check(state_of(folder.path) == before, 'watching changes nothing')
    child.kill()
    child.wait()
    one = seen(at('runs/one'))[at('runs/one')]
    check(one['state'] == 'dead' and one['signs'][0]['sign'] == 'dead', f'{one["state"]} {one["signs"]}')
    check('--resume goes on from step' in one['signs'][0]['text'] and not one['process']['there'], f'{one}')
    # Saved seldom: of the last events, 'resumed' is to be one still.
    child = start(recipe, at('runs/one'), '--steps', '100001', '--resume', '--set', 'training.save_every=1000')
    one = seen(at('runs/one'))[at('runs/one')]
    check(one['state'] == 'running' and one['process']['pid'] == child.pid and one['steps'] == 100001, f'{one}')
    check([e['text'] for e in one['events'] if e['event'] == 'started'][-1:] == ['resumed'] and one['signs'] == [], f'{one}')
    child.send_signal(signal.SIGTERM)
    child.wait()
    one = seen(at('runs/one'))[at('runs/one')]
    check(one['state'] == 'stopped' and 'SIGTERM' in one['events'][-1]['text'] and one['signs'] == [], f'{one}')

    # In a pipe: lines, until no run goes on any more.
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', at('runs/two'), '--quiet', '--steps', '300'])
    start_log = at('runs/two/log.jsonl')
    while child.poll() is None and not os.path.exists(start_log):
        time.sleep(0.01)
    lines = run('monitor', at('runs/two'), '--interval', '0.2', timeout=120).expect(0).out.splitlines()
    child.wait()
    check(len(lines) >= 1 and 'runs/two  done  step 300/300 (100 %)' in lines[-1], f'{lines}')
    check('\x1b' not in '\n'.join(lines), 'no escapes in a pipe')

    # Logs that others wrote: signs of trouble, broken lines, hostile names.
    wild = ''.join(step(i, 5 if i % 2 else 0.5) for i in range(1, 101))
    log(folder, 'odd/erratic', 1000, wild)
    log(folder, 'odd/rising', 1000, ''.join(step(i, 5 - i / 20 if i < 80 else 1 + (i - 80) / 10) for i in range(1, 201)))
    log(folder, 'odd/skipping', 1000, ''.join(step(i, 5 - i / 50, loss_scale=8, **({'skipped': True} if i % 4 == 0 else {})) for i in range(1, 101)))
    calm = ''.join(step(i, 5 - i / 50) for i in range(1, 101))
    creep = ''.join(json.dumps({'step': 100, 'event': 'memory', 'time': time.time(), 'tiers': {'device': {'held_bytes': 2**28 + i * 2**24}}}) + '\n' for i in range(6))
    log(folder, 'odd/creeping', 1000, calm + creep)
    log(folder, 'odd/calm', 1000, calm)
    log(folder, 'odd/done', 100, calm)
    log(folder, 'odd/broken', 1000, '{"step":1,"lo\n\xff\n\x1b[2J\n[]\n' + calm + '{"step":101,"lo')
    log(folder, 'odd/silent', 1000, step(1, 5, time=time.time() - 9999))
    nasty = 'a\x1b[31mb\nc\u202e<b>'
    log(folder, f'odd/{nasty}', 1000, step(1, 5) + json.dumps({'step': 1, 'event': 'warning', 'text': '\x1b]0;title\x07 \x9b2J'}) + '\n' +
        json.dumps({'step': 1, 'generated': [{'prompt': '\x1b[2J', 'text': '\r\n\x07', 'end': 'none'}], 'seconds': 1}) + '\n', recipe='\\u001b[2J')
    found = seen(at('odd'))
    signs = {os.path.basename(name): [sign['sign'] for sign in one['signs']] for name, one in found.items()}
    for name in ['erratic', 'rising', 'skipping', 'creeping', 'silent']:
        check(name in signs[name], f'{name}: {signs[name]}')
    for name in ['calm', 'done', 'broken']:
        check(signs[name] == [], f'{name}: {signs[name]}')
    check(found[at('odd/done')]['state'] == 'done', f'{found[at("odd/done")]["state"]}')
    check(found[at('odd/broken')]['broken_lines'] == 4 and found[at('odd/broken')]['step'] == 100, f'{found[at("odd/broken")]}')
    for arguments in [['--once'], [], ['--once', os.path.join('odd', nasty)]]:
        text = subprocess.run([HEADROOM, 'monitor', *arguments], cwd=folder.path, stdout=subprocess.PIPE, timeout=60, check=True).stdout if '--once' in arguments else b''
        check(not any(byte < 32 and byte != 10 or byte == 127 for byte in text) and '\u202e'.encode() not in text and b'\xc2\x9b' not in text, f'{arguments}: {text!r}')

    # What is no run, and no runs at all.
    run('monitor', at('nothing')).expect(5, 'there is no run here')
    run('monitor', recipe).expect(5, 'there is no run here')
    run('monitor', '--interval', '0').expect(2, 'not a number')
    os.mkdir(at('empty'))
    run('monitor', '--once', cwd=at('empty')).expect(0, 'no runs')
    check(run('monitor', '--json', cwd=at('empty')).expect(0).json().get('runs') == [], 'no runs in JSON')
finish()
