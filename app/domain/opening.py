"""When the doors of a room open: the forms that a time may have, and which times can be set (ENG-170).

Not here: what a schedule does (the engine), the draw (draw.py).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

MAX_AHEAD_MS: Final = 366 * 86_400_000
"""How far ahead doors can be scheduled."""
_LAST_MS: Final = 253_402_300_800_000
"""End of the year 9999, the last that the ISO form can say."""


class Moment(NamedTuple):
    """What a new opening time is compared with."""

    now_ms: int
    stored: int | None
    """The room's present opening time: sending it back is no change, however old it is."""


def opening_time(value: Any) -> int | None:
    """Epoch ms of ISO 8601 text with a zone, or of epoch ms; None = no schedule. Raises ValueError."""
    if value is None:
        return None
    opens_at = _from_text(value) if isinstance(value, str) else value
    if type(opens_at) is not int or not 0 < opens_at < _LAST_MS:
        raise ValueError("must be an ISO 8601 time with zone, epoch ms or null")
    return opens_at


def refusal(opens_at: int | None, moment: Moment) -> tuple[str, str] | None:
    """Code and end of the sentence that refuses a time at this moment; None = it can be set."""
    if opens_at is None or opens_at == moment.stored:
        return None
    if opens_at <= moment.now_ms:
        return "opens_at_in_past", "must be later than now"
    if opens_at > moment.now_ms + MAX_AHEAD_MS:
        return "invalid_opens_at", "must be at most 366 days ahead"
    return None


def _from_text(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A date without time or zone reads well and means nothing here.
    return None if moment.tzinfo is None else round(moment.timestamp() * 1000)
