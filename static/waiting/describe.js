import { estimate } from './estimate.js';
import { soundWanted, wish } from './notify.js';
import { inline, recall, TOKEN } from './storage.js';
import { NEAR } from './state.js';
import { clock, countdown, date, number, t } from '../shared/text.js';

// From what the page knows to what it says. No document here: the answer is a plain object that view.js lays out.

const told = () => ({ wish: wish(), tellText: t(wish() || 'tell'), sound: soundWanted(), mail: true });

const lostBlock = model => ({
  valueText: t(model.lost),
  note: (recall(TOKEN) ? t('kept') + ' ' : '') + t(model.lost + 'Why'),
  seconds: true,
});

const waitBlock = view => ({
  key: t('estimate'), valueText: estimate(view),
  note: view.estWaitSec == null ? `${t('nobodyLetIn')} ${t('kept')}` : t('isEstimate'),
});

const keeping = near => ({ keepBold: t(near ? 'stay' : 'keep'), keepText: t(near ? 'stayWhy' : 'keepWhy') });

const proof = view => view.ref && { ref: view.ref, ticket: view.ticket ? number(view.ticket) : '' };

const connecting = model => ({
  label: t('getting'),
  ...(model.lost ? { css: 'line waiting lost still', ...lostBlock(model) } : {
    css: 'line waiting', key: t('estimate'), valueText: '–', ...keeping(''), ...told(), mail: false, ref: '–', leave: t('leave'),
  }),
});

const left = ({ view, skew }, now) => view.opensAt - now - skew;

const line = (model, now) => {
  const { view, lost } = model;
  if (!view) return connecting(model);
  const { position, ahead } = view;
  const paused = view.state === 'paused';
  const shut = view.state === 'scheduled';
  const near = ahead <= NEAR;
  return {
    css: `line ${near ? 'near' : ''} ${lost ? 'lost' : ''} ${lost || paused || shut ? 'still' : ''}`,
    label: lost ? t('lostNumber', { t: clock(model.at) }) : t(paused || shut ? 'stillNumber' : ahead ? 'number' : 'next'),
    hero: number(position),
    sub: ahead ? t('ahead', { a: number(ahead) }, ahead) : t('nobodyAhead'),
    first: model.first, from: near ? t('lastEight') : t('started', { n: number(model.first) }), front: t('front'),
    // The bar's spoken value stays on the full scale when the drawn line zooms to the last places.
    part: near ? 1 - ahead / NEAR : Math.max(0, 1 - position / model.first),
    full: Math.max(0, 1 - position / model.first), dots: near ? ahead : 0,
    ...(lost ? lostBlock(model)
      : shut ? { key: t('doors'), valueText: left(model, now) > 0 ? countdown(left(model, now)) : t('drawing'), note: t('kept') }
      : paused ? { valueText: t('paused'), note: `${t('kept')} ${t('pausedWhy')}`, pause: true }
      : waitBlock(view)),
    ...(!lost && { ...keeping(near), ...told() }), ...proof(view), leave: t('leave'),
  };
};

// Before the doors open there is no number, no estimate and nobody ahead: only the time, the others and the ref.
const doors = (model, now) => {
  const { view, lost } = model;
  const open = left(model, now) <= 0;
  return {
    css: `${open ? 'title' : 'line'} doors ${lost ? 'lost' : ''}`,
    label: t(open ? 'drawing' : 'doors'), hero: open ? '' : countdown(left(model, now)),
    sub: open ? t('drawingWhy') : t('doorsAt', { t: date(view.opensAt), n: number(view.preCount) }, view.preCount),
    ...(lost ? lostBlock(model) : { valueText: open ? '' : t('noRush'), note: open ? '' : t('noRushWhy'), ...keeping(''), ...told() }),
    ...proof(view), leave: t('leave'),
  };
};

const full = model => {
  const { doorAhead } = model.view;
  return {
    css: `title full ${model.lost ? 'lost' : ''}`, label: t('full'), sub: t('fullWhy'),
    ...(model.lost ? lostBlock(model) : {
      valueText: doorAhead ? t('fullAhead', { d: number(doorAhead) }, doorAhead) : t('fullNext'), note: t('fullKeep'), ...told(),
    }),
    ...proof(model.view), leave: t('leave'),
  };
};

/** Where the site is: at a customer's URL that very URL (INL-116). */
const onward = view => (inline ? location.pathname + location.search : view.location);

const turn = (model, now) => {
  const { view, loop } = model;
  const server = now + model.skew;
  const held = view.claimUntil > server;
  return {
    css: 'title turn', label: t('turn'), sub: t(loop ? 'takenOften' : 'turnWhy'), go: t('continue'), href: onward(view),
    key: t(held ? 'held' : 'good'), valueText: countdown((held ? view.claimUntil : view.passExpiresAt) - server),
    note: held ? t('heldWhy', { t: clock(view.passExpiresAt - model.skew) }) : '', ...(loop && proof(view)),
  };
};

const go = model => ({
  css: 'title', label: model.loop ? '' : t('taking'), sub: model.loop ? t('takenOften') : '', ...(model.loop && proof(model.view)),
  go: t('continue'), href: onward(model.view),
});

const refused = key => (model, now) => ({
  css: 'title', label: t(key), again: t('tryNow'),
  sub: `${t(key + 'Why')} ${t('tryAgainIn', { s: seconds(model, now) })}`,
});

// No place for this browser, and none by asking again and again: only a person tries once more.
const blocked = () => ({ css: 'title', label: t('blocked'), sub: t('blockedWhy'), again: t('tryAgain') });

const ended = key => () => ({ css: 'title', label: t(key), sub: t(key + 'Why'), again: t('joinAgain') });

const cookies = () => {
  const framed = self !== top;
  return {
    css: 'title', label: t('cookies'), sub: t(framed ? 'frameWhy' : 'cookiesWhy'),
    ...(framed && { go: t('open'), href: location.href, blank: '_blank' }),
  };
};

const SCREEN = {
  line, doors, full, turn, go, cookies, refusedNetwork: refused('refusedNetwork'), lineFull: refused('lineFull'),
  blocked, cleared: ended('cleared'), left: ended('left'), noRoom: () => ({ css: 'title', label: t('noRoom') }),
};

const seconds = (model, now) => number(Math.max(0, Math.ceil((model.retryAt - now) / 1000)));

const documentTitle = ({ view, lost, screen }, values) => {
  if (lost) return t('docLost', values);
  if (screen === 'turn') return t('docTurn', values);
  if (screen === 'doors') return t('docDoors', { ...values, t: clock(view.opensAt) });
  if (screen !== 'line' || !view) return values.room;
  return t(view.state === 'paused' ? 'docPaused' : 'docWaiting', { ...values, n: number(view.position) });
};

const NOTICES = {
  session_elsewhere: ['elsewhere', 'elsewhereWhy'], expired: ['back', 'expiredWhy'], ejected: ['back', 'ejectedWhy'],
  stale_generation: ['back', 'restartedWhy'], bad_token: ['back', 'unverifiedWhy'],
};

const statusOf = ({ view, lost, at, began }) => {
  if (lost) return t('noContact', { t: clock(view ? at : began, '2-digit') });
  return view ? t('updated', { t: clock(at, '2-digit') }) : t('connecting');
};

/** Everything the page says at `now` (epoch ms of this device): texts by the id of their element, and what goes with them. */
export const describe = (model, now) => {
  const said = SCREEN[model.screen](model, now);
  const { view, screen, name } = model;
  const form = inline === 'form';
  const [title, text] = NOTICES[model.notice] || [form && 'notSent'];
  // A form that this page answered was not sent, and is not sent by itself.
  const why = [text, form && 'notSentWhy'].filter(Boolean).map(key => t(key)).join(' ');
  return {
    ...said, room: name, document: documentTitle(model, { room: name }),
    statusText: /line|full|doors/.test(said.css) && statusOf(model),
    seconds: said.seconds && t('tryingIn', { s: seconds(model, now) }),
    ...(view && screen === 'line' && title && { noticeTitle: t(title), noticeText: why }),
  };
};
