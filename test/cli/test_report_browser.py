#!/usr/bin/env python3
"""Pages of headroom report in a real browser: they draw without a word in the console and without asking anybody for anything, in light and
dark, wide and narrow; areas sum to the peak, pointing shows what dump says, search and zoom work, keys do, nothing hostile runs, and all of it is
quick. Skipped where there is no Chromium."""
import json
import os
import statistics
import sys

import browser
from support import Folder, ROOT, TINY, check, finish, run

if not browser.find():
    print('skipped: no chromium here (Debian: apt-get install chromium)')
    sys.exit(77)

HOSTILE = '</script><img src=x onerror=alert(1)>\u202e\x1b[31m'
PAINT_MS, HOVER_MS = 1000, 50
OFFLOAD = ('--set', 'memory.offload={optimizer: host, parameters: host, gradients: host, activations: host}')
SUMS = """(() => { const l = report.view.layout, out = [];
  l.tiers.forEach((tier, t) => l.programs.forEach((p, k) => ['categories', 'owners'].forEach((by) => {
    const s = l.areas(t, k, by);
    for (let n = 0; n < s[0].length; n++) { let sum = 0; for (const row of s) sum += row[n]; if (sum !== tier.peak_bytes) out.push([t, k, by, n, sum]); }
  }))); return out.slice(0, 5); })()"""
# What a move of the pointer takes, until what it shows is laid out.
HOVER = """(() => { const pic = report.view.picture, box = pic.canvas.getBoundingClientRect(), out = [];
  for (let i = 0; i < 40; i++) { const begun = performance.now();
    pic.canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 90 + i * (box.width - 110) / 40, clientY: box.top + 20 + (i * 37) % (box.height - 60), bubbles: true }));
    document.getElementById('tip').getBoundingClientRect(); out.push(performance.now() - begun); }
  return out; })()"""


def quiet(page, name):
    check(page.console == [], f'{name}: the console says {page.console[:3]}')
    foreign = [url for url in page.requests if not url.startswith('file://')]
    check(len(page.requests) == 1 and not foreign, f'{name} asked for {page.requests[:4]}')


def looked_at(chrome, path, name):
    """In both colours and both widths."""
    paints, drawn = [], []
    for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
        page = chrome.open(path, width, 900, dark, width < 600)
        where = f'{name} {width} {"dark" if dark else "light"}'
        check(page.run('document.documentElement.dataset.theme') == ('dark' if dark else 'light'), f'{where}: colours')
        check(page.run('document.documentElement.scrollWidth') <= width, f'{where}: {page.run("document.documentElement.scrollWidth")} wide')
        check(page.run('[...document.querySelectorAll("canvas[role=img]")].every((c) => c.getAttribute("aria-label") && c.tabIndex === 0)'), f'{where}: a picture without a name')
        check(page.run('[...document.querySelectorAll("button")].every((b) => b.textContent.trim() || b.getAttribute("aria-label"))'), f'{where}: a button without a name')
        page.wait('performance.getEntriesByName("first-contentful-paint").length')
        paints.append(page.run('performance.getEntriesByName("first-contentful-paint")[0].startTime'))
        drawn.append(page.run('report.drawn'))
        quiet(page, where)
        folder = os.environ.get('HEADROOM_SCREENSHOTS')
        if folder:
            page.screenshot(os.path.join(folder, f'{name}-{width}-{"dark" if dark else "light"}.png'))
        page.close()
    print(f'{name}: first paint after {", ".join(f"{p:.0f}" for p in paints)} ms, all drawn after {", ".join(f"{d:.0f}" for d in drawn)} ms, {os.path.getsize(path)} bytes')
    check(min(paints) <= PAINT_MS, f'{name}: first paint after {min(paints):.0f} ms')


def hover_check(page, buffers, name):
    """The tooltip of buffers that can be pointed at is what dump says of them."""
    page.run('report.view.picture.box.scrollIntoView({ block: "center" })')
    shown = page.run('report.view.picture.list()')
    seen = 0
    for i in sorted(shown, key=lambda i: -buffers[i]['bytes'])[:60]:
        x, y, w, h = page.run(f'report.view.picture.place({i})')
        if w < 2 or h < 2 or seen == 12:
            continue
        page.point(x, y)
        tip, wanted = page.run('document.getElementById("tip").innerText'), buffers[i]
        over = [b for b in buffers if b['home'] == wanted['home'] and b is not wanted]
        if over:
            continue # a slot that several share: the one that is alive under the pointer is shown
        for part in (wanted['name'], wanted['shape'] or 'workspace', f'{wanted["bytes"]:,}', wanted['module'], wanted['category'], f'{wanted["offset"]:,}'):
            check(part in tip, f'{name}: {part!r} is not in the tooltip of {wanted["name"]}: {tip!r}')
        if wanted['last'] is not None:
            check(f'nodes {wanted["first"]} to {wanted["last"]}' in tip, f'{name}: {tip!r}')
        seen += 1
    check(seen >= 5, f'{name}: pointed at {seen} buffers')


def zoom_check(page):
    state = 'JSON.stringify([report.view.x, report.view.y])'
    everything = page.run(state)
    box = page.run('(() => { report.view.picture.box.scrollIntoView({ block: "center" }); const b = report.view.picture.canvas.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()')
    left, top, width, height = box
    page.drag(left + 0.3 * width, top + 0.3 * height, left + 0.5 * width, top + 0.6 * height)
    zoomed = json.loads(page.run(state))
    whole = json.loads(everything)
    check(zoomed[0][1] - zoomed[0][0] < 0.4 * (whole[0][1] - whole[0][0]) and zoomed[1][1] - zoomed[1][0] < 0.6 * (whole[1][1] - whole[1][0]), f'a box: {zoomed} of {whole}')
    page.run('report.view.picture.canvas.focus()')
    page.key('0', '0')
    check(page.run(state) == everything, 'all of it again')
    page.key('+', '+')
    closer = json.loads(page.run(state))
    check(closer[0][1] - closer[0][0] < whole[0][1] - whole[0][0], f'plus: {closer}')
    page.run('[...document.querySelectorAll("#layout .group button")].find((b) => b.textContent === "all").click()')
    check(page.run(state) == everything, 'the button for all of it')


def search_check(page, buffers):
    shown = page.run('report.view.picture.list()')
    words = 'mlp'
    matched = [i for i in shown if words in f'{buffers[i]["name"]}\n{buffers[i]["module"]}\n{buffers[i]["shape"]}\n{buffers[i]["category"]}'.lower()]
    page.run('report.view.search.focus()')
    page.call('Input.insertText', text=words)
    told = page.run('document.querySelector("#layout [aria-live=polite].hint").textContent')
    check(told.startswith(f'{len(matched):,} of {len(shown):,} buffers') and matched, f'search: {told}, expected {len(matched)}')
    first = page.run('document.querySelector("#layout .found button").innerText')
    largest = max(matched, key=lambda i: (buffers[i]['bytes'], -i))
    check(buffers[largest]['name'] in first, f'search: {first!r} before {buffers[largest]["name"]}')
    before = page.run('report.view.x[1] - report.view.x[0] + report.view.y[1] - report.view.y[0]')
    page.key('Enter')
    check(page.run('report.view.x[1] - report.view.x[0] + report.view.y[1] - report.view.y[0]') < before, 'Enter goes to a match')
    check(buffers[largest]['name'] in page.run('document.querySelector("#layout .readout").textContent'), 'the match is told')
    page.run('report.view.search.value = ""; report.view.search.dispatchEvent(new Event("input")); report.view.set({}, true)')


def keys_check(page):
    page.run('report.view.areas.canvas.focus()')
    for name, text in (('p', 'p'), ('ArrowRight', ''), ('ArrowLeft', '')):
        page.key(name, text)
    told = page.run('document.querySelector("#memory .readout").textContent')
    check(told.startswith(f'node {page.run("report.view.atPeak")},') and 'all ' in told, f'keys over areas: {told!r}')
    page.run('report.view.picture.canvas.focus()')
    for _ in range(3):
        page.key('ArrowUp')
    check('shape' in page.run('document.querySelector("#layout .readout").textContent'), 'keys over the layout')
    page.run('report.view.streams.canvas.focus()')
    page.key('ArrowRight')
    page.key('ArrowDown')
    check('takes' in page.run('document.querySelector("#streams .readout").textContent'), 'keys over streams')


def controls_check(page):
    """Every choice of the first picture is drawn, and the pictures are not empty."""
    ink = '((c) => new Set(new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer)).size)'
    page.run('[...document.querySelectorAll("#memory .group button")].find((b) => b.textContent === "by owner").click()')
    check(page.run('report.view.by') == 'owners' and page.run(f'{ink}(report.view.areas.canvas)') > 8, 'by owner')
    page.run('[...document.querySelectorAll("#memory .group button")].find((b) => b.textContent === "by time").click()')
    check(abs(page.run('report.view.x[1]') - page.run('report.view.layout.programs[report.view.program].seconds')) < 1e-9 and page.run(f'{ink}(report.view.areas.canvas)') > 8, 'by time')
    check(page.run('Array.from({ length: report.view.nodes }, (_, n) => report.view.edge(n) <= report.view.edge(n + 1)).every(Boolean)'), 'times do not rise')
    page.run('[...document.querySelectorAll("#memory .group button")].find((b) => b.textContent === "host").click()')
    check(page.run('report.view.tierData.name') == 'host' and page.run(f'{ink}(report.view.picture.canvas)') > 4, 'the host')
    page.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
    page.run('document.getElementById("theme").click()')
    check(page.wait('report.ready') and page.run('document.documentElement.dataset.theme') == 'dark', 'the switch of colours')


with Folder() as folder:
    chrome = browser.Browser(browser.find())
    try:
        recipe = folder.write('tiny.yaml', TINY.replace('num_hidden_layers: 2', 'num_hidden_layers: 4'))
        plan = f'{folder.path}/plan.html'
        run('report', recipe, *OFFLOAD, '--out', plan).expect(0)
        buffers = run('dump', recipe, *OFFLOAD, '--after', 'plan', '--json').json()['buffers']
        looked_at(chrome, plan, 'plan')
        page = chrome.open(plan)
        check(page.run(SUMS) == [], f'areas that are not the peak: {page.run(SUMS)}')
        hover_check(page, buffers, 'plan')
        zoom_check(page)
        search_check(page, buffers)
        keys_check(page)
        controls_check(page)
        quiet(page, 'plan, used')
        page.close()

        # a large one is quick
        large = f'{folder.path}/70b.html'
        run('report', f'{ROOT}/test/model/configs/Llama-3.1-70B', '--method', 'full', '--seq', '2048', '--gpu', 'H100', *OFFLOAD, '--set',
            'memory.host_budget=2TiB', '--out', large).expect(0)
        looked_at(chrome, large, '70b')
        page = chrome.open(large)
        check(page.run(SUMS) == [], f'70B: areas that are not the peak: {page.run(SUMS)}')
        page.run(HOVER) # once before the clock runs
        times = page.run(HOVER)
        print(f'70b: pointing takes {statistics.median(times):.1f} ms, {max(times):.1f} at most')
        check(statistics.median(times) <= HOVER_MS, f'70B: pointing takes {statistics.median(times):.1f} ms')
        quiet(page, '70b, used')
        page.close()

        # a run full of hostile texts, and two side by side
        os.mkdir(f'{folder.path}/{"a<b>"}')
        ran = f'{folder.path}/a<b>'
        lines = [{'schema': 1, 'recipe': HOSTILE, 'fingerprint': HOSTILE, 'planned_peak_bytes': 10, 'device': HOSTILE, 'planned_step_seconds': 1.0, 'steps': 9, 'step': 0,
                  'tiers': {t: {'planned_bytes': 5, 'budget_bytes': None} for t in ('device', 'host', 'disk')}}]
        lines += [{'step': n, 'loss': 3 / n if n != 4 else None, 'lr': 1e-3, 'grad_norm': 1.0, 'seconds': 1.0, 'tokens': 9, 'samples': 1, 'losses': {HOSTILE: 1.0 / n, 'b': 2.0},
                   'metrics': {HOSTILE: 0.5}} for n in range(1, 9)]
        lines += [{'step': 2**53 + n, 'loss': value, 'lr': value, 'grad_norm': value, 'seconds': 1e-300, 'tokens': 2**62, 'samples': 1} for n, value in
                  enumerate((1e308, -1e308, 1e-320, 1e16, 1e16 + 2, 0.0))]
        lines += [{'step': 8, 'event': 'warning', 'text': HOSTILE}, {'step': 8, 'event': HOSTILE}, {'step': 8, 'generated': [{'prompt': HOSTILE, 'text': HOSTILE, 'end': HOSTILE, 'expected': HOSTILE}]}]
        with open(f'{ran}/log.jsonl', 'w', encoding='utf-8') as file:
            file.writelines(json.dumps(line) + '\n' for line in lines)
        one, two = f'{folder.path}/run.html', f'{folder.path}/two.html'
        run('report', ran, '--out', one).expect(0)
        run('report', ran, '--compare', ran, '--out', two).expect(0)
        for path, name in ((one, 'run'), (two, 'runs')):
            looked_at(chrome, path, name)
            page = chrome.open(path)
            check(page.run('document.querySelectorAll("main img, main script, main b i").length') == 0, f'{name}: a text became markup')
            text = page.run('document.documentElement.outerHTML.split("id=\\"data\\"")[0] + document.title')
            check('\u202e' not in text and '\x1b' not in text and '\\u202e' in text, f'{name}: control characters are shown as they are')
            quiet(page, name)
            page.close()
        page = chrome.open(one, media='print')
        check(page.run('getComputedStyle(document.querySelector(".bar")).display') == 'none', 'controls are not printed')
        quiet(page, 'printed')
        page.close()
    finally:
        chrome.close()
finish()
