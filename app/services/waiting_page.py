"""The waiting page of a room: rendered and compressed once per copy of the room, sent from memory.

Belongs here: the document, its entity tag, its Content-Security-Policy. Not here: anything about a single visitor; the
page is the same for everybody (VIS-089, PAG-095) and learns who it serves from ``/api/join``.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import urlsplit

from app.core.i18n import LANGUAGES, load_locale
from app.domain.inline.hosts import PREFIX
from app.domain.room import Room
from app.services.asset_file import compress, content_hash
from app.services.assets import Assets, bare_lines

_MEMO: Final = "waiting_page"
_ORIGIN: Final = re.compile(r"https?://(?:\*\.)?[A-Za-z0-9_.-]+(?::\d{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """One document in its two encodings, with the headers that belong to it."""

    body: bytes
    gzipped: bytes
    etag: str
    """Weak entity tag, the same for both encodings."""
    csp: str


class WaitingPage:
    """Renders ``static/waiting/waiting.html`` for rooms."""

    def __init__(self, *, assets: Assets, offers_mail: bool = False) -> None:
        """``offers_mail``: the form for an address is on the page (VIS-177)."""
        guard = assets.guard()
        mail = bare_lines(assets.source("waiting/mail.html"), end="") if offers_mail else ""
        # The script puts the prefix of an inline host before what it asks for itself.
        fixed = {
            "guard": guard,
            "mail": mail,
            **{lang.replace("-", "_"): url for lang, url in assets.languages.items()},
        }
        template = bare_lines(assets.source("waiting/waiting.html"), end="")
        self._template = _fill(template, {**fixed, **_addresses(assets, ""), "inline": ""})
        below = fixed | _addresses(assets, PREFIX)
        self._inline = {
            kind: _fill(template, {**below, "inline": f' data-base="{PREFIX}" data-inline="{kind}"'})
            for kind in ("get", "form")
        }
        digest = base64.b64encode(hashlib.sha256(guard.encode("utf-8")).digest()).decode("ascii")
        self._policy = (
            f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; font-src 'self'; "
            "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
        )

    def render(self, room: Room, *, inline: str = "") -> RenderedPage:
        """The page of ``room``; made at the first call for this copy of it and kept with the copy.

        ``inline``: at the customer's own URL, ``get`` or, in answer to a form, ``form``.
        """
        memo = _MEMO + inline
        page = room.compiled.get(memo)
        if not isinstance(page, RenderedPage):
            page = room.compiled[memo] = self._render(room, self._inline[inline] if inline else self._template)
        return page

    def _render(self, room: Room, template: str) -> RenderedPage:
        values = {"room": escape(room.id), "name": escape(room.config.name)}
        body = _fill(template, values).encode("utf-8")
        csp = " ".join([self._policy, *framers(room)])
        tag = content_hash(body + csp.encode("ascii"))
        return RenderedPage(body, compress(body), f'W/"{tag}"', csp)


def _addresses(assets: Assets, prefix: str) -> dict[str, str]:
    """What the document itself asks for, below ``prefix``. The room is filled in later."""
    plain = prefix + "/w/{{room}}/plain"
    links = (
        f'<p lang="{lang}"><a href="{plain}">{escape(load_locale("plain", lang)["noScript"])}</a></p>'
        for lang in LANGUAGES
    )
    files = {"css": assets.css, "js": assets.js, "icon": assets.icon, "icon_turn": assets.icon_turn}
    return {"plain": plain, "plain_links": "".join(links)} | {name: prefix + url for name, url in files.items()}


def framers(room: Room) -> list[str]:
    """Origins that may show the page in a frame: those that the room's own settings name (PAG-105)."""
    target = urlsplit(room.config.target_url)
    named = [f"{target.scheme}://{target.netloc}", *room.config.return_origins, *(room.config.tag_origins or ())]
    return list(dict.fromkeys(origin for origin in named if _ORIGIN.fullmatch(origin)))


def _fill(template: str, values: dict[str, str]) -> str:
    """Put values into ``{{name}}`` places in one pass: a value that looks like a place stays what it is."""
    return re.sub(r"{{(\w+)}}", lambda match: values.get(match[1], match[0]), template)
