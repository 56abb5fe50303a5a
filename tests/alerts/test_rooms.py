"""Each condition of a room, made to happen: it is held, told, told again, and over."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.automation import AutoActivate
from app.domain.room import RoomState
from app.infrastructure.engine_auto import EngineAuto
from app.infrastructure.engine_counts import EngineCounts, RoomTally
from app.infrastructure.knock import Knocker
from app.services.activation import Activation
from app.services.prober import Prober
from tests.alerts.conftest import Watch
from tests.engine.world import ROOM, Browser, World
from tests.journal.house import until

HOLD, REPEAT = 120, 1800


async def assert_told(watch: Watch, event: str, severity: str, message: str, *, ticks: bool = False) -> None:
    """The condition holds now: it fires after its hold and not before, and is told again after ``REPEAT``."""
    began = watch.now
    await watch.frame()
    await watch.hold(HOLD - 10, ticks=ticks)
    assert event in await watch.pending()
    assert await watch.firing() == []
    assert watch.receiver.bodies == []

    await watch.hold(10, ticks=ticks)

    assert await watch.firing() == [event]
    (notice,) = await watch.receiver.came(1)
    assert notice == {
        "source": "queue-manager", "event": event, "status": "firing", "severity": severity, "roomId": "shop",
        "message": notice["message"], "ts": watch.now, "since": began,
        "text": f"[queue-manager] {severity.upper()}: {notice['message']}",
    }  # fmt: skip
    assert notice["message"].startswith(f"Shop: {message}")
    await watch.hold(20, ticks=ticks)
    await watch.frame(after_sec=REPEAT - 30)
    assert len(watch.receiver.bodies) == 1
    await watch.frame(after_sec=10)
    again = (await watch.receiver.came(2))[1]
    assert (again["status"], again["since"], again["ts"]) == ("firing", began, watch.now)


async def assert_resolved(watch: Watch, event: str) -> None:
    """The condition is over, and that was told once."""
    before = len(watch.receiver.taken)
    await watch.frame(after_sec=10)
    last = (await watch.receiver.came(before + 1))[-1]
    assert (last["event"], last["status"], last["ts"]) == (event, "resolved", watch.now)
    assert last["since"] == watch.receiver.notices[-2]["since"]
    assert last["text"] == f"[queue-manager] RESOLVED: {last['message']}"
    await watch.frame(after_sec=10)
    assert await watch.firing() == []
    assert len(watch.receiver.bodies) == before + 1


@pytest.mark.req("OBS-112", "OBS-116")
async def test_it_tells_that_nobody_is_let_through(watch: Watch) -> None:
    await watch.create(rate_per_minute=60)
    await watch.world.joined(3)
    await watch.world.tick(2)
    await watch.world.joined(4)
    await watch.world.advance(61)  # and nobody ticks

    waiting = (await watch.world.figures()).waiting
    await assert_told(
        watch, "outflow_stalled", "critical", f"{waiting} waiting and nobody let through in the last minute"
    )

    await watch.world.tick(1)
    await assert_resolved(watch, "outflow_stalled")


@pytest.mark.req("OBS-116")
async def test_it_waits_three_turns_where_the_pace_is_slow_and_looks_at_nothing_else(watch: Watch) -> None:
    await watch.begin(alert_hold_sec=0)
    await watch.create(rate_per_minute=1, max_concurrent=2)
    await watch.world.joined(2)
    await watch.world.tick(1)
    await watch.world.joined(2)
    await watch.world.advance(61)
    await watch.frame()
    await watch.hold(110)
    assert await watch.firing() == []

    await watch.hold(10)
    assert await watch.firing() == ["outflow_stalled"]
    assert "nobody let through in the last 3 minutes" in (await watch.alert("outflow_stalled")).trouble.message

    for changes in ({"state": RoomState.PAUSED}, {"state": RoomState.BYPASS}, {"rate_per_minute": 0}):
        await watch.change(**changes)
        await watch.frame(after_sec=10)
        assert "outflow_stalled" not in await watch.firing(), changes
        await watch.change(state=RoomState.ACTIVE, rate_per_minute=1)
    await watch.frame(after_sec=10)
    assert await watch.firing() == ["outflow_stalled"]
    occupancy = (await watch.world.figures()).occupancy
    await watch.change(max_concurrent=max(1, occupancy))
    await watch.frame(after_sec=10)
    assert "outflow_stalled" not in await watch.firing()


@pytest.mark.req("OBS-117", "ENG-025")
@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ({"rate_per_minute": 0}, "2 waiting and the rate is 0/min"),
        ({"state": RoomState.PAUSED}, "2 waiting while the room is paused"),
    ],
)
async def test_it_tells_that_the_queue_stands_still_by_its_own_settings(
    watch: Watch, frozen: dict[str, int], message: str
) -> None:
    await watch.create(rate_per_minute=0)
    await watch.world.joined(2)
    await watch.change(**{"rate_per_minute": 60, **frozen})

    await assert_told(watch, "queue_frozen", "warning", message)

    await watch.change(rate_per_minute=60, state=RoomState.ACTIVE)
    await watch.world.tick(2)
    await assert_resolved(watch, "queue_frozen")


@pytest.mark.req("OBS-118")
async def test_it_tells_that_all_places_are_taken(watch: Watch) -> None:
    await watch.create(rate_per_minute=60, max_concurrent=1)
    (inside,) = await watch.world.joined(1)
    await watch.world.tick(1)
    await watch.world.check(inside)
    await watch.world.joined(2)
    await watch.world.tick(62)

    await assert_told(watch, "capacity_full", "warning", "2 waiting and all 1 places are taken", ticks=True)
    assert "A higher rate will not help" in watch.receiver.notices[0]["message"]

    await watch.change(max_concurrent=2)
    await watch.world.tick(2)
    await assert_resolved(watch, "capacity_full")


@pytest.mark.req("OBS-119", "CFG-085", "CFG-086")
async def test_it_tells_of_a_surge(watch: Watch) -> None:
    await watch.create(rate_per_minute=0, state=RoomState.BYPASS)
    for _ in range(8):  # the usual: twelve a minute
        await watch.world.joined(12)
        await watch.frame(after_sec=60)
        await watch.world.tick(60)
    await watch.world.joined(59)
    await watch.frame()
    assert await watch.pending() == [], "fewer than ALERT_SURGE_MIN"
    await watch.world.joined(1)
    await watch.begin(alert_surge_factor=6)
    await watch.frame()
    assert await watch.pending() == [], "less than ALERT_SURGE_FACTOR times what is usual"
    await watch.begin()
    began = watch.now
    await watch.frame()
    await watch.hold(110)
    assert (await watch.pending(), await watch.firing()) == (["surge"], [])
    await watch.hold(10)
    (notice,) = await watch.receiver.came(1)
    assert notice["message"] == "Shop: 60 joins in the last minute; usual are 12"
    assert (notice["since"], notice["severity"]) == (began, "warning")

    await watch.world.tick(61)
    await assert_resolved(watch, "surge")


@pytest.mark.req("OBS-119")
async def test_it_calls_nothing_a_surge_that_is_usual_unknown_or_still_before_the_doors(watch: Watch) -> None:
    await watch.begin(alert_hold_sec=0)
    await watch.create(rate_per_minute=0)
    watch.now += 3_600_000  # the room is old, and nobody has looked at it
    await watch.world.joined(61)
    await watch.frame()
    assert "surge" not in await watch.firing()
    await watch.frame(after_sec=300)
    await watch.frame(after_sec=300)
    assert "surge" not in await watch.firing(), "as many as ever"

    await watch.begin(alert_hold_sec=0, alert_surge_min=0)
    await watch.world.valkey.execute("DEL", watch.prefix + "alerts:state")
    await watch.begin(alert_hold_sec=0)
    watch.now = (await watch.world.now()) + 1000  # the room is new: one a minute is what is usual
    await watch.frame()
    assert "surge" in await watch.firing()
    await watch.begin(alert_hold_sec=0, alert_surge_min=0)
    await watch.frame()
    assert "surge" not in await watch.firing()
    await watch.begin(alert_hold_sec=0)
    await watch.change(opens_at=await watch.world.now() + 3_600_000)
    await watch.frame()
    assert "surge" not in await watch.firing()


@pytest.mark.req("OBS-120", "OBS-047")
async def test_it_tells_that_the_site_behind_a_room_is_down(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setattr("app.services.prober.TURN_SEC", 0.02)
    monkeypatch.setattr("app.services.sites.FRESH_SEC", 0.0)
    await watch.create()
    await watch.change(target_url=f"http://127.0.0.1:{unused_tcp_port}/")
    prober = Prober(
        rooms=watch.rooms, knocker=Knocker(timeout_ms=2000, allow_private=True), store=watch.sites, every_ms=50,
        instance="i:one",
    )  # fmt: skip
    knocking = asyncio.ensure_future(prober.run(watch.term))
    await until(lambda: is_up(watch, False))

    await assert_told(
        watch, "target_down", "warning", "the site behind the room does not answer (connect, seen by i:one)"
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", unused_tcp_port):
        await until(lambda: is_up(watch, True))
    knocking.cancel()
    await asyncio.gather(knocking, return_exceptions=True)
    await assert_resolved(watch, "target_down")


async def is_up(watch: Watch, wanted: bool) -> bool:
    """Whether the knocks say so of the only site."""
    found = await watch.valkey.execute("HGETALL", watch.prefix + "sites")
    shown = [text for name, text in zip(found[::2], found[1::2], strict=True) if name.startswith(b"shttp://127")]
    return any(text.startswith(b"[true" if wanted else b"[false") for text in shown)


@pytest.mark.req("OBS-122")
async def test_it_tells_that_the_doors_are_late(watch: Watch) -> None:
    await watch.create(rate_per_minute=0)
    await watch.change(opens_at=await watch.world.now() + 60_000)
    await watch.world.joined(2)
    await watch.world.advance(64)
    await watch.frame()
    assert await watch.pending() == []
    await watch.world.advance(12)

    await assert_told(watch, "doors_late", "critical", "the doors should have opened ")

    await watch.world.open_doors()
    await assert_resolved(watch, "doors_late")


@pytest.mark.req("OBS-123")
async def test_it_tells_that_threshold_activation_turned_the_queue_on(watch: Watch) -> None:
    brisk = AutoActivate(True, joins_per_min=3, sustain_sec=2, release_after_sec=600)
    await watch.create(state=RoomState.BYPASS, auto_activate=brisk, rate_per_minute=600)
    await watch.world.joined(3)
    await watch.world.tick(4)
    await watch.frame()
    assert await watch.pending() == []
    await Activation(rooms=watch.rooms, engine=EngineAuto(watch.prefix, watch.loader, instance="i:one")).look(
        watch.term
    )

    await assert_told(watch, "room_auto_activated", "info", "threshold activation turned the queue on")

    await watch.world.advance(899)
    await watch.frame(after_sec=10)
    assert len(watch.receiver.bodies) == 2
    await watch.world.advance(2)
    await assert_resolved(watch, "room_auto_activated")


@pytest.mark.req("OBS-124")
async def test_it_tells_of_pages_that_may_be_unprotected(watch: Watch) -> None:
    counts = EngineCounts(watch.prefix, watch.loader)
    await watch.create()
    await counts.add([RoomTally(ROOM, plain={"refusedOriginChecks": 500})])
    await watch.frame()
    await counts.add([RoomTally(ROOM, plain={"refusedOriginChecks": 5, "refusedKeyChecks": 4})])
    await watch.frame(after_sec=10)
    assert await watch.pending() == [], "what was refused before anybody looked is not of the last five minutes"
    await counts.add([RoomTally(ROOM, plain={"refusedKeyChecks": 1})])

    await watch.frame(after_sec=10)
    assert await watch.pending() == ["unprotected_pages"]
    await watch.hold(120)
    (notice,) = await watch.receiver.came(1)
    assert notice["message"].startswith("Shop: 10 checks refused in the last 5 minutes")
    assert notice["severity"] == "warning"
    await watch.hold(150)
    assert await watch.firing() == ["unprotected_pages"]
    await watch.hold(30)
    assert [one["status"] for one in await watch.receiver.came(2)] == ["firing", "resolved"]


@pytest.mark.req("OBS-190", "ENG-294")
async def test_it_tells_that_a_full_line_takes_nobody(watch: Watch) -> None:
    await watch.create(rate_per_minute=0)
    small = World(watch.valkey, watch.prefix, line_max=2)
    await small.reload()
    await small.joined(3)
    await watch.change(state=RoomState.BYPASS)

    await assert_told(watch, "joins_refused", "critical", "takes nobody new: the line is as long as QM_LINE_MAX allows")

    await watch.valkey.execute("DEL", watch.world.keys.refused_joins)  # a minute without a refusal
    await assert_resolved(watch, "joins_refused")


@pytest.mark.req("OBS-191", "ENG-302")
async def test_it_tells_of_one_address_that_holds_many_places(watch: Watch) -> None:
    await watch.create(rate_per_minute=60_000, max_concurrent=40)
    hoarder = [Browser(address="203.0.113.9") for _ in range(10)]
    for browser in hoarder[:9]:
        await watch.world.join(browser)
    await watch.world.tick(1)
    await watch.frame()
    assert await watch.pending() == []
    await watch.world.join(hoarder[9])
    await watch.world.tick(1)

    await assert_told(watch, "slots_hoarded", "warning", "one visitor address holds 10 of 40 places")
    assert "203.0.113" not in watch.receiver.notices[0]["text"]

    await watch.change(max_concurrent=41)
    await assert_resolved(watch, "slots_hoarded")


@pytest.mark.req("OBS-127")
async def test_it_tells_that_a_room_is_being_rebuilt_and_nothing_else_of_it(watch: Watch) -> None:
    await watch.create(rate_per_minute=0)
    await watch.world.joined(2)
    await watch.frame()
    await watch.hold(120)
    assert await watch.firing() == ["queue_frozen"]
    await watch.receiver.came(1)
    header = await watch.world.header()
    assert await watch.world.jobs.fence(ROOM, header["gen"], header["epoch"])
    watch.receiver.bodies.clear()
    watch.receiver.taken.clear()

    began = watch.now + 10_000
    await watch.hold(130)
    (notice,) = await watch.receiver.came(1)
    assert (notice["event"], notice["severity"], notice["since"]) == ("rooms_recovering", "critical", began)
    assert notice["message"] == "Shop: being rebuilt from the journal; it answers nobody until that is done"
    assert sorted(await watch.firing()) == ["queue_frozen", "rooms_recovering"], "what cannot be seen is not over"


@pytest.mark.req("OBS-114")
async def test_it_holds_an_alert_for_each_room_and_ends_it_with_the_room(watch: Watch) -> None:
    await watch.create(rate_per_minute=0)
    await watch.world.joined(1)
    other = World(watch.valkey, watch.prefix)
    await watch.frame()
    await watch.hold(120)
    assert [one["event"] for one in await watch.receiver.came(1)] == ["queue_frozen"]
    assert other is not watch.world

    await watch.world.admin.delete(ROOM, actor="op")
    await assert_resolved(watch, "queue_frozen")
    assert await watch.pending() == [], "the leader's copy is behind: a room that was deleted is not being rebuilt"
    await watch.rooms.reload(ROOM)
    await watch.frame()
    assert (await watch.store.read()).rooms == {}
