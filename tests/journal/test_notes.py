"""Audit trail and timeline: each act on a room is noted in the transaction that journals it."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.actor import Actor
from app.domain.automation import AutoActivate
from app.domain.facts import FactType
from app.domain.notes import blocked_note, rebuilt_note
from app.infrastructure.engine_auto import Switched, Tuning
from app.infrastructure.journal import Batch
from app.infrastructure.notes_store import AuditQuery, NotesStore
from app.infrastructure.room_directory import RoomDirectory
from app.services.notes import Notes
from tests.journal.history import advance
from tests.journal.house import House

SHOP = RoomId("shop")
ANN = Actor("Ann", kind="operator", ident="535dddaa", role="operator", ip="198.51.100.4", instance="i:one")


async def audit(house: House) -> list[dict[str, Any]]:
    await house.drain("shop")
    return [dict(row) for row in await house.postgres.fetch("SELECT * FROM audit ORDER BY id")]


async def marks(house: House) -> list[tuple[str, str, str]]:
    await house.drain("shop")
    rows = await house.postgres.fetch("SELECT kind, text, actor FROM timeline ORDER BY id")
    return [(row["kind"], row["text"], row["actor"]) for row in rows]


def told(entries: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(entry["action"], entry["detail"], entry["actor"]) for entry in entries]


@pytest.mark.req("ADM-258")
async def test_it_keeps_who_what_when_and_from_where(house: House) -> None:
    await house.create("shop")
    await house.admin.update(SHOP, {"state": 1}, actor=ANN)
    figures = (await house.admin.figures([SHOP]))[SHOP]

    created, paused = await audit(house)

    at = paused.pop("ts")
    assert figures.now - 5000 < at <= figures.now
    assert paused == {
        "id": created["id"] + 1, "actor": "Ann", "actor_kind": "operator", "actor_id": "535dddaa", "role": "operator",
        "action": "room.state", "room": "shop", "detail": "active → paused", "ok": True, "ip": "198.51.100.4",
        "instance": "i:one",
    }  # fmt: skip
    assert (created["action"], created["actor"], created["ip"]) == ("room.create", "test", None)
    store = NotesStore(house.postgres)
    for who in ("Ann", "535dddaa"):
        assert [entry["id"] for entry in await store.audit(AuditQuery(actor=who))] == [paused["id"]]


@pytest.mark.req("ENG-068", "ENG-194", "OBS-180", "ENG-255")
async def test_it_notes_every_change_by_hand_with_actor_and_numbers(house: House) -> None:
    await house.create("shop", rate_per_minute=60, state=1)
    for who in range(3):
        await house.join("shop", who)
    await house.admin.update(SHOP, {"state": 0, "rate_per_minute": 90, "max_concurrent": 5, "name": "X"}, actor=ANN)
    await house.admin.eject(SHOP, 2, actor=ANN)
    await house.admin.flush(SHOP, actor=ANN)
    await house.read("shop")
    await house.admin.update(SHOP, {"state": 1}, actor=ANN)
    await house.join("shop", "later")
    await house.admin.purge(SHOP, actor=ANN)

    entries = told(await audit(house))

    assert [entry for entry in entries if entry[0] != "room.create"] == [
        ("room.state", "paused → active", "Ann"),
        ("room.rate", "60 → 90", "Ann"),
        ("room.update", "name, maxConcurrent", "Ann"),
        ("visitor.eject", "ticket 2 (was waiting)", "Ann"),
        ("room.flush", "2 let in", "Ann"),
        ("room.state", "active → paused", "Ann"),
        ("room.purge", "1 waiting and 0 in the pre-queue dropped", "Ann"),
    ]
    assert await marks(house) == [
        ("settings", "room created", "test"),
        ("state", "paused → active", "Ann"),
        ("rate", "rate 60 → 90/min", "Ann"),
        ("settings", "settings: name, maxConcurrent", "Ann"),
        ("eject", "ticket 2 (was waiting) ejected", "Ann"),
        ("flush", "2 let in", "Ann"),
        ("state", "active → paused", "Ann"),
        ("purge", "1 waiting and 0 in the pre-queue dropped", "Ann"),
    ]
    assert all(entry["ip"] == "198.51.100.4" for entry in await audit(house) if entry["actor"] == "Ann")


@pytest.mark.req("ENG-194", "ENG-220", "ADM-249", "OBS-180", "OBS-181")
async def test_it_notes_each_switch_by_threshold_with_the_numbers_that_caused_it(house: House) -> None:
    rule = AutoActivate(True, joins_per_min=2, sustain_sec=3, release_after_sec=4)
    await house.create("shop", state=2, auto_activate=rule, rate_per_minute=6000)
    copy = house.rooms["shop"]
    for who in range(3):
        await house.join("shop", who)
    await advance(house, "shop", 4)
    (opened,) = await house.auto.switch_many([(copy, rule)], leader=1)
    await advance(house, "shop", 66)
    (closed,) = await house.auto.switch_many([(copy, rule)], leader=1)
    assert isinstance(opened, Switched)
    assert isinstance(closed, Switched)
    up = "bypass → active: 3 joins/min for 3 s (threshold 2)"
    down = f"active → bypass: below it, nobody waiting, 0 joins/min for {closed.seconds} s (threshold 2)"

    entries = (await audit(house))[1:]

    assert told(entries) == [("threshold.open", up, "system"), ("threshold.close", down, "system")]
    assert {(entry["actor_kind"], entry["role"], entry["ip"], entry["instance"]) for entry in entries} == {
        ("system", None, None, "i:house")
    }
    assert (await marks(house))[1:] == [("activation", up, "system"), ("activation", down, "system")]
    assert len(await house.journaled("shop", FactType.ROOM_UPDATED)) == 2


@pytest.mark.req("ENG-194", "ENG-226", "OBS-180", "OBS-181")
async def test_it_notes_each_tuned_rate_with_the_figures(house: House) -> None:
    await house.create("shop", rate_per_minute=60)
    for who in range(3):
        await house.join("shop", who)
    slow = {
        "old": 60,
        "new": 48,
        "cause": "slow",
        "probes": 3,
        "failed_probes": 0,
        "median_ms": 1500,
        "target_ms": 1000,
    }
    bad = {"old": 48, "new": 24, "cause": "failing", "failed_probes": 2, "requests": 0, "failed_requests": 0}
    for figures in (slow, bad):
        (seen,) = await house.auto.tuning_many([SHOP])
        assert isinstance(seen, Tuning)
        assert await house.auto.tune(SHOP, seen, figures["new"], leader=1, hold_ms=0, figures=figures)  # type: ignore[arg-type]

    reasons = (
        "60 → 48: median 1500 ms of 3 probes (target 1000)",
        "48 → 24: 2 of the last 3 probes and 0 of 0 requests failed",
    )
    assert told(await audit(house))[1:] == [("autotune.rate", reason, "system") for reason in reasons]
    rates = [reason.replace(":", "/min:", 1) for reason in reasons]
    assert (await marks(house))[1:] == [("autotune", f"rate {rate}", "system") for rate in rates]


@pytest.mark.req("ADM-252")
async def test_it_writes_the_note_with_the_fact_or_neither(house: House) -> None:
    await house.create("shop")
    await house.admin.update(SHOP, {"rate_per_minute": 5}, actor=ANN)
    await house.postgres.execute("ALTER TABLE audit RENAME TO gone")

    pulled = await house.jobs.drain_next(SHOP, 0, 100)
    batch = Batch(SHOP, pulled.gen, pulled.epoch, pulled.base, pulled.elements)
    (answer,) = await house.journal.append([batch])

    assert answer.committed == 0
    assert await house.postgres.fetchval("SELECT count(*) FROM events") == 0
    await house.postgres.execute("ALTER TABLE gone RENAME TO audit")
    for _ in range(2):
        await house.journal.append([batch])
    assert await house.postgres.fetchval("SELECT count(*) FROM events") == 2
    assert [entry["action"] for entry in await audit(house)] == ["room.create", "room.rate"], "once, also when replayed"


@pytest.mark.req("ADM-246")
@pytest.mark.parametrize("statement", ["UPDATE audit SET detail = ''", "DELETE FROM audit", "TRUNCATE audit"])
async def test_it_refuses_to_change_the_audit_trail(house: House, statement: str) -> None:
    await house.create("shop")
    await house.drain("shop")

    with pytest.raises(asyncpg.RaiseError, match="only ever added to"):
        await house.postgres.execute(statement)

    assert [entry["action"] for entry in await audit(house)] == ["room.create"]


async def test_it_notes_a_deleted_room_and_its_successor(house: House) -> None:
    await house.create("shop")
    await house.admin.delete(SHOP, actor=ANN)

    assert told(await audit(house))[1:] == [("room.delete", "", "Ann")]


@pytest.mark.req("ADM-166")
async def test_the_timeline_of_a_room_ends_with_it_and_the_trail_and_journal_do_not(house: House) -> None:
    await house.create("shop")
    await house.create("other")
    await house.admin.update(SHOP, {"rate_per_minute": 5}, actor=ANN)
    await house.drain("other")
    assert len(await marks(house)) == 3

    await house.admin.delete(SHOP, actor=ANN)

    assert await marks(house) == [("settings", "room created", "test")]
    assert [entry[0] for entry in told(await audit(house))] == [
        "room.create",
        "room.create",
        "room.rate",
        "room.delete",
    ]
    facts = await house.postgres.fetch("SELECT type FROM events WHERE room = 'shop' ORDER BY seq")
    assert [row["type"] for row in facts] == [FactType.ROOM_CREATED, FactType.ROOM_UPDATED, FactType.ROOM_DELETED]


@pytest.mark.req("ADM-242", "OBS-183")
async def test_whoever_must_not_read_names_reads_operator_or_system(house: House) -> None:
    await house.create("shop")
    await house.admin.update(SHOP, {"rate_per_minute": 5}, actor=ANN)
    await house.admin.update(SHOP, {"state": 1}, actor=Actor("system", kind="operator"))
    await house.drain("shop")
    store = NotesStore(house.postgres)
    for mark in (blocked_note(wall_ms(), 2), rebuilt_note(wall_ms(), facts=3, tickets=1, seconds=0.25)):
        await store.add_mark(SHOP, mark)
    rooms = RoomDirectory(
        postgres=house.postgres, live=house.admin, valkey=house.valkey, prefix=house.prefix, resync_ms=60_000
    )
    notes = Notes(store, rooms)

    named = (await notes.timeline({"roomId": "shop"}))["items"]
    nameless = (await notes.timeline({}, with_names=False))["items"]

    assert [(item["kind"], item["actor"]) for item in named] == [
        ("settings", "test"),
        ("rate", "Ann"),
        ("state", "system"),
        ("protection_block", "system"),
        ("rebuilt", "system"),
    ]
    assert [item["actor"] for item in nameless] == ["operator", "operator", "operator", "system", "system"]
    assert [{**item, "actor": ""} for item in nameless] == [{**item, "actor": ""} for item in named]
    assert named[-1]["text"] == "rebuilt from 3 facts of the journal with 1 tickets in 0.2 s"


async def test_it_drops_marks_of_the_day_before(house: House) -> None:
    await house.create("shop")
    await house.admin.update(SHOP, {"rate_per_minute": 5}, actor=ANN)
    await house.drain("shop")
    store = NotesStore(house.postgres)
    first, second = await store.marks(SHOP, 0, None)
    await house.postgres.execute("UPDATE timeline SET ts = ts - 86400001 WHERE id = $1", first["id"])

    assert not await store.drop_marks(second["ts"] - 86_400_000)

    assert [mark["id"] for mark in await store.marks(SHOP, 0, None)] == [second["id"]]
    assert len(await audit(house)) == 2, "the trail is kept"


async def test_it_leaves_the_actors_of_facts_as_they_are_for_whoever_reads_them(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.admin.eject(SHOP, 1, actor=ANN)
    await house.admin.eject(SHOP, 1, actor="nobody")
    await house.admin.update(SHOP, {"rate_per_minute": 5}, actor="plain")

    assert [(entry[0], entry[2]) for entry in told(await audit(house))[1:]] == [
        ("visitor.eject", "Ann"), ("room.rate", "plain"),
    ]  # fmt: skip


async def test_it_journals_a_fact_of_a_later_build_without_a_note(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.admin.eject(SHOP, 1, actor=ANN)
    pulled = await house.jobs.drain_next(SHOP, 0, 100)
    later = [*pulled.elements[:-1], pulled.elements[-1][:1] + b"\x09" + pulled.elements[-1][2:]]

    (answer,) = await house.journal.append([Batch(SHOP, pulled.gen, pulled.epoch, pulled.base, later)])

    assert answer.committed == len(later)
    assert await house.postgres.fetchval("SELECT count(*) FROM audit") == 1


@pytest.mark.req("ADM-142", "OBS-180")
async def test_it_tells_both_values_when_an_inline_room_is_sent_elsewhere(house: House) -> None:
    """And nothing of it where no room is inline."""
    await house.create("shop")
    await house.admin.update(SHOP, {"target_url": "https://a.example", "name": "A"}, actor=ANN)
    await house.admin.update(SHOP, {"proxy_origin": "http://203.0.113.7:3000"}, actor=ANN)
    await house.admin.update(
        SHOP,
        {"proxy_origin": "http://203.0.113.8:3000", "target_url": "https://b.example", "presence_sec": 9},
        actor=ANN,
    )
    await house.admin.update(SHOP, {"proxy_origin": None}, actor=ANN)

    assert told(await audit(house))[1:] == [
        ("room.update", "name, targetUrl", "Ann"),
        ("room.inline", "proxyOrigin: none → http://203.0.113.7:3000", "Ann"),
        (
            "room.inline",
            "targetUrl: https://a.example → https://b.example; "
            "proxyOrigin: http://203.0.113.7:3000 → http://203.0.113.8:3000",
            "Ann",
        ),
        ("room.update", "presenceSec", "Ann"),
        ("room.inline", "proxyOrigin: http://203.0.113.8:3000 → none", "Ann"),
    ]
    assert await marks(house) == [
        ("settings", "room created", "test"),
        ("settings", "settings: name, targetUrl", "Ann"),
        ("settings", "settings: proxyOrigin", "Ann"),
        ("settings", "settings: targetUrl, proxyOrigin", "Ann"),
        ("settings", "settings: presenceSec", "Ann"),
        ("settings", "settings: proxyOrigin", "Ann"),
    ], "names alone: a monitor link reads them, and it must not read an internal address"


async def test_it_tells_where_a_room_that_is_made_inline_is_sent(house: House) -> None:
    await house.create("shop", proxy_origin="http://203.0.113.7:3000")

    assert told(await audit(house)) == [
        ("room.create", "", "test"),
        ("room.inline", "targetUrl: none → https://shop.example/; proxyOrigin: none → http://203.0.113.7:3000", "test"),
    ]
    assert await marks(house) == [("settings", "room created", "test")]
