/** One room: read at a glance from top to bottom, act in one press at the foot. */
import { html } from "./html.js";
import { rich, t } from "./i18n.js";
import { hostOf, number, timeOfDay } from "./format.js";
import { isFailing } from "./inline.js";
import { may } from "./session.js";
import { lookOf, roomOf } from "./store.js";
import { alarm, bars, clockFace, diamond, disc, halfDisc, slashRing, square, wedges } from "./icons.js";
import { headingId, skipPast } from "./keyboard.js";
import { Doors, isScheduled } from "./doors.js";
import { Figures, Flow } from "./figures.js";
import { RateDial, RateNumber } from "./rate_dial.js";
import { Tags } from "./badges.js";
import { Acts } from "./room_acts.js";
import { Links } from "./room_links.js";

const BADGES = {
  active: ["ACTIVE", disc],
  paused: ["PAUSED", bars],
  bypass: ["BYPASS", wedges],
  scheduled: ["SCHEDULED", clockFace],
  recovering: ["RECOVERING", halfDisc],
};

function OneBadge({ state }) {
  const [word, shape] = BADGES[state];
  return html`<span class="badge badge-${state}" lang="en">${shape()}${word}</span>`;
}

/** The state, by shape and word; badge words stay English. Beside SCHEDULED what the doors open to (CON-082, CON-238). */
function Badge({ room }) {
  if (room.recovering) return html`<${OneBadge} state="recovering" />`;
  if (!isScheduled(room)) return html`<${OneBadge} state=${room.state} />`;
  return html`${room.state !== "active" && html`<${OneBadge} state=${room.state} />`}<${OneBadge} state="scheduled" />`;
}

const SITES = { up: disc, down: square, failing: alarm, unknown: diamond };

/** How the site answers: knocks, and for an inline room what real visitors met (CON-076). The words stay English. */
function Site({ status }) {
  return SITES[status] && html`<span class="site site-${status}">${SITES[status]()}site · ${status}</span>`;
}

/** Visitors get error pages in the place of the site (INL-179, CON-077). */
function Failing({ pages }) {
  const words = pages === 1 ? t("card.failing.one") : t("card.failing", { n: number(pages) });
  return html`<p class="notice notice-bad">${alarm()}<span>${words}</span></p>`;
}

/** The slot under the name: the target host at rest, else what there is to know. */
function Notice({ room }) {
  const look = lookOf(room.id);
  if (room.recovering) return html`<p class="notice notice-warn">${halfDisc()}<span>${t("card.recovering")}</span></p>`;
  if (room.stale) {
    const time = room.staleSince ? timeOfDay(room.staleSince) : "–";
    return html`<p class="notice notice-warn">${slashRing()}<span>${rich("card.stale", { time: html`<b>${time}</b>` })}</span></p>`;
  }
  if (isFailing(room)) return html`<${Failing} pages=${room.origin?.errorPages} />`;
  if (look.value) {
    const dismiss = () => (look.value = false);
    return html`<p class="notice notice-look">${clockFace()}<span>${t("card.rebuilt")}</span>
      <button type="button" class="notice-act" onClick=${dismiss}>${t("dismiss")}</button></p>`;
  }
  if (isScheduled(room)) return html`<${Doors} room=${room} />`;
  return html`<p class="notice notice-host">${hostOf(room.targetUrl)}</p>`;
}

export function RoomCard({ id }) {
  const room = roomOf(id).value;
  if (!room) return null;
  const writes = may("write");
  return html`
    <article class="card ${room.stale ? "card-old" : ""} ${isFailing(room) ? "card-bad" : ""}" aria-labelledby=${headingId(id)}>
      <a class="skip skip-card" href="#rooms-end" onClick=${skipPast}>${t("skip.card", { name: room.name })}</a>
      <div class="card-head"><h2 id=${headingId(id)} tabindex="-1" title=${room.name}>${room.name}</h2><${Badge} room=${room} /></div>
      <p class="card-id" lang="en"><span>${id}</span><${Tags} room=${room} /><${Site} status=${room.site?.status} /></p>
      <${Notice} room=${room} />
      <${Figures} room=${room} />
      <div class="flow">
        <${Flow} room=${room} />
        ${writes ? html`<${RateDial} id=${id} room=${room} />` : html`<${RateNumber} room=${room} />`}
      </div>
      ${(writes || may("visitors")) && html`<div class="card-foot">${writes && html`<${Acts} id=${id} room=${room} />`}<${Links} id=${id} room=${room} /></div>`}
    </article>
  `;
}
