"""Scheduling the doors of a room: the route, what it refuses, and a real opening."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.clock import mono, wall_ms
from app.core.errors import BadRequest, NoRoom, StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.domain.roles import Role
from app.infrastructure.engine import Engine
from app.infrastructure.lua_loader import LuaLoader
from app.services.line import RoomScheduled
from app.services.room_object import room_object
from app.services.rooms import NotRecorded
from blueprints.admin.line import ROUTES
from tests.admin.callers import TARGET, Caller, code, fresh_id
from tests.admin.conftest import House, Process
from tests.admin.test_line_acts import Visitor
from tests.harness import Server
from tests.journal.house import newcomer, until

DROP = RoomId("drop")
ACTOR = "Night ops"
HOUR_MS = 3_600_000


async def scheduled(process: Process, people: int = 0) -> int:
    """A room whose doors open in an hour, with people in its pre-queue."""
    opens_at = wall_ms() + HOUR_MS
    await process.make(DROP, opensAt=opens_at, preQueueMaxPerIp=None)
    room = process.rooms.get(DROP)
    assert room is not None
    engine = Engine(process.valkey, process.prefix, LuaLoader(process.valkey))
    for who in range(people):
        await engine.join(room, newcomer(who))
    return opens_at


async def shown(process: Process) -> dict[str, Any]:
    return room_object(await process.service.view(DROP))


@pytest.mark.req("ENG-168", "ADM-155", "ADM-156")
async def test_it_changes_only_what_was_sent(process: Process) -> None:
    opens_at = await scheduled(process)

    saved = await process.line.schedule(DROP, {"preQueueMaxPerIp": 4}, actor=ACTOR)

    assert (saved.changed, saved.drawn) == (("preQueueMaxPerIp",), None)
    room = await shown(process)
    assert (room["opensAt"], room["preQueueMaxPerIp"], room["effectiveState"]) == (opens_at, 4, "scheduled")
    later = await process.line.schedule(DROP, {"opensAt": opens_at + 1000}, actor=ACTOR)
    assert later.changed == ("opensAt",)
    room = await shown(process)
    assert (room["opensAt"], room["preQueueMaxPerIp"]) == (opens_at + 1000, 4)
    assert (await process.line.schedule(DROP, {"opensAt": opens_at + 1000}, actor=ACTOR)).changed == ()


@pytest.mark.req("ENG-169", "ADM-157", "ADM-159", "ENG-172")
async def test_it_cancels_by_an_explicit_null_alone(process: Process) -> None:
    await scheduled(process, people=3)
    for body, refused in (({}, "nothing_to_change"), ({"opens": 1}, "unknown_field"), ({"rate": 5}, "unknown_field")):
        with pytest.raises(BadRequest) as caught:
            await process.line.schedule(DROP, body, actor=ACTOR)
        assert caught.value.code == refused
    assert (await shown(process))["effectiveState"] == "scheduled"

    saved = await process.line.schedule(DROP, {"opensAt": None}, actor=ACTOR)

    assert (saved.changed, saved.drawn) == (("opensAt",), 3)
    assert (await shown(process))["opensAt"] is None
    with pytest.raises(NoRoom):
        await process.line.schedule("nope", {"opensAt": None}, actor=ACTOR)


@pytest.mark.req("ENG-170", "ENG-171", "ADM-158")
@pytest.mark.parametrize("way", ["schedule", "upsert"])
async def test_it_checks_a_time_alike_on_both_ways(process: Process, way: str) -> None:
    opens_at = await scheduled(process)

    async def send(value: Any) -> tuple[str, ...]:
        if way == "schedule":
            return (await process.line.schedule(DROP, {"opensAt": value}, actor=ACTOR)).changed
        return (await process.service.upsert({"id": DROP, "opensAt": value}, actor=ACTOR)).changed

    for value, refused in (
        (wall_ms() - 1, "opens_at_in_past"),
        (wall_ms() + 367 * 86_400_000, "invalid_opens_at"),
        ("2027-01-01T00:00:00", "invalid_opens_at"),
    ):
        with pytest.raises(BadRequest) as caught:
            await send(value)
        assert (caught.value.code, caught.value.members["fields"]) == (refused, ["opensAt"])
    assert (await shown(process))["opensAt"] == opens_at
    assert await send(opens_at) == ()
    assert await send(None) == ("opensAt",)


@pytest.mark.req("ENG-175", "ADM-134")
async def test_it_answers_after_the_commit(house: House, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    await scheduled(process)
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.3)
    await house.stop_drainer()

    with pytest.raises(NotRecorded):
        await process.line.schedule(DROP, {"opensAt": wall_ms() + 2 * HOUR_MS}, actor=ACTOR)
    with pytest.raises(StorageUnavailable):
        await process.line.schedule(DROP, {"preQueueMaxPerIp": 3}, actor=ACTOR)

    assert (1, FactType.SCHEDULED) not in await house.journal(DROP)
    await house.start_drainer()
    await until(lambda: _is_well(process), sec=15)
    await process.line.schedule(DROP, {"preQueueMaxPerIp": 3}, actor=ACTOR)
    assert (await house.journal(DROP)).count((1, FactType.SCHEDULED)) == 2


async def _is_well(process: Process) -> bool:
    return not process.commits.refusing()


@pytest.mark.req("ENG-188", "ENG-189")
async def test_it_is_never_flushed_and_may_be_purged(process: Process) -> None:
    await scheduled(process, people=3)

    with pytest.raises(RoomScheduled) as caught:
        await process.line.flush(DROP, actor=ACTOR)

    assert (caught.value.status, caught.value.code) == (409, "room_scheduled")
    assert (await shown(process))["preQueue"] == 3
    assert await process.line.purge(DROP, actor=ACTOR) == (0, 3)
    assert (await shown(process))["preQueue"] == 0
    assert await process.line.purge(DROP, actor=ACTOR) == (0, 0)


@pytest.mark.req("ENG-176", "ENG-062", "ENG-184", "ADM-115", "FLT-021")
def test_it_opens_the_doors_of_a_real_server_in_time(server: Server, owner: Caller) -> None:
    room = fresh_id()
    owner("POST", "/api/admin/rooms", {"id": room, "targetUrl": TARGET, "rate": 0, "preQueueMaxPerIp": None})
    schedule, opens_at = f"/api/admin/rooms/{room}/schedule", wall_ms() + HOUR_MS
    answer = owner("POST", schedule, {"opensAt": opens_at, "preQueueMaxPerIp": 64}).json()
    assert set(answer) == {"room", "changed", "warnings"}
    assert answer["changed"] == ["preQueueMaxPerIp", "opensAt"]
    shown = answer["room"]
    assert (shown["state"], shown["effectiveState"], shown["opensAt"]) == ("active", "scheduled", opens_at)
    assert code(owner("POST", f"/api/admin/rooms/{room}/flush")) == (409, "room_scheduled")
    visitors = [Visitor(server, room) for _ in range(5)]
    assert {(v.join()["state"], v.status()["preQueued"]) for v in visitors} == {("scheduled", True)}
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["preQueue"] == 5

    opens_at = wall_ms() + 1500
    assert owner("POST", schedule, {"opensAt": opens_at}).json()["changed"] == ["opensAt"]
    deadline = mono() + 10
    states = [v.status() for v in visitors]
    while any(state["state"] == "scheduled" for state in states) and mono() < deadline:
        assert all("ticket" not in state for state in states if state["state"] == "scheduled")
        states = [v.status() for v in visitors]

    assert sorted(state["ticket"] for state in states) == [1, 2, 3, 4, 5]
    told = owner("GET", f"/api/admin/rooms/{room}").json()["room"]
    assert (told["effectiveState"], told["opensAt"], told["preQueue"], told["waiting"]) == ("active", opens_at, 0, 5)
    assert opens_at <= told["drawnAt"] <= opens_at + 2000
    assert Visitor(server, room).join()["ticket"] == 6
    owner("DELETE", f"/api/admin/rooms/{room}")


def test_it_is_an_operators_right() -> None:
    assert {route.path: route.role for route in ROUTES}["rooms/<id>/schedule"] == Role.OPERATOR
