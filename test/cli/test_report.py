#!/usr/bin/env python3
"""headroom report: the numbers of a page are those of plan --json and dump --json, every node sums to the peak, pages stay small, hostile
names stay text, broken runs and places that cannot be written to are told of, and nothing that was there is lost."""
import json
import math
import os
import stat
import time
import xml.etree.ElementTree as ElementTree

from page import Layout, read, rising, signed, unpack
from schema import conforms
from support import Folder, RECIPES, ROOT, TINY, check, finish, run

MOST_BYTES = 3 << 20
HOSTILE = '</script><img src=x onerror=alert(1)>&"\'\u202e\x1b[31m\u2028'


def held_of(dump, tier, program, nodes):
    """Bytes by category over the nodes, out of the buffers of dump: at a node where one buffer takes over from another it is the later."""
    out = {}
    homes = {}
    for b in dump['buffers']:
        if b['tier'] != tier or b['program'] not in (None, program):
            continue
        homes.setdefault(b['home'], []).append(b)
    for tenants in homes.values():
        tenants.sort(key=lambda b: (b['first'], b['last'] if b['last'] is not None else 0))
        for i, b in enumerate(tenants):
            if b['last'] is None:
                begin, end = 0, nodes
            else:
                taken = [o['first'] for o in tenants[i + 1:] if o['first'] >= b['first']]
                begin, end = b['first'], min([b['last'] + 1, *taken])
            row = out.setdefault(b['category'], [0] * (nodes + 1))
            row[begin] += b['bytes']
            row[max(begin, end)] -= b['bytes']
    for row in out.values():
        for n in range(1, nodes + 1):
            row[n] += row[n - 1]
    return out


def areas_check(name, layout, plan, dump):
    categories = layout.data['categories']
    for t, tier in enumerate(layout.data['tiers']):
        planned = plan[tier['name']]
        check(tier['peak_bytes'] == planned['peak_bytes'] and tier['fixed_bytes'] == planned['fixed_bytes'], f'{name}: {tier["name"]}')
        for p, program in enumerate(layout.data['programs']):
            nodes = max(1, program['nodes'])
            by_category, by_owner = layout.areas(t, p, 'categories'), layout.areas(t, p, 'owners')
            for by, series in (('categories', by_category), ('owners', by_owner)):
                sums = {sum(row[n] for row in series) for n in range(nodes)}
                check(sums == {planned['peak_bytes']}, f'{name}: {tier["name"]} {program["name"]} by {by} sums to {sorted(sums)[:4]}')
                check(all(v >= 0 for row in series for v in row), f'{name}: {tier["name"]} by {by}: below 0')
            counted = held_of(dump, tier['name'], program['name'], nodes)
            for c, row in enumerate(by_category[:-2]):
                expected = counted.get(categories[c], [0] * nodes)[:nodes]
                check(row == expected, f'{name}: {tier["name"]} {program["name"]}: {categories[c]} is not what dump lists')
        peak = layout.areas(t, tier['peak_program'], 'categories')
        at = {categories[c]: row[tier['peak_node']] for c, row in enumerate(peak)}
        check(at == planned['categories'], f'{name}: at the peak of {tier["name"]} {at}, planned {planned["categories"]}')
    device = layout.data['tiers'][0]
    owners = {o['module']: o['bytes'] for o in plan['owners']}
    series = layout.areas(0, device['peak_program'], 'owners')
    for i, owner in enumerate(device['owners'][:-3]):
        check(series[i][device['peak_node']] == owners[owner], f'{name}: owner {owner}')


def streams_check(name, layout, dump):
    for p, program in enumerate(layout.data['programs']):
        planned = dump['programs'][p]
        check((program['name'], program['nodes'], program['peak_node']) == (planned['name'], planned['nodes'], planned['peak_node'])
              and math.isclose(program['seconds'], planned['seconds'], rel_tol=1e-8), f'{name}: program {planned["name"]}')
        waits = busy = 0
        for s, stream in enumerate(program['streams']):
            at = took = 0
            for node, begin, end, waiting in layout.spans(p, s):
                check(at <= begin <= end and 0 <= node < program['nodes'], f'{name}: {stream["name"]} at node {node}')
                at = end
                waits += (end - begin) * waiting
                took += (end - begin) * (1 - waiting)
            check(at <= program['seconds'] * 1e9 + 2, f'{name}: {stream["name"]} ends at {at} ns of {program["seconds"]}')
            slack = 2 * stream['count'] + 2 # a nanosecond of rounding at either end
            check(abs(took - stream['busy_seconds'] * 1e9) <= slack, f'{name}: {stream["name"]} is busy for {took} ns')
            busy += took if s == 0 else 0
        check(abs(waits - program['wait_seconds'] * 1e9) <= 2 * program['nodes'] + 2, f'{name}: waits')
        if not any(s['count'] for s in program['streams'][3:]) and 'gpu' not in name: # else other streams may end last
            check(abs(busy + waits - program['seconds'] * 1e9) <= 4 * program['nodes'] + 4, f'{name}: {busy} + {waits} of {program["seconds"]}')


def plan_check(name, folder, *arguments, code=0):
    out = f'{folder.path}/{name}.html'
    result = run('report', *arguments, '--out', out, '--json').expect(code)
    conforms(result.json(), 'report', name)
    data = read(out)
    plan = run('plan', *arguments, '--json').json()
    dump = run('dump', *arguments, '--after', 'plan', '--json').json() if '--gpu' not in arguments else None
    check(result.json()['bytes'] == os.path.getsize(out) and result.json()['fits'] == plan['fits'], f'{name}: {result.out}')
    subject = data['subjects'][0]
    check(subject['plan'] == plan, f'{name}: the plan of the page is not that of plan --json')
    layout = Layout(subject['layout'])
    if dump is None: # dump has no --gpu: the same by settings
        gpu = arguments[arguments.index('--gpu') + 1]
        rest = [a for i, a in enumerate(arguments) if a != '--gpu' and (i == 0 or arguments[i - 1] != '--gpu')]
        dump = run('dump', *rest, '--after', 'plan', '--json', '--set', 'memory.device=cuda', '--set', f'memory.gpu={gpu}', '--set', 'memory.budget=auto').json()
    check(dump['fingerprint'] == plan['fingerprint'], f'{name}: dump is of another plan')
    buffers = layout.buffers()
    check(len(buffers) == len(dump['buffers']), f'{name}: {len(buffers)} of {len(dump["buffers"])} buffers')
    for ours, theirs in zip(buffers, dump['buffers']):
        if ours != theirs:
            check(False, f'{name}: {ours} on the page, {theirs} by dump')
            break
    areas_check(name, layout, plan, dump)
    streams_check(name, layout, dump)
    return data


def log_of(folder, name, lines):
    os.mkdir(f'{folder.path}/{name}')
    header = {'schema': 1, 'recipe': 'r.yaml', 'fingerprint': 'f', 'planned_peak_bytes': 1000, 'device': HOSTILE, 'planned_step_seconds': 0.5,
              'tiers': {'device': {'planned_bytes': 900, 'budget_bytes': None}, 'host': {'planned_bytes': 100, 'budget_bytes': 5000},
                        'disk': {'planned_bytes': 0, 'budget_bytes': None}}, 'steps': 10, 'step': 0}
    with open(f'{folder.path}/{name}/log.jsonl', 'w', encoding='utf-8') as file:
        for line in [header, *lines]:
            file.write((line if isinstance(line, str) else json.dumps(line)) + '\n')
    return f'{folder.path}/{name}'


def step(number, loss, **more):
    return {'step': number, 'loss': loss, 'lr': 1e-3, 'grad_norm': 1.5, 'seconds': 0.25, 'tokens': 64, 'samples': 4, 'time': 1.7e9 + number, **more}


def curve(run_, name, held_out=False):
    found = [c for c in run_['curves'] if c['name'] == name and c['held_out'] == held_out]
    check(len(found) == 1, f'{len(found)} curves {name}')
    return found[0], list(zip(rising(found[0]['steps']), found[0]['values']))


check([signed(n) for n in range(5)] == [0, -1, 1, -2, 2] and unpack('') == [], 'columns')

with Folder() as folder:
    tiny = folder.write('tiny.yaml', TINY)

    # --- plans
    plan_check('tiny', folder, tiny)
    plan_check('accumulated', folder, tiny, '--set', 'training.gradient_accumulation=3', '--set', 'training.eval_every=2')
    plan_check('offloaded', folder, tiny, '--set', 'memory.offload={optimizer: host, parameters: disk, gradients: host, activations: host}',
               '--set', f'memory.offload_folder={folder.path}')
    plan_check('gpu', folder, RECIPES + '/demo.yaml', '--gpu', 'H100', '--set', 'memory.offload={optimizer: host}')
    plan_check('open', folder, tiny, '--set', 'training.effective_batch=8', '--set', 'training.batch_size=auto')
    plan_check('small', folder, tiny, '--set', 'memory.budget=24MiB', '--set', 'training.batch_size=512', code=3)
    again = f'{folder.path}/again.html'
    run('report', tiny, '--out', again).expect(0)
    with open(again, 'rb') as one, open(f'{folder.path}/tiny.html', 'rb') as other:
        check(one.read() == other.read(), 'the same plan gives another page')
    staged = f'{folder.path}/stages.html'
    run('report', RECIPES + '/stages.yaml', '--out', staged).expect(0)
    check(len({s['stage'] for s in read(staged)['subjects']}) == len(read(staged)['subjects']) > 1, 'stages')

    # --- two of them
    both = f'{folder.path}/both.html'
    run('report', tiny, '--compare', 'memory.checkpoint=every-layer', '--out', both).expect(0)
    data, compared = read(both), run('plan', tiny, '--compare', 'memory.checkpoint=every-layer', '--json').json()
    for subject, plan in zip(data['subjects'], compared['plans']):
        check({**subject['plan'], 'changes': []} == {**plan, 'changes': []}, f'compared: {subject["name"]}')
    check(data['differences'] == compared['differences'] and data['differences'], 'differences')

    # --- a large one
    began = time.monotonic()
    large = f'{folder.path}/70b.html'
    run('report', f'{ROOT}/test/model/configs/Llama-3.1-70B', '--method', 'full', '--seq', '2048', '--gpu', 'H100', '--set',
        'memory.offload={optimizer: host, parameters: host, gradients: host, activations: host}', '--set', 'memory.host_budget=2TiB',
        '--out', large).expect(0)
    layout = Layout(read(large)['subjects'][0]['layout'])
    count, nodes = layout.data['buffers']['count'], layout.data['programs'][0]['nodes']
    print(f'70B: {os.path.getsize(large)} bytes, {count} buffers, {nodes} nodes, {time.monotonic() - began:.1f} s')
    check(os.path.getsize(large) <= MOST_BYTES and count > 10000, f'70B: {os.path.getsize(large)} bytes for {count} buffers')
    series = layout.areas(0, 0, 'categories')
    check({sum(v) for v in zip(*series)} == {layout.data['tiers'][0]['peak_bytes']}, '70B: areas')

    # --- names that mean harm
    os.mkdir(f'{folder.path}/hostile')
    hostile = f'{folder.path}/hostile/a<b>\u202e&"\'.yaml'
    with open(hostile, 'w', encoding='utf-8') as file:
        file.write(TINY)
    out = f'{folder.path}/hostile.html'
    run('report', hostile, '--out', out).expect(0)
    check(read(out)['subjects'][0]['name'] == hostile, 'a hostile name is shown as it is in the data')
    run('report', hostile, '--svg', 'memory', '--out', f'{folder.path}/hostile.svg').expect(0)
    with open(f'{folder.path}/hostile.svg', encoding='utf-8') as file:
        drawn = file.read()
    check('a<b>' not in drawn and '\u202e' not in drawn and ElementTree.fromstring(drawn) is not None, 'a hostile name in a picture')

    # --- runs
    lines = [{'step': 0, 'event': 'started', 'time': 1.7e9, 'resumed': False, 'steps': 10}]
    lines += [step(n, 5 - 0.1 * n, losses={'text': 1.5, HOSTILE: None}, metrics={'accuracy': n / 10}) for n in range(1, 7)]
    lines += [step(7, None, skipped=True, grad_norm=None, loss_scale=1024.0), '{"broken', 'no json at all', {'step': 4, 'eval_loss': 4.25, 'seconds': 1.0, 'time': 1.7e9},
              {'step': 6, 'event': 'saved', 'seconds': 0.5, 'bytes': 77, 'time': 1.7e9}, {'step': 6, 'event': 'memory', 'bytes': 950, 'time': 1.7e9,
              'tiers': {'device': {'held_bytes': 870}, 'host': {'held_bytes': 99}, 'disk': {'held_bytes': 0}}},
              {'step': 6, 'event': 'started', 'time': 1.7e9, 'resumed': True, 'steps': 12}, {'step': 7, 'event': 'warning', 'text': HOSTILE, 'time': 1.7e9},
              {'step': 7, 'generated': [{'prompt': HOSTILE, 'text': HOSTILE * 400, 'end': 'max_tokens', 'expected': HOSTILE}], 'seconds': 1.0, 'time': 1.7e9}]
    ran = log_of(folder, 'ran', lines)
    run('report', ran).expect(0)
    data = read(f'{ran}/report.html')
    told = data['subjects'][0]['run']
    _, points = curve(told, 'loss')
    check(points == [(n, 5 - 0.1 * n) for n in range(1, 7)] + [(7, None)] or all(a[0] == n and (a[1] is None or math.isclose(a[1], 5 - 0.1 * n)) for n, a in enumerate(points, 1)), f'{points}')
    check(curve(told, 'loss', True)[1] == [(4, 4.25)] and curve(told, 'accuracy')[1][-1] == (6, 0.6), 'evaluation and metrics')
    check(curve(told, 'tokens/s')[1][0] == (1, 256), 'speed')
    check(told['broken_lines'] == 2 and told['skipped'] == 1 and told['step'] == 7 and told['steps'] == 12, f'{told["broken_lines"]} {told["skipped"]} {told["step"]} {told["steps"]}')
    check(told['held_bytes'] == {'device': 870, 'host': 99, 'disk': 0} and told['process_bytes'] == 950, f'{told["held_bytes"]}')
    check(told['headers'][0]['tiers']['host'] == {'planned_bytes': 100, 'budget_bytes': 5000} and told['headers'][0]['device'] == HOSTILE, 'header')
    check([e['event'] for e in told['events']] == ['started', 'skipped', 'saved', 'started', 'warning'] and told['events'][3]['resumed'], f'{told["events"]}')
    check(told['events'][4]['text'] == HOSTILE and told['samples'][0]['generated'][0]['prompt'] == HOSTILE, 'texts of a run')
    check(len(data['subjects'][0]['remarks']) == 2 and data['subjects'][0]['plan'] is None, f'{data["subjects"][0]["remarks"]}')
    run('report', ran, '--compare', ran, '--out', f'{folder.path}/runs.html').expect(0)
    check(len(read(f'{folder.path}/runs.html')['subjects']) == 2, 'two runs')
    run('report', ran, '--compare', 'training.steps=3').expect(2, 'give another run')
    run('report', ran, '--svg', 'memory').expect(5, 'there is no plan of this run')

    # a run of this program, with the plan that it ran by
    trained = f'{folder.path}/trained'
    run('train', tiny, '--steps', '4', '--out', trained, '--set', 'training.eval_every=2', '--quiet').expect(0)
    run('report', trained, '--out', f'{folder.path}/trained.html').expect(0)
    subject = read(f'{folder.path}/trained.html')['subjects'][0]
    with open(f'{trained}/log.jsonl', encoding='utf-8') as file:
        log = [json.loads(line) for line in file]
    check(subject['remarks'] == [] and subject['plan']['fingerprint'] == log[0]['fingerprint'], f'{subject["remarks"]}')
    check(curve(subject['run'], 'loss')[1] == [(l['step'], l['loss']) for l in log if 'loss' in l], 'losses of the log')
    check(curve(subject['run'], 'loss', True)[1] == [(l['step'], l['eval_loss']) for l in log if 'eval_loss' in l], 'evaluations of the log')
    check(subject['run']['status'] == 'HR_OK' and subject['run']['step'] == 4, 'end of the run')

    # a long one: its extremes are there
    def wave(n):
        return 2 + math.sin(n) + (9 if n == 54321 else -9 if n == 77777 else 0)
    long = log_of(folder, 'long', [step(n, wave(n)) for n in range(1, 100001)])
    run('report', long, '--out', f'{folder.path}/long.html').expect(0)
    shown, points = curve(read(f'{folder.path}/long.html')['subjects'][0]['run'], 'loss')
    print(f'100,000 steps: {os.path.getsize(f"{folder.path}/long.html")} bytes')
    check(os.path.getsize(f'{folder.path}/long.html') <= MOST_BYTES and shown['count'] == 100000 and len(points) <= 3000, f'{len(points)} points')
    check(max(points, key=lambda p: p[1])[0] == 54321 and min(points, key=lambda p: p[1])[0] == 77777, 'extremes of a long run')
    check(shown['most'][0] == 54321 and shown['least'][0] == 77777, 'extremes by name')
    check(all(math.isclose(value, wave(n), rel_tol=1e-8, abs_tol=1e-8) for n, value in points) and points == sorted(points, key=lambda p: p[0]), 'points are the log\'s own')

    # broken ones
    for name, text in (('empty', ''), ('garbage', '\x00\xff not a log\n'), ('list', '[1, 2]\n')):
        os.mkdir(f'{folder.path}/{name}')
        with open(f'{folder.path}/{name}/log.jsonl', 'w', encoding='latin-1') as file:
            file.write(text)
        run('report', f'{folder.path}/{name}').expect(5, 'no line of this log is a record', 'try:')
        check(os.listdir(f'{folder.path}/{name}') == ['log.jsonl'], f'{name}: something was written')
    run('report', f'{folder.path}/nowhere').expect(5, 'there is no such file or folder')
    run('report', folder.path + '/hostile').expect(5, 'config.json')

    # --- where it is written to
    taken = folder.write('taken.html', 'mine\n')
    run('report', tiny, '--out', taken).expect(2, 'no report', 'not written over')
    with open(taken, encoding='utf-8') as file:
        check(file.read() == 'mine\n', 'a foreign file was written over')
    run('report', tiny, '--out', folder.path).expect(2, 'is a folder')
    run('report', tiny, '--out', f'{folder.path}/none/x.html').expect(1, 'none')
    shut = f'{folder.path}/shut'
    os.mkdir(shut)
    os.chmod(shut, stat.S_IRUSR | stat.S_IXUSR)
    if os.geteuid() != 0:
        run('report', tiny, '--out', f'{shut}/x.html').expect(1, 'ermission')
    before = os.path.getsize(again)
    run('report', tiny, '--out', again, limit_bytes=4096).expect(1)
    check(os.path.getsize(again) == before and not [n for n in os.listdir(folder.path) if n.endswith('.tmp')], 'a full disk lost a page')
    page = run('report', tiny, '--out', '-').expect(0)
    check(page.out.startswith('<!doctype html>') and page.err == '', 'a page on standard output')
    result = run('report', tiny, cwd=folder.path).expect(0, 'tiny.html')
    check('a page for any browser' in result.err and result.out == '', result.err)
    check(run('report', tiny, '--quiet', '--out', again).err == '', 'quiet')

    # --- pictures
    for kind in ('memory', 'layout', 'frontier', 'streams'):
        for name, arguments in (('tiny', (tiny,)), ('1b', (RECIPES + '/llama-3.2-1b.yaml', '--gpu', '4090'))):
            out = f'{folder.path}/{name}-{kind}.svg'
            run('report', *arguments, '--svg', kind, '--out', out).expect(0)
            root = ElementTree.parse(out).getroot()
            texts = ' '.join(root.itertext())
            check(root.tag.endswith('svg') and root.get('role') == 'img' and os.path.getsize(out) < 1 << 20, f'{out}: {os.path.getsize(out)} bytes')
            check('nan' not in texts and 'inf' not in texts, f'{out}: {texts[:200]}')
    run('report', tiny, '--svg', 'cake').expect(2, 'memory, layout, frontier or streams')
    run('report', tiny, '--svg', 'memory', '--compare', 'training.batch_size=1').expect(2, 'a picture is of one plan')
    for more in [['--svg', 'memory'], []]:
        run('report', RECIPES + '/llama-3.2-1b.yaml', '--gpu', '4090', '--set', 'engine.kind=pytorch', *more, '--out', f'{folder.path}/torch').expect(5, "headroom's own execution")
    os.chmod(shut, stat.S_IRWXU)
finish()
