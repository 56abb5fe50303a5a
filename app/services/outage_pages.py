"""The two pages for the time when something does not answer, of one template and in five languages.

``offline.html`` is what a CDN shows when no instance answers, ``origin-down.html`` what the inline proxy shows in the
place of a site. Both are complete in themselves and ask for nothing. Belongs here: putting them together. Not here:
when they are shown, their other headers. Source: PAG-170 … PAG-180.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from app.core.i18n import FALLBACK, LANGUAGES, load_locale
from app.services.asset_file import Asset, compress, content_hash

_SELF_RELOAD: Final = '<noscript><meta http-equiv="refresh" content="60"></noscript>\n'


@dataclass(frozen=True, slots=True)
class WholePage:
    """A page in one file, complete in itself."""

    file: Asset
    etag: str
    csp: str
    """Allows its own inline style and script and no request at all."""

    @classmethod
    def of(cls, name: str, text: str) -> WholePage:
        """The page ``text``, which has one ``<style>`` and one ``<script>``."""
        body = text.encode("utf-8")
        style, script = (_inline_digest(text, tag) for tag in ("style", "script"))
        csp = (
            f"default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return cls(Asset(name, "text/html; charset=utf-8", body, compress(body)), f'W/"{content_hash(body)}"', csp)


class OutagePages:
    """Makes them of ``template`` (static/waiting/outage.html)."""

    def __init__(self, *, template: str, locales_dir: Path) -> None:
        self._template = template
        self._texts = {lang: load_locale("outage", lang, folder=locales_dir) for lang in LANGUAGES}

    def offline(self) -> WholePage:
        """The page of a queue that does not answer; it tries again after 20, 40, then each 60 s (PAG-173)."""
        names = ["offlineTitle", "offlineText", "next", "now"]
        return WholePage.of("offline.html", self._fill(names, steps=(20, 40, 60), key="qm_offline_attempts"))

    def origin_down(self, *, form: bool = False) -> WholePage:
        """The page of a site that does not answer. ``form``: shown in answer to a form, it asks nothing by itself."""
        names = ["originTitle", "originUnsent" if form else "originText", "next", "now"]
        text = self._fill(names, steps=(15, 30, 60), key="qm_origin_down_attempts")
        if form:
            text = text.replace('<html lang="en">', '<html lang="en" data-form>', 1).replace(_SELF_RELOAD, "", 1)
        return WholePage.of("origin-down.html", text)

    def _fill(self, names: Sequence[str], *, steps: Sequence[int], key: str) -> str:
        texts = {lang: [known[name] for name in names] for lang, known in self._texts.items()}
        title, text, *_ = texts[FALLBACK]
        values = {
            "title": escape(title),
            "text": escape(text),
            "texts": json.dumps(texts, ensure_ascii=False).replace("</", "<\\/"),
            "steps": json.dumps(steps),
            "key": key,
        }
        page = self._template
        for name, value in values.items():
            page = page.replace("{{" + name + "}}", value)
        return page


def _inline_digest(text: str, tag: str) -> str:
    """What a Content-Security-Policy names the one ``tag`` of a page by."""
    inside = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    digest = hashlib.sha256(inside.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
