"""Frames of the console's stream: what full frames and deltas add up to, slow readers, outages, credentials."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import Unavailable
from app.core.ids import RoomId
from app.core.runtime import Runtime
from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.keyring import Keyring
from app.domain.principal import OWNER_BY_KEY, Kind, Principal
from app.domain.roles import Role
from app.domain.room import RoomConfig, RoomState
from app.infrastructure.access_store import AccessStore
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.counter_board import CounterBoard
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.journal_size import JournalSizes
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import InstanceNumbers, RateLimiter
from app.infrastructure.site_store import SiteStore
from app.infrastructure.valkey import Valkey
from app.services import live, live_frames
from app.services.admin_health import AdminHealth
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.fleet_counts import FleetCounts
from app.services.holder_proof import HolderProofs
from app.services.instance_watch import InstanceWatch
from app.services.instances import Instances
from app.services.live import REVOKED, LiveFeed, Stream
from app.services.people import People
from app.services.room_object import room_object
from app.services.sessions import Sessions
from app.services.sites import Sites
from app.services.standing import Standing
from app.services.undeclared import UndeclaredPeers
from app.services.visitor_counts import VisitorCounts
from tests.admin.conftest import House, Process

TARGET = "https://shop.example"
ACTOR = "ADMIN_KEY"


class Desk:
    """A process with a feed whose ticks a test makes itself."""

    def __init__(self, process: Process, valkey: Valkey, house: House) -> None:
        self.process = process
        self.table = RateLimiter.create("test", workers=1, max_keys=1000)
        keyring = Keyring("s" * 32)
        self.limiter = RateLimiter.attach(self.table.name, 0)
        people = People(
            AccessStore(house.postgres),
            resync_ms=5000,
            changes=self.limiter.counters,
            send_hint=process.rooms.send_hint,
        )
        self.sessions = Sessions(
            keyring=keyring,
            proofs=HolderProofs(keyring, Secret("k" * 16)),
            store=AdminStore(valkey, process.prefix),
            people=people,
            now=live.wall_ms,
        )
        settings = Settings(workers=1)
        runtime = Runtime(settings, "", "", "i:test", self.table.name, live.wall_ms(), 1, True)
        undeclared = UndeclaredPeers(self.limiter, settings)
        self.book = MetricBook.alone()
        self.valkey = valkey
        connections = ConnectionCap(self.limiter, settings)
        standing = Standing(
            runtime=runtime,
            book=self.book,
            is_full=lambda: connections.is_full,
            own_valkey=lambda: (self.valkey.shown_state == "down", self.valkey.ever_connected),
            refusing=process.commits.refusing,
        )
        records = FleetRecords(valkey, process.prefix, "i:test")
        self.watch = InstanceWatch(
            runtime=runtime,
            book=self.book,
            valkey=valkey,
            records=records,
            rooms=process.rooms,
            engine=process.engine,
            sites=Sites(SiteStore(valkey, process.prefix, LuaLoader(valkey)), every_ms=10_000, timeout_ms=5000),
            numbers=InstanceNumbers(self.table.name),
            stand=standing.now,
            kids=(keyring.kids[0],),
        )
        self.health = AdminHealth(
            runtime=runtime,
            book=self.book,
            standing=standing,
            postgres=house.postgres,
            rooms=process.service,
            limiter=self.limiter,
            keyring=keyring,
            undeclared=undeclared,
            edge_watch=EdgeWatch(self.limiter, settings, undeclared),
            connections=connections,
            fleet=FleetCounts(VisitorCounts(), CounterBoard(valkey, process.prefix, "i:test", 0)),
            instances=Instances(records, JournalSizes(house.postgres, valkey, process.prefix)),
        )
        self.feed = LiveFeed(
            rooms=process.service, health=self.health, sessions=self.sessions, people=people, limiter=self.limiter
        )

    async def open(self, principal: Principal = OWNER_BY_KEY) -> Stream:
        """A stream; the feed's own clock stands still."""
        stream = await self.feed.open(principal)
        if self.feed._task is not None:
            self.feed._task.cancel()
        return stream

    async def look(self) -> None:
        """What the watch of the instance does each second."""
        await self.watch.look()

    async def tick(self) -> None:
        await self.feed._tick()

    async def shown(self) -> list[dict[str, Any]]:
        """What ``GET /api/admin/rooms`` would answer now."""
        return [plain(room_object(view)) for view in await self.process.service.views()]

    async def close(self) -> None:
        await self.feed.stop()
        self.limiter.close()
        self.table.close()


@pytest.fixture
async def desk(house: House, process: Process) -> AsyncIterator[Desk]:
    desk = Desk(process, house.valkey, house)
    yield desk
    await desk.close()


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def data_of(event: bytes | None) -> Any:
    assert event is not None
    head, _, rest = event.partition(b"\ndata: ")
    assert head.startswith(b"id: ")
    assert head.endswith(b"\nevent: stats")
    assert rest.endswith(b"\n\n")
    return json.loads(rest)


class Console:
    """A client that applies frames as documented."""

    def __init__(self) -> None:
        self.rooms: dict[str, dict[str, Any]] = {}
        self.frame: Any = None

    def apply(self, event: bytes | None) -> bool:
        self.frame = data_of(event)
        if not self.frame["delta"]:
            self.rooms = {}
        for room in self.frame["rooms"]:
            self.rooms[room["id"]] = room
        for room_id in self.frame["removed"]:
            del self.rooms[room_id]
        return bool(self.frame["delta"])


async def change_something(process: Process, rooms: list[str]) -> None:
    """A few random changes through the engine, committed or not."""
    for _ in range(secrets.randbelow(8)):
        kind, room_id = secrets.randbelow(6), secrets.choice(rooms)
        if kind == 0:
            await process.engine.update(RoomId(room_id), {"rate_per_minute": secrets.randbelow(1000)}, actor=ACTOR)
        elif kind == 1:
            state = secrets.choice([RoomState.ACTIVE, RoomState.PAUSED, RoomState.BYPASS])
            await process.engine.update(RoomId(room_id), {"state": state}, actor=ACTOR)
        elif kind == 2:
            await process.engine.update(RoomId(room_id), {"name": secrets.token_hex(4)}, actor=ACTOR)
        elif kind == 3:
            rooms.append(f"n{secrets.token_hex(4)}")
            await process.make(rooms[-1])
        elif len(rooms) > 1:
            await process.service.delete(room_id, actor=ACTOR)
            rooms.remove(room_id)
            if kind == 5:
                await process.make(room_id)
                rooms.append(room_id)


@pytest.mark.req("ADM-098")
async def test_frames_add_up_to_the_list_with_two_hundred_rooms_and_random_changes(desk: Desk) -> None:
    process = desk.process
    rooms = [f"room-{number}" for number in range(200)]
    await process.make(rooms[0])  # gives Valkey the library, once
    for start in range(1, 200, 10):
        await asyncio.gather(*(process.make(room_id) for room_id in rooms[start : start + 10]))
    stream, console, deltas = await desk.open(), Console(), 0

    for _ in range(25):
        deltas += await follow(desk, stream, console)
        assert console.frame["totals"]["rooms"] == len(rooms)
        await change_something(process, rooms)
        await desk.tick()

    assert deltas > 5


async def follow(desk: Desk, stream: Stream, console: Console) -> int:
    """Apply the next frame, and further ones while a late change of the last round still comes in between the frame
    and the list. A frame that left something out is never made good by a later one, which tells changes only."""
    for _ in range(5):
        deltas = int(console.apply(await stream.next()))
        if list(console.rooms.values()) == await desk.shown():
            return deltas
        await desk.tick()
    pytest.fail("the frames do not add up to the list")


@pytest.mark.req("ADM-094")
async def test_a_room_made_again_under_its_id_makes_a_full_frame(desk: Desk) -> None:
    process = desk.process
    for room_id in ("a", "b"):
        await process.make(room_id)
    stream = await desk.open()
    for _ in range(2):
        await stream.next()
        await desk.tick()
    assert data_of(await stream.next())["delta"] is True

    await process.service.delete("a", actor=ACTOR)
    await process.make("a")
    await desk.tick()

    frame = data_of(await stream.next())
    assert frame["delta"] is False
    assert [(room["id"], room["generation"]) for room in frame["rooms"]] == [("b", 1), ("a", 2)]


@pytest.mark.req("ADM-108")
async def test_a_slow_reader_gets_the_newest_state_and_no_pile(desk: Desk) -> None:
    process = desk.process
    await process.make("shop")
    slow, quick = await desk.open(), await desk.open()
    for stream in (slow, quick):
        await stream.next()
    for rate in range(1, 20):
        await process.engine.update(RoomId("shop"), {"rate_per_minute": rate}, actor=ACTOR)
        await desk.tick()
        await quick.next()

    frame = data_of(await slow.next())
    assert (frame["delta"], frame["rooms"][0]["rate"]) == (False, 19)
    await desk.tick()
    assert data_of(await slow.next())["delta"] is True
    assert data_of(await quick.next())["delta"] is True


async def test_a_new_stream_sees_its_own_moment_and_takes_nothing_from_the_others(desk: Desk) -> None:
    process = desk.process
    await process.make("shop")
    first = await desk.open()
    for _ in range(2):
        await first.next()
        await desk.tick()
    await first.next()

    await process.engine.update(RoomId("shop"), {"rate_per_minute": 77}, actor=ACTOR)
    second = await desk.open()
    assert data_of(await second.next())["rooms"][0]["rate"] == 77
    await desk.tick()

    frame = data_of(await first.next())
    assert (frame["delta"], [room["rate"] for room in frame["rooms"]]) == (True, [77])
    assert data_of(await second.next())["delta"] is False


@pytest.mark.req("ADM-093")
async def test_sums_of_rooms_none_of_which_can_be_read_are_unknown(desk: Desk, house: House) -> None:
    await desk.look()
    assert data_of(await (await desk.open()).next())["totals"]["waiting"] == 0, "no rooms, nobody waiting"
    await desk.process.make("lost")
    for key in await house.valkey.execute("KEYS", f"{house.prefix}{{lost}}*"):
        await house.valkey.execute("DEL", key)
    await desk.look()
    totals = data_of(await (await desk.open()).next())["totals"]
    sums = ("waiting", "preQueue", "active", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute")
    assert [totals[name] for name in sums] == [None] * 7
    assert (totals["rooms"], totals["worstWait"]["sec"]) == (1, None)


@pytest.mark.req("ADM-099")
async def test_frames_go_on_with_the_last_figures_while_valkey_is_away(desk: Desk, house: House) -> None:
    process = desk.process
    await process.make("shop")
    await process.make("lost")
    for key in await house.valkey.execute("KEYS", f"{house.prefix}{{lost}}*"):
        await house.valkey.execute("DEL", key)
    await desk.look()
    stream = await desk.open()
    frame = data_of(await stream.next())
    shop, lost = frame["rooms"]
    assert (shop["recovering"], lost["recovering"], lost["waiting"], frame["removed"]) == (False, True, None, [])
    assert frame["backend"] == {"ok": False, "recovering": 1}
    assert frame["totals"]["incident"]["code"] == "room_recovering"
    assert frame["totals"]["incident"]["roomId"] == "lost"

    gone = Valkey("unix:///nonexistent.sock", timeout_ms=100)
    process.engine._loader._valkey = gone
    desk.valkey = gone
    for _ in range(2):
        await desk.tick()
        frame = data_of(await stream.next())
    shop, lost = frame["rooms"] or (await desk.shown())
    assert (shop["stale"], shop["waiting"], shop["recovering"]) == (True, 0, False)
    assert (lost["stale"], lost["waiting"]) == (True, None)
    assert shop["staleSince"] <= frame["ts"]
    assert frame["backend"]["ok"] is False
    assert frame["removed"] == []
    assert frame["totals"]["incident"]["code"] == "valkey_down"
    assert frame["server"]["status"] == "degraded"
    await gone.close()


@pytest.mark.req("ADM-107")
async def test_streams_have_a_cap_and_no_link_keeps_the_team_out(desk: Desk) -> None:
    def link(ident: str) -> Principal:
        return Principal(Kind.MONITOR, Role.MONITOR, "Monitor link", link_id=ident)

    async def refused(who: Principal) -> None:
        with pytest.raises(Unavailable) as caught:
            await desk.open(who)
        assert (caught.value.status, caught.value.code) == (503, "too_many_streams")
        assert caught.value.headers["Retry-After"] == "10"

    viewer = Principal(Kind.OPERATOR, Role.VIEWER, "Desk", operator_id="91ab03cd")
    operator = Principal(Kind.OPERATOR, Role.OPERATOR, "Night ops", operator_id="535dddaa")
    of_links = [await desk.open(link("m_00000001")) for _ in range(20)]
    await refused(link("m_00000001"))
    of_links += [await desk.open(link("m_00000002")) for _ in range(20)]
    of_viewers = [await desk.open(viewer) for _ in range(120)]
    for who in (viewer, link("m_00000003")):
        await refused(who)
    of_team = [await desk.open(who) for who in [operator, OWNER_BY_KEY] * 20]
    await refused(operator)
    assert len(of_links + of_viewers + of_team) == live.STREAMS_MAX == 200
    assert desk.limiter.gauge_total("sse") == 0, "visitors have places of their own"
    desk.feed.close(of_links[0])
    desk.feed.close(of_links[0])
    await refused(viewer)
    again = await desk.open(operator)
    await refused(operator)
    for stream in (again, of_team[0], of_viewers[0]):
        desk.feed.close(stream)
    await desk.open(operator)


@pytest.mark.req("ADM-102")
async def test_every_stream_is_looked_at_again_at_each_tick(desk: Desk) -> None:
    cookie, session = await desk.sessions.begin(OWNER_BY_KEY)
    _, other = await desk.sessions.begin(OWNER_BY_KEY)
    ended, kept, by_key = await desk.open(session), await desk.open(other), await desk.open()
    elsewhere = Sessions(
        keyring=Keyring("s" * 32),
        proofs=HolderProofs(Keyring("s" * 32), Secret("k" * 16)),
        store=desk.sessions._store,
        people=desk.sessions._people,
        now=live.wall_ms,
    )
    await elsewhere.end([cookie])
    for stream in (ended, kept, by_key):
        await stream.next()

    await desk.tick()
    await desk.tick()

    assert await ended.next() is REVOKED
    assert await ended.next() is None
    for stream in (kept, by_key):
        assert data_of(await stream.next())["delta"] is False


@pytest.mark.req("ADM-102")
async def test_an_expired_session_loses_its_stream(desk: Desk) -> None:
    _, session = await desk.sessions.begin(OWNER_BY_KEY)
    stream = await desk.open(session)
    await stream.next()
    desk.sessions._now = lambda: live.wall_ms() + 12 * 3600 * 1000

    await desk.tick()

    assert await stream.next() is REVOKED


@pytest.mark.req("ADM-105")
async def test_a_stream_that_cannot_be_confirmed_stays_for_a_while_and_ends_without_revoked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, session = await desk.sessions.begin(OWNER_BY_KEY)
    stream = await desk.open(session)
    await stream.next()
    clock = [live.mono()]
    monkeypatch.setattr(live, "mono", lambda: clock[0])
    gone, there = Valkey("unix:///nonexistent.sock", timeout_ms=100), desk.sessions._store
    away = AdminStore(gone, "x:")

    for store, later in ((away, 0), (away, 29.9), (there, 0), (away, 1), (away, 29.9)):
        desk.sessions._store = store
        clock[0] += later
        await desk.tick()
        assert "delta" in data_of(await stream.next())
    clock[0] += 0.2
    await desk.tick()

    assert await stream.next() is None
    await gone.close()


async def test_the_worst_wait_leaves_out_rooms_that_stand_still(desk: Desk) -> None:
    views = []
    for room_id, state, waiting, rate in (
        ("a", RoomState.ACTIVE, 30, 60),
        ("b", RoomState.ACTIVE, 10, 60),
        ("c", RoomState.PAUSED, 99, 60),
        ("d", RoomState.ACTIVE, 5, 0),
        ("e", RoomState.PAUSED, 0, 60),
        ("f", RoomState.BYPASS, 70, 60),
    ):
        views.append(await standing(desk, room_id, state=state, waiting=waiting, rate_per_minute=rate))

    assert live_frames.worst_wait(views) == {
        "sec": 30,
        "kind": "estimate",
        "roomId": "a",
        "excluded": 2,
        "notAdmitting": 2,
    }
    standing_still = {"sec": None, "kind": "infinite", "roomId": None, "excluded": 0, "notAdmitting": 2}
    nobody = {"sec": 0, "kind": "estimate", "roomId": None, "excluded": 0, "notAdmitting": 0}
    assert live_frames.worst_wait(views[2:4]) == standing_still
    assert live_frames.worst_wait(views[4:]) == nobody
    assert live_frames.worst_wait([])["sec"] is None
    shown = {view.room.id: room_object(view) for view in views}
    assert (shown["a"]["estWaitSec"], shown["a"]["estWaitInfinite"]) == (30, False)
    assert (shown["c"]["estWaitSec"], shown["c"]["estWaitInfinite"]) == (None, True)
    assert (shown["d"]["estWaitSec"], shown["d"]["estWaitInfinite"]) == (None, True)
    assert (shown["e"]["estWaitSec"], shown["e"]["estWaitInfinite"]) == (0, False)


async def standing(desk: Desk, room_id: str, **figures: Any) -> Any:
    """A view of a room with these figures."""

    config = RoomConfig(RoomId(room_id), room_id, TARGET)
    await desk.process.engine.create(config, gen=1, salt=bytes(16), actor=ACTOR)
    view = await desk.process.service.view(room_id)
    assert view.figures is not None
    release = 0.0 if figures["state"] is not RoomState.ACTIVE else float(figures["rate_per_minute"])
    return replace(view, figures=replace(view.figures, release_per_min=release, **figures))


async def test_it_shows_an_incident_while_a_room_takes_nobody_new(desk: Desk, process: Process, house: House) -> None:
    await process.engine.create(RoomConfig(RoomId("shop"), "Shop", TARGET), gen=1, salt=bytes(16), actor=ACTOR)
    key = RoomKeys(process.prefix, "shop").refused_joins
    found = []
    for reason in ("line", "memory", None):
        await (house.valkey.execute("SET", key, reason) if reason else house.valkey.execute("DEL", key))
        await process.rooms.reload(RoomId("shop"))
        await desk.look()
        found.append(desk.health.incidents())

    assert [[(one.code, one.severity, one.room_id) for one in incidents] for incidents in found] == [
        [("joins_refused", "critical", "shop")], [("joins_refused", "critical", "shop")], [],
    ]  # fmt: skip
    assert [incidents[0].text for incidents in found[:2]] == [
        "Shop takes nobody new: the line is as long as QM_LINE_MAX allows",
        "Shop takes nobody new: Valkey is short of memory",
    ]
