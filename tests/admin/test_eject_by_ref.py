"""Taking somebody out by the ref he reads out: never on a guess (ADM-162, ADM-163, ADM-164)."""

from __future__ import annotations

import pytest

from app.core.errors import QmError, StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.engine_results import TicketState
from app.services import ref_index
from app.services.ref_index import RefIndex
from tests.admin.conftest import House, Process
from tests.admin.test_tickets_service import TWINS, Line
from tests.journal.house import until

ACTOR = "ADMIN_KEY"


async def refused(process: Process, room_id: str, ref: str) -> QmError:
    with pytest.raises(QmError) as caught:
        await process.line.eject(room_id, {"ref": ref}, actor=ACTOR)
    return caught.value


async def states(line: Line) -> list[TicketState]:
    room = await line.room()
    looked = await line.lookup._look(room.id, list(range(1, 112)))
    return [ticket.state for ticket in looked.tickets]


@pytest.mark.req("ADM-163")
async def test_it_ejects_the_one_holder_of_a_ref_and_nobody_when_it_is_not_one(process: Process) -> None:
    line = Line(process, TWINS)
    await line.open(111)

    done = await process.line.eject(TWINS, {"ref": line.ref(1, 5).lower()}, actor=ACTOR)
    both = await refused(process, TWINS, "ekd-vst")
    nobody = await refused(process, TWINS, "000000")

    assert done == (5, "waiting")
    assert both.body() | {"error": ""} == {
        "error": "",
        "code": "ambiguous_ref",
        "candidates": [{"ticket": 107, "state": "waiting"}, {"ticket": 111, "state": "waiting"}],
    }
    assert (both.status, nobody.status, nobody.code) == (409, 404, "no_ticket")
    found = await states(line)
    assert [n for n, state in enumerate(found, 1) if state is not TicketState.WAITING] == [5]


@pytest.mark.req("ADM-163")
async def test_a_ref_of_an_earlier_generation_ejects_nobody(process: Process) -> None:
    line = Line(process)
    await line.open(3)
    await line.make_anew(3)

    old = await refused(process, "shop", line.ref(1, 2))

    assert (old.status, old.code, old.members) == (409, "previous_generation", {"generation": 1})
    assert (await states(line))[:3] == [TicketState.WAITING] * 3
    # The number was found in one generation, and the room is made anew before it is used.
    found = process.line._tickets.holder_of

    async def slow(room: object, ref: str) -> object:
        ticket = await found(room, ref)  # type: ignore[arg-type]
        await line.make_anew(3)
        return ticket

    process.line._tickets.holder_of = slow  # type: ignore[assignment, method-assign]
    late = await refused(process, "shop", line.ref(2, 2))
    assert (late.status, late.code) == (409, "previous_generation")
    assert (await states(line))[:3] == [TicketState.WAITING] * 3


@pytest.mark.req("ADM-163")
async def test_it_looks_through_the_whole_line_and_not_only_the_part_that_is_searched_by_name(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TICKETS", "SLICE"):
        monkeypatch.setattr(ref_index, name, 4)
    line = Line(process, TWINS)
    await line.open(111)
    index = RefIndex()

    found = [await index.beyond(TWINS, 1, "EKDVST", last) for last in (106, 107, 110, 111)]
    assert found == [[], [107], [107], [107, 111]]
    assert (await refused(process, TWINS, "EKDVST")).code == "ambiguous_ref"
    assert await process.line.eject(TWINS, {"ref": line.ref(1, 110)}, actor=ACTOR) == (110, "waiting")


@pytest.mark.req("ADM-164")
@pytest.mark.parametrize("act", ["eject", "purge", "flush"])
async def test_an_act_that_was_answered_503_is_finished_by_the_next_one(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    line = Line(process)
    await line.open(3)
    await until(lambda: is_stored(process))
    await house.stop_drainer()
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.2)

    async def once() -> object:
        if act == "eject":
            return await process.line.eject("shop", {"ticket": 2}, actor=ACTOR)
        return await getattr(process.line, act)("shop", actor=ACTOR)

    with pytest.raises(StorageUnavailable):
        await once()
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 10)
    await house.start_drainer()
    await until(lambda: is_not_refusing(process))
    again = await once()

    kind = {"eject": FactType.EJECTED, "purge": FactType.PURGED, "flush": FactType.PROMOTED}[act]
    assert again == {"eject": (2, "ejected"), "purge": (0, 0), "flush": 0}[act]
    assert [type_ for _, type_ in await house.journal()].count(kind) == 1, "the first one, and no second"


async def is_stored(process: Process) -> bool:
    _, seq, committed = await process.engine.committed(RoomId("shop"))
    return seq == committed


async def is_not_refusing(process: Process) -> bool:
    return not process.commits.refusing()
