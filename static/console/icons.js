/** Signs of the console: each status has its own silhouette (never colour alone). All are hidden from speech. */
import { html } from "./html.js";

const sign = (name, content, box = 12) => html`
  <svg class="sign sign-${name}" viewBox="0 0 ${box} ${box}" aria-hidden="true" focusable="false">${content}</svg>
`;

export const disc = () => sign("disc", html`<circle cx="6" cy="6" r="3.6" fill="currentColor" />`);

export const bars = () =>
  sign("bars", html`<path d="M3 2.4h2.1v7.2H3zM6.9 2.4H9v7.2H6.9z" fill="currentColor" />`);

export const wedges = () =>
  sign("wedges", html`<path d="M1 2.6 5.2 6 1 9.4zM5.2 2.6 9.2 6 5.2 9.4zM9.4 2.6h1.5v6.8H9.4z" fill="currentColor" />`);

export const clockFace = () =>
  sign(
    "clock",
    html`<circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.4" />
      <path d="M6 3.8V6l1.6 1" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linecap="round" />`,
  );

export const halfDisc = () =>
  sign(
    "half",
    html`<circle cx="6" cy="6" r="3.9" fill="none" stroke="currentColor" stroke-width="1.4" />
      <path d="M6 2.1a3.9 3.9 0 0 1 0 7.8z" fill="currentColor" />`,
  );

export const alarm = () =>
  sign(
    "alarm",
    html`<path d="M6 1.2 11.4 10.6H.6z" fill="currentColor" stroke="currentColor" stroke-linejoin="round" />
      <path d="M6 4.6v2.7" class="sign-hole" stroke-width="1.3" stroke-linecap="round" />
      <circle cx="6" cy="9" r=".8" class="sign-dot" />`,
  );

export const slashRing = () =>
  sign(
    "slash",
    html`<circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.4" />
      <path d="m3.2 3.2 5.6 5.6" stroke="currentColor" stroke-width="1.4" />`,
  );

export const square = () => sign("square", html`<path d="M2.8 2.8h6.4v6.4H2.8z" fill="currentColor" />`);

export const diamond = () => sign("diamond", html`<path d="M6 1.8 10.2 6 6 10.2 1.8 6z" fill="none" stroke="currentColor" stroke-width="1.3" />`);

export const lock = () =>
  sign(
    "lock",
    html`<rect x="2" y="5.2" width="8" height="5.8" rx="1.3" fill="currentColor" />
      <path d="M3.9 5.4V3.7a2.1 2.1 0 0 1 4.2 0v1.7" fill="none" stroke="currentColor" stroke-width="1.4" />`,
  );

export const cross = () =>
  sign("cross", html`<path d="m2.4 2.4 7.2 7.2m0-7.2L2.4 9.6" stroke="currentColor" stroke-width="1.5" />`);

export const plus = () => sign("plus", html`<path d="M6 1.4v9.2M1.4 6h9.2" stroke="currentColor" stroke-width="1.5" />`);

export const check = () =>
  sign("check", html`<path d="m2 6.4 2.7 2.7L10 3.4" fill="none" stroke="currentColor" stroke-width="1.6" />`);

export const chevron = () =>
  sign("chevron", html`<path d="m2.4 4.2 3.6 3.6 3.6-3.6" fill="none" stroke="currentColor" stroke-width="1.5" />`);

export const arrow = (up) =>
  sign("arrow", html`<path d=${up ? "M6 10V2.4M2.8 5.4 6 2.2l3.2 3.2" : "M6 2v7.6M2.8 6.6 6 9.8l3.2-3.2"} fill="none" stroke="currentColor" stroke-width="1.5" />`);

/** Mark of the product: people in line before a door. */
export const mark = () => html`
  <svg class="mark" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
    <rect width="20" height="20" rx="5" class="mark-ground" />
    <circle cx="5.6" cy="10" r="1.5" class="mark-figure" />
    <circle cx="10" cy="10" r="1.5" class="mark-figure" />
    <path d="M13.5 5.2h1.8v9.6h-1.8z" class="mark-figure" />
  </svg>
`;

/** Three dots before a door and one behind it: the picture of the empty state. */
export const line = () => html`
  <svg class="empty-line" viewBox="0 0 84 28" aria-hidden="true" focusable="false">
    <g class="empty-waiting"><circle cx="5" cy="14" r="4" /><circle cx="23" cy="14" r="4" /><circle cx="41" cy="14" r="4" /></g>
    <path class="empty-door" d="M57 2h3v24h-3z" />
    <circle class="empty-in" cx="79" cy="14" r="4.5" />
  </svg>
`;

export const bolt = () => sign("bolt", html`<path d="M7 .8 2.4 6.9h2.9L4.6 11.2 9.6 4.9H6.5z" fill="currentColor" />`);

export const ring = () => sign("ring", html`<circle cx="6" cy="6" r="3.4" fill="none" stroke="currentColor" stroke-width="1.5" />`);

export const minusRing = () =>
  sign("minus", html`<circle cx="6" cy="6" r="4.2" fill="none" stroke="currentColor" stroke-width="1.4" /><path d="M3.8 6h4.4" stroke="currentColor" stroke-width="1.4" />`);

export const onward = () => sign("onward", html`<path d="M1.6 6h8M6.8 3 9.9 6 6.8 9" fill="none" stroke="currentColor" stroke-width="1.4" />`);
