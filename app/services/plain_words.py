"""Estimates, counts and times in a visitor's language, for pages that have no script to say them.

Belongs here: the same wording that static/waiting/estimate.js and static/shared/text.js have for the waiting page; what
is changed there is to be changed here. Not here: what is said when (plain_page.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from app.core.i18n import fill

HOUR_SEC: Final = 3600
_FIVE: Final = 5
_TEN_HOURS_MIN: Final = 600

Texts = Mapping[str, str]


def number(value: int) -> str:
    """A count with the separators that all our languages share."""
    return f"{value:,}"


def say(texts: Texts, key: str, count: int = 0, **values: object) -> str:
    """The text of ``key``, in the form for ``count`` where the language has one."""
    one = texts.get(f"{key}_one") if count == 1 else None
    return fill(one or texts[key], **values)


def estimate(texts: Texts, wait_sec: int | None, *, is_floor: bool) -> str:
    """The server's estimate in words (PAG-121 … PAG-123); it is only rounded here."""
    if wait_sec is None:
        return texts["noEstimate"]
    if is_floor:
        return fill(texts["atLeast"], x=_stretch(texts, max(60, wait_sec)))
    if wait_sec < 60:
        return texts["underMinute"]
    return fill(texts["about"], x=_stretch(texts, wait_sec))


def countdown(left_ms: int) -> str:
    """``m:ss`` or ``h:mm:ss``."""
    seconds = max(0, -(-left_ms // 1000))
    hours, rest = divmod(seconds, HOUR_SEC)
    if hours:
        return f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f"{rest // 60}:{rest % 60:02}"


def moment(at_ms: int) -> str:
    """Day and time of day in UTC: without a script nobody knows the visitor's own."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _stretch(texts: Texts, sec: int) -> str:
    """Minutes rounded up, from an hour on in steps of five minutes, beyond ten hours in hours."""
    minutes = -(-sec // 60)
    if minutes < 60:
        return fill(texts["minutes"], a=minutes)
    fives = (2 * minutes + _FIVE) // (2 * _FIVE) * _FIVE
    hours = (minutes + 30) // 60 if fives > _TEN_HOURS_MIN else fives // 60
    if fives > _TEN_HOURS_MIN or fives % 60 == 0:
        return say(texts, "hours", hours, h=number(hours))
    return fill(texts["hoursMinutes"], h=number(hours), m=fives % 60)
