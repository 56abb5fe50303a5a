"""A notice on its way: what is sent, how often it is tried, and what an attempt has to answer.

The schedule and what counts as success are those of every webhook (docs/spec/10). Not here: the attempt itself
(infrastructure/hook_client.py), who makes it (services/alert_sender.py).
Source: WHK-052 … WHK-060, WHK-163, OBS-143, OBS-144.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

import ujson

from app.domain.alert_notice import flat
from app.domain.alerts import Notice

DELAYS_SEC: Final = (0, 10, 60, 300, 1800, 7200, 21_600, 43_200, 86_400, 86_400, 86_400)
"""Before each attempt, counted from the end of the one before (WHK-058)."""
SUCCESS: Final = frozenset({200, 201, 202, 204})
GONE: Final = 410
"""The one refusal that is not tried again (WHK-054)."""
_FINE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt. ``status`` None: no answer; ``error``: class of the failure, None for a success."""

    status: int | None
    error: str | None
    ms: int

    @property
    def is_ok(self) -> bool:
        """True when the receiver took it."""
        return self.error is None


def outcome_of(status: int, ms: int) -> Outcome:
    """What an answer means."""
    return Outcome(status, None if status in SUCCESS else f"http-{status}", ms)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notice on its way to one address."""

    id: str
    incident: str
    """Same for all notices of one alert from its beginning to its end: a newer one takes the place of an older."""
    event: str
    status: str
    room_id: str | None
    ts: int
    body: str
    """JSON; the same bytes in every attempt."""
    attempts: int = 0
    """Made so far."""
    due: int = 0
    """Epoch ms of the next attempt."""

    @classmethod
    def of(cls, notice: Notice) -> Delivery:
        """A notice that nobody has tried to send."""
        what = notice.alert.trouble
        return cls(
            id="whd_" + secrets.token_hex(12),
            incident=f"{what.key} {notice.alert.since}",
            event=what.event,
            status=notice.status.value,
            room_id=what.room_id,
            ts=notice.at,
            body=ujson.dumps(flat(notice), ensure_ascii=False, escape_forward_slashes=False),
            due=notice.at,
        )

    def after(self, outcome: Outcome, now: int) -> Delivery | None:
        """The delivery after an attempt that ended at ``now``; None when there is nothing more to try."""
        made = self.attempts + 1
        if outcome.is_ok or outcome.status == GONE or made >= len(DELAYS_SEC):
            return None
        # Between 0.9 and 1.1 of the time, so that many senders do not come back together (WHK-059).
        factor = 0.9 + 0.2 * secrets.randbelow(_FINE) / _FINE
        return replace(self, attempts=made, due=now + round(DELAYS_SEC[made] * 1000 * factor))

    def to_text(self) -> str:
        """As it is kept."""
        return ujson.dumps(
            [self.id, self.incident, self.event, self.status, self.room_id, self.ts, self.body, self.attempts,
             self.due], ensure_ascii=False, escape_forward_slashes=False,
        )  # fmt: skip

    @classmethod
    def from_text(cls, text: bytes | str) -> Delivery:
        """The reverse."""
        return cls(*ujson.loads(text))

    def attempt_json(self, outcome: Outcome) -> dict[str, Any]:
        """An entry of ``deliveries`` (OBS-154)."""
        return {
            "delivery_id": self.id,
            "ts": self.ts,
            "event": self.event,
            "status": self.status,
            "roomId": self.room_id,
            "ok": outcome.is_ok,
            "httpStatus": outcome.status,
            "error": outcome.error,
            "ms": outcome.ms,
            "attempt": self.attempts + 1,
        }
