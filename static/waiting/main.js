import { createFeed, retryAfter } from '../shared/stream.js';
import { speak, t } from '../shared/text.js';
import { describe } from './describe.js';
import { askToTell, tell, wantSound } from './notify.js';
import { initial, reduce } from './state.js';
import { inline, keep, meta, recall, remember, room, root, TOKEN } from './storage.js';
import { startMail } from './mail.js';
import { $, draw, label, pulse, speakOf } from './view.js';

// Joins, listens, moves on: the only file that speaks to the server and to the person.

// At a customer's URL the query is the site's own.
const asked = new URLSearchParams(inline ? '' : location.search);
const back = asked.get('qm_return') || undefined;
const seen = asked.get('qm_from') || undefined;
const icon = document.querySelector('[rel=icon]');
const ring = icon.href;
const MOVES = 3;

let model = initial(Date.now(), $('room').textContent, meta());
let joined = false;
let cookieless = !navigator.cookieEnabled;
let rejoins = [];
let reason;
let failures = 0;
let moving = false;
let ready = false;

const paint = () => {
  if (!ready) return;
  const now = Date.now();
  const said = describe(model, now);
  const turn = model.screen === 'turn';
  const turned = turn && icon.href === ring;
  draw(said);
  speakOf(model, said, now);
  icon.href = turn ? root.dataset.turn : ring;
  document.querySelector('[name=theme-color]').content = getComputedStyle(document.body).backgroundColor;
  if (turned) {
    $('go').focus();
    tell(model.name);
  }
};

const tick = event => {
  model = reduce(model, event);
  remember({ ticket: model.ticket, first: model.first, notice: model.notice });
  paint();
};

// ---- asking -------------------------------------------------------------------------------------------------------

const call = async (path, init) => {
  const control = new AbortController();
  const deadline = setTimeout(() => control.abort(), 10000);
  try {
    const response = await fetch((root.dataset.base || '') + path, { cache: 'no-store', signal: control.signal, ...init });
    return { status: response.status, after: retryAfter(response), body: await response.json() };
  } catch {
    return { status: 0, after: 0, body: {} };
  } finally {
    clearTimeout(deadline);
  }
};

const post = (path, more, method = 'POST') => call(path, {
  method, headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ roomId: room, token: !inline && recall(TOKEN) || undefined, ...more }),
});

/** Address with room, return page and, only in a browser that returns no cookie, the token. */
const address = path => {
  const wanted = new URLSearchParams({ room });
  if (back) wanted.set('return', back);
  if (cookieless && recall(TOKEN)) wanted.set('token', recall(TOKEN));
  return `${path}?${wanted}`;
};

/** Wait before the next try: what the server asked for and up to a fifth more, else 5 s growing to 60 s. */
const delay = after => (after || Math.min(50000, 5000 * 2 ** failures)) * (1 + Math.random() / 5);

const refusal = ({ status, after, body }) => {
  const wait = delay(after);
  const retryAt = Date.now() + wait;
  failures += 1;
  const screen = { queue_identity_limit: 'refusedNetwork', prequeue_identity_limit: 'refusedNetwork', line_full: 'lineFull' }[body.code];
  if (status === 404 && body.code === 'no_room') end('noRoom');
  else if (body.code === 'blocked_by_protection') end('blocked');
  else if (screen) tick({ type: 'refused', screen, retryAt });
  else tick({ type: 'lost', offline: !navigator.onLine, retryAt });
  return { stream: false, ms: wait };
};

const end = type => {
  feed.stop();
  joined = false;
  tick({ type });
};

/** The place is over or unknown: what to do about it. True: ask anew at once. */
const gone = ({ reason: word, rejoin }) => {
  if (!rejoin) {
    end('cleared');
    return false;
  }
  // The place was given a moment ago and no token arrived with the question: this browser returns no cookie.
  if (word === 'new' && joined && !cookieless && recall(TOKEN)) {
    cookieless = true;
    if (inline) end('cookies');
    return !inline;
  }
  reason = word;
  const now = Date.now();
  rejoins = [...rejoins.filter(at => now - at < 60000), now];
  // Joined again and again in vain: cookies are the likely reason, and more joins would only use up places.
  if (rejoins.length > 3) {
    end('cookies');
    return false;
  }
  joined = false;
  return true;
};

/** Take a visitor state, from wherever it came. True: ask anew at once. */
const accept = (view, notice) => {
  failures = 0;
  if (view.token) keep(TOKEN, view.token);
  if (view.state === 'gone') return gone(view);
  const before = model;
  tick({ type: 'answer', view, at: Date.now(), notice });
  if (model !== before) pulse();
  follow();
  return false;
};

/** What a connector knew of this visitor has been handed in: it need not stand in the address any longer. */
const takeFrom = () => {
  if (!seen) return;
  asked.delete('qm_from');
  history.replaceState(history.state, '', `${location.pathname}${asked.size ? '?' + asked : ''}${location.hash}`);
};

const ask = async () => {
  const joining = !joined;
  const result = joining
    ? await post('/api/join', { returnUrl: back, from: seen })
    : await call(address('/api/status'));
  if (result.status !== 200) return refusal(result);
  const view = result.body;
  joined = true;
  // Why an earlier ticket was not continued: never as if newly arrived.
  const why = [view.reason, reason].find(word => word && word !== 'new');
  const anew = accept(view, joining && view.created ? why : null);
  if (joining) {
    reason = '';
    takeFrom();
  }
  return { stream: !anew, ms: anew ? 0 : (view.pollMs || 5000) * (1 - Math.random() / 10) };
};

const feed = createFeed({ ask, url: () => (root.dataset.base || '') + address('/events'), onFrame: view => accept(view) && feed.anew() });

// ---- moving on ----------------------------------------------------------------------------------------------------

const follow = async () => {
  const { screen } = model;
  if (moving || model.loop || !/turn|go/.test(screen)) return;
  moving = true;
  const shown = Date.now();
  if (screen === 'turn') {
    // Marks the holder as told before he is sent away (VIS-097). Without an answer the pass in hand is still good.
    const { status, body } = await call(address('/api/status'));
    if (status === 200 && accept(body)) {
      moving = false;
      feed.anew();
      return;
    }
  }
  setTimeout(move, Math.max(0, (screen === 'turn' ? 600 : 0) + shown - Date.now()));
};

const move = () => {
  const now = Date.now();
  const moves = (meta().moves || []).filter(at => now - at < 60000);
  if (!/turn|go/.test(model.screen)) moving = false;
  else if (moves.length > MOVES) tick({ type: 'loop' });
  else if ($('go').href) {
    remember({ moves: [...moves, now] });
    // The very URL that was asked for; a form is not sent again.
    if (inline === 'get') location.reload();
    else location.replace(inline ? location.pathname + location.search : $('go').href);
  }
};

// ---- the person ---------------------------------------------------------------------------------------------------

const restart = () => {
  tick({ type: 'restart', at: Date.now() });
  rejoins = [];
  feed.start();
  $('h1').focus();
};

const leave = async () => {
  const { status } = await post('/api/leave');
  if (status !== 200) return;
  keep(TOKEN, '');
  askLeave(false);
  end('left');
  $('h1').focus();
};

const askLeave = asking => {
  $('ask').hidden = !asking;
  $('leave').style.display = asking ? 'none' : '';
  (asking ? $('leaveNo') : $('leave')).focus();
};

const copy = () => {
  // The old command, since the new one is not there without https.
  getSelection().selectAllChildren($('ref'));
  document.execCommand('copy');
  $('refKey').textContent = $('say').textContent = t('copied');
  setTimeout(() => { $('refKey').textContent = t('reference'); }, 2000);
};

const option = lang => [...$('lang').options].find(each => each.value === lang);

let chosen;

const translate = async lang => {
  chosen = lang;
  // English is in the page, and stands in where the other language does not come.
  const { words } = option(lang).dataset;
  const { status, body } = words ? await call(words, { cache: 'default' }) : {};
  if (chosen !== lang) return; // another one was chosen meanwhile
  speak(...(status === 200 ? [lang, body] : ['en', EN]));
  ready = true;
  label();
  paint();
};

/** Whatever was kept or asked for, in a language of this page; every Chinese is the one there is. */
const firstLanguage = () =>
  [recall('qm_lang'), ...(navigator.languages || [])].map(tag => /^zh/.test(tag) ? 'zh-Hans' : ('' + tag).slice(0, 2)).find(option) || 'en';

const on = (id, act, type = 'click') => $(id).addEventListener(type, act);

on('lang', event => {
  keep('qm_lang', event.target.value);
  translate(event.target.value);
}, 'change');
const colour = dark => {
  root.dataset.theme = dark ? 'dark' : 'light';
  label();
  paint();
};

on('theme', () => {
  colour(root.dataset.theme === 'light');
  keep('qm_theme', root.dataset.theme);
});
on('dismiss', () => {
  tick({ type: 'dismissed' });
  $('h1').focus();
});
on('tellButton', () => askToTell().then(paint));
on('soundBox', event => wantSound(event.target.checked), 'change');
on('now', () => feed.now());
on('again', () => (/refused|Full/.test(model.screen) ? feed.now() : restart()));
on('copy', copy);
on('storesButton', () => {
  $('stores').hidden = !$('stores').hidden;
  $('storesButton').setAttribute('aria-expanded', !$('stores').hidden);
});
on('leave', () => askLeave(true));
on('leaveNo', () => askLeave(false));
on('leaveYes', leave);

matchMedia('(prefers-color-scheme:dark)').addEventListener('change', event => {
  if (!recall('qm_theme')) colour(event.matches);
});
document.addEventListener('visibilitychange', () => document.hidden || feed.now());
// Left in another tab: this one must not join again by itself.
addEventListener('storage', event => event.key === TOKEN && !event.newValue && end('left'));
addEventListener('online', () => feed.now());
addEventListener('pagehide', () => feed.stop());
addEventListener('pageshow', event => {
  if (!event.persisted) return;
  moving = false;
  feed.start();
});

setInterval(() => (model.lost || /refused|Full|turn/.test(model.screen) || (model.view || {}).opensAt) && paint(), 1000);
startMail(post);
translate(firstLanguage());
// At a customer's URL only a cookie can let anybody in: without one every turn would end at this page again (INL-219).
if (inline && cookieless) end('cookies');
else feed.start();
