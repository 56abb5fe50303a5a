"""Rooms over real stores: create, change, delete, and what other processes see of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.core.errors import BadRequest, NoRoom, NoTicket, StorageUnavailable
from app.core.ids import RESERVED_IDS, RoomId
from app.domain.facts import FactType
from app.domain.room import RoomConfig, RoomState
from app.domain.room_fields import settings_json
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.lua_loader import LuaLoader
from app.services.room_object import room_object
from app.services.rooms import NotRecorded, StaleEtag
from tests.admin.conftest import House, Process

TARGET = "https://shop.example"
ACTOR = "ADMIN_KEY"


async def until(holds: Callable[[], Any], deadline_sec: float = 10.0) -> Any:
    """Poll until ``holds`` gives something true."""
    async with asyncio.timeout(deadline_sec):
        while True:
            found = holds()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


async def save(process: Process, room_id: str = "shop", **fields: Any) -> Any:
    return await process.service.upsert({"id": room_id, **fields}, actor=ACTOR)


async def test_it_makes_a_room_that_is_in_the_journal_when_it_answers(house: House, process: Process) -> None:
    saved = await save(process, targetUrl=TARGET, name="Shop", rate=120)

    assert (saved.created, saved.changed, saved.ignored, saved.warnings) == (
        True,
        ("id", "targetUrl", "name", "rate"),
        (),
        [],
    )
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]
    room = room_object(saved.view)
    assert (room["id"], room["generation"], room["state"], room["rate"]) == ("shop", 1, "active", 120)
    assert (room["waiting"], room["occupancy"], room["recovering"], room["stale"]) == (0, 0, False, False)
    assert room["waitP50Sec"] is None
    assert len(saved.view.room.salt) == 16


@pytest.mark.req("ENG-050", "ADM-127")
async def test_it_changes_exactly_the_fields_that_were_sent(process: Process) -> None:
    made = await save(process, targetUrl=TARGET, name="Shop", maxConcurrent=25, queueMaxPerIp=None)

    saved = await save(process, maxConcurrent=30, tagOrigins=[])

    assert made.created
    assert (saved.created, saved.changed) == (False, ("maxConcurrent", "tagOrigins"))
    before = settings_json(made.view.room.config)
    assert settings_json(saved.view.room.config) == {**before, "maxConcurrent": 30, "tagOrigins": []}


@pytest.mark.req("ENG-057")
async def test_it_writes_nothing_when_nothing_changes(house: House, process: Process) -> None:
    made = await save(process, targetUrl=TARGET)

    again = await save(process, targetUrl=TARGET, rate=60, rules=[], state="active")
    posted_back = await process.service.upsert(room_object(made.view), actor=ACTOR)

    assert (again.created, again.changed, posted_back.changed) == (False, (), ())
    assert "waiting" in posted_back.ignored
    assert "etag" in posted_back.ignored
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]
    assert posted_back.view.room.cfg_ver == 1


@pytest.mark.req("ADM-128")
async def test_it_refuses_a_mistyped_id_in_a_small_edit(house: House, process: Process) -> None:
    await save(process, targetUrl=TARGET)

    with pytest.raises(BadRequest) as caught:
        await save(process, "shpo", rate=5)

    assert caught.value.code == "target_url_required"
    assert await house.journal("shpo") == []


@pytest.mark.req("ENG-053", "ENG-054")
async def test_it_applies_nothing_of_a_body_with_one_bad_field(house: House, process: Process) -> None:
    before = (await save(process, targetUrl=TARGET)).view

    for bad in (
        {"rate": -1},
        {"ratePerMin": 5},
        {"opensAt": 1},
        {"rules": [{"id": "a"}]},
        {"rate": 1, "ratePerMinute": 2},
    ):
        with pytest.raises(BadRequest):
            await process.service.upsert({"id": "shop", "name": "Other", "maxConcurrent": 3, **bad}, actor=ACTOR)

    now = await process.service.view("shop")
    assert settings_json(now.room.config) == settings_json(before.room.config)
    assert now.figures is not None
    assert (now.figures.rate_per_minute, now.figures.state) == (60, RoomState.ACTIVE)
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]


@pytest.mark.req("ENG-056", "ADM-148")
async def test_it_keeps_both_of_two_changes_at_the_same_time(house: House, process: Process) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET)

    for turn in range(1, 6):
        await asyncio.gather(
            save(process, maxConcurrent=turn),
            save(other, presenceSec=20 + turn),
            save(process, rate=turn),
            save(other, name=f"Shop {turn}"),
        )
        room = room_object(await process.service.view("shop"))
        assert (room["maxConcurrent"], room["presenceSec"], room["rate"], room["name"]) == (
            turn,
            20 + turn,
            turn,
            f"Shop {turn}",
        )


async def test_it_makes_one_room_of_two_creations_at_the_same_time(house: House, process: Process) -> None:
    others = [await house.process() for _ in range(3)]

    answers = await asyncio.gather(*(save(p, targetUrl=TARGET, maxConcurrent=7) for p in [process, *others]))

    assert sorted(answer.created for answer in answers) == [False, False, False, True]
    assert {answer.view.room.generation for answer in answers} == {1}
    assert len({answer.view.room.salt for answer in answers}) == 1


async def test_it_counts_generations_over_deletions(house: House, process: Process) -> None:
    for generation in range(1, 4):
        saved = await save(process, targetUrl=TARGET)
        assert (saved.created, saved.view.room.generation) == (True, generation)
        deleted = await process.service.delete("shop", actor=ACTOR)
        assert deleted.generation == generation
        assert process.rooms.get("shop") is None

    assert await house.journal() == [
        (generation, kind) for generation in (1, 2, 3) for kind in (FactType.ROOM_CREATED, FactType.ROOM_DELETED)
    ]
    assert await process.rooms.find("shop") is None


@pytest.mark.req("ENG-023")
async def test_it_deletes_a_room_once(house: House, process: Process) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET)
    await until(lambda: other.rooms.get("shop"))

    answers = await asyncio.gather(
        process.service.delete("shop", actor=ACTOR), other.service.delete("shop", actor=ACTOR), return_exceptions=True
    )

    assert sorted(type(answer).__name__ for answer in answers) == ["Deleted", "NoRoom"]
    with pytest.raises(NoRoom):
        await process.service.delete("nope", actor=ACTOR)


async def test_it_shows_a_deleted_room_to_nobody_while_its_end_is_on_the_way_to_the_journal(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.3)
    other = await house.process()
    await save(process, targetUrl=TARGET)
    await until(lambda: other.rooms.get("shop"))
    await house.stop_drainer()

    with pytest.raises(NotRecorded):
        await process.service.delete("shop", actor=ACTOR)
    await until(lambda: other.rooms.get("shop") is None)
    for one in (process, other):
        await one.rooms._resync()
        assert await one.service.views() == []
        with pytest.raises(NotRecorded):
            await one.service.delete("shop", actor=ACTOR)

    await house.start_drainer()
    await until(lambda: not process.commits.refusing(), 15)
    with pytest.raises(NoRoom):
        await process.service.delete("shop", actor=ACTOR)
    assert await house.journal() == [(1, FactType.ROOM_CREATED), (1, FactType.ROOM_DELETED)]
    assert (await save(process, targetUrl=TARGET)).view.room.generation == 2


@pytest.mark.req("ENG-018", "ADM-132")
async def test_it_keeps_a_room_with_a_reserved_id_editable(house: House, process: Process) -> None:
    room_id = RoomId(min(RESERVED_IDS))
    await process.engine.create(RoomConfig(room_id, "old", TARGET), gen=1, salt=bytes(16), actor="import")
    await process.rooms.reload(room_id)

    saved = await save(process, room_id, name="Still here", rate=9)

    assert (saved.created, saved.changed) == (False, ("name", "rate"))


async def test_it_shows_a_change_to_every_process_at_its_next_look(house: House, process: Process) -> None:
    other = await house.process()
    await save(process, targetUrl=TARGET)

    assert await other.rooms.find("shop") is not None
    await save(process, name="New name", state="paused", rate=7)

    room = room_object(await other.service.view("shop"))
    assert (room["name"], room["state"], room["effectiveState"], room["rate"]) == ("New name", "paused", "paused", 7)
    await until(lambda: (copy := other.rooms.get("shop")) and copy.config.name == "New name")


async def test_it_keeps_what_was_compiled_from_a_copy_that_did_not_change(process: Process) -> None:
    await save(process, targetUrl=TARGET)
    copy = process.rooms.get("shop")
    assert copy is not None
    copy.compiled["mark"] = True

    assert await process.rooms.reload(RoomId("shop")) is copy


async def test_it_answers_a_change_of_state_and_rate_before_its_commit(house: House, process: Process) -> None:
    await save(process, targetUrl=TARGET)
    await house.stop_drainer()

    saved = await save(process, state="bypass", rate=5)
    paused = await process.line.pause("shop", actor=ACTOR)

    assert (saved.changed, paused.changed) == (("state", "rate"), ("state",))
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]
    await house.start_drainer()
    await until(lambda: journaled(house, 3))


async def journaled(house: House, number: int) -> bool:
    return len(await house.journal()) == number


async def test_it_claims_no_change_that_is_not_committed_and_makes_it_hold_when_repeated(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.3)
    await save(process, targetUrl=TARGET)
    await process.make("drop")
    await house.stop_drainer()

    for act in (save(process, maxConcurrent=5), save(process, maxConcurrent=5)):
        with pytest.raises(StorageUnavailable) as caught:
            await act
        assert (caught.value.code, caught.value.headers["Retry-After"]) == ("storage_unavailable", "5")
    assert await house.journal() == [(1, FactType.ROOM_CREATED)]

    await house.start_drainer()
    await until(lambda: not process.commits.refusing(), 15)
    saved = await save(process, maxConcurrent=5)
    assert saved.view.room.config.max_concurrent == 5
    assert await house.journal() == [(1, FactType.ROOM_CREATED), (1, FactType.ROOM_UPDATED)]


async def test_it_waits_for_an_unfinished_change_before_it_says_unchanged(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await save(process, targetUrl=TARGET)
    await house.stop_drainer()
    await process.engine.update(RoomId("shop"), {"max_concurrent": 5}, actor="other")
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.2)

    with pytest.raises(NotRecorded):
        await save(process, maxConcurrent=5)


@pytest.mark.req("ENG-037", "ENG-205")
async def test_it_warns_of_short_times_and_of_origins_nobody_returns_to(process: Process) -> None:
    rules = [
        {"action": "protect", "pattern": "https://www.shop.example/pay*"}, {"action": "protect", "pattern": "https://*.b.example/"},
        {"action": "skip", "pattern": "https://*.x.b.example/"}, {"action": "skip", "pattern": "https://shop.example/a"},
    ]  # fmt: skip

    made = await save(process, targetUrl=TARGET, presenceSec=14, passedTtlSec=29, sessionTtlSec=59, rules=rules)
    widened = await save(process, returnOrigins=["https://*.b.example", "https://www.shop.example"])
    unrelated = await save(process, rate=5)

    assert [(w["code"], w.get("field", w.get("origin"))) for w in made.warnings] == [
        ("short_timing", "presenceSec"), ("short_timing", "passedTtlSec"), ("short_timing", "sessionTtlSec"),
        ("rule_origin_not_returnable", "https://www.shop.example"), ("rule_origin_not_returnable", "https://*.b.example"),
        ("rule_origin_not_returnable", "https://*.x.b.example"),
    ]  # fmt: skip
    assert all(warning["message"] for warning in made.warnings)
    assert widened.warnings == []
    assert unrelated.warnings == []
    assert (await save(process, presenceSec=15, passedTtlSec=30, sessionTtlSec=60)).warnings == []


@pytest.mark.req("ADM-125")
async def test_it_refuses_a_save_over_somebody_elses_change(house: House, process: Process) -> None:
    other = await house.process()
    first = room_object((await save(process, targetUrl=TARGET)).view)["etag"]
    body = {"id": "shop", "name": "Mine"}

    await save(other, rate=5)
    with pytest.raises(StaleEtag) as caught:
        await process.service.upsert(body, actor=ACTOR, if_match=f'"{first}"')

    assert (caught.value.status, caught.value.code) == (409, "stale_room")
    now = caught.value.members["room"]
    assert (now["rate"], now["name"]) == (5, "shop")
    saved = await process.service.upsert(body, actor=ACTOR, if_match=f'"{now["etag"]}"')
    assert saved.changed == ("name",)
    assert (await process.service.upsert({"id": "shop", "name": "Any"}, actor=ACTOR, if_match="*")).changed == ("name",)
    assert (await save(process, name="No header")).changed == ("name",)
    with pytest.raises(StaleEtag):
        await process.service.upsert({"id": "gone", "targetUrl": TARGET}, actor=ACTOR, if_match="*")


async def test_it_lets_one_of_two_saves_of_the_same_reading_win(house: House, process: Process) -> None:
    other = await house.process()
    tag = '"' + room_object((await save(process, targetUrl=TARGET)).view)["etag"] + '"'

    answers = await asyncio.gather(
        process.service.upsert({"id": "shop", "name": "A"}, actor=ACTOR, if_match=tag),
        other.service.upsert({"id": "shop", "presenceSec": 60}, actor=ACTOR, if_match=tag),
        return_exceptions=True,
    )

    assert sorted(type(answer).__name__ for answer in answers) == ["Saved", "StaleEtag"]


@pytest.mark.req("ADM-151")
async def test_it_resumes_paused_rooms_only_and_pauses_from_every_state(process: Process) -> None:
    await save(process, targetUrl=TARGET)

    async def changed(act: Awaitable[Any]) -> tuple[tuple[str, ...], str]:
        saved = await act
        return saved.changed, room_object(saved.view)["state"]

    line = process.line
    assert await changed(line.resume("shop", actor=ACTOR)) == ((), "active")
    assert await changed(line.pause("shop", actor=ACTOR)) == (("state",), "paused")
    assert await changed(line.pause("shop", actor=ACTOR)) == ((), "paused")
    assert await changed(line.resume("shop", actor=ACTOR)) == (("state",), "active")
    assert await changed(line.set_state("shop", {"state": "bypass"}, actor=ACTOR)) == (("state",), "bypass")
    assert await changed(line.resume("shop", actor=ACTOR)) == ((), "bypass")
    assert await changed(line.pause("shop", actor=ACTOR)) == (("state",), "paused")


async def test_it_sets_the_rate_under_both_names(process: Process) -> None:
    await save(process, targetUrl=TARGET)

    by_one = await process.line.set_rate("shop", {"ratePerMinute": 120}, actor=ACTOR)
    by_other = await process.line.set_rate("shop", {"rate": 0}, actor=ACTOR)

    assert (by_one.changed, room_object(by_one.view)["rate"]) == (("rate",), 120)
    assert room_object(by_other.view)["rate"] == 0
    refused = [
        ({}, "invalid_rate"),
        ({"rate": -1}, "invalid_rate"),
        ({"rate": 1, "ratePerMinute": 2}, "conflicting_field"),
        ({"rate": 1, "state": "paused"}, "unknown_field"),
        ({"ratePerMinut": 1}, "unknown_field"),
    ]
    for body, code in refused:
        with pytest.raises(BadRequest) as caught:
            await process.line.set_rate("shop", body, actor=ACTOR)
        assert caught.value.code == code
    for body, code in (({}, "invalid_state"), ({"state": "off"}, "invalid_state"), ({"rate": 1}, "unknown_field")):
        with pytest.raises(BadRequest) as caught:
            await process.line.set_state("shop", body, actor=ACTOR)
        assert caught.value.code == code


@pytest.mark.parametrize("ticket", [None, 0, -1, 1.0, "1", True, 2**32, [1]])
async def test_it_ejects_no_ticket_on_a_guess(process: Process, ticket: Any) -> None:
    await save(process, targetUrl=TARGET)

    with pytest.raises(BadRequest) as caught:
        await process.line.eject("shop", {} if ticket is None else {"ticket": ticket}, actor=ACTOR)
    assert caught.value.code == "invalid_ticket"
    for body, code in (
        ({"ref": "K7Q2M"}, "invalid_ref"),
        ({"ref": 5}, "invalid_ref"),
        ({"ref": "K7Q2MX", "ticket": 1}, "invalid_ticket"),
        ({"tickets": 1}, "unknown_field"),
    ):
        with pytest.raises(BadRequest) as caught:
            await process.line.eject("shop", body, actor=ACTOR)
        assert caught.value.code == code
    with pytest.raises(NoTicket):
        await process.line.eject("shop", {"ticket": 1}, actor=ACTOR)
    with pytest.raises(NoRoom):
        await process.line.eject("nope", {"ticket": 1}, actor=ACTOR)


async def test_acts_on_an_unknown_room_are_no_room(process: Process) -> None:
    for act in (
        process.line.pause("nope", actor=ACTOR), process.line.resume("nope", actor=ACTOR), process.service.view("nope"),
        process.line.set_rate("nope", {"rate": 1}, actor=ACTOR), process.service.delete("-bad-", actor=ACTOR),
    ):  # fmt: skip
        with pytest.raises(NoRoom):
            await act


@pytest.mark.req("ADM-137")
async def test_a_room_that_was_deleted_elsewhere_is_not_listed_as_recovering(house: House, process: Process) -> None:
    await process.make("shop")
    await process.make("gone")
    other = EngineAdmin(house.valkey, house.prefix, LuaLoader(house.valkey))
    await other.delete(RoomId("gone"), actor=ACTOR)
    assert process.rooms.get("gone") is not None, "this process has not heard of it"

    assert [view.room.id for view in await process.service.views()] == ["shop"]
    with pytest.raises(NoRoom):
        await process.service.view("gone")


@pytest.mark.req("ADM-123", "ADM-137")
async def test_a_room_whose_live_state_is_lost_is_listed_and_never_no_room(house: House, process: Process) -> None:
    await save(process, targetUrl=TARGET, name="Shop")
    await process.make("drop")
    for key in await house.valkey.execute("KEYS", f"{house.prefix}{{shop}}*"):
        await house.valkey.execute("DEL", key)
    late = await house.process()

    for one in (process, late):
        shop, drop = map(room_object, await one.service.views())
        assert (shop["id"], shop["name"], shop["recovering"], shop["waiting"]) == ("shop", "Shop", True, None)
        assert (shop["estWaitSec"], shop["estWaitInfinite"], shop["lastTicket"]) == (None, None, None)
        assert (drop["recovering"], drop["waiting"]) == (False, 0)
        assert room_object(await one.service.view("shop"))["recovering"]
        for act in (
            one.line.pause("shop", actor=ACTOR), save(one, name="x"), save(one, targetUrl=TARGET, rate=1),
            one.service.delete("shop", actor=ACTOR), one.line.eject("shop", {"ticket": 1}, actor=ACTOR),
        ):  # fmt: skip
            with pytest.raises(StorageUnavailable):
                await act


@pytest.mark.req("ADM-111")
async def test_it_lists_rooms_in_order_of_creation(process: Process) -> None:
    for room_id in ("b", "c", "a"):
        await process.make(room_id)

    assert [view.room.id for view in await process.service.views()] == ["b", "c", "a"]
    await process.service.delete("b", actor=ACTOR)
    await process.make("b")
    assert [view.room.id for view in await process.service.views()] == ["c", "a", "b"]


async def test_a_process_that_starts_later_or_missed_every_hint_knows_the_rooms(house: House, process: Process) -> None:
    await process.make("a")
    await process.make("b")
    late = await house.process()

    assert [room.id for room in late.rooms.all()] == ["a", "b"]
    await process.service.delete("a", actor=ACTOR)
    await process.make("c", maxConcurrent=3)
    await until(lambda: [room.id for room in late.rooms.all()] == ["b", "c"])


async def test_made_up_ids_cost_a_bounded_number_of_look_ups(process: Process) -> None:
    asked: list[str] = []
    read = process.engine.read

    async def counted(room_id: RoomId) -> Any:
        asked.append(room_id)
        return await read(room_id)

    process.engine.read = counted  # type: ignore[method-assign]

    for number in range(500):
        assert await process.rooms.refresh(RoomId(f"made-up-{number}")) is None

    assert len(asked) < 400


@pytest.mark.req("ADM-137")
async def test_it_starts_without_stores_and_finds_the_rooms_when_they_are_there(house: House, process: Process) -> None:
    await process.make()
    lost = Process(type(house.valkey)("unix:///nonexistent.sock", timeout_ms=100), house.postgres, house.prefix)
    await lost.start()

    assert [room.id for room in lost.rooms.all()] == ["shop"]
    (view,) = await lost.service.views()
    shown = room_object(view)
    assert (shown["stale"], shown["recovering"], shown["waiting"], shown["name"]) == (True, False, None, "shop")
    assert shown["staleSince"] > 0
    with pytest.raises(StorageUnavailable):
        await lost.line.pause("shop", actor=ACTOR)
    await lost.stop()
    await lost.valkey.close()


async def test_it_reads_the_rooms_from_valkey_while_postgres_is_away(house: House, process: Process) -> None:
    await process.make()
    away = Process(house.valkey, type(house.postgres)("postgresql://nobody@/x?host=/nonexistent"), house.prefix)
    await away.start()

    assert [room.id for room in away.rooms.all()] == ["shop"]
    assert (await away.line.pause("shop", actor=ACTOR)).changed == ("state",)
    with pytest.raises(StorageUnavailable):
        await away.rooms.find("unknown-while-away")
    with pytest.raises(StorageUnavailable):
        await away.make("another")
    await away.stop()
