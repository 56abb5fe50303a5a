import { spokenEstimate } from './estimate.js';
import { wish } from './notify.js';
import { language, t, number } from '../shared/text.js';

// Lays out what describe.js says. Only text nodes, two custom properties and the state class change.

export const $ = id => document.getElementById(id);

const shown = new Map();

/** Set a text, once. Thai breaks between clauses: each stretch between spaces stays together. */
const put = (id, given) => {
  const text = given || '';
  const whole = language() + text;
  if (shown.get(id) === whole) return;
  shown.set(id, whole);
  if (language() !== 'th') {
    $(id).textContent = text;
    return;
  }
  $(id).replaceChildren(...text.split(' ').flatMap(part => {
    const span = document.createElement('span');
    span.className = 'ib';
    span.textContent = part;
    return [span, ' '];
  }));
};

const show = (id, visible) => {
  $(id).toggleAttribute('hidden', !visible);
};

const drawLine = said => {
  const percent = Math.round(1000 * (said.part || 0)) / 10 + '%';
  $('track').style.setProperty('--p', percent);
  $('track').style.setProperty('--a', said.dots + 1);
  const dots = $('dots');
  while (dots.childElementCount > said.dots) dots.lastChild.remove();
  for (let i = dots.childElementCount; i < said.dots; i++) {
    dots.append(document.createElement('i'));
    dots.lastChild.style.setProperty('--i', i + 1);
  }
};

const drawBar = (model, said) => {
  const bar = $('track');
  bar.setAttribute('aria-label', t('progress'));
  bar.setAttribute('aria-valuenow', Math.round(100 * (said.full || 0)));
  bar.setAttribute('aria-valuetext', said.hero ? t('progressText', { n: said.hero, s: number(model.first) }) : t('getting'));
};

/** The texts that no state changes. */
export const label = dark => {
  document.documentElement.lang = language();
  $('lang').value = language();
  $('lang').setAttribute('aria-label', t('language'));
  $('theme').setAttribute('aria-label', t('dark'));
  $('theme').setAttribute('aria-pressed', dark);
  $('dismiss').setAttribute('aria-label', t('dismiss'));
  $('copy').setAttribute('aria-label', t('copy'));
  for (const [id, key] of Object.entries({
    soundText: 'tellSound', now: 'tryNow', refKey: 'reference', ticketKey: 'ticket', storesButton: 'stores',
    leave: 'leave', askText: 'leaveAsk', leaveYes: 'leaveYes', leaveNo: 'leaveNo',
  })) put(id, t(key));
};

const drawTell = said => {
  const wanted = wish();
  put('tellText', t(!wanted ? 'tell' : wanted === 'blocked' ? 'tellBlocked' : 'tellOn'));
  show('tell', said.tell);
  $('tell').classList.toggle('on', wanted);
  $('tellButton').disabled = !!wanted;
  show('sound', wanted);
  $('soundBox').checked = wanted === 'sound';
};

const drawButtons = said => {
  const link = $('go');
  show('act', said.go || said.again);
  show('go', said.go);
  show('again', said.again);
  if (said.go && /^https?:/.test(new URL(said.href, location).protocol)) link.href = said.href;
  link.target = said.blank ? '_blank' : '';
  put('go', said.go);
  put('again', said.again);
};

export const draw = (model, said) => {
  document.body.className = said.css;
  document.title = said.document;
  for (const id of ['label', 'hero', 'sub', 'from', 'front', 'key', 'note', 'ref', 'ticket', 'seconds', 'stores']) put(id, said[id]);
  put('statusText', said.status || '');
  put('valueText', said.value);
  put('keepBold', said.bold);
  put('keepText', said.text);
  put('noticeTitle', said.notice && said.notice[0]);
  put('noticeText', said.notice && said.notice[1]);
  $('room').textContent = said.name;
  $('hero').classList.toggle('long', said.hero && said.hero.length > 6);
  for (const id of ['notice', 'status', 'retry', 'pause', 'proof', 'key', 'leave']) show(id, said[id]);
  show('two', said.value);
  show('keep', said.bold);
  show('row', said.tell || said.retry || said.proof);
  drawLine({ dots: 0, ...said });
  drawBar(model, said);
  drawTell(said);
  drawButtons(said);
};

/** One soft ring of the status dot: an answer came. */
export const pulse = () => {
  const dot = $('status').firstChild;
  if (dot.animate && !matchMedia('(prefers-reduced-motion:reduce)').matches)
    dot.animate([{ boxShadow: '0 0 0 0 var(--accent)' }, { boxShadow: '0 0 0 8px transparent' }], 600);
};

let spokenState = '';
let spokenPlace = 0;
let spokenAt = 0;

/** Speech: a new state at once and in full, a new place at most once a minute, never a countdown. */
export const speakOf = (model, said, now) => {
  const state = [model.screen, model.lost, model.view && model.view.state, model.notice, language()].join();
  const place = (model.view && model.view.position) || 0;
  const fresh = state !== spokenState;
  if (!fresh && (place === spokenPlace || now - spokenAt < 60000)) return;
  spokenState = state;
  spokenPlace = place;
  spokenAt = now;
  const parts = fresh && said.notice ? [...said.notice] : [];
  if (model.screen !== 'line') parts.push(said.label, said.go || said.value || said.sub);
  else if (model.lost || !said.key) parts.push(said.value, said.note);
  else if (place) parts.push(t('sayPlace', { n: said.hero }), spokenEstimate(model.view));
  $('say').textContent = parts.filter(Boolean).map(part => part.replace(/([^.?…])$/, language() === 'en' ? '$1.' : '$1')).join(' ');
};
