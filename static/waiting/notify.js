import { NOTIFY, keep, recall, room } from './storage.js';
import { t } from '../shared/text.js';

// "Tell me when it is my turn": one notification, and two soft notes if wanted. Asked for only after a press.

let audio;

// Chrome on Android has the constructor and refuses it without a service worker, which these pages never register.
const able = () => 'Notification' in self && !/Android/.test(navigator.userAgent);

const granted = () => able() && Notification.permission === 'granted';

/** The text key of what came of the wish: '' not asked for, else 'tellOn' or 'tellBlocked'. */
export const wish = () => {
  if (!recall(NOTIFY)) return '';
  return granted() ? 'tellOn' : 'tellBlocked';
};

const unlock = () => {
  audio = audio || new AudioContext();
  audio.resume();
};

export const soundWanted = () => recall(NOTIFY) === 'sound';

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
  if (wish() && granted()) new Notification(t('turn'), { body: name, tag: 'qm_' + room });
  if (!soundWanted()) return;
  unlock();
  note(660, audio.currentTime);
  note(880, audio.currentTime + 0.3);
};
