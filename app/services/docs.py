"""The guides and release notes that a running server shows, made once per version of their file and kept.

Belongs here: what a page is made of, its bytes for one base address, how many of those are kept. Not here: Markdown
(markdown_pages.py), HTTP (blueprints/docs.py). Source: PAG-194 … PAG-204, PAG-219.

Rendering takes tens of milliseconds and goes to a thread, once per file; a further base address costs a replacement and
a compression. So no request of a stranger, whatever ``Host`` it makes up, is worth more than those.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import OrderedDict
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from app.core.version import VERSION
from app.domain.doc_pages import EXAMPLES, NEWS, PAGES, DocPage, counterpart, place_of
from app.services.asset_file import content_hash
from app.services.assets import Assets, bare_lines
from app.services.markdown_pages import contents, render

ROOT: Final = Path(__file__).resolve().parents[2]
BASES_KEPT: Final = 16
_EXAMPLE_BASE: Final = "https://queue.example"
"""How the guides write this server's own address."""
_BASE: Final = "\x02"
"""Stands for the base address in a kept page; no source has it."""
_PREFIX: Final = "\x03"
"""Stands for what the addresses of pages begin with: nothing, or ``/__qm`` on an inline host."""
_NAMED_BY_FILE: Final = re.compile(rf'(<a href="{_PREFIX}(/[^"#]*)[^"]*">)[^<]*\.md</a>')
"""A link whose text is the name of a file, which a reader of the page knows nothing of."""
_GZIP_LEVEL: Final = 6

WORDS: Final = {
    "en": {
        "skip": "Skip to the text",
        "guides": "Guides",
        "onThisPage": "On this page",
        "copy": "Copy",
        "copied": "Copied",
        "news": "What changed",
        "said": "Addresses on this page are those of this server: {base}",
    },
    "th": {
        "skip": "ข้ามไปที่เนื้อหา",
        "guides": "คู่มือ",
        "onThisPage": "ในหน้านี้",
        "copy": "คัดลอก",
        "copied": "คัดลอกแล้ว",
        "news": "มีอะไรใหม่",
        "said": "ที่อยู่ในหน้านี้เป็นของเซิร์ฟเวอร์นี้: {base} · หากฉบับภาษาไทยต่างจากฉบับภาษาอังกฤษ ให้ถือฉบับภาษาอังกฤษ",
    },
}
_MENU: Final = {
    "en": ("/docs", "/docs/operations", "/docs/integration", NEWS),
    "th": ("/docs/th", "/docs/th/operations", "/docs/th/integration", NEWS),
}
_LANGUAGES: Final = {"en": "English", "th": "ไทย"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of every page."""


@dataclass(frozen=True, slots=True)
class Place:
    """By which address somebody reads the pages."""

    base: str
    """This server's own address (PAG-043)."""
    prefix: str = ""
    """What the addresses of pages begin with where he reads them: ``/__qm`` on an inline host."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A page for one base address."""

    gzipped: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """A page for every base address, and the version of the file that it was made of."""

    version: tuple[int, int]
    text: str


class Docs:
    """The documents of one process."""

    def __init__(self, assets: Assets, *, root: Path = ROOT) -> None:
        """``root``: folder of the release."""
        self._root = root
        self._assets = assets
        self._template = bare_lines(assets.source("docs/docs.html"))
        self._kept: dict[str, _Kept] = {}
        self._sent: OrderedDict[Place, dict[str, Sent]] = OrderedDict()
        self._making = asyncio.Lock()

    async def page(self, path: str, place: Place) -> Sent | None:
        """The page at ``path`` for readers at ``place``; None: there is none."""
        page = PAGES.get(path)
        version = None if page is None else self._version(page.source)
        if page is None or version is None:
            return None
        kept = self._kept.get(path)
        if kept is None or kept.version != version:
            async with self._making:
                kept = await self._make(page, version)
        of_place = self._sent.setdefault(place, {})
        self._sent.move_to_end(place)
        while len(self._sent) > BASES_KEPT:
            self._sent.popitem(last=False)
        sent = of_place.get(path)
        if sent is None:
            sent = of_place[path] = await asyncio.to_thread(_for_place, kept.text, place)
        return sent

    def body(self, path: str, place: Place) -> bytes:
        """The same without compression, for who takes none; after ``page`` found it."""
        return _put_in(self._kept[path].text, place).encode("utf-8")

    def example(self, path: str) -> bytes | None:
        """A file that the guides hand out; None: there is none at ``path``."""
        source = EXAMPLES.get(path)
        if source is None or self._version(source) is None:
            return None
        return (self._root / source).read_bytes()

    async def _make(self, page: DocPage, version: tuple[int, int]) -> _Kept:
        kept = self._kept.get(page.path)
        if kept is not None and kept.version == version:  # somebody else made it while this one waited
            return kept
        kept = _Kept(version, await asyncio.to_thread(self._render, page))
        self._kept[page.path] = kept
        for of_place in self._sent.values():
            of_place.pop(page.path, None)
        return kept

    def _version(self, source: str) -> tuple[int, int] | None:
        try:
            found = (self._root / source).stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size

    def _render(self, page: DocPage) -> str:
        """The document with marks in the place of what differs from reader to reader."""
        source = (self._root / page.source).read_text(encoding="utf-8")
        rendered = render(source, lambda link: _linked(link, page))
        words = {name: escape(text) for name, text in WORDS[page.lang].items()}
        said = words["said"].format(base=f"<code>{_BASE}</code>")
        values = {
            **words,
            "lang": page.lang,
            "title": escape(rendered.title or page.title),
            "said": said if page.path != NEWS else f"Version {VERSION} is running. {said}",
            "menu": "".join(_entry(PAGES[path], page) for path in _MENU[page.lang]),
            "other": _other(page),
            "contents": contents(rendered.headings),
            "body": _NAMED_BY_FILE.sub(_by_title, rendered.body.replace(_EXAMPLE_BASE, _BASE)),
            "base": _PREFIX,
            "css": self._assets.docs_css,
            "js": self._assets.docs_js,
            "icon": self._assets.icon,
        }
        return re.sub(r"{{(\w+)}}", lambda match: values[match[1]], self._template)


def _linked(link: str, page: DocPage) -> str | None:
    place = place_of(link, page)
    return _PREFIX + place if place is not None and place.startswith("/") else place


def _by_title(link: re.Match[str]) -> str:
    return f"{link[1]}{escape(PAGES[link[2]].title)}</a>"


def _entry(page: DocPage, current: DocPage) -> str:
    here = ' aria-current="page"' if page is current else ""
    title = WORDS[current.lang]["news"] if page.path == NEWS else page.title
    return f'<a href="{_PREFIX}{page.path}"{here}>{escape(title)}</a>'


def _other(page: DocPage) -> str:
    """The same page in the other language; the guides' contents where it is there in one only."""
    other = counterpart(page) or PAGES["/docs/th"]
    lang = other.lang
    return f'<a href="{_PREFIX}{other.path}" lang="{lang}" hreflang="{lang}">{_LANGUAGES[lang]}</a>'


def _put_in(text: str, place: Place) -> str:
    return text.replace(_BASE, escape(place.base)).replace(_PREFIX, place.prefix)


def _for_place(text: str, place: Place) -> Sent:
    body = _put_in(text, place).encode("utf-8")
    return Sent(gzip.compress(body, _GZIP_LEVEL, mtime=0), f'W/"{content_hash(body)}"')
