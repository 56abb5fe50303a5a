"""What an upsert promises beyond its fields: identity, its answer, when it answers, what becomes of it in an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from app.core.errors import BadRequest, StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.domain.room import RoomState
from app.services.room_object import room_object
from app.services.rooms import NotRecorded
from tests.admin.callers import TARGET as PAGE
from tests.admin.callers import Caller, code, fresh_id
from tests.admin.conftest import House, Process
from tests.admin.test_rooms_service import ACTOR, TARGET, journaled, save, until


@pytest.mark.req("ENG-024")
async def test_a_room_cannot_be_renamed(process: Process) -> None:
    """Another id is another room, no field holds a new one, and none can be left out."""
    await save(process, targetUrl=TARGET, name="Shop")

    refusals = [
        ({"id": "store", "name": "Shop"}, "target_url_required"),
        ({"id": "shop", "newId": "store"}, "unknown_field"),
        ({"id": "shop", "roomId": "store"}, "unknown_field"),
        ({"id": 5, "name": "Shop"}, "invalid_room_id"),
        ({"name": "Shop"}, "invalid_room_id"),
    ]
    for body, refused in refusals:
        with pytest.raises(BadRequest) as caught:
            await process.service.upsert(body, actor=ACTOR)
        assert caught.value.code == refused
    assert [(view.room.id, view.room.config.name) for view in await process.service.views()] == [("shop", "Shop")]


@pytest.mark.req("ENG-051")
async def test_it_replaces_lists_and_objects_whole(process: Process) -> None:
    rule = {"id": "a", "action": "protect", "pattern": "/a"}
    await save(
        process, targetUrl=TARGET, returnOrigins=["https://a.example", "https://b.example"], rules=[rule],
        autoActivate={"enabled": True, "joinsPerMin": 5, "sustainSec": 7},
    )  # fmt: skip

    saved = await save(
        process, returnOrigins=["https://c.example"], rules=[{**rule, "id": "b"}], autoActivate={"enabled": True}
    )

    shown = room_object(saved.view)
    assert shown["returnOrigins"] == ["https://c.example"]
    assert [kept["id"] for kept in shown["rules"]] == ["b"]
    given = {"enabled": True, "joinsPerMin": 120, "sustainSec": 60, "releaseAfterSec": 300}
    assert {name: shown["autoActivate"][name] for name in given} == given
    assert saved.changed == ("returnOrigins", "rules", "autoActivate")
    cleared = await save(process, returnOrigins=[], rules=[], autoActivate=None)
    assert {cleared.view.room.config.rules, cleared.view.room.config.return_origins} == {()}


@pytest.mark.req("ENG-058")
async def test_it_answers_the_room_as_it_is_after_the_change(process: Process) -> None:
    made = await save(process, targetUrl=TARGET, presenceSec=5)
    changed = await process.service.upsert(
        {"id": "shop", "rate": 7, "name": "New", "queueMaxPerIp": 16, "waiting": 3, "rules": []}, actor=ACTOR
    )

    assert (made.created, made.changed) == (True, ("id", "targetUrl", "presenceSec"))
    assert [(w["code"], bool(w["message"])) for w in made.warnings] == [("short_timing", True)]
    assert (changed.created, changed.changed, changed.ignored) == (False, ("name", "rate"), ("waiting",))
    assert changed.warnings == []
    shown = room_object(changed.view)
    assert (shown["name"], shown["rate"], shown["waiting"], shown["presenceSec"]) == ("New", 7, 0, 5)


@pytest.mark.req("ENG-059")
async def test_it_answers_only_what_is_committed_but_for_state_and_rate(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(process, targetUrl=TARGET)
    await house.stop_drainer()
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.2)

    async def act(call: Any) -> Any:
        """By a process of its own: one that saw a commit fail refuses before it changes anything."""
        one = await house.process()
        return await call(one)

    for fields in ({"state": "paused"}, {"rate": 5}, {"state": "active", "rate": 6}, {"ratePerMinute": 7}):
        saved = await act(lambda one, fields=fields: save(one, **fields))
        assert saved.changed
    for call in (
        lambda one: save(one, name="Other"),
        lambda one: save(one, state="bypass", name="Other 2"),
        lambda one: save(one, "drop", targetUrl=TARGET),
        lambda one: one.service.delete("shop", actor=ACTOR),
    ):
        with pytest.raises(NotRecorded):
            await act(call)
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]
    await house.start_drainer()
    await until(lambda: journaled(house, 8))


@pytest.mark.req("ENG-055")
def test_it_takes_a_json_object_of_at_most_64_kib(owner: Caller, room: str) -> None:
    for body in (b"[]", b'[{"id":"x"}]', b'"id"', b"5", b"null", b"true", b"{", b'{"id":}', b"\xff"):
        assert code(owner("POST", "/api/admin/rooms", body)) == (400, "bad_json"), body
    assert code(owner("POST", "/api/admin/rooms", {"name": "No id"})) == (400, "invalid_room_id")
    whole = b'{"id":"%s","name":"Fits"}' % room.encode()
    fits = owner("POST", "/api/admin/rooms", whole.ljust(64 * 1024))
    assert (fits.status_code, fits.json()["changed"]) == (200, ["name"])
    assert code(owner("POST", "/api/admin/rooms", whole.ljust(64 * 1024 + 1))) == (413, "body_too_large")


@pytest.mark.req("ENG-058", "ENG-059")
def test_it_answers_200_to_a_new_room_too(owner: Caller) -> None:
    room_id = fresh_id()
    body = {"id": room_id, "targetUrl": PAGE, "waiting": 5, "presenceSec": 5}

    made = owner("POST", "/api/admin/rooms", body)
    again = owner("POST", "/api/admin/rooms", body)
    owner("DELETE", f"/api/admin/rooms/{room_id}")

    assert (made.status_code, made.json()["created"], again.status_code) == (200, True, 200)
    assert set(made.json()) == {"room", "created", "changed", "ignoredFields", "warnings"}
    assert (again.json()["created"], again.json()["changed"]) == (False, [])
    assert made.json()["ignoredFields"] == ["waiting"]
    assert {"code", "message"} <= set(made.json()["warnings"][0])
    assert made.json()["room"]["presenceSec"] == 5


@pytest.mark.req("ENG-002", "FLT-028", "FLT-030")
@pytest.mark.req("CFG-041")
async def test_a_copy_is_refreshed_by_a_hint_and_at_the_latest_by_the_resync(house: House, process: Process) -> None:
    """The copy that gating reads without asking anybody; the hint is lost in the second half."""
    other = await house.process()
    await save(process, targetUrl=TARGET, name="One")
    await until(lambda: (copy := other.rooms.get("shop")) and copy.config.name == "One")

    await save(process, name="Two", onBackendDown="open", protection={"mode": "enforce"})
    await until(lambda: (copy := other.rooms.get("shop")) and copy.config.name == "Two")
    config = other.rooms.all()[0].config
    assert (config.on_backend_down, config.protection and config.protection.mode) == ("open", "enforce")
    await process.engine.update(RoomId("shop"), {"name": "Three", "on_backend_down": "closed"}, actor=ACTOR)  # no hint

    await until(lambda: (copy := other.rooms.get("shop")) and copy.config.name == "Three")
    assert other.rooms.all()[0].config.on_backend_down == "closed"


@pytest.mark.req("ENG-002")
async def test_every_process_answers_the_same_and_goes_on_where_the_other_stopped(
    house: House, process: Process
) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET, rate=60)

    async def shown(one: Process) -> dict[str, Any]:
        return room_object(await one.service.view("shop"))

    acts: list[tuple[Awaitable[Any], str, Any]] = [
        (process.line.pause("shop", actor=ACTOR), "state", "paused"),
        (other.line.set_rate("shop", {"rate": 9}, actor=ACTOR), "rate", 9),
        (process.line.resume("shop", actor=ACTOR), "state", "active"),
        (save(other, maxConcurrent=4), "maxConcurrent", 4),
    ]
    for act, name, value in acts:
        await act
        mine, theirs = await asyncio.gather(shown(process), shown(other))
        assert mine == theirs
        assert mine[name] == value


async def test_a_light_change_and_a_heavy_one_in_one_body_wait_together(house: House, process: Process) -> None:
    await save(process, targetUrl=TARGET)

    saved = await save(process, state="paused", name="Closed")

    assert saved.changed == ("name", "state")
    assert await house.journal() == [(1, FactType.ROOM_CREATED), (1, FactType.ROOM_UPDATED)]
    assert saved.view.figures is not None
    assert saved.view.figures.state is RoomState.PAUSED


@pytest.mark.req("ENG-007")
async def test_a_change_that_commits_failed_for_holds_when_it_is_repeated(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(process, targetUrl=TARGET)
    await house.stop_drainer()

    with monkeypatch.context() as impatient:
        impatient.setattr("app.services.commit.DEADLINE_SEC", 0.2)
        with pytest.raises(StorageUnavailable) as caught:
            await save(process, maxConcurrent=5)
    await house.start_drainer()
    await until(lambda: not process.commits.refusing(), 15)

    assert (caught.value.status, caught.value.code) == (503, "storage_unavailable")
    assert (await save(process, maxConcurrent=5)).view.room.config.max_concurrent == 5
    assert await house.journal() == [(1, FactType.ROOM_CREATED), (1, FactType.ROOM_UPDATED)]
