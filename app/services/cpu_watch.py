"""Watches the CPU of one instance: what is used, what is taken away, whether visitors' workers get what they need.

Looks every 5 s and leaves what it found for every process of the instance: numbers and a sentence as text ``cpu`` of
the book, the contention as a fact (contention.py). It changes no readiness (BUD-058): a second instance on the same
machine would lack the same CPU. Source: BUD-055 … BUD-059, BUD-102.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import structlog
import ujson

from app.core import metrics
from app.core.clock import wall_ms
from app.core.runtime import Runtime
from app.domain.contention import Contention, Look, culprit
from app.domain.cpu_use import CpuReading, CpuUse
from app.domain.incidents import Incident
from app.infrastructure.metric_book import MetricBook
from app.services.contention import contention_since
from app.services.loop_meter import worst_web_lag_ms

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CpuShown:
    """What was found last, rounded; None = cannot be read."""

    use: CpuUse = field(default_factory=CpuUse)
    lag_ms: float | None = None
    who: str = ""
    """Who takes the CPU; "" without contention."""

    @classmethod
    def of(cls, book: MetricBook) -> CpuShown:
        """As the instance's watch left it."""
        text = book.text("cpu")
        if not text:
            return cls()
        found = ujson.loads(text)
        return cls(CpuUse(**found["use"]), found["lag_ms"], found["who"])

    def block(self, *, is_contended: bool) -> dict[str, Any]:
        """``cpu`` of health (BUD-102)."""
        use = self.use
        return {
            "usable": use.usable,
            "self": use.own,
            "host": use.host,
            "steal": use.steal,
            "throttled": use.throttled,
            "pressure": use.pressure,
            "loopLagP99Ms": self.lag_ms,
            "contention": is_contended,
            "who": self.who or None,
        }


class CpuWatch:
    """The looks of one instance."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        read: Callable[[], CpuReading],
        ticks_a_sec: int,
        heavy: Callable[[], Sequence[str]] = tuple,
        now: Callable[[], int] = wall_ms,
    ) -> None:
        """``read`` may block. ``heavy``: names of the heavy work that runs now."""
        self._runtime = runtime
        self._book = book
        self._read = read
        self._ticks_a_sec = ticks_a_sec
        self._heavy = heavy
        self._now = now
        since = contention_since(book)  # a predecessor's
        self._since = since or 0
        self._state = Contention(is_on=since is not None)
        self.shown = CpuShown()

    async def look(self) -> None:
        """Read, judge, and leave what was found."""
        reading = await asyncio.to_thread(self._read)
        settings = self._runtime.settings
        lag_ms = worst_web_lag_ms(self._book, settings.workers, reading.at)
        if not self._state.looks and self._state.is_on:
            self._state = Contention(is_on=True, met_at=reading.at)
        self._state, use = self._state.after(
            Look(reading, lag_ms), warn_ms=settings.loop_lag_warn_ms, ticks_a_sec=self._ticks_a_sec
        )
        who = culprit(use, self._heavy()) if self._state.is_on else ""
        self._date(who)
        self.shown = CpuShown(use.rounded(), None if lag_ms is None else round(lag_ms), who)
        self._book.write_text("cpu", ujson.dumps(asdict(self.shown), ensure_ascii=False))

    def _date(self, who: str) -> None:
        was, self._since = self._since, (self._since or self._now()) if self._state.is_on else 0
        if bool(was) == bool(self._since):
            return
        self._book.put(metrics.CONTENTION_SINCE, self._since)
        if self._since:
            log.warning("cpu_contention_began", who=who)
        else:
            log.info("cpu_contention_ended", seconds=max(0, self._now() - was) // 1000)

    @property
    def sentence(self) -> str | None:
        """What is wrong; None without contention."""
        if not self._since:
            return None
        lag = self.shown.lag_ms
        late = "" if lag is None else f"; loops of web workers are up to {lag:.0f} ms late"
        return f"CPU contention on {self._runtime.instance_id}: {self.shown.who}{late}"

    def incident(self) -> Incident | None:
        """The contention, while it lasts."""
        sentence = self.sentence
        return None if sentence is None else Incident("cpu_contention", sentence, since=self._since)
