#!/usr/bin/env python3
"""An independent look at the layout: from `dump --after plan --json` alone, no two live buffers overlap, everything lies
inside its arena and is aligned, and the lower bound is what a plain sweep over time finds. Buffers of one home may meet at
exactly one node, where the later one takes over the earlier one's storage."""
import os

from support import RECIPES, check, finish, run


def handed_on(a, b):
    """The two share one home and meet at one node: the last of the one is the first of the other."""
    return (a['home'] == b['home'] and a['offset'] == b['offset'] and a['bytes'] == b['bytes']
            and (a['end'] == b['first'] or b['end'] == a['first']))


def overlaps(buffers):
    """Pairs that are alive together and share bytes: a sweep over offsets with a check of times."""
    ordered = sorted((b for b in buffers if b['bytes'] > 0), key=lambda b: b['offset'])
    active = []
    for b in ordered:
        active = [a for a in active if a['offset'] + a['bytes'] > b['offset']]
        for a in active:
            if a['first'] <= b['end'] and b['first'] <= a['end'] and not handed_on(a, b):
                yield a, b
        active.append(b)


def lower_bound(buffers, nodes):
    """Largest sum of live bytes; a home counts once, from its first buffer's start to its last one's end."""
    homes = {}
    for b in buffers:
        home = homes.setdefault(b['home'], dict(b))
        home['first'], home['end'] = min(home['first'], b['first']), max(home['end'], b['end'])
    change = [0] * (nodes + 1)
    for b in homes.values():
        change[b['first']] += b['bytes']
        change[min(b['end'], nodes - 1) + 1] -= b['bytes']
    live = best = 0
    for value in change:
        live += value
        best = max(best, live)
    return best


def layout(name, dump):
    alignment = dump['alignment']
    check(alignment >= 64 and alignment & (alignment - 1) == 0, f'{name}: alignment {alignment}')
    programs = {p['name']: p for p in dump['programs']}
    check(len(programs) == len(dump['programs']) >= 1, f'{name}: programs')
    for tier, arena in dump['arena_bytes'].items():
        mine = [b for b in dump['buffers'] if b['tier'] == tier]
        for b in mine:
            check(b['offset'] % alignment == 0 and b['bytes'] % alignment == 0, f'{name}: {b["name"]} is not aligned')
            check(b['offset'] + b['bytes'] <= arena, f'{name}: {b["name"]} leaves the arena')
        highest = most = 0
        for program in dump['programs']:
            nodes = program['nodes']
            here = []
            for b in mine:
                if b['program'] not in (None, program['name']):
                    continue
                check(b['program'] is None or b['first'] <= b['last'] < nodes, f'{name}: time of {b["name"]}')
                here.append({**b, 'end': nodes - 1 if b['last'] is None else b['last']})
            for a, b in list(overlaps(here))[:3]:
                check(False, f'{name}: {program["name"]}: {a["name"]} and {b["name"]} overlap')
            bound = lower_bound(here, nodes)
            top = max((b['offset'] + b['bytes'] for b in here), default=0)
            check(top >= bound, f'{name}: {program["name"]}: {top} below the bound {bound}')
            check(top <= max(1.01 * bound, highest),  # or within what the programs before it need anyway
                  f'{name}: {program["name"]}: {top} is more than 1.01 x {bound}')
            highest, most = max(highest, top), max(most, bound)
        check(highest <= 1.01 * most, f'{name}: {highest} of {tier} is more than 1.01 x {most}')
        check(highest == arena, f'{name}: the arena of {tier} is {arena}, used {highest}')


def self_test():
    a = {'name': 'a', 'offset': 0, 'bytes': 64, 'first': 0, 'end': 2, 'home': 0}
    b = {'name': 'b', 'offset': 32, 'bytes': 64, 'first': 2, 'end': 3, 'home': 1}
    assert list(overlaps([a, b])), 'an overlap is found'
    assert not list(overlaps([a, {**b, 'first': 3}])), 'apart in time'
    assert not list(overlaps([a, {**b, 'offset': 64}])), 'apart in space'
    assert not list(overlaps([a, {**b, 'offset': 0, 'home': 0}])), 'taken over'
    assert list(overlaps([a, {**b, 'offset': 0}])), 'not of one home'
    assert list(overlaps([a, {**b, 'offset': 0, 'home': 0, 'first': 1}])), 'taken over too early'
    assert lower_bound([a, b], 4) == 128 and lower_bound([a, {**b, 'first': 3}], 4) == 64


self_test()
seen = 0
for folder, _, names in sorted(os.walk(RECIPES)):
    for name in sorted(n for n in names if n.endswith('.yaml')):
        for setting in [[], ['--set', 'training.gradient_accumulation=2', '--set', 'training.eval_every=3'],
                        ['--set', 'model.precision=bf16-true']]:
            stage = {'stages.yaml': 'whole', '004-24gb.yaml': '01', '003-stages.yaml': 'fusion'}.get(name)
            setting = setting + (['--set', f'stage={stage}'] if stage else [])  # a layout is of one stage
            result = run('dump', os.path.join(folder, name), '--after', 'plan', '--json', *setting).expect(0)
            if result.code == 0:
                layout(name + ' ' + ' '.join(setting), result.json())
                seen += 1
check(seen >= 21, f'{seen} layouts seen')
finish()
