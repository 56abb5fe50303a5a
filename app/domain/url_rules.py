"""URL targeting: which pages of a site a room covers.

Belongs here: the pattern language, the two readings of a path, the first rule that wins. Not here: validation
messages of the admin API around it, hit counting. Pure; compiled once per room copy. Source: ENG-196 … ENG-202.

Every doubt ends in the queue: a page is covered if either reading of its path says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from app.domain.origins import OriginPattern, WebUrl, parse_pattern, parse_web_url
from app.domain.room import UrlRule

PATTERN_MAX_CHARS: Final = 512
MAX_DECODINGS: Final = 3
_FULL: Final = re.compile(r"(https?://[^/?#]*)(/.*)", re.IGNORECASE | re.DOTALL).fullmatch
_CONTROLS: Final = dict.fromkeys((*range(32), *range(127, 160)))
_LOWER: Final = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})").search


class Verdict(NamedTuple):
    """Whether a page is covered, and the id of the rule that decided (None: no rule did)."""

    covered: bool
    rule: str | None


class Trial(NamedTuple):
    """What the rules say of one page (ENG-204). ``winner``: index of the rule that decided, None: no rule did."""

    covered: bool
    winner: int | None
    matches: tuple[bool, ...]
    """Per rule, whether it fits the page as sent or in its normal form."""


class _Glob:
    """Text in which ``*`` stands for any run of characters. Linear in the text, whatever the pattern."""

    __slots__ = ("_first", "_last", "_middle", "_shortest")

    def __init__(self, pattern: str) -> None:
        first, *rest = pattern.split("*")
        self._first = first
        self._last = rest[-1] if rest else None
        self._middle = [piece for piece in rest[:-1] if piece]
        self._shortest = sum(map(len, (first, *rest)))

    def matches(self, text: str) -> bool:
        """Tell whether the whole of ``text`` fits."""
        if self._last is None:
            return text == self._first
        if len(text) < self._shortest or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        position, end = len(self._first), len(text) - len(self._last)
        for piece in self._middle:
            found = text.find(piece, position, end)
            if found < 0:
                return False
            position = found + len(piece)
        return True


class _Rule:
    """One rule, compiled for both readings: ``[0]`` the path as sent, ``[1]`` its normal form."""

    __slots__ = ("_folds_case", "_origin", "_paths", "_queries", "id", "protects")

    def __init__(self, rule: UrlRule) -> None:
        self.id = rule.id
        self.protects = rule.action == "protect"
        self._folds_case = self.protects
        self._origin, rest = _split_pattern(rule.pattern)
        path, question, query = rest.partition("?")
        self._paths = tuple(_Glob(_folded(text) if self._folds_case else text) for text in (path, unquote(path)))
        self._queries = tuple(_Glob(text) for text in (query, unquote(query))) if question else None

    def matches(self, url: WebUrl, reading: int, path: str, query: str) -> bool:
        """Tell whether the rule fits ``url`` with this path and query (without question mark)."""
        if self._origin is not None and not self._origin.covers(url.origin):
            return False
        if not self._paths[reading].matches(_folded(path) if self._folds_case else path):
            return False
        return self._queries is None or self._queries[reading].matches(query)


class RuleSet:
    """The rules of a room, ready to judge pages."""

    __slots__ = ("_default", "_rules")

    def __init__(self, rules: Sequence[UrlRule]) -> None:
        """Raises ValueError when a pattern cannot be read; saved rules were validated (``check_pattern``)."""
        self._rules = [_Rule(rule) for rule in rules]
        self._default = Verdict(not any(rule.protects for rule in self._rules), None)

    @property
    def is_empty(self) -> bool:
        """No rules: every page is covered, and none has to be read."""
        return not self._rules

    def judge(self, url: WebUrl | None) -> Verdict:
        """Whether the page is covered; one that cannot be read is (ENG-202)."""
        if not self._rules:
            return self._default
        if url is None:
            return Verdict(True, None)
        path, query = url.path or "/", url.query[1:]
        as_sent = self._first_match(url, 0, path, query)
        if as_sent.covered:
            return as_sent
        normal = normal_path(path)
        if normal is None:
            return Verdict(True, None)
        in_normal_form = self._first_match(url, 1, normal, unquote(query))
        return in_normal_form if in_normal_form.covered else as_sent

    def trial(self, url: WebUrl) -> Trial:
        """The verdict of ``judge`` and which rules fit."""
        covered, rule = self.judge(url)
        path, query = url.path or "/", url.query[1:]
        normal = normal_path(path)
        fits = tuple(
            rule.matches(url, 0, path, query) or (normal is not None and rule.matches(url, 1, normal, unquote(query)))
            for rule in self._rules
        )
        return Trial(covered, next((i for i, one in enumerate(self._rules) if one.id == rule), None), fits)

    def _first_match(self, url: WebUrl, reading: int, path: str, query: str) -> Verdict:
        for rule in self._rules:
            if rule.matches(url, reading, path, query):
                return Verdict(rule.protects, rule.id)
        return self._default


def page_of(text: str | None) -> WebUrl | None:
    """The page that a check names; None = absent or unusable (VIS-121)."""
    return parse_web_url(text) if text else None


def check_pattern(pattern: str) -> None:
    """Raise ValueError with a sentence when ``pattern`` is none (ENG-198)."""
    if not 1 <= len(pattern) <= PATTERN_MAX_CHARS:
        raise ValueError(f"a pattern has 1 to {PATTERN_MAX_CHARS} characters")
    _split_pattern(pattern)


def pattern_origins(rules: Iterable[UrlRule]) -> list[tuple[str, OriginPattern]]:
    """(rule id, origin) of the rules that name one, for the warning of ENG-205."""
    split = ((rule.id, _split_pattern(rule.pattern)[0]) for rule in rules)
    return [(rule_id, origin) for rule_id, origin in split if origin is not None]


def normal_path(path: str) -> str | None:
    """The normal form of a path (ENG-200); None = it cannot be decoded.

    Decoded at most three times; backslash read as slash; control characters, ``;…`` parameters and trailing dots
    and spaces of each segment removed; then dot segments and doubled slashes resolved.
    """
    decoded = _decoded(path)
    if decoded is None:
        return None
    kept: list[str] = []
    segments = decoded.replace("\\", "/").translate(_CONTROLS).split("/")
    for segment in segments:
        name = segment.partition(";")[0].rstrip(" ")
        if name == "..":
            del kept[-1:]
        elif name != ".":
            name = name.rstrip(". ")
            if name:
                kept.append(name)
    ends_in_slash = kept and segments[-1].partition(";")[0].rstrip(" ") in {"", ".", ".."}
    return "/" + "/".join(kept) + ("/" if ends_in_slash else "")


def _decoded(path: str) -> str | None:
    """``path`` percent-decoded until nothing changes. Only its own escapes must be sound: ``100%25`` is."""
    if _BAD_ESCAPE(path) is not None:
        return None
    for _ in range(MAX_DECODINGS):
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError:
            return None
        if decoded == path:
            break
        path = decoded
    return path


def _split_pattern(pattern: str) -> tuple[OriginPattern | None, str]:
    """Origin (None = any) and the rest of a pattern, which starts with a slash."""
    if any(c in "#\\" or c < " " or c == "\x7f" for c in pattern):
        raise ValueError("a pattern has no fragment, backslash or control character")
    if pattern.startswith("/"):
        return None, pattern
    full = _FULL(pattern)
    if full is None:
        raise ValueError("a pattern starts with / or with http(s)://host/")
    return parse_pattern(full[1]), full[2]


def _folded(text: str) -> str:
    """ASCII letters in lower case; others as they are, since their case folding changes lengths."""
    return text.lower() if text.isascii() else text.translate(_LOWER)
