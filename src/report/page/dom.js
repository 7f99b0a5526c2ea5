// Elements. Text goes in as text, never as markup, and through plain().
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'color') element.style.background = value;
    else if (name === 'width') element.style.width = value;
    else element.setAttribute(name, value === true ? '' : plain(value));
  }
  return add(element, ...children);
}

function add(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, plain(value));
  }
  return add(element, ...children);
}

function card(id, title, lead, ...children) {
  return el('section', { class: 'card', id, 'aria-labelledby': id + '-title' }, el('h2', { id: id + '-title' }, title),
    lead && el('p', { class: 'lead' }, lead), children);
}

// Buttons of which one is down.
function choice(label, names, chosen, pick) {
  const buttons = names.map((name, i) => el('button', { type: 'button', 'aria-pressed': i === chosen ? 'true' : 'false', onclick: () => {
    buttons.forEach((b, k) => b.setAttribute('aria-pressed', k === i ? 'true' : 'false'));
    pick(i);
  } }, name));
  return el('div', { class: 'group', role: 'group', 'aria-label': label }, buttons);
}

function dropdown(label, names, chosen, pick) {
  const list = el('select', { 'aria-label': label, onchange: () => pick(list.selectedIndex) }, names.map((name) => el('option', {}, name)));
  list.selectedIndex = chosen;
  return list;
}

// A few things as buttons, more as a list.
function pickOne(label, names, chosen, pick) {
  if (names.length < 2) return null;
  return names.length > 4 ? dropdown(label, names, chosen, pick) : choice(label, names, chosen, pick);
}

function swatch(color) { return el('span', { class: color === 'free' ? 'swatch free' : 'swatch', color: color === 'free' ? null : color, 'aria-hidden': 'true' }); }

// heads and rows of cells; a cell is text, an element, or { text, class }.
function table(caption, heads, rows, options = {}) {
  const cell = (c, tag, i) => {
    const given = c && typeof c === 'object' && !(c instanceof Node) && !Array.isArray(c);
    return el(tag, { class: given ? c.class : options.text && options.text.includes(i) ? 'text' : null, scope: tag === 'th' ? (options.head ? 'col' : 'row') : null },
      given ? c.text : c);
  };
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, el('table', {}, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, heads.map((h, i) => el('th', { scope: 'col', class: options.text && options.text.includes(i) ? 'text' : null }, h)))),
    el('tbody', {}, rows.map((row) => {
      const cells = row.cells || row;
      return el('tr', { class: row.class }, cells.map((c, i) => cell(c, i === 0 ? 'th' : 'td', i)));
    }))));
}

function meter(parts, label) {
  return el('div', { class: 'meter', role: 'img', 'aria-label': label }, parts.map(([share, color]) => el('i', { color, width: Math.max(0, Math.min(100, 100 * share)) + '%' })));
}

// The one tooltip.
const tip = {
  show(content, x, y) {
    const box = document.getElementById('tip');
    box.replaceChildren();
    add(box, content);
    box.hidden = false;
    const w = box.offsetWidth, h = box.offsetHeight, room = 14;
    let left = x + room, top = y + room;
    if (left + w > innerWidth - 8) left = Math.max(8, x - w - room);
    if (top + h > innerHeight - 8) top = Math.max(8, y - h - room);
    box.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  },
  hide() { document.getElementById('tip').hidden = true; },
};

function pairs(list, words) {
  return el('dl', { class: words ? 'words' : null }, list.map(([name, value, color]) => [el('dt', {}, color && swatch(color), name), el('dd', {}, value)]));
}
