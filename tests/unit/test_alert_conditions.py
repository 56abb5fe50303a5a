"""Bounds and words of conditions of rooms that cannot be met to the millisecond with real stores."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.room import RoomState
from app.services.alert_rooms import _JUDGES, Past


def said(event: str, *, usual: list[int] | None = None, **figures: Any) -> str | None:
    """What is said of a room with these figures."""
    look = SimpleNamespace(
        figures=SimpleNamespace(**figures), past=Past(minute=1, joins=usual or []), now=10_000_000, surge_min=2,
        surge_factor=7, view=SimpleNamespace(room=SimpleNamespace(created_at=0)),
    )  # fmt: skip
    return _JUDGES[event](look)  # type: ignore[arg-type]


@pytest.mark.req("OBS-122")
def test_doors_are_late_after_fifteen_seconds() -> None:
    for late, words in ((15_000, None), (15_001, "15 s ago"), (16_999, "16 s ago")):
        message = said("doors_late", now=900_000 + late, opens_at=900_000, phase=1)
        assert (message is None) if words is None else (message is not None and words in message)
    assert said("doors_late", now=999_000, opens_at=900_000, phase=0) is None


@pytest.mark.req("OBS-190")
@pytest.mark.parametrize(("bound", "words"), [("line", "QM_LINE_MAX"), ("memory", "Valkey is short of memory")])
def test_it_says_which_bound_refuses_joins(bound: str, words: str) -> None:
    message = said("joins_refused", joins_refused=bound)
    assert message is not None
    assert message.startswith("takes nobody new: ")
    assert words in message
    assert said("joins_refused", joins_refused=None) is None


@pytest.mark.req("OBS-119", "CFG-086")
@pytest.mark.parametrize(("usual", "most"), [([0] * 60, 6), ([3] * 60, 20), ([1, 3] * 28 + [99] * 4, 13)])
def test_a_surge_is_so_many_times_what_is_usual_and_one_at_least(usual: list[int], most: int) -> None:
    """The last four minutes looked at belong to the surge itself."""
    figures = {"effective_state": RoomState.ACTIVE, "usual": usual}
    assert said("surge", joins_per_min=most, **figures) is None
    assert said("surge", joins_per_min=most + 1, **figures) is not None
