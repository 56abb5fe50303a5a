"""The verdict of a load run says no to what it must say no to."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.verdict import inversions, judge, most_in_any_window

RATE, CAP = 60, 5


def run_of(visitors: int) -> list[dict[str, Any]]:
    """The record of a run in which everything went well: one pass a second, in order."""
    events: list[dict[str, Any]] = []
    for n in range(1, visitors + 1):
        events.append({"event": "joined", "ticket": n})
        events.append({"event": "passed", "ticket": n, "passed_at": n * 1000})
        events.append({"event": "left", "ticket": n})
    return events


def failed(events: list[dict[str, Any]], occupancy: list[int], visitors: int = 10) -> set[str]:
    verdict = judge(events, occupancy, visitors=visitors, rate_per_min=RATE, cap=CAP)
    return {line.id for line in verdict if not line.holds}


def test_it_passes_a_good_run() -> None:
    assert failed(run_of(10), [1, 5, 3]) == set()


@pytest.mark.parametrize(
    ("spoil", "id_"),
    [
        (lambda run: run.pop(0), "joined"),
        (lambda run: run[0].update(ticket=2), "numbers"),
        (lambda run: run.pop(), "nobody-lost"),
        (lambda run: run.append({"event": "lost", "name": "join"}), "nobody-lost"),
        (lambda run: run[1].update(passed_at=99_000), "order"),
        (lambda run: [event.update(passed_at=1) for event in run if event["event"] == "passed"], "rate"),
        (lambda run: run.append({"event": "refused", "status": 503}), "no-5xx"),
    ],
)
def test_it_fails_a_run_with_one_fault(spoil: Any, id_: str) -> None:
    run = run_of(10)

    spoil(run)

    assert id_ in failed(run, [1, 5, 3])


def test_it_fails_a_run_above_the_cap_and_one_that_nobody_watched() -> None:
    assert failed(run_of(10), [1, 6]) == {"cap"}
    assert failed(run_of(10), []) == {"cap"}


def test_it_finds_the_worst_stretch_of_passes() -> None:
    # three passes at once stand three above the line, whatever came long before
    assert most_in_any_window([0, 60_000, 60_000, 60_000], rate_per_min=60) == pytest.approx(3)
    assert most_in_any_window([0, 1000, 2000], rate_per_min=60) == pytest.approx(1)
    assert most_in_any_window([], rate_per_min=60) == 0


def test_it_counts_later_tickets_that_were_let_in_earlier() -> None:
    assert inversions([(1, 10), (2, 20), (3, 20)]) == 0
    assert inversions([(1, 10), (2, 5), (3, 20)]) == 1
