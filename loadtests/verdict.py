"""What a load run must have shown, judged from its record: pure functions over what was seen.

Limits here concern correctness only and cannot be changed by an option (TST-114).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Assertion:
    """One line of the verdict."""

    id: str
    limit: str
    measured: str
    holds: bool


def most_in_any_window(times_ms: Sequence[int], rate_per_min: int) -> float:
    """Largest excess over ``rate`` of any stretch between two passes; at most rate/60 + 1 is allowed (ENG-117).

    For passes i ≤ j the number j − i + 1 minus rate × (t_j − t_i); found in one run over the times (Kadane).
    """
    per_ms = rate_per_min / 60_000
    times = sorted(times_ms)
    best = lowest = 0.0
    for index, at in enumerate(times):
        credit = index - per_ms * at
        lowest = credit if index == 0 else min(lowest, credit)
        best = max(best, credit + 1 - lowest)
    return best


def inversions(passed: Sequence[tuple[int, int]]) -> int:
    """Pairs of neighbours by ticket of which the later ticket was passed earlier; ``passed`` = (ticket, ms)."""
    ordered = [at for _, at in sorted(passed)]
    return sum(1 for before, after in itertools.pairwise(ordered) if after < before)


def judge(
    events: Sequence[dict[str, Any]], occupancy: Sequence[int], *, visitors: int, rate_per_min: int, cap: int
) -> list[Assertion]:
    """The verdict over a run's record and the watcher's occupancy readings."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["event"], []).append(event)
    joined = [event["ticket"] for event in by_kind.get("joined", [])]
    doubles = [ticket for ticket, count in Counter(joined).items() if count > 1]
    passed = [(event["ticket"], event["passed_at"]) for event in by_kind.get("passed", [])]
    lost = by_kind.get("lost", []) + by_kind.get("ended", [])
    unserved = set(joined) - {event["ticket"] for event in by_kind.get("left", [])}
    server_errors = Counter(event["status"] for event in by_kind.get("refused", []) if event["status"] >= 500)
    excess, allowed = most_in_any_window([at for _, at in passed], rate_per_min), rate_per_min / 60 + 1
    highest = max(occupancy, default=0)
    return [
        Assertion("joined", f"{visitors} visitors", str(len(joined)), len(joined) == visitors),
        Assertion("numbers", f"1…{visitors}, no double", f"{len(doubles)} doubles", _is_run(joined, visitors)),
        Assertion(
            "nobody-lost",
            "0 lost, 0 unserved",
            f"{len(lost)} lost, {len(unserved)} unserved",
            not lost and not unserved,
        ),
        Assertion("order", "0 inversions", str(inversions(passed)), inversions(passed) == 0),
        Assertion("rate", f"≤ {allowed:.1f} above the line", f"{excess:.2f}", excess <= allowed + 1e-9),
        Assertion("cap", f"≤ {cap}", str(highest), 0 < highest <= cap),
        Assertion("no-5xx", "none", str(dict(server_errors)), not server_errors),
    ]


def _is_run(tickets: Sequence[int], count: int) -> bool:
    return sorted(tickets) == list(range(1, count + 1))
