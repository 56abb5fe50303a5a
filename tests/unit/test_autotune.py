"""Autotune's algorithm: what a round makes of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from app.domain.automation import Autotune
from app.domain.autotune import Cause, Scene, Traffic, tune
from app.domain.site_health import Knocked

NOW = 1_000_000
LIMITS = Autotune(True, min_rate=1, max_rate=600, target_ms=1000)


def good(ago_sec: float, ms: int = 100) -> Knocked:
    return Knocked(NOW - int(ago_sec * 1000), ms, 200)


def bad(ago_sec: float, kind: str = "timeout") -> Knocked:
    return Knocked(NOW - int(ago_sec * 1000), 5000, 0, kind)


def scene(probes: Sequence[Knocked], **more: Any) -> Scene:
    base: dict[str, Any] = {
        "now": NOW, "rate": 100, "limits": LIMITS, "occupancy": 5, "max_concurrent": 10, "passes_outstanding": 3,
        "passes_before": 3,
    }  # fmt: skip
    return Scene(probes=probes, **{**base, **more})


FAST = (good(25), good(15), good(5))
SLOW = (good(25, 1500), good(15, 1001), good(5, 90))


@pytest.mark.req("ENG-225")
@pytest.mark.parametrize(
    ("probes", "rate"),
    [
        ((bad(25), bad(15), good(5)), 50),
        ((bad(25), good(15), bad(5)), 50),
        ((good(25), bad(15), bad(5, "http-503")), 50),
        ((bad(15), bad(5)), 50),
        ((bad(25), bad(15), bad(5)), 50),
        ((bad(35), bad(25), good(15), good(5)), 100),
    ],
)
def test_it_halves_the_rate_when_two_of_the_last_three_probes_failed(probes: Sequence[Knocked], rate: int) -> None:
    assert tune(scene(probes)).rate == rate


@pytest.mark.req("ENG-225")
@pytest.mark.parametrize(
    ("traffic", "rate"),
    [
        (Traffic(20, 1, 1), 105),
        (Traffic(60, 3, 3), 50),
        (Traffic(61, 3, 3), 105),
        (Traffic(60, 3, 2), 105),
        (Traffic(19, 19, 19), 105),
        (Traffic(20, 3, 3), 50),
    ],
)
def test_it_halves_the_rate_when_enough_requests_of_enough_visitors_failed(traffic: Traffic, rate: int) -> None:
    assert tune(scene(FAST, traffic=traffic)).rate == rate


@pytest.mark.req("ENG-225")
def test_it_cuts_by_a_fifth_when_the_site_is_slower_than_the_target() -> None:
    assert tune(scene(SLOW)).rate == 80
    assert tune(scene((good(25, 1000), good(15, 1000), good(5, 1000)))).rate == 100, "the target itself is no slowness"
    assert tune(scene((*SLOW[:2], bad(5)))).rate == 80, "one failed probe takes nothing away from the others"


@pytest.mark.req("ENG-225")
def test_it_raises_by_a_twentieth_and_at_least_by_one_when_all_is_well() -> None:
    assert [tune(scene(FAST, rate=rate)).rate for rate in (1, 10, 19, 20, 40, 100, 599, 600)] == [
        *(2, 11, 20, 21, 42, 105, 600, 600),
    ]
    assert tune(scene(FAST, max_concurrent=None)).rate == 105


@pytest.mark.req("ENG-225")
@pytest.mark.parametrize(
    "more",
    [
        {"occupancy": 10},
        {"occupancy": 12},
        {"passes_outstanding": 4},
        {"passes_before": None},
        {"probes": (good(25, 800), good(15, 800), good(5, 800))},
        {"probes": (bad(89), *FAST)},
        {"traffic": Traffic(30, 1, 1, failed_lately=True)},
        {"traffic": Traffic(failed_lately=True)},
    ],
)
def test_it_raises_nothing_when_one_thing_speaks_against_it(more: dict[str, Any]) -> None:
    assert tune(scene(**{"probes": FAST, **more})).rate == 100


@pytest.mark.req("ENG-225")
def test_it_raises_again_when_the_last_failure_is_three_rounds_ago() -> None:
    assert tune(scene((bad(90), *FAST))).rate == 105


@pytest.mark.req("ENG-225")
@pytest.mark.parametrize("probes", [(), (bad(5),), (bad(100), bad(110), bad(120)), (good(31), good(41), good(51)),
                                    (bad(31), bad(41), bad(51)), (good(25, 900), bad(5))])  # fmt: skip
def test_it_changes_nothing_without_fresh_probes_or_by_a_single_failed_one(probes: Sequence[Knocked]) -> None:
    tuned = tune(scene(sorted(probes, key=lambda probe: probe.at)))

    assert (tuned.rate, tuned.cause) == (100, Cause.NONE)


@pytest.mark.req("ENG-223", "ENG-225")
def test_it_stays_within_the_limits_in_whole_numbers() -> None:
    limits = Autotune(True, min_rate=30, max_rate=60, target_ms=1000)
    down = [tune(scene((bad(15), bad(5)), rate=rate, limits=limits)).rate for rate in (55, 60, 61, 31, 30, 10, 500)]
    slow = [tune(scene(SLOW, rate=rate, limits=limits)).rate for rate in (59, 37, 30, 500)]
    up = [tune(scene(FAST, rate=rate, limits=limits)).rate for rate in (30, 58, 60, 500, 10)]

    assert down == [30, 30, 30, 30, 30, 10, 60]
    assert slow == [47, 30, 30, 60]
    assert up == [31, 60, 60, 500, 30]
    assert tune(scene((bad(15), bad(5)), rate=1)).rate == 1
    assert all(isinstance(rate, int) for rate in down + slow + up)


def test_it_tells_what_a_change_rests_on() -> None:
    assert tune(scene(SLOW)).figures == {
        "old": 100, "new": 80, "cause": "slow", "probes": 3, "failed_probes": 0, "median_ms": 1001, "target_ms": 1000,
        "requests": 0, "failed_requests": 0,
    }  # fmt: skip
    assert tune(scene(())).figures["median_ms"] is None
