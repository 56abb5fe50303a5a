"""How well the journal takes commits, as judged by one instance of itself and of the others. Pure.

Belongs here: when storage is called failing, when its failure is hard, when it takes an instance out of rotation. Not
here: commits and probes (infrastructure/drain.py), the frames (services/storage_watch.py). Source: OBS-015 … OBS-025.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

WINDOW_FRAMES: Final = 3
"""Frames for which a failure, and another instance's word, count."""
HARD_FRAMES: Final = 2
"""Frames in a row that each saw a new failure."""


class Unready(IntEnum):
    """Why storage takes an instance out of rotation."""

    NO = 0
    PRIVATE = 1
    """The stores are its own: it cannot record joins at all (OBS-015)."""
    ALONE = 2
    """Another instance writes to the same database without trouble (OBS-017)."""

    @property
    def text(self) -> str:
        """The reason as health tells it."""
        return "storage is degraded on this instance only" if self is Unready.ALONE else "storage is degraded"


@dataclass(frozen=True, slots=True)
class StorageTimes:
    """When the journal last took a commit or a probe, and when it last did not: ms of one clock, 0 = never."""

    good: int
    bad: int

    @property
    def is_failing(self) -> bool:
        """Nothing was taken since the latest failure."""
        return self.bad > self.good

    def is_ok(self, now: int, every_ms: int) -> bool:
        """``storage.ok``: nothing failed lately (OBS-023). ``every_ms``: ALERT_EVERY_MS."""
        if not self.bad:
            return True
        return not self.is_failing and now - self.bad >= WINDOW_FRAMES * every_ms


@dataclass(slots=True)
class StorageJudge:
    """What one instance remembers of its frames."""

    every_ms: int
    errors: int = 0
    """Failures counted up to the last frame."""
    streak: int = 0
    """Frames in a row, up to the last one, that each saw a new failure."""
    failed_frames: list[int] = field(default_factory=list)
    """When frames saw one, the latest ones."""

    def frame(self, errors: int, now: int) -> None:
        """One frame: ``errors`` failures were counted up to now, its own probe included."""
        has_failed, self.errors = errors > self.errors, errors
        self.streak = self.streak + 1 if has_failed else 0
        if has_failed:
            self.failed_frames.append(now)
        since = now - WINDOW_FRAMES * self.every_ms
        self.failed_frames = [at for at in self.failed_frames if at >= since]

    def is_hard(self, times: StorageTimes) -> bool:
        """The failure is no passing one (OBS-018, OBS-020)."""
        return times.is_failing and (self.streak >= HARD_FRAMES or not times.good)

    @property
    def is_raised(self) -> bool:
        """Two frames within the window saw a new failure: an alert (OBS-125)."""
        return len(self.failed_frames) >= HARD_FRAMES

    def unready(self, times: StorageTimes, *, is_private: bool, others_well: bool) -> Unready:
        """What follows for this instance."""
        if not self.is_hard(times):
            return Unready.NO
        if is_private:
            return Unready.PRIVATE
        return Unready.ALONE if others_well else Unready.NO


@dataclass(frozen=True, slots=True)
class StorageReport:
    """One instance's word about its storage. ``at``: ms of the live store's clock."""

    instance: str
    at: int
    is_well: bool
    """It has written, and its latest try went well (OBS-019)."""
    is_raised: bool
    """See ``StorageJudge.is_raised``."""
    error: str = ""
    """Of the latest failure, for operators."""

    def is_fresh(self, now: int, every_ms: int) -> bool:
        """It still counts."""
        return now - self.at <= WINDOW_FRAMES * every_ms


def any_well(reports: Iterable[StorageReport], now: int, every_ms: int) -> bool:
    """Some instance wrote without trouble just now."""
    return any(report.is_well and report.is_fresh(now, every_ms) for report in reports)
