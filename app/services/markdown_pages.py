"""Markdown of this release as HTML: headings with anchors, tables that scroll, links that lead to pages of this server.

Belongs here: rendering of one source. It is heavy (tens of milliseconds), so it is done once per source and off the
loop (docs.py); the library is loaded with the first page that somebody asks for. Raw HTML is shown as text (PAG-200).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from markdown_it.token import Token

_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")
_NAMED: Final = re.compile(r"^<!-- #([\w-]+) -->\n(#{2,4} (.+))$", re.MULTILINE)
_LEVELS: Final = (2, 3)
_FOREIGN: Final = {"rel": "noopener noreferrer"}


@dataclass(frozen=True, slots=True)
class Heading:
    """One section of a page."""

    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A source as HTML."""

    title: str
    """Text of its first heading."""
    body: str
    """Everything below that heading."""
    headings: Sequence[Heading]
    """All of them, that of the page included."""


def render(source: str, place_of: Callable[[str], str | None]) -> Rendered:
    """The HTML of ``source``. ``place_of``: where a link leads, None: it is shown without one.

    A heading below a line ``<!-- #name -->`` has that anchor: so a translation has those of its original.
    """
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    source, named = _named(source)
    tokens = reader.parse(source)
    titled = [number for number, token in enumerate(tokens) if token.type == "heading_open"]
    texts = [tokens[number + 1].content for number in titled]
    headings = []
    for number, text, made in zip(titled, texts, _anchors(texts), strict=True):
        anchor = named.get(text, made)
        tokens[number].attrSet("id", anchor)
        headings.append(Heading(int(tokens[number].tag[1]), anchor, _bare(text)))
    for token in tokens:
        for child in token.children or ():
            _lead(child, place_of)
    title = ""
    if titled and tokens[titled[0]].tag == "h1":
        title = _bare(texts[0])
        del tokens[titled[0] : titled[0] + 3]
    rules: dict[str, Any] = reader.renderer.rules  # type: ignore[attr-defined]  # it has them, its protocol does not say
    rules["table_open"] = lambda *_: '<div class="table" tabindex="0"><table>\n'
    rules["table_close"] = lambda *_: "</table></div>\n"
    return Rendered(title, reader.renderer.render(tokens, reader.options, {}), headings)


def contents(headings: Sequence[Heading]) -> str:
    """Table of contents: a list of links, sections of the third level below those of the second."""
    items = (
        f'<li class="l{heading.level}"><a href="#{escape(heading.anchor)}">{escape(heading.text)}</a></li>'
        for heading in headings
        if heading.level in _LEVELS
    )
    return f"<ul>{''.join(items)}</ul>"


def _named(source: str) -> tuple[str, dict[str, str]]:
    """``source`` without its lines that name anchors, and these by the text of their heading."""
    return _NAMED.sub(r"\2", source), {text: anchor for anchor, _, text in _NAMED.findall(source)}


def _lead(token: Token, place_of: Callable[[str], str | None]) -> None:
    """Let a link lead to a page of this server, or to nowhere."""
    if token.type != "link_open":
        return
    place = place_of(str(token.attrGet("href") or ""))
    if place is None:
        token.attrs.pop("href", None)
        return
    token.attrSet("href", place)
    if "://" in place:
        token.attrs.update(_FOREIGN)


def _bare(text: str) -> str:
    """A heading's text without its marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("**", "")


def _anchors(texts: Sequence[str]) -> Iterator[str]:
    """Anchors as code hosts make them, so that a link between sources leads to the same place in both."""
    seen: dict[str, int] = {}
    for text in texts:
        anchor = _NOT_IN_ANCHORS.sub("", _bare(text).strip().lower()).replace(" ", "-") or "section"
        count = seen[anchor] = seen.get(anchor, -1) + 1
        yield f"{anchor}-{count}" if count else anchor
