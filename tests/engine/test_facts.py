"""Facts and records as bytes."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

from app.domain.facts import (
    FactBody,
    FactType,
    UnknownFact,
    decode_body,
    encode_body,
    encode_element,
    fact_type,
    split_element,
)
from app.domain.facts_of_doors import DrawBegun, Drawn, DrawPart, Prejoined, Scheduled
from app.domain.facts_of_passes import (
    AdmissionWithdrawn,
    Admitted,
    Lapsed,
    Promoted,
    PromotedBy,
    Reclaimed,
    Run,
    SlotGiven,
    SlotReleased,
)
from app.domain.facts_of_rooms import ClockMoved, RoomCreated, RoomDeleted, RoomUpdated
from app.domain.facts_of_tickets import Ejected, Joined, JoinWithdrawn, Left, OwnerRebound, Purged
from app.domain.layout import DoorRecord, TicketRecord, pack_header, unpack_header

AT = 1_788_253_200_123
FLUSHED = Promoted(PromotedBy.FLUSH, AT, AT + 1, (Run(1, 5, 3), Run(6, 900, 2)), 412, "Zoë")
EVERY: list[FactBody] = [
    RoomCreated({"id": "shop", "name": "é/"}, bytes(range(16)), "op", 3, 1),
    RoomUpdated({"rate_per_minute": 9, "max_concurrent": None}, "système", "autotune", 2, AT),
    RoomDeleted("op", 4_000_000),
    Joined(7, b"i" * 16, b"a" * 8, b"c" * 16, b"s" * 16, b"l" * 16, 256),
    JoinWithdrawn(7, 2**33),
    Promoted(1, AT, AT + 1, (Run(1, 5, 3), Run(7, 1, 0))),
    FLUSHED,
    Promoted(PromotedBy.FLUSH, AT, 0, (Run(6, 1, 2),), 1, ""),
    SlotGiven(AT, (1, 2, 4_000_000_000)),
    SlotReleased(2, (9,)),
    Admitted(7, 2, b"d" * 16, AT),
    AdmissionWithdrawn(7, 12, 3, AT, AT + 1, 0),
    Joined(8, b"i" * 16, b"a" * 8, b"c" * 16, b"s" * 16, b"l" * 16, 5, b"f" * 16),
    Reclaimed(7, AT, AT + 1),
    OwnerRebound(7, b"s" * 16, b"l" * 16),
    OwnerRebound(0, b"s" * 16, b"l" * 16, place=9),
    OwnerRebound(7, b"s" * 16, b"l" * 16, b"f" * 16),
    Lapsed(3, (1, 2)),
    Left((1,)),
    Ejected(7, 3, "Zoë"),
    Purged(412, 400, 12, "Zoë"),
    Scheduled({"opens_at": AT, "pre_queue_max_per_ip": None}, "système", 12, 2, AT),
    Prejoined(7, b"i" * 16, b"h" * 16, b"a" * 8, b"c" * 16, b"s" * 16, b"l" * 16),
    JoinWithdrawn(0, 2**33, 7),
    Left((), (7, 8)),
    DrawBegun(1, AT, 9, 41, 7, b"r" * 32),
    DrawPart(3, (9, 4_000_000_000)),
    Drawn(1, AT, 41, 7, 5, b"r" * 32, b"d" * 32),
    ClockMoved(AT),
]


@pytest.mark.parametrize("fact", EVERY, ids=lambda fact: type(fact).__name__)
def test_it_reads_back_every_fact(fact: FactBody) -> None:
    element = split_element(encode_element(AT, fact))

    assert (element.type, element.lv, element.at) == (fact_type(fact), 1, AT)
    assert element.decode() == fact


@pytest.mark.req("ENG-253")
def test_it_has_the_types_that_the_contract_lists() -> None:
    """Those of ENG-254 to ENG-270, and ENG-303; a draw comes in parts, since one fact of it would be huge."""
    text = (Path(__file__).parents[2] / "docs" / "spec" / "02-engine.md").read_text()
    chapter = text.split("## 22.")[1].split("**ENG-271**")[0]
    listed = re.findall(r"`([a-z_]+)` \((?:B|C)\b", chapter)

    assert len(listed) == 20
    assert {kind.word for kind in FactType} == {*listed, "draw_begun", "draw_part"}


def test_it_covers_every_type() -> None:
    assert {fact_type(fact) for fact in EVERY} == set(FactType)


def test_it_refuses_what_it_does_not_know() -> None:
    body = encode_element(AT, RoomDeleted("op"))[10:]

    for kind, lv, data in ((99, 1, body), (3, 2, body), (3, 0, body), (3, 1, b"{"), (6, 1, b"short"), (18, 1, b"abc")):
        with pytest.raises(UnknownFact):
            decode_body(kind, lv, data)
    with pytest.raises(UnknownFact):
        split_element(b"short")


@pytest.mark.parametrize("fact", EVERY, ids=lambda fact: type(fact).__name__)
def test_it_raises_nothing_but_unknown_fact_for_a_body_cut_anywhere(fact: FactBody) -> None:
    """By this error alone a reader of the journal tells a damaged body (ENG-251)."""
    body = encode_body(fact)

    for end in range(len(body)):
        with suppress(UnknownFact):
            decode_body(fact_type(fact), 1, body[:end])


def test_it_refuses_a_flush_that_has_lost_a_run() -> None:
    body = encode_body(FLUSHED)
    runs = len(body) - len("Zoë".encode()) - 2 * 9

    for end in (runs, runs + 9):
        with pytest.raises(UnknownFact):
            decode_body(FactType.PROMOTED, 1, body[:end])


def test_it_reads_back_records() -> None:
    ticket = TicketRecord(2, 3, 0, 4_000_000_000, AT, b"a" * 8, b"c" * 16, b"s" * 16, b"l" * 16, 256)
    door = DoorRecord(AT, 3, 1, 2, 3, 4, 5, 6, b"d" * 16)

    assert TicketRecord.unpack(ticket.pack()) == ticket
    assert DoorRecord.unpack(door.pack()) == door
    assert unpack_header(pack_header({"gen": 3, "credit": 0.5}))["credit"] == 0.5
