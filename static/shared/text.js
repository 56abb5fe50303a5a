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

/** m:ss of milliseconds that are left. */
export const countdown = ms => {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return Math.floor(seconds / 60) + ':' + String(seconds % 60).padStart(2, '0');
};
