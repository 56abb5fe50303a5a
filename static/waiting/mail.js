import { keep, recall, room } from './storage.js';
import { language, t } from '../shared/text.js';

// "E-mail me when it is my turn": one address, left with the place. The form is there only when the server offers it.

const MAIL = 'qm_email_' + room;

/** `post(path, fields, method)` asks the server; see main.js. */
export const startMail = post => {
  const form = document.getElementById('mail');
  if (!form) return;
  const [box] = form.elements;
  box.value = recall(MAIL) || '';
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const email = box.value.trim();
    const { status } = await (email
      ? post('/api/notify', { email, lang: language() })
      : post('/api/notify', {}, 'DELETE'));
    if (status === 200) keep(MAIL, email);
    const said = { 200: email ? 'mailOn' : 'mailOff', 400: 'mailBad' };
    document.getElementById('mailSaid').textContent = t(said[status] || 'mailLater');
  });
};
