import { number, t } from '../shared/text.js';

// Wording of the estimate (PAG-121 … PAG-123). The server alone estimates; this only rounds and says it.

/** Seconds in words: minutes rounded up, from an hour on in steps of five minutes, beyond ten hours in hours. */
const stretch = sec => {
  const minutes = Math.ceil(sec / 60);
  if (minutes < 60) return t('minutes', { a: number(minutes) });
  const fives = Math.round(minutes / 5) * 5;
  const hours = fives > 600 ? Math.round(minutes / 60) : Math.floor(fives / 60);
  return fives > 600 || fives % 60 === 0
    ? t('hours', { h: number(hours) }, hours)
    : t('hoursMinutes', { h: number(hours), m: fives % 60 });
};

const unit = () => t('minutes', { a: '' });

/** The estimate of a visitor state in words; a range where both ends are known and differ after rounding. */
export const estimate = ({ estWaitSec, estWaitIsFloor, estWaitLowSec, estWaitHighSec }) => {
  if (estWaitSec == null) return t('noEstimate');
  if (estWaitIsFloor) return t('atLeast', { x: stretch(Math.max(60, estWaitSec)) });
  const high = estWaitHighSec ?? estWaitSec;
  if (high < 60) return t('underMinute');
  const ends = [estWaitLowSec == null || estWaitHighSec == null ? high : estWaitLowSec, high].map(stretch);
  if (ends[0] === ends[1]) return t('about', { x: ends[1] });
  // One unit for both ends, "14–18 min", but never "50–1 h 10 min".
  if (estWaitLowSec > 3540 === high > 3540) ends[0] = ends[0].replace(unit(), '');
  return t('about', { x: ends.join('–') });
};

/** The same for the ear: a dash is spoken "to", a unit in full. */
export const spokenEstimate = view =>
  estimate(view).replace('–', ` ${t('sayTo')} `).replace(unit().trim(), t('sayMinutes'));
