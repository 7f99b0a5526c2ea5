// A picture that is drawn: two canvases, one for the picture, one above it for what is pointed at. It is zoomed by dragging a
// box, by Ctrl and wheel, by two fingers and by keys, and read by pointing or by arrow keys.
const palette = {
  kept: new Map(),
  get(name) {
    if (!this.kept.has(name)) this.kept.set(name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim());
    return this.kept.get(name);
  },
  forget() { this.kept.clear(); },
};
const CATEGORY_COLORS = ['parameters', 'gradients', 'optimizer', 'state', 'cache', 'activations', 'workspace', 'staging', 'inputs', 'free', 'fixed'];
const OWNER_COLORS = ['parameters', 'activations', 'optimizer', 'workspace', 'gradients', 'staging', 'inputs', 'state'];
function seriesColor(by, i, count) {
  if (by === 'categories') return CATEGORY_COLORS[i];
  return i === count - 1 ? 'fixed' : i === count - 2 ? 'free' : i === count - 3 ? 'others' : OWNER_COLORS[i % OWNER_COLORS.length];
}
// For elements, which follow the scheme by themselves.
function colorOf(name) { return name === 'free' ? 'free' : `var(--${name})`; }

const pictures = new Set();
function redrawAll() { palette.forget(); for (const p of pictures) p.redraw(); }

class Picture {
  // o: height, label, margin [top, right, bottom, left], zoom 'x', 'xy' or null; draw(picture), over(picture), probe(picture, x, y), key(picture, event)
  constructor(o) {
    Object.assign(this, { margin: [10, 10, 24, 70], zoom: null }, o);
    this.canvas = el('canvas', { role: 'img', 'aria-label': o.label, tabindex: '0' });
    this.above = el('canvas', { 'aria-hidden': 'true' });
    this.box = el('div', { class: this.zoom ? 'picture zooms' : 'picture' }, this.canvas, this.above);
    this.box.style.height = o.height + 'px';
    this.readout = el('p', { class: 'readout', 'aria-live': 'polite' });
    this.pointers = new Map();
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.box);
    pictures.add(this);
  }
  get plot() {
    const [top, right, bottom, left] = this.margin;
    return { x: left, y: top, w: Math.max(1, this.width - left - right), h: Math.max(1, this.height - top - bottom) };
  }
  prepare(canvas) {
    const ratio = devicePixelRatio || 1, w = Math.round(this.width * ratio), h = Math.round(this.height * ratio);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = '12px system-ui, sans-serif';
    return context;
  }
  redraw() {
    if (!this.box.isConnected) { pictures.delete(this); return; }
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    if (this.width < 2) return;
    this.draw(this, this.prepare(this.canvas));
    this.redrawAbove();
  }
  redrawAbove() {
    if (!this.width) return;
    const context = this.prepare(this.above);
    if (this.over) this.over(this, context);
    if (this.drag) {
      const { x0, y0, x1, y1 } = this.drag, p = this.plot;
      const top = this.zoom === 'x' ? p.y : Math.min(y0, y1), height = this.zoom === 'x' ? p.h : Math.abs(y1 - y0);
      context.fillStyle = palette.get('accent');
      context.globalAlpha = 0.18;
      context.fillRect(Math.min(x0, x1), top, Math.abs(x1 - x0), height);
      context.globalAlpha = 1;
      context.strokeStyle = palette.get('accent');
      context.strokeRect(Math.min(x0, x1), top, Math.abs(x1 - x0), height);
    }
  }
  say(text) { this.readout.textContent = plain(text); }
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
  point(x, y, clientX, clientY) {
    const content = this.probe && this.probe(this, x, y);
    if (content) tip.show(content, clientX, clientY);
    else tip.hide();
    this.redrawAbove();
  }
  listen() {
    const c = this.canvas;
    c.addEventListener('pointerdown', (e) => {
      this.pointers.set(e.pointerId, this.at(e));
      if (e.pointerType === 'touch' || e.button !== 0 || !this.zoom) return;
      const [x, y] = this.at(e);
      this.drag = { x0: x, y0: y, x1: x, y1: y };
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener('pointermove', (e) => {
      const [x, y] = this.at(e);
      if (e.pointerType === 'touch' && this.pointers.size === 2 && this.zoom) { this.pinch(e.pointerId, x, y); return; }
      if (this.drag) Object.assign(this.drag, { x1: x, y1: y });
      this.point(x, y, e.clientX, e.clientY);
    });
    const end = (e) => {
      this.pointers.delete(e.pointerId);
      const d = this.drag;
      this.drag = null;
      if (d && e.type === 'pointerup' && Math.abs(d.x1 - d.x0) > 6) this.select(d);
      else if (e.pointerType === 'touch' && e.type === 'pointerup') this.point(...this.at(e), e.clientX, e.clientY);
      this.redrawAbove();
    };
    c.addEventListener('pointerup', end);
    c.addEventListener('pointercancel', end);
    c.addEventListener('pointerleave', () => { if (!this.drag) { this.leave(); } });
    c.addEventListener('blur', () => this.leave());
    c.addEventListener('dblclick', () => { if (this.zoom) this.reset(); });
    c.addEventListener('wheel', (e) => {
      if (!this.zoom || !(e.ctrlKey || e.metaKey)) return;
      e.preventDefault();
      this.zoomBy(Math.exp(e.deltaY * 0.002), ...this.at(e));
    }, { passive: false });
    c.addEventListener('keydown', (e) => this.keys(e));
  }
  leave() { tip.hide(); if (this.left) this.left(this); this.redrawAbove(); }
  pinch(id, x, y) {
    const [a, b] = [...this.pointers.values()], before = Math.hypot(a[0] - b[0], a[1] - b[1]);
    this.pointers.set(id, [x, y]);
    const [c, d] = [...this.pointers.values()], after = Math.hypot(c[0] - d[0], c[1] - d[1]);
    if (before > 10 && after > 10) this.zoomBy(before / after, (c[0] + d[0]) / 2, (c[1] + d[1]) / 2);
  }
  // Parts of the view that pixels stand for.
  fraction(x, y) { const p = this.plot; return [(x - p.x) / p.w, 1 - (y - p.y) / p.h]; }
  select(d) {
    const [a, b] = this.fraction(d.x0, d.y0), [c, e] = this.fraction(d.x1, d.y1);
    const both = this.zoom === 'xy' && Math.abs(d.y1 - d.y0) > 6;
    this.view([Math.min(a, c), Math.max(a, c)], both ? [Math.min(b, e), Math.max(b, e)] : [0, 1]);
  }
  zoomBy(factor, x, y) {
    const p = this.plot, [fx, fy] = this.fraction(x ?? p.x + p.w / 2, y ?? p.y + p.h / 2);
    const around = (f) => [f - f * factor, f + (1 - f) * factor];
    this.view(around(fx), this.zoom === 'xy' ? around(fy) : [0, 1]);
  }
  pan(dx, dy) { this.view([dx, 1 + dx], [dy, 1 + dy]); }
  keys(e) {
    if (this.key && this.key(this, e)) { e.preventDefault(); return; }
    if (!this.zoom || e.ctrlKey || e.metaKey || e.altKey) return;
    const act = { '+': () => this.zoomBy(0.5), '=': () => this.zoomBy(0.5), '-': () => this.zoomBy(2), 0: () => this.reset(), Escape: () => this.reset(),
      a: () => this.pan(-0.2, 0), d: () => this.pan(0.2, 0), w: () => this.zoom === 'xy' && this.pan(0, 0.2), s: () => this.zoom === 'xy' && this.pan(0, -0.2) }[e.key];
    if (act) { e.preventDefault(); act(); }
  }
  buttons() {
    const button = (text, label, act) => el('button', { type: 'button', 'aria-label': label, title: label, onclick: act }, text);
    return el('div', { class: 'group', role: 'group', 'aria-label': 'zoom' }, button('+', 'zoom in', () => this.zoomBy(0.5)),
      button('−', 'zoom out', () => this.zoomBy(2)), button('all', 'show all of it', () => this.reset()));
  }
}

// A range [least, most] seen through parts of it, kept inside of bounds.
function viewed(range, part, bounds, smallest) {
  const span = range[1] - range[0];
  let least = range[0] + part[0] * span, most = range[0] + part[1] * span;
  if (most - least < smallest) { const middle = (least + most) / 2; least = middle - smallest / 2; most = middle + smallest / 2; }
  const width = Math.min(most - least, bounds[1] - bounds[0]);
  least = Math.max(bounds[0], Math.min(least, bounds[1] - width));
  return [least, least + width];
}

function axisY(context, p, range, text, binary, marks) {
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const t of marks || ticks(range[0], range[1], p.h / 46, binary)) {
    const y = Math.round(p.y + p.h * (1 - (t - range[0]) / (range[1] - range[0]))) + 0.5;
    context.strokeStyle = palette.get('line');
    context.beginPath();
    context.moveTo(p.x, y);
    context.lineTo(p.x + p.w, y);
    context.stroke();
    context.fillStyle = palette.get('faint');
    context.fillText(text(t), p.x - 8, y);
  }
}

function axisX(context, p, range, text) {
  context.textAlign = 'center';
  context.textBaseline = 'top';
  context.fillStyle = palette.get('faint');
  for (const t of ticks(range[0], range[1], p.w / 110, false)) {
    const x = p.x + p.w * (t - range[0]) / (range[1] - range[0]);
    if (x < p.x - 1 || x > p.x + p.w + 1) continue;
    const words = text(t), half = context.measureText(words).width / 2;
    context.fillText(words, Math.min(Math.max(x, half), p.x + p.w - half + 8), p.y + p.h + 7);
  }
}

// The end of a text where there is no room for all of it: names differ there.
function fitted(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText('…' + text.slice(-middle)).width <= room) low = middle; else high = middle - 1;
  }
  return low > 3 ? '…' + text.slice(-low) : '';
}

let hatching = null;
function hatch(context) {
  if (!hatching || hatching.color !== palette.get('free-line')) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const c = tile.getContext('2d');
    c.strokeStyle = palette.get('free-line');
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(-2, 10); c.lineTo(10, -2); c.moveTo(-2, 2); c.lineTo(2, -2); c.moveTo(6, 10); c.lineTo(10, 6);
    c.stroke();
    hatching = { color: palette.get('free-line'), pattern: context.createPattern(tile, 'repeat') };
  }
  return hatching.pattern;
}
