"""What the console's stream promises besides adding up: deltas, new connections, other instances, stalled readers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.principal import OWNER_BY_KEY
from app.domain.room import RoomState
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import ViewState
from app.infrastructure.lua_loader import LuaLoader
from blueprints.admin import events
from blueprints.admin.routing import Call
from tests.admin.conftest import House
from tests.admin.test_live import ACTOR, Console, Desk, data_of, desk  # noqa: F401 (desk is a fixture)
from tests.journal.house import holder, newcomer

SHOP = RoomId("shop")
BLOCKS = ("totals", "server", "backend")


@pytest.mark.req("ADM-093", "ADM-095")
async def test_a_delta_has_changed_rooms_whole_and_a_new_connection_begins_with_full_frames(desk: Desk) -> None:  # noqa: F811
    process = desk.process
    for room_id in ("shop", "drop", "old"):
        await process.make(room_id)
    stream = await desk.open()
    full = [data_of(await stream.next())]
    await desk.tick()
    full.append(data_of(await stream.next()))
    await desk.tick()
    heartbeat = data_of(await stream.next())
    await process.engine.update(SHOP, {"rate_per_minute": 7}, actor=ACTOR)
    await process.service.delete("old", actor=ACTOR)
    late = await desk.open()
    begins = [data_of(await late.next())]
    await desk.tick()
    changed = data_of(await stream.next())
    begins.append(data_of(await late.next()))
    await desk.tick()
    begins.append(data_of(await late.next()))

    assert [frame["delta"] for frame in full] == [False, False]
    assert heartbeat | dict.fromkeys(BLOCKS) == {
        "delta": True, "ts": heartbeat["ts"], "rooms": [], "removed": [], **dict.fromkeys(BLOCKS),
    }  # fmt: skip
    assert (changed["delta"], changed["removed"]) == (True, ["old"])
    (shop,) = changed["rooms"]
    before = next(room for room in full[1]["rooms"] if room["id"] == "shop")
    assert shop.keys() == before.keys(), "the whole object"
    assert (shop["rate"], before["rate"]) == (7, 60)
    for name in BLOCKS:
        assert changed[name].keys() == full[0][name].keys()
    assert [frame["delta"] for frame in begins] == [False, False, True]
    assert [room["id"] for room in begins[0]["rooms"]] == ["shop", "drop"]


@pytest.mark.req("ADM-097", "ADM-152", "ADM-023")
@pytest.mark.req("FLT-014")
async def test_an_act_at_one_instance_holds_at_once_and_is_on_every_console_within_a_tick(
    desk: Desk,  # noqa: F811
    house: House,
) -> None:
    here = desk.process
    await here.make(rate=0, queueMaxPerIp=None)
    there = await house.process()
    copy = there.rooms.get(SHOP)
    assert copy is not None
    door = Engine(there.valkey, there.prefix, LuaLoader(there.valkey))
    await door.join(copy, newcomer("a"))
    stream, console = await desk.open(), Console()
    for _ in range(2):
        console.apply(await stream.next())
        await desk.tick()
    console.apply(await stream.next())
    there.rooms.announce = _nobody_hears  # type: ignore[method-assign]

    seen = []
    for state in (RoomState.PAUSED, RoomState.BYPASS, RoomState.ACTIVE):
        await there.line.set_state("shop", {"state": state.word}, actor=ACTOR)
        view = await door.status(copy, holder("a", 1))  # the next request, at an instance whose copy is as before
        await desk.tick()
        console.apply(await stream.next())
        seen.append((view.state, console.rooms["shop"]["state"]))
    await there.service.upsert({"id": "shop", "name": "Renamed"}, actor=ACTOR)
    await desk.tick()
    console.apply(await stream.next())
    await there.line.purge("shop", actor=ACTOR)
    await desk.tick()
    console.apply(await stream.next())

    assert seen == [
        (ViewState.PAUSED, "paused"), (ViewState.BYPASS, "bypass"), (ViewState.WAITING, "active"),
    ]  # fmt: skip
    assert (console.rooms["shop"]["name"], console.rooms["shop"]["waiting"]) == ("Renamed", 0)
    assert list(console.rooms.values()) == await desk.shown()


async def _nobody_hears(_room: RoomId) -> None:
    return


class StalledReader:
    """A connection whose reader takes in nothing."""

    def __init__(self) -> None:
        self.is_aborted = False

    async def respond(self, **_: Any) -> StalledReader:
        return self

    async def send(self, _data: bytes) -> None:
        await asyncio.Event().wait()

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.req("ADM-108")
async def test_a_reader_that_takes_in_nothing_is_disconnected(
    desk: Desk,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert events.STALLED_SEC == 30
    monkeypatch.setattr(events, "STALLED_SEC", 0.05)
    reader = StalledReader()
    client = SimpleNamespace(address="192.0.2.1")
    request = SimpleNamespace(
        method="GET", respond=reader.respond, transport=reader, ctx=SimpleNamespace(client=client)
    )
    call = Call(request, SimpleNamespace(live=desk.feed), OWNER_BY_KEY)  # type: ignore[arg-type]

    async with asyncio.timeout(10):
        await events.events(call)

    assert reader.is_aborted
    assert desk.feed.open_streams == 0
