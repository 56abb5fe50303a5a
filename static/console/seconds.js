/** The server's clock for what is shown by the second. */
import { useEffect, useState } from "preact/hooks";
import { serverNow } from "./store.js";

/**
 * The server's time in ms, told anew at each of its whole seconds (CON-057). Each tick sets the next one, not the time that
 * it shows: a frame may turn the clock back, and the same time told twice would be the last.
 */
export function useSeconds() {
  const [now, setNow] = useState(serverNow());
  useEffect(() => {
    let timer;
    const wait = () => (timer = setTimeout(tick, 1000 - (serverNow() % 1000) + 5));
    const tick = () => {
      setNow(serverNow());
      wait();
    };
    wait();
    return () => clearTimeout(timer);
  }, []);
  return now;
}
