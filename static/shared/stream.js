// Hears about one place: a stream of server-sent events, and questions at an interval while no stream is heard.
//
// The stream is read with fetch, not EventSource, because only so the page sees a refusal's Retry-After and the
// heartbeat comments: a connection that died without a word is noticed. Until the first frame arrives the questions
// go on, so a proxy that holds frames back costs nobody his place.

const STEPS = [2, 4, 8, 16, 20];
// A heartbeat comes every 15 s.
const SILENCE_MS = 35000;

export const retryAfter = response => 1000 * response.headers.get('retry-after') || 0;

/**
 * ask(): puts the question; resolves to {stream, ms}: may a stream be opened now, and when to ask next.
 * url(): address of the stream. onFrame(view): a state came.
 */
export const createFeed = ({ ask, url, onFrame }) => {
  let on = false;
  let heard = false;
  let asking = false;
  let may = false;
  let step = 0;
  let control, timer, reopen;

  const question = async () => {
    clearTimeout(timer);
    if (asking || !on) return;
    asking = true;
    const next = await ask();
    asking = false;
    may = next.stream;
    if (!on) return;
    if (may && !control && !reopen) open();
    if (!heard || !may) timer = setTimeout(question, next.ms);
  };

  const frame = block => {
    const name = /^event: ?(.*)$/m.exec(block);
    const data = /^data: ?(.*)$/m.exec(block);
    if (!name || !data) return;
    heard = true;
    step = 0;
    clearTimeout(timer);
    if (name[1] === 'refresh') {
      close();
      open();
    } else if (name[1] === 'state') onFrame(JSON.parse(data[1]));
  };

  const read = async (response, mine) => {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = '';
    while (mine === control) {
      const watch = setTimeout(() => mine.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => clearTimeout(watch));
      if (done) return;
      const blocks = (text + decoder.decode(value, { stream: true })).split('\n\n');
      text = blocks.pop();
      blocks.forEach(block => mine === control && frame(block));
    }
  };

  const open = async () => {
    const mine = control = new AbortController();
    let wait = 1000 * STEPS[Math.min(step++, 4)];
    try {
      const response = await fetch(url(), { signal: mine.signal, cache: 'no-store' });
      if (response.ok) await read(response, mine);
      else wait = Math.max(wait, retryAfter(response));
    } catch {
      // Broken off: the questions below tell whether anything is wrong.
    }
    if (mine !== control) return;
    close();
    reopen = setTimeout(() => {
      reopen = 0;
      if (may) open();
    }, wait);
    question();
  };

  const close = () => {
    heard = false;
    clearTimeout(reopen);
    reopen = 0;
    const old = control;
    control = null;
    if (old) old.abort();
  };

  return {
    start() {
      on = true;
      question();
    },
    stop() {
      on = false;
      clearTimeout(timer);
      close();
    },
    now: question,
    /** Close the stream and ask: the place it spoke of is over. */
    anew() {
      close();
      clearTimeout(timer);
      timer = setTimeout(question);
    },
  };
};
