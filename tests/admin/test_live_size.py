"""The console's stream with many rooms and many readers; how long its frames take is measured by bench/operators.py."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.services import live_frames
from app.services.live import Stream
from app.services.room_object import RoomView
from tests.admin.test_live import Desk, desk  # noqa: F401 (desk is a fixture)
from tests.admin.turns import visitors_beside

ROOMS, STREAMS = 1000, 50


async def frame_of_all(
    monkeypatch: pytest.MonkeyPatch,
    desk: Desk,  # noqa: F811
    streams: list[Stream],
    *,
    made: int,
) -> Any:
    """One tick, in which every stream takes its frame: the same for all. ``made``: rooms that have changed."""
    async with visitors_beside(monkeypatch, live_frames, "room_object") as turns:
        await desk.tick()
        frames = [await stream.next() for stream in streams]
    assert turns.pieces == made
    assert turns.at_once <= 10, "a turn after every few rooms"
    (text,) = {frame.partition(b"\ndata: ")[2] for frame in frames if frame is not None}
    assert None not in frames
    return json.loads(text)


@pytest.mark.req("ADM-110")
async def test_a_thousand_rooms_and_fifty_streams_cost_no_visitor_his_turn(
    desk: Desk,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await desk.process.make("shop")
    (view,) = await desk.process.service.views()
    turn = 0

    async def views() -> list[RoomView]:
        """Every room has changed since the last look, as in a surge."""
        room, figures = view.room, view.figures
        assert figures is not None
        return [
            replace(
                view,
                room=replace(room, config=replace(room.config, id=RoomId(f"room-{number}"))),
                figures=replace(figures, waiting=number + turn),
            )
            for number in range(ROOMS)
        ]

    monkeypatch.setattr(desk.process.service, "views", views)
    streams = list(await asyncio.gather(*(desk.open() for _ in range(STREAMS))))
    for _ in range(2):
        for stream in streams:
            await stream.next()
        await desk.tick()
    for stream in streams:
        await stream.next()
    turn = 7

    frame = await frame_of_all(monkeypatch, desk, streams, made=ROOMS)

    assert (frame["delta"], len(frame["rooms"])) == (True, ROOMS)


@pytest.mark.slow
@pytest.mark.req("ADM-110")
async def test_a_thousand_real_rooms_and_fifty_streams_cost_no_visitor_his_turn(
    desk: Desk,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rooms = [f"room-{number}" for number in range(ROOMS)]
    for start in range(0, ROOMS, 10):
        await asyncio.gather(*(desk.process.make(room_id) for room_id in rooms[start : start + 10]))
    streams = list(await asyncio.gather(*(desk.open() for _ in range(STREAMS))))
    for stream in streams:
        await stream.next()

    for made in (ROOMS, 0, 0, 0, 0):  # the first one has nothing that it could be the same as
        assert (await frame_of_all(monkeypatch, desk, streams, made=made))["totals"]["rooms"] == ROOMS
