"""Which facts are noted, and what is said of schedules and draws."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from app.domain.actor import Actor, actor_members, actor_name, actor_of_tail, actor_tail
from app.domain.facts import encode_body, encode_element, fact_type
from app.domain.facts_of_doors import Drawn, Scheduled
from app.domain.facts_of_passes import Lapsed, Promoted, PromotedBy, Run
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.facts_of_tickets import Ejected, Purged
from app.domain.notes import Note, blocked_note, is_noted, notes_of, rebuilt_note

AT = 1_700_000_000_000
ROOT = Path(__file__).resolve().parents[2]
CONTRACT = (ROOT / "docs/spec/05-admin-api-and-access.md").read_text("utf-8")


def note(fact: object) -> Note:
    kind, body = fact_type(fact), encode_body(fact)  # type: ignore[arg-type]
    (made,) = notes_of(kind, 1, AT, body, {})
    return made


def test_it_notes_acts_and_not_what_happens_by_itself() -> None:
    runs = (Run(1, 2, 3),)
    tick, flush = (Promoted(by, AT, AT, runs, 2, "ann") for by in (PromotedBy.TICK, PromotedBy.FLUSH))

    assert [is_noted(encode_element(AT, fact)) for fact in (tick, flush, Lapsed(1, (1,)), Ejected(1, 1, "ann"))] == [
        False, True, False, True,
    ]  # fmt: skip


def test_it_tells_of_a_schedule_who_stands_in_the_pre_queue() -> None:
    opened = note(Scheduled({"opens_at": AT}, "ann", 0, 2, AT))
    moved = note(Scheduled({"opens_at": AT, "pre_queue_max_per_ip": 4}, "ann", 12, 2, AT))
    cancelled = note(Scheduled({"opens_at": None}, "ann", 12, 2, AT))

    assert (opened.action, opened.detail, opened.text) == (
        *("room.schedule", "opensAt", "doors open at 2023-11-14T22:13:20Z"),
    )
    assert moved.detail == "preQueueMaxPerIp, opensAt; 12 in the pre-queue"
    assert cancelled.detail == "cancelled; 12 in the pre-queue are drawn at once"
    assert (cancelled.mark, cancelled.text) == ("schedule", "schedule cancelled, 12 in the pre-queue drawn at once")


def test_it_tells_of_a_draw_its_numbers_and_the_digest_of_the_order() -> None:
    drawn = note(Drawn(1, AT, 1, 1234, 900, b"s" * 32, b"\xab" * 32))

    assert (drawn.action, drawn.mark, drawn.actor, drawn.actor.kind) == ("room.draw", "draw", "system", "system")
    assert drawn.text == "1234 places of 900 addresses drawn, order " + "ab" * 32


def test_it_takes_an_actor_without_more_for_what_the_name_says() -> None:
    for name, kind in (("system", "system"), ("ann", "operator")):
        updated = note(RoomUpdated({"state": 1}, name, "operator", 2, AT))
        assert (updated.actor, updated.actor.kind) == (name, kind)


def test_it_brings_an_actor_back_from_a_fact() -> None:
    ann = Actor('A "n" n', kind="operator", ident="1", role="owner", ip="::1", instance="i:a")
    tail = actor_tail(ann).encode()

    again = actor_of_tail(tail)

    assert (again, again.kind, again.ident, again.role, again.ip, again.instance) == (
        *(ann, "operator", "1", "owner", "::1", "i:a"),
    )
    assert actor_name(tail) == ann
    assert actor_members("plain") == '"plain"'
    assert actor_tail("plain") == "plain"


@pytest.mark.req("ADM-195")
def test_it_marks_every_kind_of_change_of_the_contract() -> None:
    before = {"state": 0, "rate_per_minute": 60}
    figures: dict[str, Any] = {"joins_per_min": 131, "seconds": 60, "threshold": 120, "old": 60, "new": 90}
    facts: list[Any] = [
        RoomUpdated({"name": "Shop"}, "ann", "operator", 2, AT),
        RoomUpdated({"state": 1}, "ann", "operator", 2, AT),
        RoomUpdated({"rate_per_minute": 90}, "ann", "operator", 2, AT),
        RoomUpdated({"state": 0}, "system", "threshold", 2, AT, figures),
        RoomUpdated({"rate_per_minute": 90}, "system", "autotune", 2, AT, figures),
        Scheduled({"opens_at": AT}, "ann", 0, 2, AT),
        Drawn(1, AT, 1, 1234, 900, b"s" * 32, b"\xab" * 32),
        Promoted(PromotedBy.FLUSH, AT, AT, (Run(1, 2, 3),), 2, "ann"),
        Purged(3, 2, 1, "ann"),
        Ejected(1, 1, "ann"),
    ]
    notes = [one for fact in facts for one in notes_of(fact_type(fact), 1, AT, encode_body(fact), before)]
    notes += [blocked_note(AT, 3), rebuilt_note(AT, facts=9, tickets=3, seconds=0.1)]

    kinds = re.search(r"\(kind: ([a-z_ |]+)\)", CONTRACT)
    assert kinds
    of_pools = {"origin"}
    assert {one.mark for one in notes} == set(kinds[1].split(" | ")) - of_pools
    assert all(one.at == AT and one.text and one.actor for one in notes)


@pytest.mark.req("ADM-250")
def test_it_notes_no_action_but_those_of_the_contract_and_all_of_them() -> None:
    (told,) = re.findall(r"\*\*ADM-250\*\* The actions are: (.*?)\. Besides those of other files: (.*)", CONTRACT)
    own, others = (set(re.findall(r"`([a-z_]+\.[a-z_]+)`", part)) for part in told)
    groups = "|".join(sorted({action.partition(".")[0] for action in own | others}))
    found: set[str] = set()
    for folder in ("app", "blueprints", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(re.findall(rf'"((?:{groups})\.[a-z_]+)"', path.read_text("utf-8")))

    assert own <= found, "an action of the contract that nothing notes"
    assert found <= own | others, "an action that the contract does not have"
    page = (ROOT / "static/console/audit.js").read_text("utf-8").partition("const ACTIONS = [")[2].partition("]")[0]
    assert sorted(re.findall(r'"([^"]+)"', page)) == sorted(own), "the console's choice"
