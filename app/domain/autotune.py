"""Autotune's algorithm: from what was measured of a site and its room to the next rate. Pure.

Not here: measuring, when a round is due, setting the rate. Source: ENG-223, ENG-224, ENG-225.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any, Final

from app.domain.automation import Autotune
from app.domain.site_health import Knocked

ROUND_MS: Final = 30_000
HANDS_OFF_MS: Final = 300_000
"""How long a rate that a person set stays untouched."""
LOOK_BACK_MS: Final = 3 * ROUND_MS
"""No rate is raised within three rounds of a failure."""
LAST_PROBES: Final = 3
FAILED_PROBES: Final = 2
MIN_REQUESTS: Final = 20
FAILED_SHARE: Final = 0.05
MIN_VISITORS: Final = 3
FAST_SHARE: Final = 0.8


class Cause(StrEnum):
    """Why a round ends as it does."""

    FAILING = "failing"
    SLOW = "slow"
    FAST = "fast"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Proxied requests of an inline room in a round. ``visitors``: different ones among the failures, each of whom
    counts once in ``failures``."""

    requests: int = 0
    failures: int = 0
    visitors: int = 0
    failed_lately: bool = False
    """Some request failed in the last three rounds."""

    @property
    def is_failing(self) -> bool:
        """Enough requests of enough visitors failed."""
        enough = self.requests >= MIN_REQUESTS and self.visitors >= MIN_VISITORS
        return enough and self.failures >= FAILED_SHARE * self.requests


@dataclass(frozen=True, slots=True)
class Scene:
    """A room that may be tuned, and its site, at ``now`` (wall ms)."""

    now: int
    rate: int
    limits: Autotune
    probes: Sequence[Knocked]
    """Oldest first."""
    occupancy: int
    max_concurrent: int | None
    passes_outstanding: int
    passes_before: int | None
    """Of the last round; None: there was none."""
    traffic: Traffic = Traffic()


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a round decided. ``rate`` is the old one when nothing changes; ``figures`` say what it rests on."""

    rate: int
    cause: Cause
    figures: dict[str, Any]


def tune(scene: Scene) -> Tuned:
    """One round. The rate is a whole number (rounded down) within the limits; no cut raises it, nor the reverse."""
    known = [probe for probe in scene.probes if scene.now - LOOK_BACK_MS < probe.at <= scene.now]
    fresh = [probe for probe in known if probe.at > scene.now - ROUND_MS]
    times = [probe.ms for probe in fresh if probe.is_good]
    middle = median(times) if times else None
    failed = sum(not probe.is_good for probe in known[-LAST_PROBES:]) if fresh else 0
    cause = _cause(scene, known, failed, middle)
    rate = _next_rate(scene.rate, scene.limits, cause)
    figures = {
        "old": scene.rate,
        "new": rate,
        "cause": cause.value,
        "probes": len(fresh),
        "failed_probes": failed,
        "median_ms": None if middle is None else round(middle),
        "target_ms": scene.limits.target_ms,
        "requests": scene.traffic.requests,
        "failed_requests": scene.traffic.failures,
    }
    return Tuned(rate, cause, figures)


def _cause(scene: Scene, known: Sequence[Knocked], failed: int, middle: float | None) -> Cause:
    if failed >= FAILED_PROBES or scene.traffic.is_failing:
        return Cause.FAILING
    if middle is None:
        return Cause.NONE
    if middle > scene.limits.target_ms:
        return Cause.SLOW
    if middle < FAST_SHARE * scene.limits.target_ms and _has_room(scene) and not _failed_lately(scene, known):
        return Cause.FAST
    return Cause.NONE


def _has_room(scene: Scene) -> bool:
    """Whoever is let in comes in: the site is below its cap, and no heap of unused passes grows."""
    below_cap = scene.max_concurrent is None or scene.occupancy < scene.max_concurrent
    return below_cap and scene.passes_before is not None and scene.passes_outstanding <= scene.passes_before


def _failed_lately(scene: Scene, known: Sequence[Knocked]) -> bool:
    return scene.traffic.failed_lately or any(not probe.is_good for probe in known)


def _next_rate(rate: int, limits: Autotune, cause: Cause) -> int:
    lowest, highest = limits.min_rate, rate if limits.max_rate is None else limits.max_rate
    if cause is Cause.FAILING:
        return min(rate, max(lowest, min(highest, rate // 2)))
    if cause is Cause.SLOW:
        return min(rate, max(lowest, min(highest, rate * 4 // 5)))
    if cause is Cause.FAST:
        return max(rate, min(highest, max(lowest, rate + max(1, rate // 20))))
    return rate
