"""Checks of single values: exact types, bounds, and text that every store can hold.

Each check returns the value to store or raises ``ValueError`` with the end of a sentence that begins with the
field's name ("must be …"). Not here: which field takes which check (room_fields.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from app.domain.origins import parse_web_url

Check = Callable[[Any], Any]

TARGET_URL_MAX: Final = 2048
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f\\#]").search
_LINE_ENDS: Final = frozenset({"Zl", "Zp"})


def is_plain_text(text: str) -> bool:
    """Tell whether ``text`` has no control character, line separator or lone surrogate.

    A NUL cannot be stored in Postgres' jsonb and a lone surrogate cannot be encoded: either would let a body pass
    here and fail at the commit.
    """
    return not any(unicodedata.category(c) in {"Cc", "Cs"} or unicodedata.category(c) in _LINE_ENDS for c in text)


def integer(low: int, high: int, *, nullable: bool = False) -> Check:
    """A check for whole numbers in ``low``…``high``; a boolean, a fraction or a string is none (ADM-018)."""
    or_null = " or null" if nullable else ""

    def check(value: Any) -> int | None:
        if value is None and nullable:
            return None
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}{or_null}")
        return value

    return check


def one_of(*words: str) -> Check:
    """A check for one of some words."""
    *most, last = (f'"{word}"' for word in words)
    sentence = f"must be {', '.join(most)} or {last}"

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(sentence)
        return value

    return check


def name(value: Any) -> str:
    """1–80 characters after trimming, without control characters (ENG-025)."""
    text = value.strip() if isinstance(value, str) else ""
    if not 1 <= len(text) <= 80 or not is_plain_text(text):
        raise ValueError("must be text of 1 to 80 characters without control characters")
    return text


def target_url(value: Any) -> str:
    """An absolute ``http(s)`` URL without credentials and fragment (ENG-026), as it was sent.

    It must read the same for a browser as for this server, so white space and backslashes are refused too.
    Non-ASCII characters behind the host come back percent-encoded, because the value becomes a ``Location``.
    """
    if not isinstance(value, str) or parse_web_url(value) is None:
        raise ValueError("must be a full http(s) address without credentials or fragment")
    if _UNSAFE(value) or not is_plain_text(value):
        raise ValueError("must have no white space, backslash, control character or fragment")
    url = "".join(c if c.isascii() else quote(c) for c in value)
    if len(url) > TARGET_URL_MAX:
        raise ValueError(f"must have at most {TARGET_URL_MAX} characters")
    return url
