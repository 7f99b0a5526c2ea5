// Two side by side.
function change(a, b) { return a > 0 && b < 1e4 * a ? `${b >= a ? '+' : ''}${(100 * (b - a) / a).toFixed(1)} %` : a === b ? '+0.0 %' : '–'; }

function figuresTable(a, b) {
  const rows = [['verdict', a.fits ? 'fits' : 'does not fit', b.fits ? 'fits' : 'does not fit', '']];
  const bytes = (name, x, y) => { if (x || y) rows.push([name, size(x), size(y), x >= 0 && y >= 0 ? change(x, y) : '']); };
  for (const tier of ['device', 'host', 'disk']) {
    for (const c of Object.keys(a.device.categories)) bytes(tier === 'device' ? c : `${tier} ${c}`, a[tier].categories[c], b[tier].categories[c]);
    if (a[tier].peak_bytes || b[tier].peak_bytes) rows.push({ class: 'chosen', cells: [`${tier} peak`, size(a[tier].peak_bytes), size(b[tier].peak_bytes), change(a[tier].peak_bytes, b[tier].peak_bytes)] });
  }
  bytes('budget', a.device.budget_bytes, b.device.budget_bytes);
  bytes('left', a.device.left_bytes, b.device.left_bytes);
  rows.push({ class: 'chosen', cells: ['a step', seconds(a.step_seconds), seconds(b.step_seconds), change(a.step_seconds, b.step_seconds)] });
  if (a.tokens_per_second > 0) rows.push(['tokens/s', rate(a.tokens_per_second), rate(b.tokens_per_second), change(a.tokens_per_second, b.tokens_per_second)]);
  rows.push(['samples/s', rate(a.samples_per_second), rate(b.samples_per_second), change(a.samples_per_second, b.samples_per_second)]);
  return table('figures of both plans', ['', 'this', 'other', 'change'], rows);
}

function differencesTable(differences) {
  const value = (v) => (v == null ? '–' : typeof v === 'string' ? v : JSON.stringify(v));
  return table('settings that differ', ['key', 'this', 'other'], differences.map((d) => [d.key, value(d.values[0]), value(d.values[1])]), { text: [1, 2] });
}

// What both hold on the device over their programs, from beginning to end: the most in each pixel.
function bothPicture(subjects) {
  const both = subjects.map((s, i) => {
    const layout = new Layout(s.layout), tier = layout.tiers[0], program = Math.max(0, tier.peak_program), series = layout.areas(0, program, 'categories');
    return { layout, tier, program, gaps: series[series.length - 2], times: layout.times(program), color: CURVE_COLORS[i], label: i ? 'other' : 'this' };
  });
  const top = 1.06 * Math.max(...both.map((b) => b.tier.peak_bytes));
  const heldAt = (b, from, to) => {
    const all = b.times[b.times.length - 1];
    let low = 0, high = b.gaps.length - 1, most = 0;
    while (low < high) { const middle = (low + high + 1) >> 1; if (b.times[middle] <= from * all) low = middle; else high = middle - 1; }
    for (let n = low; n < b.gaps.length && (n === low || b.times[n] < to * all); n++) most = Math.max(most, b.tier.peak_bytes - b.gaps[n]);
    return most;
  };
  let at = null;
  function draw(pic, context) {
    const p = pic.plot, width = Math.max(1, Math.round(p.w));
    axisY(context, p, [0, top], size, true);
    for (const b of both) {
      context.beginPath();
      for (let px = 0; px < width; px++) {
        const y = p.y + p.h * (1 - heldAt(b, px / width, (px + 1) / width) / top);
        if (px) context.lineTo(p.x + px, y); else context.moveTo(p.x, y);
      }
      context.strokeStyle = palette.get(b.color);
      context.lineWidth = 1.8;
      context.stroke();
      context.lineTo(p.x + width, p.y + p.h);
      context.lineTo(p.x, p.y + p.h);
      context.fillStyle = palette.get(b.color);
      context.globalAlpha = 0.14;
      context.fill();
      context.globalAlpha = 1;
    }
    context.fillStyle = palette.get('faint');
    context.textBaseline = 'top';
    context.textAlign = 'left';
    context.fillText('begin of the program', p.x, p.y + p.h + 7);
    context.textAlign = 'right';
    context.fillText('end', p.x + p.w, p.y + p.h + 7);
  }
  const told = (share) => both.map((b) => [b.label, size(heldAt(b, share, share)), colorOf(b.color)]);
  const picture = new Picture({ height: 240, margin: [10, 8, 26, 78], draw, label: 'memory on the device over the program, of both; arrow keys read it out',
    probe: (pic, x) => { const p = pic.plot; at = (x - p.x) / p.w; if (at < 0 || at > 1) { at = null; return null; } return [el('b', {}, `${percent(at)} of its time`), pairs(told(at))]; },
    key: (pic, e) => { const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[e.key]; if (!step) return false; at = Math.max(0, Math.min(1, (at ?? 0) + step)); pic.say(`${percent(at)}: ${told(at).map(([n, t]) => `${n} ${t}`).join(', ')}`); return true; } });
  return el('figure', { class: 'curve' }, el('h3', {}, 'Held on the device over a step'), picture.box,
    el('ul', { class: 'legend' }, both.map((b) => el('li', {}, swatch(colorOf(b.color)), b.label, el('span', {}, `peak ${size(b.tier.peak_bytes)}`)))), picture.readout);
}

function compareCard(subjects, differences) {
  const both = subjects.every((s) => s.run) ? el('div', { class: 'two' }, bothCurves(subjects)) : null;
  return card('compare', 'Side by side', null,
    el('p', { class: 'lead' }, 'this: ', el('code', {}, subjects[0].name), el('br'), 'other: ', el('code', {}, subjects[1].name)), both,
    subjects.every((s) => s.layout && s.layout.tiers.length) ? bothPicture(subjects) : null,
    el('div', { class: 'two' }, subjects.every((s) => s.plan) ? figuresTable(...subjects.map((s) => s.plan)) : null,
      differences && differences.length ? differencesTable(differences) : null));
}
