"""Small pages for navigations that get no waiting page: 404, 429, 503. Source: PAG-181, design "small pages".

Belongs here: their text and form; each is complete in itself, in the visitor's language, at most 2 KB (429: 1,024
bytes). Not here: when they are sent, status and other headers.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from enum import Enum
from html import escape
from pathlib import Path
from typing import Final

from app.core.i18n import LANGUAGES, LOCALES_DIR, choose_language, fill, load_locale
from app.services.assets import STATIC_DIR


class SmallPage(Enum):
    """Kinds: key of the title and of the sentence below it (empty: none)."""

    NO_ROOM = ("noRoom", "")
    NOT_FOUND = ("notFound", "")
    RATE_LIMITED = ("moment", "rateLimited")
    PAGES_LIMITED = ("moment", "pagesLimited")
    RETRY = ("moment", "retry")
    CROWD = ("moment", "crowd")
    CLOSED = ("closed", "closedWhy")
    TOO_LONG = ("tooLong", "tooLongWhy")
    CONSOLE_AT = ("notFound", "consoleAt")
    CONSOLE_UNTOLD = ("notFound", "consoleUntold")


@dataclass(frozen=True, slots=True)
class SmallDocument:
    """A page and the Content-Security-Policy that it needs."""

    body: bytes
    csp: str


class SmallPages:
    """Makes the pages; cheap enough to be made per request."""

    def __init__(self, *, static_dir: Path = STATIC_DIR, locales_dir: Path = LOCALES_DIR) -> None:
        self._texts: Final = {lang: load_locale("pages", lang, folder=locales_dir) for lang in LANGUAGES}
        style = (static_dir / "waiting/small.css").read_text(encoding="utf-8").strip()
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
        template = (static_dir / "waiting/small.html").read_text(encoding="utf-8").strip()
        self._template = template.replace("{{style}}", style)
        self._csp = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"

    def page(self, kind: SmallPage, accept_language: str, *, retry_after_sec: int = 0, link: str = "") -> SmallDocument:
        """The page in the language of ``Accept-Language``; with ``retry_after_sec`` it loads itself again.

        ``link``: an address that stands behind its sentence.
        """
        lang = choose_language(accept_language)
        texts = self._texts[lang]
        title_key, text_key = kind.value
        sentences = [texts[text_key]] if text_key else []
        if retry_after_sec:
            sentences.append(fill(texts["again"], s=retry_after_sec))
        address = f' <a href="{escape(link)}">{escape(link)}</a>' if link else ""
        values = {
            "lang": lang,
            "title": escape(texts[title_key]),
            "text": f"<p>{escape(' '.join(sentences))}{address}</p>" if sentences else "",
            "refresh": f'<meta http-equiv="refresh" content="{retry_after_sec}">' if retry_after_sec else "",
        }
        body = self._template
        for name, value in values.items():
            body = body.replace("{{" + name + "}}", value)
        return SmallDocument(body.encode("utf-8"), self._csp)
