"""Reading a page of `headroom report` as its own script does: columns, names, areas, streams."""
import base64
import hashlib
import json
import re

from support import check


def unpack(text):
    """Numbers of a column (src/report/columns.h)."""
    data, out, at = base64.b64decode(text, validate=True), [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    while at < len(data):
        for _ in range(number()):
            out.append(number())
        if at >= len(data):
            break
        length, back = number(), number()
        for _ in range(length):
            out.append(out[-back])
    return out


def signed(value):
    return -(value + 1) // 2 if value % 2 else value // 2


def rising(text):
    value, out = 0, []
    for number in unpack(text):
        value += signed(number)
        out.append(value)
    return out


def names(patterns, pair):
    which, numbers, before, out, at = unpack(pair[0]), unpack(pair[1]), {}, [], 0
    for pattern in which:
        pieces = patterns[pattern]
        text = pieces[0]
        for hole, piece in enumerate(pieces[1:]):
            before[hole] = before.get(hole, 0) + signed(numbers[at])
            at += 1
            text += str(before[hole]) + piece
        out.append(text)
    return out


class Layout:
    def __init__(self, data):
        self.data, self.unit, self.patterns = data, data['unit'], data['names']

    def buffers(self, tiers=('device', 'host', 'disk')):
        """As `dump --after plan --json` lists them."""
        b = self.data['buffers']
        columns = {key: names(self.patterns, b[key]) for key in ('name', 'module', 'shape')}
        columns.update({key: unpack(b[key]) for key in ('tier', 'category', 'program', 'bytes', 'length', 'owner')})
        columns.update({key: rising(b[key]) for key in ('offset', 'first', 'home')})
        for key, column in columns.items():
            check(len(column) == b['count'], f'column {key} has {len(column)} of {b["count"]} entries')
        out = []
        for i in range(b['count']):
            c = {key: column[i] for key, column in columns.items()}
            lasts = c['program'] == 0
            out.append({'name': c['name'], 'tier': tiers[c['tier']], 'category': self.data['categories'][c['category']],
                        'program': None if lasts else self.data['programs'][c['program'] - 1]['name'], 'bytes': c['bytes'] * self.unit,
                        'first': c['first'], 'last': None if lasts else c['first'] + c['length'], 'offset': c['offset'] * self.unit,
                        'home': c['home'], 'module': c['module'], 'shape': c['shape'] or None})
        return out

    def areas(self, tier, program, by):
        """A list of bytes over the nodes for each series; the last two are gaps and fixed."""
        held, count = self.data['tiers'][tier], max(1, self.data['programs'][program]['nodes'])
        out = []
        for on, change in held['programs'][program][by]:
            row, value, at = [], 0, 0
            for step, difference in zip(unpack(on), unpack(change)):
                row += [value] * step
                at += step
                value += signed(difference) * self.unit
            out.append(row + [value] * (count - at))
        out.append([held['fixed_bytes']] * count)
        return out

    def spans(self, program, stream):
        """(node, begin, end, waits) in nanoseconds."""
        s, out, at = self.data['programs'][program]['streams'][stream], [], 0
        for node, idle, length in zip(rising(s['node']), unpack(s['idle']), unpack(s['length'])):
            out.append((node, at + idle, at + idle + length // 2, length % 2))
            at += idle + length // 2
        check(len(out) == s['count'], f'stream {s["name"]}: {len(out)} of {s["count"]} spans')
        return out


def read(path):
    """The data of a page, after looking at what could leave it or come into it."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    scripts = re.findall(r'<script>(.*?)</script>', text, re.S)
    styles = re.findall(r'<style>(.*?)</style>', text, re.S)
    check(len(scripts) == 1 and len(styles) == 1, f'{path}: {len(scripts)} scripts, {len(styles)} styles')
    check(text.count('<script') == 2 and text.count('</script') == 2, f'{path}: something looks like a script')
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    for kind, part in (('script', scripts[0]), ('style', styles[0])):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        check(f"{kind}-src 'sha256-{digest}'" in policy, f'{path}: the policy does not name its {kind}: {policy}')
    check(policy.startswith("default-src 'none'") and 'unsafe' not in policy, f'{path}: {policy}')
    outside = set(re.findall(r'\b(?:https?|ws|ftp)://[^\s"\'<]+', text.replace('\\/', '/')))
    check(outside <= {'http://www.w3.org/2000/svg'}, f'{path} names {outside}')
    check(text.isascii() or all(ord(c) < 128 for c in text.split('id="data">')[1].split('</script>')[0]), f'{path}: data beyond ASCII')
    check('<!-- headroom report -->' in text[:200], f'{path} has no mark')
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))
