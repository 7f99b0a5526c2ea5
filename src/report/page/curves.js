// Curves of a run: losses, metrics, speed. Long ones come thinned: the least and the most of each stretch, and its mean.
function decodeCurve(c) {
  if (!c.read) {
    c.read = { steps: rising(c.steps), values: Float64Array.from(c.values, (v) => (v == null ? NaN : v)) };
    c.read.mean = c.mean ? { steps: rising(c.mean[0]), values: Float64Array.from(c.mean[1]) } : null;
  }
  return c.read;
}

const EVENT_COLORS = { saved: 'optimizer', skipped: 'gradients', started: 'parameters', warning: 'workspace', ended: 'faint' };
const CURVE_COLORS = ['parameters', 'gradients', 'optimizer', 'staging', 'inputs', 'workspace', 'activations', 'state'];

// lines: [{ curve, label, color, dots }]; events: [{ step, event }].
function curvePicture(title, lines, events, options = {}) {
  let step = null, log = options.log && lines.every((l) => l.curve.least && l.curve.least[1] > 0);
  const curves = lines.map((l) => decodeCurve(l.curve));
  const first = Math.min(...curves.map((c) => c.steps[0])), last = Math.max(...curves.map((c) => c.steps[c.steps.length - 1]));
  const bounds = [first, Math.max(last, first + 1)];
  let range = bounds;
  const scale = (v) => (log ? Math.log10(v) : v);
  function indexAt(c, at) {
    let low = 0, high = c.steps.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (c.steps[middle] < at) low = middle + 1; else high = middle; }
    if (low > 0 && at - c.steps[low - 1] < c.steps[low] - at) low--;
    return low;
  }
  function yRange() {
    let least = Infinity, most = -Infinity;
    for (const c of curves) {
      for (let i = Math.max(0, indexAt(c, range[0]) - 1), end = Math.min(c.steps.length - 1, indexAt(c, range[1]) + 1); i <= end; i++) {
        const v = scale(c.values[i]);
        if (Number.isFinite(v)) { least = Math.min(least, v); most = Math.max(most, v); }
      }
    }
    if (!(least <= most)) return [0, 1];
    if (options.zero && !log) least = Math.min(0, least);
    const room = (most - least) * 0.06 || Math.abs(most) * 0.05 || 1;
    return [options.zero && least === 0 ? 0 : least - room, most + room];
  }
  const xOf = (p, s) => p.x + p.w * (s - range[0]) / (range[1] - range[0]);
  function stroke(context, p, y, steps, values) {
    context.beginPath();
    let open = false;
    for (let i = 0; i < steps.length; i++) {
      const v = scale(values[i]);
      if (!Number.isFinite(v)) { open = false; continue; }
      const px = xOf(p, steps[i]), py = p.y + p.h * (1 - (v - y[0]) / (y[1] - y[0]));
      if (open) context.lineTo(px, py); else context.moveTo(px, py);
      open = true;
    }
    context.stroke();
  }
  function draw(pic, context) {
    const p = pic.plot, y = yRange();
    axisY(context, p, y, (t) => figure(log ? Number((10 ** t).toPrecision(3)) : t), false, log ? logTicks(y[0], y[1], p.h / 40) : null);
    axisX(context, p, range, (t) => (Number.isInteger(t) ? whole(t) : ''));
    context.save();
    context.beginPath();
    context.rect(p.x, p.y - 4, p.w, p.h + 8);
    context.clip();
    for (const e of events || []) {
      const px = xOf(p, e.step);
      context.fillStyle = palette.get(EVENT_COLORS[e.event] || 'faint');
      context.globalAlpha = e.event === 'skipped' || e.resumed ? 0.9 : 0.55;
      context.fillRect(px - 0.75, e.event === 'skipped' || e.resumed ? p.y : p.y + p.h - 7, 1.5, e.event === 'skipped' || e.resumed ? p.h : 7);
      context.globalAlpha = 1;
    }
    lines.forEach((line, k) => {
      const c = curves[k], color = palette.get(line.color);
      context.strokeStyle = color;
      context.lineJoin = 'round';
      context.lineWidth = c.mean ? 1 : line.dots ? 1.5 : 1.6;
      context.globalAlpha = c.mean ? 0.38 : 1;
      if (line.dots) context.setLineDash([5, 3]);
      stroke(context, p, y, c.steps, c.values);
      context.setLineDash([]);
      context.globalAlpha = 1;
      context.lineWidth = 1.8;
      if (c.mean) stroke(context, p, y, c.mean.steps, c.mean.values);
      if (!line.dots && c.steps.length > 1) return;
      context.fillStyle = color;
      for (let i = 0; i < c.steps.length && c.steps.length < 400; i++) {
        const v = scale(c.values[i]);
        if (!Number.isFinite(v)) continue;
        context.beginPath();
        context.arc(xOf(p, c.steps[i]), p.y + p.h * (1 - (v - y[0]) / (y[1] - y[0])), 3, 0, 7);
        context.fill();
      }
    });
    context.restore();
  }
  function told(at) {
    return lines.map((line, k) => {
      const i = indexAt(curves[k], at);
      return [line.label, `${figure(Number.isFinite(curves[k].values[i]) ? curves[k].values[i] : null)}${curves[k].steps[i] !== at ? ` (step ${whole(curves[k].steps[i])})` : ''}`, colorOf(line.color)];
    });
  }
  function probe(pic, x) {
    const p = pic.plot;
    if (x < p.x || x > p.x + p.w) { step = null; return null; }
    const at = range[0] + (range[1] - range[0]) * (x - p.x) / p.w, c = curves[0];
    step = c.steps[indexAt(c, at)];
    return [el('b', {}, `step ${whole(step)}`), pairs(told(step)), (events || []).filter((e) => e.step === step).map((e) => el('div', {}, eventText(e)))];
  }
  function over(pic, context) {
    if (step == null) return;
    const p = pic.plot, x = Math.round(xOf(p, step)) + 0.5;
    context.strokeStyle = palette.get('ink');
    context.globalAlpha = 0.6;
    context.beginPath();
    context.moveTo(x, p.y);
    context.lineTo(x, p.y + p.h);
    context.stroke();
    context.globalAlpha = 1;
  }
  function key(pic, e) {
    const c = curves[0], i = step == null ? -1 : indexAt(c, step), far = e.shiftKey ? Math.max(1, Math.round(c.steps.length / 20)) : 1;
    const to = { ArrowLeft: i - far, ArrowRight: i + far, Home: 0, End: c.steps.length - 1 }[e.key];
    if (to == null) return false;
    step = c.steps[Math.max(0, Math.min(c.steps.length - 1, to))];
    pic.say(`step ${whole(step)}: ${told(step).map(([name, text]) => `${name} ${text}`).join(', ')}`);
    pic.redrawAbove();
    return true;
  }
  const picture = new Picture({ height: options.height || 220, margin: [10, 8, 26, 62], zoom: 'x', draw, probe, over, key, left: () => { step = null; },
    label: `${title} over the steps; arrow keys go from step to step, plus and minus zoom` });
  picture.view = (x) => { range = viewed(range, x, bounds, Math.min(4, bounds[1] - bounds[0])); picture.redraw(); };
  picture.reset = () => { range = bounds; picture.redraw(); };
  const logButton = options.log && el('button', { type: 'button', 'aria-pressed': log ? 'true' : 'false', onclick: () => {
    log = !log;
    logButton.setAttribute('aria-pressed', log ? 'true' : 'false');
    picture.redraw();
  } }, 'log');
  const rows = lines.map((l) => [l.label, figure(l.curve.last), l.curve.least ? `${figure(l.curve.least[1])} (step ${whole(l.curve.least[0])})` : '–', l.curve.most ? `${figure(l.curve.most[1])} (step ${whole(l.curve.most[0])})` : '–', whole(l.curve.count)]);
  return el('figure', { class: 'curve' }, el('div', { class: 'bar' }, el('h3', {}, title), el('span', { class: 'push' }), logButton, picture.buttons()), picture.box,
    lines.length > 1 ? el('ul', { class: 'legend' }, lines.map((l) => el('li', {}, swatch(colorOf(l.color)), l.label, el('span', {}, figure(l.curve.last))))) : null,
    picture.readout, el('details', {}, el('summary', {}, 'as a table'), table(title, ['', 'last', 'least', 'most', 'points'], rows)));
}

const CURVE_GROUPS = [['loss', 'Loss', { log: true, height: 280 }], ['metric', 'Metrics', {}], ['speed', 'Speed', { zero: true }], ['norm', 'Gradient norm', { log: true }], ['lr', 'Learning rate', { zero: true }], ['scale', 'Loss scale', { log: true }]];

function curveLines(run, kind) {
  return run.curves.filter((c) => c.kind === kind).map((curve, i) => ({ curve, label: curve.held_out ? `${curve.name}, held out` : curve.name, color: CURVE_COLORS[i % CURVE_COLORS.length], dots: curve.held_out }));
}

function curvesCard(run) {
  const figures = [];
  for (const [kind, title, options] of CURVE_GROUPS) {
    const lines = curveLines(run, kind);
    // metrics have scales of their own: one picture for each name
    const groups = kind === 'metric' ? [...new Set(lines.map((l) => l.curve.name))].map((name) => [name, lines.filter((l) => l.curve.name === name)]) : [[title, lines]];
    for (const [name, some] of groups) if (some.length) figures.push(curvePicture(name, some.map((l, i) => ({ ...l, color: CURVE_COLORS[i % CURVE_COLORS.length] })), kind === 'loss' ? run.events : [], options));
  }
  if (!figures.length) return null;
  return card('curves', 'How it went', 'Marks in the picture of the loss: checkpoints at its foot, and over its height steps that were skipped and where the run was gone on with.',
    figures[0], el('div', { class: 'two' }, figures.slice(1)));
}

function eventText(e) {
  const parts = [e.event === 'started' ? (e.resumed ? 'gone on with from a checkpoint' : 'started') : e.event === 'skipped' ? 'step skipped: gradients overflowed' : e.event === 'saved' ? 'checkpoint saved' : e.event];
  if (e.event === 'saved' && e.bytes) parts.push(`${size(e.bytes)} in ${seconds(e.seconds)}`);
  if (e.event === 'ended' && e.status) parts.push(e.status === 'HR_OK' ? 'as planned' : e.status);
  if (e.text) parts.push(e.text);
  return parts.join(': ');
}

function eventsCard(run) {
  if (!run.events.length) return null;
  const when = (t) => (t ? new Date(t * 1000).toISOString().replace('T', ' ').slice(0, 19) : '');
  const list = el('ul', { class: 'events' }, run.events.map((e) => el('li', {}, el('span', {}, `step ${whole(e.step)}`), el('span', {}, eventText(e)), el('span', { class: 'none push' }, when(e.time)))));
  return card('events', 'Events', run.events_left_out ? `${whole(run.events_left_out)} older ones are left out.` : null, el('div', { class: 'tall', tabindex: '0', role: 'region', 'aria-label': 'events' }, list));
}

function samplesCard(run) {
  if (!run.samples.length) return null;
  const box = el('div', { 'aria-live': 'polite' }), sets = run.samples;
  const fill = (i) => box.replaceChildren(...sets[i].generated.map((s) => el('div', {}, s.prompt != null && el('p', { class: 'quote' }, el('span', { class: 'none' }, 'prompt  '), s.prompt),
    el('p', { class: 'quote' }, s.text), s.expected != null && el('p', { class: 'quote' }, el('span', { class: 'none' }, 'expected  '), s.expected))));
  fill(sets.length - 1);
  return card('samples', 'Samples', 'What the model wrote while it was trained.', el('div', { class: 'bar' }, el('label', {}, 'at step', dropdown('step of the samples', sets.map((s) => whole(s.step)), sets.length - 1, fill))), box);
}

function measuredCard(run) {
  const header = run.headers[run.headers.length - 1];
  if (!header) return null;
  const rows = ['device', 'host', 'disk'].filter((t) => header.tiers[t] && (header.tiers[t].planned_bytes > 0 || (run.held_bytes && run.held_bytes[t] > 0))).map((t) => {
    const planned = header.tiers[t].planned_bytes, held = run.held_bytes ? run.held_bytes[t] : null, most = Math.max(planned, held || 0, 1);
    return [t, { class: 'share', text: [meter([[planned / most, colorOf('parameters')]], 'planned ' + size(planned)), held != null && meter([[held / most, colorOf('inputs')]], 'measured ' + size(held))] },
      size(planned), size(held), held == null ? '–' : { text: change(planned, held), class: held > planned ? 'bad' : null }, size(header.tiers[t].budget_bytes)];
  });
  const steps = run.phases && run.phases.steps, planned = header.planned_step_seconds, speed = run.curves.find((c) => c.kind === 'speed');
  const more = [['process, at its peak', size(run.process_bytes || null)], ['all tiers, planned', size(header.planned_peak_bytes)], ['a step, planned', seconds(planned)]];
  if (steps && run.step) more.push(['a step, measured', seconds(steps / run.step)]);
  if (speed) more.push([`${speed.name}, last`, figure(speed.last)]);
  for (const [name, value] of Object.entries(run.phases || {})) if (value > 0) more.push([`time: ${name}`, seconds(value)]);
  return card('measured', 'Planned beside measured', `On ${header.device || 'a device that the log does not name'}. Blue is planned, orange is the most that was held.`,
    rows.length ? table('memory of each tier', ['tier', '', 'planned', 'measured', '', 'budget'], rows) : null, table('of the run', ['', ''], more));
}

function runTiles(run) {
  const tile = (name, value, more, kind) => el('li', { class: kind }, el('span', {}, name), el('b', {}, value), more && el('span', {}, more));
  const of = (kind, held) => run.curves.find((c) => c.kind === kind && c.held_out === held), loss = of('loss', false), held = of('loss', true), speed = of('speed', false);
  const status = run.status == null ? ['not ended', null] : run.status === 'HR_OK' ? ['done', 'good'] : [run.status.replace('HR_', '').toLowerCase().replace(/_/g, ' '), 'bad'];
  return el('ul', { class: 'tiles', 'aria-label': 'the run in short' }, tile('run', status[0], run.status == null ? 'it trains, or was killed' : null, status[1]),
    tile('step', whole(run.step), `of ${whole(run.steps)}`), loss && tile('loss', figure(loss.last), loss.least && `least ${figure(loss.least[1])}`),
    held && tile('held out', figure(held.last), held.least && `least ${figure(held.least[1])}, step ${whole(held.least[0])}`), speed && tile(speed.name, figure(speed.last)),
    run.process_bytes > 0 && tile('held', size(run.process_bytes), run.headers.length ? `planned ${size(run.headers[run.headers.length - 1].planned_peak_bytes)}` : null),
    run.skipped > 0 && tile('skipped', whole(run.skipped), 'steps', 'bad'));
}

// The same curves of two runs in one picture.
function bothCurves(subjects) {
  const out = [];
  for (const [kind, title, options] of CURVE_GROUPS.slice(0, 3)) {
    const names = [...new Set(subjects.flatMap((s) => s.run.curves.filter((c) => c.kind === kind).map((c) => `${c.held_out ? 1 : 0}${c.name}`)))];
    for (const name of names) {
      const lines = subjects.flatMap((s, i) => s.run.curves.filter((c) => c.kind === kind && `${c.held_out ? 1 : 0}${c.name}` === name).map((curve) => ({ curve, label: i ? 'other' : 'this', color: CURVE_COLORS[i], dots: curve.held_out })));
      if (lines.length > 1) out.push(curvePicture(`${title}: ${name.slice(1)}${name[0] === '1' ? ', held out' : ''}`, lines, [], { ...options, height: 220 }));
    }
  }
  return out.slice(0, 12);
}
