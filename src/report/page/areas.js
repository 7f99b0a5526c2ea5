// Memory over the nodes of a program, stacked by category or owner. At every node the areas sum to the tier's peak: what is alive,
// what of the arena is free just then, and fixed costs.
const PHASES = ['forward', 'backward', 'update'];

// What the pictures of one plan share: which tier, which program, which nodes.
class View {
  constructor(subject) {
    this.subject = subject;
    this.layout = new Layout(subject.layout);
    this.tier = 0;
    this.by = 'categories';
    this.program = Math.max(0, this.layout.tiers[0] ? this.layout.tiers[0].peak_program : 0);
    const program = this.layout.programs[this.program], copies = program ? program.streams[1].count + program.streams[2].count : 0;
    this.axis = copies > 0.1 * this.nodes ? 'time' : 'nodes'; // nodes that only copy would take most of the picture
    this.listeners = [];
    this.reset();
  }
  get nodes() { return Math.max(1, this.layout.programs[this.program].nodes); }
  get tierData() { return this.layout.tiers[this.tier]; }
  get names() { return this.by === 'categories' ? this.layout.categories : this.tierData.owners; }
  get series() { return this.layout.areas(this.tier, this.program, this.by); }
  get atPeak() { return this.tierData.peak_program === this.program ? this.tierData.peak_node : null; }
  reset() { this.x = [0, this.edge(this.nodes)]; this.y = [0, this.arena]; }
  // Where a node begins on the axis, which counts nodes or seconds, and the node that a place lies in.
  edge(n) { return this.axis === 'time' ? this.layout.times(this.program)[n] : n; }
  middle(n) { return (this.edge(n) + this.edge(n + 1)) / 2; }
  nodeAt(place) {
    if (this.axis !== 'time') return Math.max(0, Math.min(this.nodes - 1, Math.floor(place)));
    const times = this.layout.times(this.program);
    let low = 0, high = this.nodes - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (times[middle] <= place) low = middle; else high = middle - 1; }
    return low;
  }
  // A part of the axis that can be seen: inside of its ends, and some nodes long.
  seen(range, part = [0, 1]) {
    const all = this.edge(this.nodes);
    return viewed(range, part, [0, all], this.axis === 'time' ? all / 1e5 : Math.min(4, all));
  }
  get arena() { return this.tierData ? this.tierData.peak_bytes - this.tierData.fixed_bytes : 0; }
  set(change, all) {
    Object.assign(this, change);
    if (all) this.reset();
    for (const f of this.listeners) f(Boolean(all) || 'by' in change);
  }
  nodeText(n) {
    const ops = this.layout.ops(this.program);
    return ops.count ? `${ops.at(n)} · ${this.layout.modules(this.program).at(n)}` : '';
  }
}

function stackOrder(by, count) {
  if (by !== 'categories') return [count - 1, ...Array(count - 1).keys()];
  return [10, 0, 2, 1, 3, 4, 8, 5, 6, 7, 9]; // what lasts lies below, what is free above
}

// For each column of pixels the node of it that holds the most, so that no peak is lost.
function fullest(view, width) {
  const series = view.series, count = series.length, gaps = series[count - 2], [a, b] = view.x, out = new Uint32Array(width);
  for (let px = 0; px < width; px++) {
    const from = view.nodeAt(a + (b - a) * px / width), to = Math.max(from + 1, view.nodeAt(a + (b - a) * (px + 1) / width));
    let best = Math.min(from, gaps.length - 1);
    for (let n = best + 1; n < to && n < gaps.length; n++) if (gaps[n] < gaps[best]) best = n;
    out[px] = best;
  }
  return out;
}

function phaseStrip(view, context, p, top) {
  const phase = view.layout.phase(view.program), [a, b] = view.x;
  const at = (px) => phase[view.nodeAt(a + (b - a) * (px + 0.5) / p.w)];
  for (let px = 0, end; phase.length && px < p.w; px = end) {
    for (end = px + 1; end < p.w && at(end) === at(px);) end++;
    context.fillStyle = palette.get(PHASES[at(px)]);
    context.globalAlpha = 0.85;
    context.fillRect(p.x + px, top, Math.min(end, p.w) - px, 4);
    context.globalAlpha = 1;
    if (end - px <= 60) continue;
    context.fillStyle = palette.get('faint');
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.fillText(PHASES[at(px)], p.x + (px + end) / 2, top + 6);
  }
}

function areasPicture(view) {
  let columns = null, node = null;
  const top = () => view.tierData.peak_bytes * 1.06;
  const xOf = (p, n) => p.x + p.w * (view.middle(n) - view.x[0]) / (view.x[1] - view.x[0]);
  const yOf = (p, bytes) => p.y + p.h * (1 - bytes / top());
  function draw(pic, context) {
    const p = pic.plot, series = view.series, width = Math.max(1, Math.round(p.w));
    columns = fullest(view, width);
    axisY(context, p, [0, top()], size, true);
    const below = new Float64Array(width);
    for (const s of stackOrder(view.by, series.length)) {
      const name = seriesColor(view.by, s, series.length), values = series[s];
      let any = false;
      context.beginPath();
      context.moveTo(p.x, yOf(p, below[0]));
      const upper = new Float64Array(width);
      for (let px = 0; px < width; px++) {
        upper[px] = below[px] + values[columns[px]];
        any = any || values[columns[px]] > 0;
        const y = yOf(p, upper[px]);
        context.lineTo(p.x + px, y);
        context.lineTo(p.x + px + 1, y);
      }
      for (let px = width - 1; px >= 0; px--) {
        const y = yOf(p, below[px]);
        context.lineTo(p.x + px + 1, y);
        context.lineTo(p.x + px, y);
      }
      below.set(upper);
      if (!any) continue;
      context.fillStyle = palette.get(name);
      context.fill();
      if (name === 'free') { context.fillStyle = hatch(context); context.fill(); }
    }
    peakMark(context, p);
    phaseStrip(view, context, p, p.y + p.h + 3);
    context.fillStyle = palette.get('faint');
    context.textBaseline = 'top';
    context.textAlign = 'left';
    const timed = view.axis === 'time';
    context.fillText(timed ? seconds(view.x[0]) : 'node ' + Math.floor(view.x[0]), p.x, p.y + p.h + 22);
    context.textAlign = 'right';
    context.fillText(timed ? seconds(view.x[1]) : String(Math.ceil(view.x[1]) - 1), p.x + p.w, p.y + p.h + 22);
  }
  function peakMark(context, p) {
    const y = yOf(p, view.tierData.peak_bytes);
    context.strokeStyle = palette.get('mark');
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(p.x, y);
    context.lineTo(p.x + p.w, y);
    const at = view.atPeak, seen = at != null && view.edge(at + 1) > view.x[0] && view.edge(at) < view.x[1];
    const x = seen ? xOf(p, at) : 0;
    if (seen) { context.moveTo(x, y); context.lineTo(x, p.y + p.h); }
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = palette.get('ink');
    context.textBaseline = 'bottom';
    context.textAlign = !seen || x > p.x + p.w / 2 ? 'right' : 'left';
    context.fillText('peak ' + size(view.tierData.peak_bytes) + (seen ? ', node ' + at : ''), !seen ? p.x + p.w : x + (x > p.x + p.w / 2 ? 4 : -4), y - 3);
    if (!seen) return;
    context.beginPath();
    context.arc(x, y, 3.5, 0, 7);
    context.fill();
  }
  function told(n) {
    const series = view.series, list = [];
    let sum = 0;
    for (const s of stackOrder(view.by, series.length).reverse()) {
      sum += series[s][n];
      if (series[s][n] > 0) list.push([view.names[s], size(series[s][n]), colorOf(seriesColor(view.by, s, series.length))]);
    }
    return { list, sum };
  }
  function probe(pic, x) {
    const p = pic.plot, px = Math.round(x - p.x);
    if (!columns || px < 0 || px >= columns.length) { node = null; return null; }
    node = columns[px];
    return content(node);
  }
  function content(n) {
    const { list, sum } = told(n), phase = PHASES[view.layout.phase(view.program)[n]];
    return [el('b', {}, `node ${n}${phase ? ', ' + phase : ''}`), view.nodeText(n), pairs([...list, ['all', size(sum)]])];
  }
  function over(pic, context) {
    if (node == null) return;
    const p = pic.plot, x = Math.round(xOf(p, node)) + 0.5;
    if (x < p.x || x > p.x + p.w) return;
    context.strokeStyle = palette.get('ink');
    context.beginPath();
    context.moveTo(x, p.y);
    context.lineTo(x, p.y + p.h);
    context.stroke();
  }
  function key(pic, e) {
    const far = e.shiftKey ? Math.max(1, Math.round((view.x[1] - view.x[0]) / 20)) : 1;
    const to = { ArrowLeft: (node ?? 0) - far, ArrowRight: node == null ? 0 : node + far, Home: 0, End: view.nodes - 1, p: view.atPeak ?? node ?? 0 }[e.key];
    if (to == null) return false;
    node = Math.max(0, Math.min(view.nodes - 1, to));
    if (view.middle(node) < view.x[0] || view.middle(node) >= view.x[1]) {
      const half = (view.x[1] - view.x[0]) / 2, at = view.middle(node);
      view.set({ x: view.seen([at - half, at + half]) });
    }
    const { list, sum } = told(node);
    pic.say(`node ${node}, ${view.nodeText(node)}: ${list.map(([name, text]) => `${name} ${text}`).join(', ')}; all ${size(sum)}`);
    pic.redrawAbove();
    return true;
  }
  const picture = new Picture({ height: 340, margin: [24, 8, 40, 78], zoom: 'x', draw, probe, over, key, left: () => { node = null; },
    label: 'memory over the nodes of a step; arrow keys go from node to node, p to the peak, plus and minus zoom' });
  picture.view = (x) => view.set({ x: view.seen(view.x, x) });
  picture.reset = () => view.set({}, true);
  view.listeners.push(() => picture.redraw());
  return picture;
}

function areasLegend(view) {
  const list = el('ul', { class: 'legend' });
  const fill = () => {
    const series = view.series, n = view.atPeak ?? view.layout.programs[view.program].peak_node;
    list.replaceChildren(...stackOrder(view.by, series.length).filter((s) => series[s].some((v) => v > 0)).map((s) =>
      el('li', {}, swatch(colorOf(seriesColor(view.by, s, series.length))), view.names[s] === 'gaps' ? 'gaps (free just then)' : view.names[s], el('span', {}, size(series[s][n])))));
  };
  view.listeners.push((all) => { if (all) fill(); });
  fill();
  return list;
}

// The same as a table: at the node with the most, and the most of each over the program.
function areasTable(view) {
  const box = el('details', {}, el('summary', {}, 'as a table'));
  const fill = () => {
    const series = view.series, n = view.atPeak ?? view.layout.programs[view.program].peak_node;
    const rows = stackOrder(view.by, series.length).filter((s) => series[s].some((v) => v > 0)).map((s) =>
      [view.names[s], size(series[s][n]), percent(series[s][n] / view.tierData.peak_bytes), size(series[s].reduce((a, b) => Math.max(a, b), 0)), whole(series[s][n])]);
    rows.push({ class: 'chosen', cells: ['all', size(view.tierData.peak_bytes), '100.0 %', size(view.tierData.peak_bytes), whole(view.tierData.peak_bytes)] });
    box.replaceChildren(box.firstChild, table(`${view.tierData.name}, program ${view.layout.programs[view.program].name}, node ${n}`,
      ['', 'at that node', 'share', 'most at any node', 'bytes'], rows));
  };
  view.listeners.push((all) => { if (all && box.open) fill(); });
  box.addEventListener('toggle', () => { if (box.open) fill(); });
  return box;
}

function areasCard(view) {
  const picture = areasPicture(view), layout = view.layout;
  const bar = el('div', { class: 'bar' },
    pickOne('tier', layout.tiers.map((t) => t.name), view.tier, (tier) => view.set({ tier }, true)),
    choice('by', ['by category', 'by owner'], 0, (i) => view.set({ by: i ? 'owners' : 'categories' })),
    choice('axis', ['by node', 'by time'], view.axis === 'time' ? 1 : 0, (i) => view.set({ axis: i ? 'time' : 'nodes' }, true)),
    layout.programs.length > 1 && el('label', {}, 'program', dropdown('program', layout.programs.map((p) => p.name), view.program, (program) => view.set({ program }, true))),
    el('span', { class: 'push' }), picture.buttons());
  view.areas = picture;
  return card('memory', 'Memory over a step', 'The arena is taken whole before the first step. This is what each node of the program finds in it: with what is free just then, ' +
    'and fixed costs of the process, every node sums to the peak.', bar, picture.box, picture.readout, areasLegend(view),
  el('p', { class: 'hint' }, 'Drag, or Ctrl and wheel, to zoom; double-click for all of it. Keys: arrows, p (peak), + −, 0.'), areasTable(view));
}
