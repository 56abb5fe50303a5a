"""What each fact does to a folded room, and what follows from the whole."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest

from app.domain.facts import FactBody, UnknownFact, encode_element
from app.domain.facts_of_passes import (
    AdmissionWithdrawn,
    Admitted,
    Lapsed,
    Promoted,
    Released,
    Run,
    SlotGiven,
    SlotReleased,
)
from app.domain.facts_of_rooms import RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, Joined, JoinWithdrawn, Left
from app.domain.fold import RoomFold
from app.domain.fold_image import RoomImage, make_image
from app.domain.fold_tickets import BrokenJournal
from app.domain.layout import TICKET_BYTES, Flag, TicketRecord, unpack_header
from app.domain.ticket_state import TicketState, Why
from app.infrastructure.journal import outbox_to_row

BORN = 1_700_000_000_000
NOW = BORN + 3_600_000
KEY = bytes(range(16))
BOTH = Flag.SLOT | Flag.PAID


class Story:
    """Facts told one after the other, a second apart."""

    def __init__(self, **config: Any) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.tell(RoomCreated({"id": "shop", "name": "Shop", "target_url": "https://x/", **config}, KEY, "a", 1, 1))

    def tell(self, *facts: FactBody) -> Story:
        for fact in facts:
            seq = len(self.rows) + 1
            kind, lv, at, _, body = outbox_to_row(encode_element(BORN + (seq - 1) * 1000, fact))
            self.rows.append((seq, kind, lv, at, body))
        return self

    def join(self, *numbers: int) -> Story:
        return self.tell(*(joined(n) for n in numbers))

    def promote(self, first: int, count: int = 1, flags: int = BOTH) -> Story:
        at = BORN + len(self.rows) * 1000
        return self.tell(Promoted(1, at + 600_000, at + 120_000 if flags else 0, (Run(first, count, flags),)))

    def fold(self, now: int = NOW) -> RoomFold:
        fold = RoomFold(now)
        fold.feed(self.rows)
        return fold

    def image(self, now: int = NOW) -> RoomImage:
        return make_image(self.fold(now))


def joined(n: int, address: int | None = None) -> Joined:
    unit = n.to_bytes(8, "big")
    return Joined(n, unit * 2, (address or n).to_bytes(8, "big"), unit * 2, unit * 2, unit * 2)


def ticket(fold: RoomFold, n: int) -> TicketRecord:
    return TicketRecord.unpack(bytes(fold.tickets[(n - 1) * TICKET_BYTES : n * TICKET_BYTES]))


def header(image: RoomImage) -> dict[str, float]:
    return unpack_header(image.header_bytes(epoch=7))


def test_it_gives_a_join_its_record_with_presence_now() -> None:
    fold = Story().join(1, 2).fold()

    record = ticket(fold, 2)

    assert (record.state, record.flags, record.why) == (TicketState.WAITING, 0, 0)
    assert record.joined_at == BORN + 2000
    assert record.seen == (NOW - BORN) // 100
    assert (record.addr, record.cookie) == ((2).to_bytes(8, "big"), (2).to_bytes(8, "big") * 2)


def test_it_counts_the_waiting_and_who_left_beyond_the_head() -> None:
    image = Story().join(1, 2, 3, 4, 5).promote(1).tell(Left((3,))).image()

    fields = header(image)

    assert [fields[name] for name in ("last_ticket", "head", "removed", "pending", "active")] == [5, 1, 1, 1, 0]
    assert image.removed == bytes([0b0001_0000])
    assert ticket(image.records, 3)[:3] == (TicketState.EXPIRED, 0, Why.LEFT)


def test_it_gives_a_pass_with_the_recorded_ends_and_slot() -> None:
    fold = Story().join(1, 2).promote(1).promote(2, flags=0).fold()

    assert ticket(fold, 1)[:2] == (TicketState.PASSED, BOTH)
    assert (fold.door(1).passed_at, fold.door(1).pass_end, fold.door(1).claim_end) == (BORN + 3000, 6030, 1230)
    assert ticket(fold, 2)[:2] == (TicketState.PASSED, 0)
    assert fold.door(2).claim_end == 0


def test_it_promotes_long_runs_over_chunks() -> None:
    story = Story().tell(*(joined(n) for n in range(1, 2501))).promote(1, 2400)

    image = story.image(BORN + 2_600_000)

    assert {ticket(image.records, n).state for n in (1, 1024, 1025, 2400)} == {TicketState.PASSED}
    assert ticket(image.records, 2401).state == TicketState.WAITING
    assert header(image)["pending"] == 2400
    assert len(image.deadlines) == 2400


def test_it_takes_the_slot_over_into_the_session() -> None:
    fold = Story().join(1).promote(1).tell(Admitted(1, 1, KEY, BORN + 3000)).fold()

    door = fold.door(1)

    assert ticket(fold, 1)[:2] == (TicketState.ACTIVE, BOTH | Flag.ADMITTED_ONCE)
    assert (door.before, door.first_admitted, door.admitted, door.admission_seq, door.door) == (BOTH, 30, 30, 4, KEY)
    assert door.used_at == fold.now_ds


def test_it_restores_the_pass_when_an_admission_is_withdrawn() -> None:
    story = Story().join(1).promote(1)
    before = story.fold()
    story.tell(Admitted(1, 1, KEY, BORN + 3000))

    fold = story.tell(AdmissionWithdrawn(1, 4, BOTH, BORN + 2000, BORN + 602_000, BORN + 122_000)).fold()

    assert ticket(fold, 1)[:2] == (TicketState.PASSED, BOTH)
    door = fold.door(1)
    assert (door.passed_at, door.pass_end, door.claim_end) == before.door(1)[0:1] + before.door(1)[2:4]
    assert (door.door, door.admission_seq) == (bytes(16), 0)


def test_it_ignores_the_withdrawal_of_another_admission() -> None:
    story = Story().join(1).promote(1).tell(Admitted(1, 1, KEY, BORN + 3000))

    fold = story.tell(AdmissionWithdrawn(1, 3, BOTH, BORN, BORN, BORN)).fold()

    assert ticket(fold, 1).state == TicketState.ACTIVE


def test_it_moves_slots_at_the_door() -> None:
    story = Story().join(1).promote(1).tell(SlotReleased(Released.CLAIM_OVER, (1,)))
    assert ticket(story.fold(), 1).flags == Flag.PAID

    story.tell(SlotGiven(BORN + 500_000, (1,)))
    assert ticket(story.fold(), 1).flags == BOTH | Flag.AT_DOOR
    assert story.fold().door(1).claim_end == 5000

    story.tell(SlotReleased(Released.CLAIM_OVER, (1,)))
    assert ticket(story.fold(), 1).flags == Flag.PAID | Flag.WASTED


@pytest.mark.parametrize("why", [Why.PASS_OVER, Why.SESSION_IDLE, Why.SESSION_MAX])
def test_it_ends_what_lapsed(why: Why) -> None:
    fold = Story().join(1).promote(1).tell(Lapsed(why, (1,))).fold()

    assert ticket(fold, 1)[:3] == (TicketState.EXPIRED, Flag.PAID, why)
    assert fold.door(1).passed_at == BORN + 2000


def test_it_forgets_the_times_of_an_ejected_ticket_and_keeps_its_owner() -> None:
    fold = Story().join(1).promote(1).tell(Ejected(1, TicketState.PASSED, "ann")).fold()

    record = ticket(fold, 1)

    assert record[:3] == (TicketState.EJECTED, 0, Why.EJECTED)
    assert (record.joined_at, fold.door(1).passed_at) == (0, 0)
    assert record.cookie == (1).to_bytes(8, "big") * 2


def test_it_takes_a_withdrawn_join_out_of_line_and_count() -> None:
    image = Story(queue_max_per_ip=2).tell(joined(1, address=9), joined(2, address=9), JoinWithdrawn(2, 3)).image()

    addresses = next(write[1] for write in image.writes() if write[0] == "i")

    assert addresses == [((9).to_bytes(8, "big"), 1)]
    assert header(image)["last_ticket"] == 2
    assert header(image)["removed"] == 1


def test_it_applies_changes_of_the_room() -> None:
    change = RoomUpdated({"rate_per_minute": 7, "max_concurrent": 3, "queue_max_per_ip": None}, "ann", "operator", 2, 5)

    fields = header(Story().tell(change).image())

    assert [fields[name] for name in ("rate", "max_concurrent", "ip_cap", "cfg_ver", "updated_at")] == [7, 3, 0, 2, 5]


@pytest.mark.req("ENG-038", "ENG-039")
def test_it_takes_sixteen_for_a_cap_that_was_never_stored_and_null_for_none() -> None:
    """A record of an older build lacks the field; a stored null means that nobody is counted."""
    never, none = Story(), Story(queue_max_per_ip=None, pre_queue_max_per_ip=None)

    caps = [[header(story.image())[name] for name in ("ip_cap", "pre_ip_cap")] for story in (never, none)]

    assert caps == [[16, 16], [0, 0]]
    assert (never.image().config.queue_max_per_ip, none.image().config.queue_max_per_ip) == (16, None)


@pytest.mark.req("ENG-243")
def test_it_keeps_the_times_of_the_last_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.domain.fold_tickets.RING_PLACES", 3)
    story = Story().join(*range(1, 8)).promote(1).promote(2).tell(Ejected(7, 1, "ann"))
    image = story.tell(Lapsed(Why.PASS_OVER, (1, 2)), Left((3, 4)), JoinWithdrawn(5, 6), Left((6,))).image()

    fold = image.records
    kept = {n: (ticket(fold, n).joined_at > 0, n < 3 and fold.door(n).passed_at > 0) for n in range(1, 8)}
    assert kept == {
        1: (False, False), 2: (False, False), 3: (True, False), 4: (True, False), 5: (True, False), 6: (True, False),
        7: (False, False),
    }  # fmt: skip
    assert header(image)["ended"] == 5
    assert [write for write in image.writes() if write[0] == "lp"] == [("lp", 0, struct.pack("<3I", 4, 6, 3))]
    assert RoomFold(NOW).ring == b""


def test_it_leaves_a_tombstone_of_a_deleted_room() -> None:
    image = Story().join(1, 2).tell(RoomDeleted("ann")).image()

    fields = header(image)

    assert [fields[name] for name in ("deleted", "last_ticket", "head", "active", "seq")] == [1, 2, 2, 0, 4]
    assert list(image.writes()) == []
    assert image.cfg() == {}


def test_it_starts_clocks_and_counters_afresh() -> None:
    fields = header(Story().join(1).image())

    assert fields["mono"] == NOW - BORN
    assert (fields["wall"], fields["t0"], fields["last_tick"]) == (NOW, BORN, NOW - BORN)
    assert fields["credit"] <= 1
    assert (fields["seq"], fields["committed"], fields["epoch"], fields["line_since"]) == (2, 2, 7, NOW - BORN)


def test_it_remembers_those_who_are_over_for_the_whole_time_from_the_rebuild_on() -> None:
    image = Story().tell(*(joined(n) for n in range(1, 1026))).tell(Left((1,))).image()

    ended = [(write[1], write[2]) for write in image.writes() if write[0] == "c"]

    assert ended == [(0, struct.pack("<II", image.records.now_ds, image.records.now_ds))]


def test_it_looks_at_each_pass_and_session_in_time() -> None:
    image = (
        Story(presence_sec=30, session_ttl_sec=60, session_max_sec=10_000)
        .join(1, 2, 3)
        .promote(1)
        .promote(2, flags=0)
        .promote(3)
        .tell(Admitted(3, 1, KEY, BORN + 7000))
        .image(BORN + 10_000)
    )

    assert image.deadlines == {1: 100 + 301, 2: 50 + 6000, 3: 100 + 600}


def test_it_lets_a_session_not_outlive_its_longest_time() -> None:
    story = Story(session_ttl_sec=60, session_max_sec=100).join(1).promote(1).tell(Admitted(1, 1, KEY, BORN + 3000))

    assert story.image(BORN + 90_000).deadlines == {1: 30 + 1000}


def test_it_lets_an_unlapsed_pass_past_its_end_stand_at_the_door() -> None:
    image = Story(presence_sec=30).join(1, 2).promote(1, flags=0).promote(2).image(BORN + 900_000)

    assert image.at_door == [1]
    assert ticket(image.records, 1).flags == Flag.AT_DOOR
    assert image.deadlines[1] == 9000 + 301


@pytest.mark.req("ENG-251")
@pytest.mark.parametrize(("kind", "lv"), [(99, 1), (6, 2), (17, 2), (4, 1)])
def test_it_refuses_a_fact_it_does_not_know(kind: int, lv: int) -> None:
    story = Story().join(1)
    story.rows.append((3, kind, lv, BORN + 9000, story.rows[1][4]))

    with pytest.raises(UnknownFact):
        story.fold()


def test_it_refuses_a_journal_with_a_gap() -> None:
    story = Story().join(1, 2, 3)
    del story.rows[2]

    with pytest.raises(BrokenJournal):
        story.fold()


def test_it_refuses_facts_about_tickets_never_issued() -> None:
    for fact in (Lapsed(1, (5,)), Promoted(1, 1, 1, (Run(1, 2, 3),)), Ejected(2, 1, ""), Admitted(1, 1, KEY, BORN)):
        with pytest.raises(BrokenJournal):
            Story().join(1).tell(fact).fold()


@pytest.mark.req("ENG-003")
def test_it_writes_in_slices_of_bounded_size() -> None:
    story = Story().tell(*(joined(n) for n in range(1, 5001)))

    writes = list(story.image(BORN + 6_000_000).writes())

    owners = [write[1] for write in writes if write[0] == "o"]
    assert list(itertools.chain(*owners)) == [(n.to_bytes(8, "big"), n) for n in range(1, 5001)]
    assert max(map(len, owners)) <= 2000
    assert [len(write[2]) for write in writes if write[0] == "t"] == [1024 * TICKET_BYTES] * 5
