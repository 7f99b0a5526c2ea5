// A program on its streams, in time: what copies are hidden behind computing, and where computing waits for them.
const STREAM_COLORS = ['forward', 'in', 'out', 'host'];

function streamsPicture(view) {
  const lane = 34, gap = 12;
  let pointed = null;
  const program = () => view.layout.programs[view.program];
  const lanes = () => program().streams.map((s, i) => i).filter((i) => program().streams[i].count > 0);
  const range = { x: [0, 1] };
  const full = () => { range.x = [0, Math.max(program().seconds, 1e-9)]; };
  const xOf = (p, t) => p.x + p.w * (t - range.x[0]) / (range.x[1] - range.x[0]);
  // First span that ends after a time: spans of a stream follow each other.
  function firstAfter(s, time) {
    let low = 0, high = s.count;
    while (low < high) { const middle = (low + high) >> 1; if (s.end[middle] > time) high = middle; else low = middle + 1; }
    return low;
  }
  const colorAt = (stream, s, i) => (s.waits[i] ? 'waits' : stream === 0 ? PHASES[view.layout.phase(view.program)[s.node[i]]] : STREAM_COLORS[stream]);
  function drawLane(context, p, stream, top) {
    const s = view.layout.stream(view.program, stream), width = Math.ceil(p.w), covered = new Map();
    context.fillStyle = palette.get('free');
    context.fillRect(p.x, top, p.w, lane);
    for (let i = firstAfter(s, range.x[0]); i < s.count && s.begin[i] < range.x[1]; i++) {
      const x0 = Math.max(xOf(p, s.begin[i]), p.x), x1 = Math.min(xOf(p, s.end[i]), p.x + p.w), color = colorAt(stream, s, i);
      if (x1 - x0 >= 1.5) {
        context.fillStyle = palette.get(color);
        context.fillRect(x0, top, x1 - x0 - (x1 - x0 > 8 ? 0.5 : 0), lane);
        continue;
      }
      if (!covered.has(color)) covered.set(color, new Float64Array(width + 1)); // many in one pixel: as much colour as time
      covered.get(color)[Math.min(width, Math.floor((x0 + x1) / 2 - p.x))] += x1 - x0;
    }
    for (const [color, share] of covered) {
      context.fillStyle = palette.get(color);
      for (let px = 0; px < width; px++) {
        if (share[px] <= 0) continue;
        context.globalAlpha = Math.min(1, Math.max(share[px], 0.12));
        context.fillRect(p.x + px, top, 1, lane);
      }
      context.globalAlpha = 1;
    }
  }
  function draw(pic, context) {
    const p = pic.plot;
    lanes().forEach((stream, k) => {
      const top = p.y + k * (lane + gap);
      drawLane(context, p, stream, top);
      context.fillStyle = palette.get('soft');
      context.textAlign = 'right';
      context.textBaseline = 'middle';
      context.fillText(program().streams[stream].name, p.x - 8, top + lane / 2);
    });
    axisX(context, p, range.x, seconds);
  }
  function find(pic, px, py) {
    const p = pic.plot, k = Math.floor((py - p.y) / (lane + gap)), stream = lanes()[k];
    if (stream == null || px < p.x || px > p.x + p.w) return null;
    const s = view.layout.stream(view.program, stream), time = range.x[0] + (range.x[1] - range.x[0]) * (px - p.x) / p.w;
    const i = firstAfter(s, time), slack = (range.x[1] - range.x[0]) / p.w * 2;
    return i < s.count && s.begin[i] <= time + slack ? { stream, i, k } : null;
  }
  function words({ stream, i }) {
    const s = view.layout.stream(view.program, stream);
    return [`${s.waits[i] ? 'waits: ' : ''}${view.nodeText(s.node[i])}`, [['stream', program().streams[stream].name], ['node', whole(s.node[i])],
      ['begins', seconds(s.begin[i])], ['takes', seconds(s.end[i] - s.begin[i])]]];
  }
  function probe(pic, x, y) {
    pointed = find(pic, x, y);
    if (!pointed) return null;
    const [title, list] = words(pointed);
    return [el('b', {}, title), pairs(list, true)];
  }
  function over(pic, context) {
    if (!pointed) return;
    const p = pic.plot, s = view.layout.stream(view.program, pointed.stream), x0 = xOf(p, s.begin[pointed.i]), x1 = xOf(p, s.end[pointed.i]);
    context.strokeStyle = palette.get('mark');
    context.lineWidth = 2;
    context.strokeRect(x0, p.y + pointed.k * (lane + gap), Math.max(x1 - x0, 1), lane);
  }
  function key(pic, e) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key], other = { ArrowUp: -1, ArrowDown: 1 }[e.key], all = lanes();
    if ((!step && !other) || !all.length) return false;
    if (!pointed) pointed = { stream: all[0], i: 0, k: 0 };
    else if (step) pointed.i = Math.max(0, Math.min(program().streams[pointed.stream].count - 1, pointed.i + step * (e.shiftKey ? 50 : 1)));
    else {
      const begin = view.layout.stream(view.program, pointed.stream).begin[pointed.i], k = Math.max(0, Math.min(all.length - 1, pointed.k + other));
      const s = view.layout.stream(view.program, all[k]);
      pointed = { stream: all[k], i: Math.min(s.count - 1, firstAfter(s, begin)), k };
    }
    const [title, list] = words(pointed);
    pic.say(`${title}: ${list.map(([name, text]) => `${name} ${text}`).join(', ')}`);
    pic.redrawAbove();
    return true;
  }
  const height = () => 8 + Math.max(1, lanes().length) * (lane + gap) - gap + 28;
  const picture = new Picture({ height: height(), margin: [8, 8, 28, 78], zoom: 'x', draw, probe, over, key, left: () => { pointed = null; },
    label: 'streams of a step over time; arrow keys go from span to span and stream to stream, plus and minus zoom' });
  picture.view = (x) => { range.x = viewed(range.x, x, [0, program().seconds], program().seconds / 1e5); picture.redraw(); };
  picture.reset = () => { full(); picture.redraw(); };
  full();
  let shown = view.program;
  view.listeners.push(() => {
    if (view.program === shown) return;
    shown = view.program;
    pointed = null;
    full();
    picture.box.style.height = height() + 'px';
    picture.redraw();
  });
  return picture;
}

function hiddenText(program) {
  const [, into, out] = program.streams, copying = into.busy_seconds + out.busy_seconds;
  if (copying === 0) return 'Nothing is copied between tiers in this program: kernels follow each other.';
  const hidden = Math.max(0, copying - program.wait_seconds);
  return `Copies take ${seconds(copying)} (${size(into.bytes)} in, ${size(out.bytes)} out). Computing waits ${seconds(program.wait_seconds)} for them: ` +
    `${percent(hidden / copying)} of the copying is hidden behind other work.`;
}

function streamsCard(view) {
  const picture = streamsPicture(view), lead = el('p', { class: 'lead' }), tableBox = el('details', {}, el('summary', {}, 'as a table'));
  const legend = el('ul', { class: 'legend' });
  const fill = () => {
    const program = view.layout.programs[view.program];
    lead.textContent = plain(hiddenText(program));
    const phases = new Set(view.layout.phase(view.program));
    const items = [...PHASES.map((name, i) => phases.has(i) && [name, name]), ['in', 'copies in'], ['out', 'copies out'], ['host', 'host'], ['waits', 'waits for a copy']]
      .filter((item, i) => item && (i < 3 || (i === 3 && program.streams[1].count) || (i === 4 && program.streams[2].count) || (i === 5 && program.streams[3].count) || (i === 6 && program.wait_seconds > 0)));
    legend.replaceChildren(...items.map(([color, name]) => el('li', {}, swatch(colorOf(color)), name)));
    tableBox.replaceChildren(tableBox.firstChild, table(`program ${program.name}: ${seconds(program.seconds)}`, ['stream', 'busy', 'of the program', 'moved', 'spans'],
      [...program.streams.filter((s) => s.count).map((s) => [s.name, seconds(s.busy_seconds), percent(s.busy_seconds / program.seconds), s.bytes ? size(s.bytes) : '–', whole(s.count)]),
        ['waits of kernels', seconds(program.wait_seconds), percent(program.wait_seconds / program.seconds), '–', '–']]));
  };
  let shown = view.program;
  view.listeners.push(() => { if (shown !== view.program) { shown = view.program; fill(); } });
  fill();
  view.streams = picture;
  view.recolor = fill;
  return card('streams', 'Streams of a step', null, lead, el('div', { class: 'bar' }, el('span', { class: 'push' }), picture.buttons()), picture.box, picture.readout, legend, tableBox);
}
