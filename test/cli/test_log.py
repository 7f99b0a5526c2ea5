#!/usr/bin/env python3
"""headroom log: what a run has logged, filtered, as text, CSV and JSON, as it is written; hostile texts; and README.txt."""
import csv
import io
import json
import os
import subprocess
import time

from support import Folder, HEADROOM, TINY, check, finish, run


def lines_of(out):
    with open(os.path.join(out, 'log.jsonl'), encoding='utf-8') as file:
        return [json.loads(line) for line in file]


with Folder() as folder:
    at = lambda name: os.path.join(folder.path, name)
    recipe, out = folder.write('tiny.yaml', TINY), at('out')
    run('train', recipe, '--out', out, '--quiet', '--steps', '12', '--set', 'training.eval_every=4').expect(0)
    log = lines_of(out)
    steps = [line for line in log if 'loss' in line]

    # Everything is there: a line each, in words.
    text = run('log', out).expect(0, 'plan of', 'started', 'held-out loss', 'saved, ', 'done', 'tokens/s').out
    check(len(text.splitlines()) == len(log), f'{len(text.splitlines())} of {len(log)} lines')
    check(run('log', os.path.join(out, 'log.jsonl')).expect(0).out == text, 'the file itself')
    check(run('log', out, '--json').expect(0).json() == {'schema': 1, 'lines': log, 'broken_lines': 0}, 'JSON is the lines')

    # Filters.
    for arguments, wanted in [(['--steps', '3-5'], [3, 4, 5]), (['--steps', '10-'], [10, 11, 12]), (['--steps', '-2'], [1, 2]), (['--steps', '7'], [7]),
                              (['--every', '5'], [5, 10]), (['--last', '2'], [11, 12]), (['--every', '4', '--last', '1'], [12])]:
        seen = run('log', out, '--only', 'steps', '--json', *arguments).expect(0).json()['lines']
        check([line['step'] for line in seen] == wanted, f'{arguments}: {seen}')
    seen = run('log', out, '--only', 'evals,events', '--json').expect(0).json()['lines']
    check(seen == [line for line in log if 'eval_loss' in line or 'event' in line], f'{seen}')
    seen = run('log', out, '--keys', 'loss,lr', '--json').expect(0).json()['lines']
    check(seen == [{'step': line['step'], 'loss': line['loss'], 'lr': line['lr']} for line in steps], f'{seen}')
    held = run('log', out, '--keys', 'tiers.device.held_bytes').expect(0).out.split()
    check(held[:2] == ['step', '1'] and held[2] == 'tiers.device.held_bytes' and int(held[3]) > 1 << 20, f'{held}')

    # CSV: what a spreadsheet reads is what the log has.
    rows = list(csv.DictReader(io.StringIO(run('log', out, '--csv').expect(0).out)))
    check(len(rows) == 12 + 3 and list(rows[0])[:2] == ['step', 'loss'], f'{rows[:2]}')
    check([float(row['loss']) for row in rows if row['loss']] == [line['loss'] for line in steps], 'losses of CSV')
    check([float(row['eval_loss']) for row in rows if row['eval_loss']] == [line['eval_loss'] for line in log if 'eval_loss' in line], 'evaluations')
    check(all(abs(float(row['time']) - line['time']) < 1e-3 for row, line in zip([r for r in rows if r['loss']], steps)), 'times of CSV')
    events = list(csv.DictReader(io.StringIO(run('log', out, '--csv', '--only', 'events', '--keys', 'step,event,text').expect(0).out)))
    check([row['event'] for row in events] == [line['event'] for line in log if 'event' in line], f'{events}')

    # Texts that anybody wrote, lines that are none, several losses.
    header = '{"schema":1,"recipe":"\\u001b[2J","fingerprint":"aa","planned_peak_bytes":1,"steps":9,"step":0}\n'
    nasty = json.dumps({'step': 1, 'generated': [{'prompt': '\x1b[31m"q",\n', 'text': '\x07\x9b\u202e', 'end': 'none', 'expected': '=1+1'}], 'seconds': 1})
    warning = json.dumps({'step': 1, 'event': 'warning', 'text': 'a "b", c\r\n\x1b]0;x\x07'})
    losses = json.dumps({'step': 1, 'loss': 1.5, 'losses': {'a.b': 1, 'c\x1b': 2}, 'seconds': 1})
    folder.write('odd/log.jsonl', header + nasty + '\n' + warning + '\nnonsense\n' + losses + '\n{"torn')
    for arguments in [[], ['--csv'], ['--json'], ['--csv', '--only', 'events,samples', '--keys', 'text,generated'], ['--keys', 'losses']]:
        told = run('log', at('odd'), *arguments).expect(0)
        clean = all(c >= ' ' and c not in '\x7f\x9b\u202e' or c == '\n' for c in told.out)
        check(clean, f'{arguments}: {told.out!r}')
    check('1 lines of' in run('log', at('odd')).err, 'broken lines are told')
    check(run('log', at('odd'), '--json').json()['broken_lines'] == 1, 'broken lines are counted')
    head = run('log', at('odd'), '--csv').out.splitlines()[0]
    check(head == 'step,loss,losses.a.b,losses.c\\x1b,seconds', head)

    # As it is written, until the run ends.
    child = subprocess.Popen([HEADROOM, 'train', recipe, '--out', at('live'), '--quiet', '--steps', '60'])
    while child.poll() is None and not os.path.exists(at('live/log.jsonl')):
        time.sleep(0.01)
    followed = run('log', at('live'), '-f', '--only', 'steps', '--json', timeout=120).expect(0).json()['lines']
    check(child.wait() == 0 and [line['step'] for line in followed] == list(range(1, 61)), f'{len(followed)} lines followed')

    # README.txt says what is there; one that somebody wrote stays.
    check('log.jsonl' in open(os.path.join(out, 'README.txt'), encoding='utf-8').read(), 'README.txt')
    folder.write('mine/README.txt', 'mine')
    run('train', recipe, '--out', at('mine'), '--quiet', '--steps', '1').expect(0)
    check(open(at('mine/README.txt'), encoding='utf-8').read() == 'mine', 'README.txt of somebody else')

    # What is refused.
    run('log').expect(2, 'needs the folder of a run')
    run('log', at('nothing')).expect(5)
    run('log', folder.path).expect(5, 'there is no run here')
    run('log', out, '--steps', '5-3').expect(2, 'not a range')
    run('log', out, '--only', 'losses').expect(2, 'no kind of line')
    run('log', out, '--csv', '--json').expect(2)
    run('log', out, '--keys', ',').expect(2)
    run('log', out, '--tensorboard', out).expect(2, 'the folder of a run')
    run('plan', recipe, '-f').expect(2, "'-f'")
finish()
