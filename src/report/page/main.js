// The page: who it is about, and its cards in order.
const data = JSON.parse(document.getElementById('data').textContent);
const report = { data, subject: 0, view: null };

function themeButton() {
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)');
  const button = el('button', { type: 'button', id: 'theme' });
  let picked = null;
  const apply = (theme) => {
    root.dataset.theme = theme || picked || (dark.matches ? 'dark' : 'light');
    button.textContent = root.dataset.theme === 'dark' ? 'light' : 'dark';
    button.setAttribute('aria-label', `show in ${button.textContent} colours`);
    redrawAll();
  };
  button.addEventListener('click', () => { picked = root.dataset.theme === 'dark' ? 'light' : 'dark'; apply(); });
  dark.addEventListener('change', () => apply());
  addEventListener('beforeprint', () => { apply('light'); });
  addEventListener('afterprint', () => { apply(); });
  apply();
  return button;
}

// Links to the cards that are there.
function jumps() {
  const main = document.getElementById('main'), nav = document.getElementById('jumps');
  nav.replaceChildren(...[...main.querySelectorAll('section.card')].map((c) => el('a', { href: '#' + c.id }, c.querySelector('h2').textContent)));
}

function titleOf(subject) { return subject.name.split('/').filter(Boolean).pop() + (subject.stage ? `, stage ${subject.stage}` : ''); }

function cardsOf(subject) {
  const cards = [];
  if (subject.run) {
    const run = subject.run;
    cards.push(() => [runTiles(run), (subject.remarks || []).map((text) => el('p', { class: 'card warn' }, text))], () => curvesCard(run), () => measuredCard(run), () => samplesCard(run), () => eventsCard(run));
    if (subject.plan) cards.push(() => el('h2', { class: 'part' }, 'Its plan'));
  }
  if (subject.plan) {
    cards.push(() => tilesOf(subject.plan));
    if (subject.layout && subject.layout.tiers.length) {
      const view = report.view = new View(subject);
      cards.push(() => areasCard(view), () => layoutCard(view), () => ownersCard(subject.plan), () => streamsCard(view));
    }
    cards.push(() => techniquesCard(subject.plan), () => frontierCard(subject.plan), () => settingsCard(subject));
  }
  return cards;
}

// The first card at once, the others one by one when the browser has shown it, so that it can be read and answers meanwhile.
function show(index) {
  const main = document.getElementById('main'), subject = data.subjects[index], cards = cardsOf(subject);
  report.subject = index;
  report.ready = false;
  tip.hide();
  main.replaceChildren();
  if (data.differences) add(main, compareCard(data.subjects, data.differences));
  if (data.subjects.length > 1) {
    add(main, el('div', { class: 'bar' }, choice('which of them', data.subjects.map((s, i) => (data.differences ? `${i ? 'other' : 'this'}: ${titleOf(s)}` : s.stage || titleOf(s))), index, show)));
  }
  const put = (make) => { const made = make(); if (made) add(main, made); for (const p of pictures) if (!p.width) p.redraw(); };
  const turn = report.turn = (report.turn || 0) + 1;
  const next = (i) => {
    if (report.turn !== turn) return; // another one was chosen meanwhile
    if (i < cards.length) {
      put(cards[i]);
      setTimeout(() => next(i + 1));
      return;
    }
    jumps();
    report.ready = true;
    report.drawn = performance.now();
  };
  put(cards[0]);
  requestAnimationFrame(() => setTimeout(() => next(1)));
}

function begin() {
  const first = data.subjects[0], top = document.getElementById('top');
  document.title = plain(`${titleOf(first)} – headroom report`);
  add(top, el('h1', {}, el('small', {}, 'headroom report'), data.differences ? `${titleOf(first)} and ${titleOf(data.subjects[1])}` : data.subjects.length > 1 ? first.name.split('/').pop() : titleOf(first)), themeButton(), el('nav', { id: 'jumps', 'aria-label': 'parts of this page' }));
  add(document.getElementById('foot'), `headroom ${data.version}. The data of this page: document.getElementById('data').`);
  window.report = report;
  show(0);
}
begin();
