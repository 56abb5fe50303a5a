"""Rests between the slices of long work."""

from __future__ import annotations

import asyncio

import pytest

from app.core import pacing


@pytest.mark.parametrize(("took", "rest"), [(0.0, 0.0), (0.004, 0.004), (9.0, pacing.REST_MAX_SEC)])
async def test_it_rests_as_long_as_the_slice_took_but_never_long(
    took: float, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(pacing, "mono", lambda: 100.0 + took)
    monkeypatch.setattr(asyncio, "sleep", sleep)

    await pacing.rest(100.0)

    assert rests == [pytest.approx(rest)]
