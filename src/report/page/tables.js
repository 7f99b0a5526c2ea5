// What needs no picture: the verdict, owners, techniques, settings.
function tilesOf(plan) {
  const device = plan.device, tile = (name, value, more, kind) => el('li', { class: kind }, el('span', {}, name), el('b', {}, value), more);
  const used = device.peak_bytes / device.budget_bytes;
  return el('ul', { class: 'tiles', 'aria-label': 'the plan in short' },
    tile('verdict', plan.fits ? 'fits' : 'does not fit', el('span', {}, plan.fits ? `${size(device.left_bytes)} left` : device.left_bytes < 0 ? `${size(-device.left_bytes)} too much` : 'not below the device'), plan.fits ? 'good' : 'bad'),
    tile('device peak', size(device.peak_bytes), [el('span', {}, `of ${size(device.budget_bytes)}`),
      meter([[Math.min(1, used), plan.fits ? colorOf('parameters') : colorOf('gradients')]], `${percent(used)} of the budget`)]),
    plan.host.peak_bytes > 0 && tile('on the host', size(plan.host.peak_bytes), plan.disk.peak_bytes > 0 && el('span', {}, `and ${size(plan.disk.peak_bytes)} on disk`)),
    tile('a step', seconds(plan.step_seconds), el('span', {}, `by ${device.rates} rates`)),
    plan.tokens_per_second > 0 && tile('tokens a second', rate(plan.tokens_per_second), el('span', {}, `${rate(plan.samples_per_second)} samples/s`)),
    tile('parameters', amount(plan.model.parameters), el('span', {}, plan.model.trainable_parameters === plan.model.parameters ? 'all trained' : `${amount(plan.model.trainable_parameters)} trained`)),
    tile('device', device.name, el('span', {}, device.present ? device.kind : 'not here: of the catalogue'), 'long'));
}

function ownersCard(plan) {
  const total = plan.owners.reduce((a, o) => a + o.bytes, 0), most = plan.owners.length ? plan.owners[0].bytes : 1;
  const names = ['parameters', 'gradients', 'optimizer', 'state', 'cache', 'activations', 'workspace', 'staging', 'inputs', 'gaps', 'fixed'];
  const used = names.filter((name) => plan.owners.some((o) => o.categories[name]));
  const color = (name) => colorOf(name === 'gaps' ? 'free-line' : name);
  return card('owners', 'Who owns the peak', `${whole(plan.owners.length)} owners hold ${size(total)}. Layers are counted together.`,
    el('ul', { class: 'legend' }, used.map((name) => el('li', {}, swatch(color(name)), name))),
    table('modules and what they hold at the peak', ['module', '', 'bytes', 'share', 'tensors'], plan.owners.map((o) => [o.module,
      { class: 'share', text: meter(names.filter((n) => o.categories[n]).map((n) => [o.categories[n] / most, color(n)]), Object.entries(o.categories).map(([n, b]) => `${n} ${size(b)}`).join(', ')) },
      size(o.bytes), percent(o.bytes / total), o.tensors ? whole(o.tensors) : '–'])));
}

function techniquesCard(plan) {
  if (!plan.techniques.length) return null;
  const most = Math.max(1, ...plan.techniques.map((t) => Math.abs(t.saves_bytes || 0)));
  return card('techniques', 'Techniques', 'Each against the same recipe without it: bytes off the peak of the device, seconds added to a step. A dash: it cannot be told apart.',
    table('what each saves and costs', ['technique', '', 'saves', 'costs a step'], plan.techniques.map((t) => [t.name,
      { class: 'share', text: t.saves_bytes == null ? null : meter([[Math.abs(t.saves_bytes) / most, colorOf(t.saves_bytes < 0 ? 'gradients' : 'optimizer')]], size(t.saves_bytes)) },
      size(t.saves_bytes), seconds(t.costs_seconds)])));
}

function flatten(object, path, out) {
  for (const [key, value] of Object.entries(object)) {
    const below = path ? `${path}.${key}` : key;
    if (value && typeof value === 'object' && !Array.isArray(value)) flatten(value, below, out);
    else out.push([below, Array.isArray(value) ? JSON.stringify(value).slice(0, 400) : String(value)]);
  }
  return out;
}

function settingsCard(subject) {
  const plan = subject.plan, tiers = ['device', 'host', 'disk'].filter((t) => plan[t].peak_bytes > 0);
  const names = Object.keys(plan.device.categories).filter((c) => tiers.some((t) => plan[t].categories[c] > 0));
  return card('numbers', 'Numbers', null, el('div', { class: 'two' },
    table('bytes at the peak of each tier', ['', ...tiers], [...names.map((c) => [c, ...tiers.map((t) => size(plan[t].categories[c]))]),
      { class: 'chosen', cells: ['peak', ...tiers.map((t) => size(plan[t].peak_bytes))] }, ['budget', ...tiers.map((t) => size(plan[t].budget_bytes))],
      ['no layout can be below', ...tiers.map((t) => size(plan[t].lower_bound_bytes))]]),
    table('bytes of the device by phase, and of the host', ['', 'bytes'], [...Object.entries(plan.phases).map(([n, b]) => [n.replace('_', ' '), size(b)]), ...Object.entries(plan.host_phases).map(([n, b]) => ['host: ' + n, size(b)])])),
  el('details', {}, el('summary', {}, 'all settings of the recipe'), table('settings', ['key', 'value'], flatten(plan.settings, '', []), { text: [1] })),
  el('p', { class: 'hint' }, 'plan ', el('code', {}, plan.fingerprint)));
}
