// Bytes against seconds: settings that were planned, with the chosen one and the budget.
function frontierPoints(plan) {
  const here = { what: 'this plan', set: [], peak_bytes: plan.device.peak_bytes, host_bytes: plan.host.peak_bytes, step_seconds: plan.step_seconds, fits: plan.fits, here: true };
  const points = [here];
  const put = (what, entry) => {
    if (!entry || points.some((p) => p.peak_bytes === entry.peak_bytes && p.step_seconds === entry.step_seconds)) return;
    points.push({ ...entry, what });
  };
  const ladder = plan.ladder || {};
  put('cheaper', ladder.cheaper);
  put('faster', ladder.faster);
  put('other results', ladder.other);
  for (const change of plan.changes || []) put('would fit', change);
  for (const found of (plan.search && plan.search.frontier) || []) put('planned', found);
  return points.sort((a, b) => a.step_seconds - b.step_seconds);
}

function frontierPlot(plan, points) {
  const w = Math.max(300, Math.min(720, document.getElementById('main').clientWidth - 80)), h = 300, left = 74, bottom = 40, top = 16, right = 16, limit = plan.device.budget_bytes - plan.device.margin_bytes;
  const most = Math.max(...points.map((p) => p.peak_bytes)), least = Math.min(...points.map((p) => p.peak_bytes));
  const showLimit = limit < 2 * most && limit > least / 2;
  const xs = [least, most, showLimit ? limit : least], ys = points.map((p) => p.step_seconds);
  const pad = (a, b) => { const d = (b - a) * 0.1 || b * 0.1 || 1; return [Math.max(0, a - d), b + d]; };
  const [x0, x1] = pad(Math.min(...xs), Math.max(...xs)), [y0, y1] = pad(Math.min(...ys), Math.max(...ys));
  const x = (v) => left + (w - left - right) * (v - x0) / (x1 - x0), y = (v) => top + (h - top - bottom) * (1 - (v - y0) / (y1 - y0));
  const plot = svg('svg', { class: 'plot', viewBox: `0 0 ${w} ${h}`, role: 'group', 'aria-label': 'bytes on the device against seconds of a step; a point for each setting' });
  for (const t of ticks(y0, y1, 5)) add(plot, svg('line', { class: 'axis', x1: left, x2: w - right, y1: y(t), y2: y(t) }), svg('text', { x: left - 8, y: y(t) + 4, 'text-anchor': 'end' }, seconds(t)));
  for (const t of ticks(x0, x1, 5, true)) add(plot, svg('text', { x: x(t), y: h - bottom + 18, 'text-anchor': 'middle' }, size(t)));
  add(plot, svg('text', { x: w - right, y: h - 4, 'text-anchor': 'end' }, 'peak of the device'), svg('text', { x: 4, y: 10 }, 'a step'));
  if (showLimit) {
    const near = x(limit) > w - 130;
    add(plot, svg('line', { class: 'limit', x1: x(limit), x2: x(limit), y1: top, y2: h - bottom }), svg('text', { x: x(limit) + (near ? -6 : 6), y: top + 10, 'text-anchor': near ? 'end' : 'start' }, 'budget ' + size(limit)));
  }
  const best = [...points].sort((a, b) => a.peak_bytes - b.peak_bytes || a.step_seconds - b.step_seconds);
  const line = best.filter((p, i) => !best.slice(0, i).some((q) => q.step_seconds <= p.step_seconds));
  add(plot, svg('polyline', { points: line.map((p) => `${x(p.peak_bytes)},${y(p.step_seconds)}`).join(' ') }));
  for (const p of [...points].sort((a, b) => Boolean(a.here) - Boolean(b.here))) {
    const words = `${p.what}: ${size(p.peak_bytes)}, ${seconds(p.step_seconds)}${p.fits ? '' : ', does not fit'}${p.set.length ? '; ' + p.set.join(', ') : ''}`;
    const show = (e) => { const box = e.target.getBoundingClientRect(); tip.show([el('b', {}, p.what), pairs([['peak', size(p.peak_bytes)], ['a step', seconds(p.step_seconds)], ['fits', p.fits ? 'yes' : 'no']]), el('code', {}, p.set.join('\n'))], box.right, box.bottom); };
    add(plot, svg('circle', { class: p.here ? 'here' : p.fits ? null : 'not', cx: x(p.peak_bytes), cy: y(p.step_seconds), r: p.here ? 7 : 5, tabindex: '0', role: 'img', 'aria-label': words,
      onpointerenter: show, onfocus: show, onpointerleave: () => tip.hide(), onblur: () => tip.hide() }));
    if (p.here) add(plot, svg('text', { x: x(p.peak_bytes) + 11, y: y(p.step_seconds) + 4 }, 'this plan'));
  }
  return plot;
}

function frontierCard(plan) {
  const points = frontierPoints(plan);
  if (points.length < 2) return null;
  const search = plan.search, lead = search ? `Of ${whole(search.settings)} settings ${whole(search.planned)} were planned, ${whole(search.pruned)} ruled out by bounds, ${whole(search.refused)} contradict themselves. Those below are beaten by no other in both memory and time.`
    : plan.fits ? 'The next cheaper and the next faster settings beside this plan.' : 'This plan does not fit. These changes would, the fastest first.';
  return card('frontier', 'Ladder and frontier', lead, frontierPlot(plan, points), table('settings, the fastest first', ['', 'peak', 'host', 'a step', 'fits', 'with'],
    points.map((p) => ({ class: p.here ? 'chosen' : null, cells: [p.what, size(p.peak_bytes), size(p.host_bytes), seconds(p.step_seconds), p.fits ? 'yes' : { text: 'no', class: 'bad' },
      [p.set.map((s) => el('div', {}, el('code', {}, s))), p.changes_results ? el('div', { class: 'none' }, 'other results') : null]] })), { text: [5] }));
}
