import { estimate } from './estimate.js';
import { room, recall, TOKEN } from './storage.js';
import { NEAR } from './state.js';
import { clock, countdown, number, t } from '../shared/text.js';

// From what the page knows to what it says. No document here: the answer is a plain object that view.js lays out.

const name = model => (model.view && model.view.name) || document.getElementById('room').textContent;

const lostBlock = model => ({
  value: t(model.lost),
  note: (recall(TOKEN) ? t('kept') + ' ' : '') + t(model.lost + 'Why'),
  retry: true,
});

const waitBlock = view => ({
  key: t('estimate'), value: estimate(view),
  note: view.estWaitSec == null ? `${t('nobodyLetIn')} ${t('kept')}` : t('isEstimate'),
});

const connecting = model => ({
  label: t('getting'),
  ...(model.lost ? { css: 'line waiting lost still', ...lostBlock(model) } : {
    css: 'line waiting', key: t('estimate'), value: '–', bold: t('keep'), text: t('keepWhy'), tell: true, proof: true, leave: true,
  }),
});

const line = model => {
  const { view, lost } = model;
  if (!view) return connecting(model);
  const { position, ahead } = view;
  const paused = view.state === 'paused';
  const near = ahead <= NEAR;
  return {
    css: `line ${near ? 'near' : ''} ${lost ? 'lost' : ''} ${lost || paused ? 'still' : ''}`,
    label: lost ? t('lostNumber', { t: clock(model.at) }) : t(paused ? 'stillNumber' : ahead ? 'number' : 'next'),
    hero: number(position),
    sub: ahead ? t('ahead', { a: number(ahead) }, ahead) : t('nobodyAhead'),
    from: near ? t('lastEight') : t('started', { n: number(model.first) }), front: t('front'),
    // The bar's spoken value stays on the full scale when the drawn line zooms to the last places.
    part: near ? 1 - ahead / NEAR : Math.max(0, 1 - position / model.first),
    full: Math.max(0, 1 - position / model.first), dots: near ? ahead : 0,
    ...(lost ? lostBlock(model)
      : paused ? { value: t('paused'), note: `${t('kept')} ${t('pausedWhy')}`, pause: true }
      : waitBlock(view)),
    ...(!lost && { bold: t(near ? 'stay' : 'keep'), text: t(near ? 'stayWhy' : 'keepWhy'), tell: true }),
    proof: true, leave: true,
  };
};

const full = model => {
  const { doorAhead } = model.view;
  return {
    css: `title full ${model.lost ? 'lost' : ''}`, status: true, label: t('full'), sub: t('fullWhy'),
    ...(model.lost ? lostBlock(model) : {
      value: doorAhead ? t('fullAhead', { d: number(doorAhead) }, doorAhead) : t('fullNext'), note: t('fullKeep'), tell: true,
    }),
    proof: true, leave: true,
  };
};

const turn = (model, now) => {
  const { view, loop } = model;
  const server = now + model.skew;
  const held = view.claimUntil > server;
  return {
    css: 'title turn', label: t('turn'), sub: t(loop ? 'takenOften' : 'turnWhy'), go: t('continue'), href: view.location,
    key: t(held ? 'held' : 'good'), value: countdown((held ? view.claimUntil : view.passExpiresAt) - server),
    note: held ? t('heldWhy', { t: clock(view.passExpiresAt - model.skew) }) : '', proof: loop,
  };
};

const go = model => ({
  css: 'title', label: model.loop ? '' : t('taking'), sub: model.loop ? t('takenOften') : '', proof: model.loop,
  go: t('continue'), href: model.view.location,
});

const refused = key => (model, now) => ({
  css: 'title', label: t(key), again: t('tryNow'),
  sub: `${t(key + 'Why')} ${t('tryAgainIn', { s: seconds(model, now) })}`,
});

const ended = key => () => ({ css: 'title', label: t(key), sub: t(key + 'Why'), again: t('joinAgain') });

const cookies = () => {
  const framed = self !== top;
  return {
    css: 'title', label: t('cookies'), sub: t(framed ? 'frameWhy' : 'cookiesWhy'),
    ...(framed && { go: t('open'), href: location.href, blank: true }),
  };
};

const SCREEN = {
  line, full, turn, go, cookies, refusedNetwork: refused('refusedNetwork'), lineFull: refused('lineFull'),
  cleared: ended('cleared'), left: ended('left'), noRoom: () => ({ css: 'title', label: t('noRoom') }),
};

const seconds = (model, now) => number(Math.max(0, Math.ceil((model.retryAt - now) / 1000)));

const documentTitle = model => {
  const { view, lost, screen } = model;
  const values = { room: name(model), n: view && view.position ? number(view.position) : '' };
  if (lost) return t('docLost', values);
  if (screen === 'turn') return t('docTurn', values);
  if (screen === 'line' && view) return t(view.state === 'paused' ? 'docPaused' : 'docWaiting', values);
  return values.room;
};

const NOTICES = {
  session_elsewhere: ['elsewhere', 'elsewhereWhy'], expired: ['back', 'expiredWhy'], ejected: ['back', 'ejectedWhy'],
  stale_generation: ['back', 'restartedWhy'], bad_token: ['back', 'unverifiedWhy'],
};

/** Everything the page says at `now` (epoch ms of this device). */
export const describe = (model, now) => {
  const said = (SCREEN[model.screen] || line)(model, now);
  const { view, lost } = model;
  const notice = view && model.screen === 'line' && NOTICES[model.notice];
  return {
    ...said,
    name: name(model), document: documentTitle(model),
    status: /line|full/.test(said.css) && (lost
      ? t('noContact', { t: clock(view ? model.at : model.began, '2-digit') })
      : view ? t('updated', { t: clock(model.at, '2-digit') }) : t('connecting')),
    seconds: said.retry && t('tryingIn', { s: seconds(model, now) }),
    notice: notice && notice.map(key => t(key)),
    ref: said.proof && view && view.ref, ticket: view && view.ticket && number(view.ticket),
    stores: `${t('storesHere', { names: ['qm_', 'qms_', 'qm_dk_', 'qm_meta_', 'qm_notify_'].map(key => key + room).join(', ') + ', qm_lang, qm_theme' })} ${t('storesServer')}`,
  };
};
