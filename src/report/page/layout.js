// Every buffer as a rectangle: how long it lives, where it lies.
function buffersOf(view) {
  const b = view.layout.buffers, tier = TIERS.indexOf(view.tierData.name), out = [];
  for (let i = 0; i < b.count; i++) if (b.tier[i] === tier && (b.program[i] === 0 || b.program[i] === view.program + 1)) out.push(i);
  return out;
}
const TIERS = ['device', 'host', 'disk'];

function bufferFacts(view, i) {
  const b = view.layout.buffers, lasting = b.program[i] === 0;
  return [['shape', b.shape.at(i) || 'workspace'], ['bytes', `${size(b.bytes[i])} (${whole(b.bytes[i])})`], ['owner', b.module.at(i) || '–'],
    ['as', view.layout.categories[b.category[i]]], ['lives', lasting ? 'as long as the run' : `nodes ${b.first[i]} to ${b.first[i] + b.length[i]} of ${view.layout.programs[b.program[i] - 1].name}`],
    ['offset', whole(b.offset[i])]];
}

function layoutPicture(view) {
  let list = null, pointed = null, matched = null;
  const b = () => view.layout.buffers;
  const color = (i) => palette.get(seriesColor(view.by, view.by === 'categories' ? b().category[i] : b().owner[i], view.names.length));
  function rectangle(p, i) {
    const all = b(), lasting = all.program[i] === 0, [x0, x1] = view.x, [y0, y1] = view.y;
    const from = view.edge(lasting ? 0 : all.first[i]), to = view.edge(lasting ? view.nodes : all.first[i] + all.length[i] + 1);
    const left = p.x + p.w * (from - x0) / (x1 - x0), right = p.x + p.w * (to - x0) / (x1 - x0);
    const bottom = p.y + p.h * (1 - (all.offset[i] - y0) / (y1 - y0)), top = p.y + p.h * (1 - (all.offset[i] + all.bytes[i] - y0) / (y1 - y0));
    return [left, top, right - left, bottom - top];
  }
  function draw(pic, context) {
    const p = pic.plot;
    list = list || buffersOf(view);
    context.fillStyle = palette.get('free');
    context.fillRect(p.x, p.y, p.w, p.h);
    context.fillStyle = hatch(context);
    context.fillRect(p.x, p.y, p.w, p.h);
    axisY(context, p, view.y, size, true);
    context.save();
    context.beginPath();
    context.rect(p.x, p.y, p.w, p.h);
    context.clip();
    const labels = [], all = b(), [x0, x1] = view.x, [y0, y1] = view.y, right = p.x + p.w, bottom = p.y + p.h;
    const wide = p.w / (x1 - x0), high = p.h / (y1 - y0), end = view.edge(view.nodes), seriesOf = view.by === 'categories' ? all.category : all.owner;
    let now = null;
    for (const i of list) {
      const lasting = all.program[i] === 0, x = p.x + wide * ((lasting ? 0 : view.edge(all.first[i])) - x0), y = bottom - high * (all.offset[i] + all.bytes[i] - y0);
      const w = p.x + wide * ((lasting ? end : view.edge(all.first[i] + all.length[i] + 1)) - x0) - x, h = high * all.bytes[i];
      if (x > right || x + w < p.x || y > bottom || y + h < p.y) continue;
      const faded = matched && !matched.has(i), name = faded ? 'faded' : seriesOf[i];
      if (name !== now) { // setting a colour costs more than a rectangle
        context.fillStyle = faded ? palette.get('others') : color(i);
        context.globalAlpha = faded ? 0.35 : 1;
        now = name;
      }
      const edge = w > 3 && h > 3 ? 0.6 : 0;
      context.fillRect(x, y, w - edge > 0.7 ? w - edge : 0.7, h - edge > 0.7 ? h - edge : 0.7);
      if (!faded && h > 15 && w > 70) labels.push([i, x, y, w, h]);
    }
    context.globalAlpha = 1;
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillStyle = '#10151c';
    for (const [i, x, y, w, h] of labels.slice(0, 400)) {
      const left = Math.max(x, p.x), room = Math.min(x + w, p.x + p.w) - left - 10;
      if (room > 60) context.fillText(fitted(context, plain(b().name.at(i)), room), left + 5, Math.max(y, p.y) + Math.min(h, 20) / 2 + 0.5);
    }
    context.restore();
    context.font = '12px system-ui, sans-serif';
    phaseStrip(view, context, p, p.y + p.h + 3);
    const at = view.atPeak;
    if (at == null || view.edge(at + 1) < view.x[0] || view.edge(at) > view.x[1]) return;
    const x = p.x + p.w * (view.middle(at) - view.x[0]) / (view.x[1] - view.x[0]);
    context.strokeStyle = palette.get('mark');
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, p.y);
    context.lineTo(x, p.y + p.h);
    context.stroke();
    context.setLineDash([]);
  }
  // The buffer under a point; of those that share a slot the one that is alive there.
  function find(pic, px, py) {
    const p = pic.plot, all = b();
    if (px < p.x || px > p.x + p.w || py < p.y || py > p.y + p.h || !list) return null;
    const node = view.nodeAt(view.x[0] + (view.x[1] - view.x[0]) * (px - p.x) / p.w), at = view.y[0] + (view.y[1] - view.y[0]) * (1 - (py - p.y) / p.h);
    let best = null;
    for (const i of list) {
      if (at < all.offset[i] || at >= all.offset[i] + all.bytes[i]) continue;
      if (all.program[i] === 0 || (all.first[i] <= node && node <= all.first[i] + all.length[i])) best = i; // a later one has taken over
    }
    return best;
  }
  function probe(pic, x, y) {
    pointed = find(pic, x, y);
    return pointed == null ? null : [el('b', {}, b().name.at(pointed)), pairs(bufferFacts(view, pointed), true)];
  }
  function over(pic, context) {
    if (pointed == null) return;
    const p = pic.plot, [x, y, w, h] = rectangle(p, pointed);
    context.beginPath();
    context.rect(p.x - 1, p.y - 1, p.w + 2, p.h + 2);
    context.clip();
    context.strokeStyle = palette.get('mark');
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, Math.max(w, 1) + 2, Math.max(h, 1) + 2);
  }
  // Arrow keys go to the nearest rectangle in that direction.
  function key(pic, e) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key], all = b();
    if (!way || !list || !list.length) return false;
    if (pointed == null) { choose(pic, list.reduce((x, i) => (all.bytes[i] > all.bytes[x] ? i : x), list[0])); return true; }
    const center = (i) => [all.program[i] === 0 ? view.edge(view.nodes) / 2 : (view.edge(all.first[i]) + view.edge(all.first[i] + all.length[i] + 1)) / 2, all.offset[i] + all.bytes[i] / 2];
    const [cx, cy] = center(pointed), wx = view.x[1] - view.x[0], wy = view.y[1] - view.y[0];
    let best = null, least = Infinity;
    for (const i of list) {
      const [x, y] = center(i), dx = (x - cx) / wx, dy = (y - cy) / wy, along = dx * way[0] + dy * way[1], beside = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
      if (i === pointed || along <= 1e-9 || along + 2 * beside >= least) continue;
      best = i;
      least = along + 2 * beside;
    }
    if (best != null) choose(pic, best);
    return true;
  }
  function choose(pic, i) {
    pointed = i;
    pic.say(`${b().name.at(i)}: ${bufferFacts(view, i).map(([name, text]) => `${name} ${text}`).join('; ')}`);
    pic.redrawAbove();
  }
  const picture = new Picture({ height: 460, margin: [8, 8, 22, 78], zoom: 'xy', draw, probe, over, key, left: () => { pointed = null; },
    label: 'every buffer by lifetime and offset; arrow keys go from buffer to buffer, plus and minus zoom' });
  picture.view = (x, y) => view.set({ x: view.seen(view.x, x), y: viewed(view.y, y, [0, view.arena], view.layout.unit * 4) });
  picture.reset = () => view.set({}, true);
  picture.match = (found) => { matched = found; picture.redraw(); };
  picture.list = () => (list = list || buffersOf(view));
  // To a buffer, with some room around it.
  picture.go = (i) => {
    const all = b(), lasting = all.program[i] === 0, first = view.edge(lasting ? 0 : all.first[i]), length = view.edge(lasting ? view.nodes : all.first[i] + all.length[i] + 1) - first;
    view.set({ x: view.seen([first - Math.max(length, 3 * view.edge(view.nodes) / view.nodes), first + length + Math.max(length, 3 * view.edge(view.nodes) / view.nodes)]),
      y: viewed([all.offset[i] - 2 * all.bytes[i], all.offset[i] + 3 * all.bytes[i]], [0, 1], [0, view.arena], view.layout.unit * 4) });
    choose(picture, i);
  };
  // Where a buffer is on the screen: its middle as far as it can be seen.
  picture.place = (i) => {
    const p = picture.plot, [x, y, w, h] = rectangle(p, i), box = picture.canvas.getBoundingClientRect();
    const middle = (a, length, low, high) => (Math.max(a, low) + Math.min(a + length, high)) / 2;
    return [box.left + middle(x, w, p.x, p.x + p.w), box.top + middle(y, h, p.y, p.y + p.h), w, h];
  };
  view.listeners.push((all) => { if (all) { list = null; pointed = null; } picture.redraw(); });
  return picture;
}

function searchOf(view, picture) {
  const most = 60, found = el('ul', { class: 'found' }), told = el('p', { class: 'hint', 'aria-live': 'polite' });
  let matches = [], next = 0, searched = null, texts = [];
  // What is searched in, made once for the buffers that are shown.
  const textsOf = (list) => {
    const b = view.layout.buffers;
    if (searched !== list) texts = list.map((i) => `${b.name.at(i)}\n${b.module.at(i)}\n${b.shape.at(i)}\n${view.layout.categories[b.category[i]]}`.toLowerCase());
    searched = list;
    return texts;
  };
  const look = () => {
    const words = input.value.trim().toLowerCase(), b = view.layout.buffers;
    found.replaceChildren();
    told.textContent = '';
    next = 0;
    matches = [];
    if (!words) { picture.match(null); return; }
    let bytes = 0;
    const slots = new Set();
    const list = picture.list(), all = textsOf(list);
    for (let k = 0; k < list.length; k++) {
      const i = list[k];
      if (!all[k].includes(words)) continue;
      matches.push(i);
      if (!slots.has(b.home[i])) bytes += b.bytes[i];
      slots.add(b.home[i]);
    }
    matches.sort((i, k) => b.bytes[k] - b.bytes[i] || i - k);
    picture.match(new Set(matches));
    told.textContent = matches.length ? `${whole(matches.length)} of ${whole(picture.list().length)} buffers, ${size(bytes)} of them, not all at once${matches.length > most ? `; the ${most} largest are listed` : ''}` : 'none of that name';
    found.replaceChildren(...matches.slice(0, most).map((i) => el('li', {}, el('button', { type: 'button', onclick: () => picture.go(i) },
      swatch(colorOf(CATEGORY_COLORS[b.category[i]])), el('span', {}, b.name.at(i)), el('span', {}, `${b.shape.at(i)} ${size(b.bytes[i])}`)))));
  };
  const input = el('input', { type: 'search', placeholder: 'search: a name, a shape, an owner', 'aria-label': 'search buffers', oninput: look,
    onkeydown: (e) => {
      if (e.key === 'Escape') { input.value = ''; look(); }
      if (e.key === 'Enter' && matches.length) picture.go(matches[next++ % matches.length]);
    } });
  view.listeners.push((all) => { if (all && input.value) look(); });
  return { input, told, found };
}

function layoutCard(view) {
  const picture = layoutPicture(view), search = searchOf(view, picture);
  view.picture = picture;
  view.search = search.input;
  return card('layout', 'Every buffer, when and where', 'Each rectangle is a buffer or a workspace: from its first to its last node, at its offset in the arena. ' +
    'What lasts as long as the run lies at the bottom; above it every program lays out its own.',
  el('div', { class: 'bar' }, search.input, el('span', { class: 'push' }), picture.buttons()), picture.box, picture.readout, search.told, search.found,
  el('p', { class: 'hint' }, 'Point at a buffer for its name, shape, bytes and owner. Drag a box to zoom, double-click for all of it; Enter goes from match to match. Keys: arrows, w a s d, + −, 0.'));
}
