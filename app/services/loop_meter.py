"""How late the loop of one process is: a timer that should fire every 100 ms, and by how much it is late.

It costs ten short calls a second whatever the process does; nothing is measured per request. A loop that is late keeps
everybody waiting who is served by it. Not here: what follows from it (cpu_watch.py). Source: BUD-055, BUD-057.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from app.core import metrics
from app.core.clock import mono
from app.domain.contention import WINDOW_SEC
from app.domain.hour_record import percentile
from app.infrastructure.metric_book import MetricBook

EVERY_SEC: Final = 0.1
_PART: Final = 0.99


def web_process(number: int) -> str:
    """Name of a web worker where its delay is noted."""
    return f"web-{number}"


class LoopMeter:
    """The meter of one process."""

    def __init__(self, book: MetricBook, process: str, *, steady: Callable[[], float] = mono) -> None:
        """``process``: a name that no other process of the instance has."""
        self._book = book
        self._process = process
        self._steady = steady
        self._due = 0.0
        self._window_ends = 0.0
        self._late: list[float] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to measure the running loop."""
        self._window_ends = self._steady() + WINDOW_SEC
        self._wait()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._due = self._steady() + EVERY_SEC
        self._timer = asyncio.get_running_loop().call_later(EVERY_SEC, self._beat)

    def _beat(self) -> None:
        self.note(self._steady())
        self._wait()

    def note(self, now: float) -> None:
        """The timer fired at ``now``."""
        late = max(0.0, now - self._due)
        self._late.append(late)
        self._book.observe(metrics.LOOP_LAG, late, self._process)
        self._book.put(metrics.LOOP_BEAT, int(now * 1000), self._process)
        if now >= self._window_ends:
            p99 = percentile(((one, 1.0) for one in self._late), _PART) or 0.0
            self._book.put(metrics.LOOP_P99, int(p99 * 1e6), self._process)
            self._late.clear()
            self._window_ends = now + WINDOW_SEC


def worst_web_lag_ms(book: MetricBook, workers: int, now: float) -> float | None:
    """p99 of the loop delay of the worst web worker in ms; None while none has measured a whole window.

    A worker that hangs at this moment measures nothing: its delay so far counts.
    """
    worst: float | None = None
    for process in map(web_process, range(workers)):
        beat = book.total(metrics.LOOP_BEAT, process)
        if not beat or not book.has(metrics.LOOP_P99, process):
            continue
        waits_ms = now * 1000 - beat - EVERY_SEC * 1000
        lag = max(book.total(metrics.LOOP_P99, process) / 1000, waits_ms)
        worst = lag if worst is None else max(worst, lag)
    return worst
