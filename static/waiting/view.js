import { spokenEstimate } from './estimate.js';
import { room, root } from './storage.js';
import { language, t, number } from '../shared/text.js';

// Lays out what describe.js says. Only texts, the line's custom properties and the state class of the root change.

export const $ = id => document.getElementById(id);

const KEYS = ['qm_', 'qms_', 'qm_dk_', 'qm_meta_', 'qm_notify_', ...($('mail') ? ['qm_email_'] : [])];
const TEXTS = [
  'room', 'noticeTitle', 'noticeText', 'statusText', 'label', 'hero', 'sub', 'from', 'front', 'go', 'again', 'key', 'valueText',
  'note', 'keepBold', 'keepText', 'tellText', 'seconds', 'ref', 'ticket', 'leave',
];
const shown = new Map();

/** Set a text where it changed. Thai breaks between clauses: each stretch between spaces stays together. */
const put = (element, text) => {
  const whole = language() + text;
  if (shown.get(element) === whole) return;
  shown.set(element, whole);
  if (language() === 'th')
    element.replaceChildren(...text.split(' ').flatMap(part => {
      const span = document.createElement('span');
      span.className = 'ib';
      span.textContent = part;
      return [span, ' '];
    }));
  else element.textContent = text;
};

/** The texts that no state changes. */
export const label = () => {
  const dark = root.dataset.theme === 'dark';
  root.lang = $('lang').value = language();
  $('theme').setAttribute('aria-pressed', dark);
  for (const element of document.querySelectorAll('[data-l]')) element.setAttribute('aria-label', t(element.dataset.l));
  for (const element of document.querySelectorAll('[data-t]')) put(element, t(element.dataset.t));
  const names = KEYS.map(key => key + room).join(', ') + ', qm_lang, qm_theme';
  put($('stores'), `${t('storesHere', { names })} ${t('storesServer')}`);
};

const drawLine = ({ part = 0, full = 0, dots = 0, hero, first }) => {
  const track = $('track');
  const people = $('dots');
  track.style.setProperty('--p', Math.round(1000 * part) / 10 + '%');
  track.style.setProperty('--a', dots + 1);
  track.setAttribute('aria-valuenow', Math.round(100 * full));
  track.setAttribute('aria-valuetext', hero ? t('progressText', { n: hero, s: number(first) }) : t('getting'));
  while (people.childElementCount > dots) people.lastChild.remove();
  while (people.childElementCount < dots) {
    const dot = document.createElement('i');
    dot.style.setProperty('--i', people.childElementCount + 1);
    people.append(dot);
  }
};

export const draw = said => {
  root.className = said.css;
  document.title = said.document;
  for (const id of TEXTS) {
    const element = $(id);
    const text = said[id] || '';
    put(element, text);
    // A part of the page is there when the text that it stands for is.
    if (element.dataset.if) $(element.dataset.if).hidden = !text;
  }
  const link = $('go');
  if (said.go && /^http/.test(new URL(said.href, location).protocol)) link.href = said.href;
  link.target = said.blank || '';
  $('hero').classList.toggle('long', said.hero && said.hero.length > 6);
  $('pause').toggleAttribute('hidden', !said.pause);
  $('tellButton').disabled = !!said.wish;
  if ($('mail')) $('mail').hidden = !said.mail;
  $('sound').hidden = !said.wish;
  $('soundBox').checked = said.sound;
  drawLine(said);
};

/** One soft ring of the status dot: an answer came. */
export const pulse = () => {
  if (!matchMedia('(prefers-reduced-motion:reduce)').matches)
    $('dot').animate([{ boxShadow: '0 0 0 0 var(--accent)' }, { boxShadow: '0 0 0 8px transparent' }], 600);
};

let spoken = '';
let spokenAt = 0;

/** Speech: a new state at once and in full, a new place at most once a minute, never a countdown. */
export const speakOf = (model, said, now) => {
  const { view, lost, notice, screen } = model;
  const state = [screen, lost, view && view.state, notice, language()].join();
  const place = screen === 'line' && view && !lost && said.key
    ? `${t('sayPlace', { n: said.hero })} ${spokenEstimate(view)}.` : '';
  const fresh = !spoken.startsWith(state + '|');
  if (!fresh && (spoken === state + '|' + place || now - spokenAt < 60000)) return;
  spoken = state + '|' + place;
  spokenAt = now;
  const parts = fresh ? [said.noticeTitle, said.noticeText] : [];
  if (place) parts.push(place);
  else if (screen === 'line') parts.push(said.valueText, said.note);
  else if (screen === 'doors') parts.push(said.sub, said.note);
  else parts.push(said.label, said.sub, said.go);
  $('say').textContent = parts.filter(Boolean).map(part => part.replace(/[^.…]$/, '$&.')).join(' ');
};
