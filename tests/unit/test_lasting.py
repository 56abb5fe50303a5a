"""Connections that last: when they are looked at, and what becomes of those that end meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.ids import RoomId
from app.domain.ticket_state import TicketState
from app.services.lasting import Lasting, Place, pause_sec


class Lookup:
    """Says that every ticket was ejected, once it may go on."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def tickets(self, room_id: RoomId, numbers: Sequence[int]) -> Any:
        self.asked.set()
        await self.go_on.wait()
        facts = SimpleNamespace(admitted_at=1, why=None, state=TicketState.EJECTED)
        return SimpleNamespace(generation=1, now=2, tickets=[facts] * len(numbers))


@pytest.mark.req("INL-147", "INL-153")
async def test_one_that_ended_while_it_was_looked_at_is_left_alone() -> None:
    """Its visitor's connection may have brought the next request by then."""
    lookup = Lookup()
    room = SimpleNamespace(room=SimpleNamespace(config=SimpleNamespace(session_max_sec=60)))
    lasting = Lasting(rooms=cast(Any, SimpleNamespace(peek=lambda _: room)), lookup=cast(Any, lookup))
    hung_up: list[str] = []
    ends = lasting.add(Place("shop", 1, 1), lambda: hung_up.append("ended"))
    lasting.add(Place("shop", 1, 2), lambda: hung_up.append("open"))
    await lookup.asked.wait()

    lasting.forget(ends)
    lookup.go_on.set()
    while not hung_up:
        await asyncio.sleep(0)

    assert hung_up == ["open"]
    await lasting.stop()


@pytest.mark.req("INL-147", "INL-153")
def test_many_are_looked_at_less_often_but_within_ten_seconds() -> None:
    assert pause_sec(1) == pytest.approx(2, abs=0.01)
    assert pause_sec(5_000) == 5
    assert pause_sec(10_000) == pause_sec(1_000_000) == 8
