"""The waiting page for browsers without script: one visitor's state as one document, complete in itself.

Belongs here: what is shown in which state, in five languages. Not here: how the state is found (plain.py), HTTP.
Source: PAG-109 … PAG-126, PAG-152 … PAG-157.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from app.core.i18n import LANGUAGES, choose_language, fill, load_locale
from app.domain.room import Room
from app.services.assets import Assets, bare_lines, by_system_scheme
from app.services.plain_words import Texts, countdown, estimate, moment, number, say
from app.services.small_pages import SmallDocument
from app.services.waiting_page import framers

View = Mapping[str, Any]
"""A visitor state (03, section 17)."""
NOTICES: Final = {
    "session_elsewhere": ("elsewhere", "elsewhereWhy"),
    "expired": ("back", "expiredWhy"),
    "ejected": ("back", "ejectedWhy"),
    "stale_generation": ("back", "restartedWhy"),
    "bad_token": ("back", "unverifiedWhy"),
}
"""Why an earlier ticket was not continued: title and text (PAG-118)."""
_LONG_NUMBER: Final = 6


@dataclass(frozen=True, slots=True)
class Told:
    """What the page says; empty parts are left out."""

    title: str
    label: str
    hero: str = ""
    sub: str = ""
    key: str = ""
    value: str = ""
    note: str = ""
    keep: bool = False
    buttons: Sequence[tuple[str, str]] = ()
    """Text and address; the first one stands out if it is all there is to do."""
    ref: str = ""
    ticket: str = ""
    why: str = ""
    """A reason of ``NOTICES``."""
    refresh_sec: int = 0
    """0: it does not load itself again."""
    at: str = ""
    """Address at which it loads itself again."""
    dismissed: str = ""
    """Address of the page without its notice."""


class PlainPage:
    """Makes the documents."""

    def __init__(self, assets: Assets) -> None:
        sources = (bare_lines(assets.source(f"waiting/{name}.css"), end="") for name in ("tokens", "plain"))
        style = by_system_scheme("".join(sources))
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
        self._csp = (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'self' "
        )
        self._template = bare_lines(assets.source("waiting/plain.html"), end="").replace("{{style}}", style)
        self._texts = {lang: load_locale("waiting", lang) | load_locale("plain", lang) for lang in LANGUAGES}

    def words(self, accept_language: str) -> tuple[str, Texts]:
        """Language of a visitor, and its texts."""
        lang = choose_language(accept_language)
        return lang, self._texts[lang]

    def render(self, accept_language: str, room: Room, told: Told) -> SmallDocument:
        """The document that says ``told`` of ``room``."""
        lang, texts = self.words(accept_language)
        stored = ", ".join(prefix + room.id for prefix in ("qm_", "qms_", "qm_dk_"))
        values = {
            "lang": lang,
            "title": escape(told.title),
            "room": escape(room.config.name),
            "kind": "" if told.hero else ' class="alone"',
            **_parts(texts, told),
            **{name: escape(fill(texts[name], names=stored)) for name in ("stores", "storesHere", "storesServer")},
        }
        body = re.sub(r"{{(\w+)}}", lambda match: values[match[1]], self._template)
        return SmallDocument(body.encode("utf-8"), self._csp + " ".join(framers(room)))


def tell(texts: Texts, view: View, room_name: str, *, at: str, refresh_sec: int) -> Told:
    """What a place in line, a place before the doors or a pass at a full site says of itself.

    ``at``: where the page loads itself again, after ``refresh_sec``.
    """
    state, ahead = view["state"], view.get("ahead")
    common: dict[str, Any] = {
        "ref": view.get("ref", ""),
        "ticket": number(view["ticket"]) if view.get("ticket") else "",
        "refresh_sec": refresh_sec,
        "at": at,
        "buttons": [(texts["reload"], at)],
    }
    if state == "at_capacity":
        door = view["doorAhead"]
        value = say(texts, "fullAhead", door, d=number(door)) if door else texts["fullNext"]
        return Told(texts["full"], texts["full"], sub=texts["fullWhy"], value=value, note=texts["fullKeep"], **common)
    if ahead is None:
        return _before_doors(texts, view, room_name, common)
    key = "stillNumber" if state != "waiting" else "number" if ahead else "next"
    sub = say(texts, "ahead", ahead, a=number(ahead)) if ahead else texts["nobodyAhead"]
    title = "docPaused" if state == "paused" else "docWaiting"
    place = number(view["position"])
    told = {"hero": place, "sub": sub, "keep": True, **_what_goes_on(texts, view), **common}
    return Told(fill(texts[title], n=place, room=room_name), texts[key], **told)


def _what_goes_on(texts: Texts, view: View) -> dict[str, str]:
    if view["state"] == "paused":
        return {"value": texts["paused"], "note": f"{texts['kept']} {texts['pausedWhy']}"}
    if view["state"] == "scheduled":
        left = view["opensAt"] - view["now"]
        return {
            "key": texts["doors"],
            "value": countdown(left) if left > 0 else texts["drawing"],
            "note": f"{fill(texts['opens'], t=moment(view['opensAt']))} · {texts['kept']}",
        }
    wait = view["estWaitSec"]
    note = f"{texts['nobodyLetIn']} {texts['kept']}" if wait is None else texts["isEstimate"]
    value = estimate(texts, wait, is_floor=view["estWaitIsFloor"])
    return {"key": texts["estimate"], "value": value, "note": note}


def _before_doors(texts: Texts, view: View, room_name: str, common: dict[str, Any]) -> Told:
    """No number, nobody ahead and no estimate: none exists yet (PAG-110)."""
    left = view["opensAt"] - view["now"]
    if left <= 0:
        return Told(room_name, texts["drawing"], sub=texts["drawingWhy"], **common)
    there = say(texts, "doorsAt", view["preCount"], t=f"{moment(view['opensAt'])} UTC", n=number(view["preCount"]))
    return Told(
        fill(texts["docDoors"], t=f"{moment(view['opensAt'])} UTC", room=room_name),
        texts["doors"], hero=countdown(left), sub=there, value=texts["noRush"], note=texts["noRushWhy"], keep=True,
        **common,
    )  # fmt: skip


def _parts(texts: Texts, told: Told) -> dict[str, str]:
    """The document's parts; each is there when it says something."""
    title, text = NOTICES.get(told.why, ("", ""))
    dismiss = f' <a href="{escape(told.dismissed)}">{escape(texts["dismiss"])}</a>'
    long = " long" if len(told.hero) > _LONG_NUMBER else ""
    waits = told.refresh_sec > 0
    proof = _entry(texts["reference"], told.ref) + _entry(texts["ticket"], told.ticket)
    block = _line("key", told.key) + _line("value", told.value) + _line("why", told.note)
    return {
        "refresh": f'<meta http-equiv="refresh" content="{told.refresh_sec};url={escape(told.at)}">' if waits else "",
        "notice": f'<p class="note"><b>{escape(texts[title])}</b> {escape(texts[text])}{dismiss}</p>' if title else "",
        "label": _span("label", told.label),
        "hero": _span("hero" + long, told.hero),
        "sub": _span("sub", told.sub),
        "two": f'<section class="two">{block}</section>' if block else "",
        "keep": f'<p class="keep"><b>{escape(texts["keep"])}</b> {escape(texts["keepWhy"])}</p>' if told.keep else "",
        "proof": f"<dl>{proof}</dl>" if proof else "",
        "buttons": "".join(
            f'<a class="main{" quiet" if waits else ""}" href="{escape(url)}">{escape(text)}</a>'
            for text, url in told.buttons
        ),
        "reloads": _line("reloads", fill(texts["reloads"], s=told.refresh_sec)) if waits else "",
    }


def _line(name: str, text: str) -> str:
    return f'<p class="{name}">{escape(text)}</p>' if text else ""


def _span(name: str, text: str) -> str:
    return f'<span class="{name}">{escape(text)}</span> ' if text else ""


def _entry(key: str, value: str) -> str:
    return f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" if value else ""
