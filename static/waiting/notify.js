import { NOTIFY, keep, recall, room } from './storage.js';
import { t } from '../shared/text.js';

// "Tell me when it is my turn": one notification, and two soft notes if wanted. Asked for only after a press.

let audio;

// Chrome on Android has the constructor and refuses it without a service worker, which these pages never register.
const able = () => 'Notification' in self && !/Android/.test(navigator.userAgent);

const granted = () => able() && Notification.permission === 'granted';

/** '' not asked for, 'on', 'sound' or 'blocked'. */
export const wish = () => {
  const kept = recall(NOTIFY) || '';
  return kept && !granted() ? 'blocked' : kept;
};

const unlock = () => {
  audio = audio || new AudioContext();
  audio.resume();
};

export const askToTell = async () => {
  // A question that was waved away may be put again.
  const verdict = able() && await Notification.requestPermission();
  keep(NOTIFY, verdict === 'default' ? '' : 'on');
};

export const wantSound = wanted => {
  keep(NOTIFY, wanted ? 'sound' : 'on');
  if (wanted) unlock();
};

const note = (hertz, start) => {
  const tone = audio.createOscillator();
  const gain = audio.createGain();
  tone.frequency.value = hertz;
  gain.gain.setValueAtTime(0.1, start);
  gain.gain.linearRampToValueAtTime(0, start + 0.3);
  tone.connect(gain).connect(audio.destination);
  tone.start(start);
  tone.stop(start + 0.3);
};

export const tell = name => {
  const kept = recall(NOTIFY);
  if (kept && granted()) new Notification(t('turn'), { body: name, tag: 'qm_' + room });
  if (kept !== 'sound') return;
  unlock();
  note(660, audio.currentTime);
  note(880, audio.currentTime + 0.3);
};
