"""A time that somebody asks for in the query of a route: of the audit trail, the timeline and the reports alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from app.core.errors import InvalidField

_LATEST_MS: Final = 253_402_300_800_000
"""The year 10000."""


def asked_time(parameters: Mapping[str, str], name: str) -> int | None:
    """Epoch ms of an ISO date or date-time, UTC when it has no zone, or of epoch ms; None = not asked for.

    Raises InvalidField ``invalid_time``. Eight digits are a date.
    """
    text = parameters.get(name)
    if text is None:
        return None
    moment = int(text) if text.isascii() and text.isdigit() and len(text) <= 15 and len(text) != 8 else None
    if moment is None:
        try:
            # A blank behind the time is the plus of a zone that nobody escaped.
            read = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
            moment = round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            moment = -1
    if not 0 <= moment < _LATEST_MS:
        raise InvalidField(name, f"{name} must be a date, a time or epoch ms", code="invalid_time")
    return moment
