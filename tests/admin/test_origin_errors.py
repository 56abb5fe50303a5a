"""What visitors of an inline room met, as its room object tells it: fleet-wide, for five minutes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.inline.failures import Failure
from app.infrastructure.counter_board import CounterBoard
from app.infrastructure.engine_counts import EngineCounts
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.origin_failures import OriginFailures
from app.infrastructure.site_store import SiteShown
from app.services import room_details, tally
from app.services.fleet_counts import FleetCounts
from app.services.inline_counts import InlineCounts, Passed, inline_block
from app.services.room_object import RoomView, room_object
from app.services.tally import Tally
from app.services.visitor_counts import VisitorCounts
from tests.admin.conftest import Process

SHOP = RoomId("shop")
NOW = 1_790_000_010_000
ORIGIN = "http://203.0.113.7:3000"


class Instance:
    """A web worker that forwards."""

    def __init__(self, process: Process) -> None:
        self.counts = InlineCounts(Counter(), None)
        self.tally = Tally(
            counts=VisitorCounts(),
            engine=EngineCounts(process.prefix, LuaLoader(process.valkey)),
            inline=(self.counts, OriginFailures(process.valkey, process.prefix)),
        )

    async def fail(self, *failures: Failure, room: str = "shop") -> None:
        for failure in failures:
            self.counts.failed(room, failure)
        await self.tally.hand_over()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the time."""

    def to(now: int) -> None:
        for module in (tally, room_details):
            monkeypatch.setattr(module, "wall_ms", lambda: now)

    to(NOW)
    return to


@pytest.mark.req("ADM-119", "ADM-120", "INL-179")
async def test_it_tells_what_visitors_met_and_lets_that_outweigh_the_knocks(process: Process, at: Any) -> None:
    process.service._details._failures = OriginFailures(process.valkey, process.prefix)
    await process.make(proxyOrigin=ORIGIN)
    await process.make("plain")
    one, other = Instance(process), Instance(process)

    async def shown(room_id: str = "shop", *, is_up: bool | None = True) -> tuple[Any, str]:
        view = await process.service.view(room_id)
        site = None if is_up is None else SiteShown(is_up, NOW, 200 if is_up else None, 84, "", "i:1")
        room = room_object(RoomView(view.room, view.figures, details=view.details, site=site))
        return room["origin"], room["site"]["status"]

    quiet = await shown()
    await one.fail(Failure.CONNECT, Failure.CONNECT)
    await other.fail(Failure.TIMEOUT)
    await other.fail(Failure.CONNECT, room="plain")
    now = await shown()
    states = [(await shown(is_up=is_up))[1] for is_up in (True, False, None)]
    plain = await shown("plain")
    at(NOW + 59_000)
    assert (await shown())[1] == "failing"
    at(NOW + 61_000)
    cleared = await shown()
    at(NOW + 200_000)
    await one.fail(Failure.CONNECT)
    later = await shown()
    at(NOW + 400_000)
    over = await shown()
    at(NOW + 600_000)
    gone = await shown()

    nothing = {"errorPages": 0, "windowSec": 300, "lastAt": None, "classes": {}}
    first = {"errorPages": 3, "windowSec": 300, "lastAt": NOW, "classes": {"connect": 2, "timeout": 1}}
    assert quiet == (nothing, "up")
    assert now == (first, "failing")
    assert states == ["failing"] * 3, "what real visitors meet outweighs the probe"
    assert plain == (None, "up"), "a snippet room has no origin"
    assert cleared == (first, "up"), "the label clears a minute after the last one"
    assert later[0] | {"lastAt": 0} == {**first, "errorPages": 4, "classes": {"connect": 3, "timeout": 1}, "lastAt": 0}
    assert later[1] == "failing"
    assert over == ({**nothing, "errorPages": 1, "lastAt": NOW + 200_000, "classes": {"connect": 1}}, "up")
    assert gone == (nothing, "up")


async def test_it_adds_up_what_is_counted_once(process: Process, at: Any) -> None:
    instance = Instance(process)
    store = OriginFailures(process.valkey, process.prefix)
    for _ in range(3):
        await instance.fail(Failure.DNS)
        await instance.tally.hand_over()

    assert (await store.recent(NOW))["shop"].classes == {"dns": 3}
    life = await process.valkey.execute("PTTL", f"{process.prefix}failed:{NOW // 30_000}")
    assert 300_000 < life <= 420_000


@pytest.mark.req("INL-203")
async def test_its_totals_never_go_down_when_a_worker_dies(process: Process) -> None:
    """The one in its place goes on from what it had shown; a failed commit of the board loses nothing."""

    def worker() -> tuple[InlineCounts, FleetCounts]:
        counts = VisitorCounts()
        return InlineCounts(counts.inline, None), FleetCounts(
            counts, CounterBoard(process.valkey, process.prefix, "run", 0)
        )

    inline, fleet = worker()
    for what in (Passed.GATED, Passed.GATED, Passed.BYPASSED, Passed.CLIENT_ABORTS):
        inline.count("shop", what)
    inline.failed("shop", Failure.CONNECT)
    before = inline_block((await fleet.sums()).inline)
    inline, fleet = worker()
    after_death = inline_block((await fleet.sums()).inline)
    inline.count("shop", Passed.GATED)
    inline.failed("shop", Failure.CONNECT)
    later = inline_block((await fleet.sums()).inline)

    assert (before["gatedTotal"], before["originErrorsTotal"]) == (2, 1)
    assert after_death == before
    assert (later["gatedTotal"], later["originErrorsTotal"], later["clientAbortsTotal"]) == (3, 2, 1)
    assert later["originErrors"]["shop"]["connect"] == 2
