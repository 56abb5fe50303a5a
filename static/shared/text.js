// Words, numbers and times in the chosen language. EN is put in front by the server: the English texts of the page.

let words = EN;
let code = 'en';

export const speak = (lang, table) => {
  code = lang;
  words = table;
};

export const language = () => code;

/** Text of a key with its {values}; with a count, the plural form of the language where the texts have one. */
export const t = (key, values = {}, count = 0) =>
  (words[key + '_' + new Intl.PluralRules(code).select(count)] || words[key]).replace(/{(\w+)}/g, (_, name) => values[name]);

export const number = value => new Intl.NumberFormat(code).format(value);

/** Time of day of epoch milliseconds, 24 hours, with seconds only where asked for. */
export const clock = (ms, second) =>
  new Intl.DateTimeFormat(code, { hour: '2-digit', minute: '2-digit', second, hourCycle: 'h23' }).format(ms);

/** Day and time of day of epoch milliseconds. */
export const date = ms =>
  new Intl.DateTimeFormat(code, { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' }).format(ms);

/** m:ss or h:mm:ss of milliseconds that are left, and days from two on. */
export const countdown = ms => {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const two = value => String(value % 60).padStart(2, '0');
  if (minutes >= 2880)
    return new Intl.NumberFormat(code, { style: 'unit', unit: 'day', unitDisplay: 'long' }).format(Math.floor(minutes / 1440));
  return (minutes < 60 ? minutes : Math.floor(minutes / 60) + ':' + two(minutes)) + ':' + two(seconds);
};
