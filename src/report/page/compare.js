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

function compareCard(subjects, differences) {
  const both = subjects.every((s) => s.run) ? el('div', { class: 'two' }, bothCurves(subjects)) : null;
  return card('compare', 'Side by side', null,
    el('p', { class: 'lead' }, 'this: ', el('code', {}, subjects[0].name), el('br'), 'other: ', el('code', {}, subjects[1].name)), both,
    el('div', { class: 'two' }, subjects.every((s) => s.plan) ? figuresTable(...subjects.map((s) => s.plan)) : null,
      differences && differences.length ? differencesTable(differences) : null));
}
