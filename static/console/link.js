/** The token of a monitor link: in the fragment of the address, which browsers send to no server, and nowhere else. */
const BEGIN = "#monitor=";

const inAddress = () => (location.hash.startsWith(BEGIN) ? location.hash.slice(BEGIN.length) : "");

/** The token this page was opened with; empty without one. It decides, whatever session the browser has (CON-022). */
export const linkToken = inAddress();

/** Another fragment pasted over this one opens another page; a skip link's does not. */
export function watchAddress() {
  addEventListener("hashchange", () => {
    if (inAddress() !== linkToken && (inAddress() || location.hash === "")) location.reload();
  });
}
