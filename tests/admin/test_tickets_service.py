"""Look-up of a visitor by ticket number or ref, over generations."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.errors import InvalidField, NoRoom
from app.core.ids import RoomId
from app.domain.layout import DOOR_BYTES
from app.domain.refs import ref_of
from app.domain.room import Room
from app.domain.tokens import handle_text
from app.infrastructure.engine import Engine
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.engine_results import JoinAnswer, Presented, Proof
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.services.draws import draw_room
from app.services.ref_index import TICKETS, RefIndex
from app.services.ref_search import RefsHere
from app.services.tickets import TicketLookup
from tests.admin.conftest import House, Process
from tests.journal.house import digest, holder, newcomer, until

TWINS = "r13860"
"""A room in whose first generation the tickets 107 and 111 have the ref EKDVST."""
DIGITS = "r183237"
"""A room in whose first generation ticket 21 has the ref 000017."""
SEARCHED = {"generations": 3, "ticketsPerGeneration": 50000}


class Line:
    """Visitors of one room and the look-up of one process."""

    def __init__(self, process: Process, room_id: str = "shop") -> None:
        self.process = process
        self.room_id = room_id
        loader = LuaLoader(process.valkey)
        self.engine = Engine(process.valkey, process.prefix, loader)
        self.lookup = TicketLookup(rooms=process.rooms, engine=EngineLookup(process.prefix, loader))

    async def open(self, count: int, **fields: Any) -> list[JoinAnswer]:
        """Make the room, nobody let in, and let ``count`` visitors join."""
        await self.process.make(self.room_id, rate=0, queueMaxPerIp=None, **fields)
        return await self.join(count)

    async def join(self, count: int) -> list[JoinAnswer]:
        room = await self.room()
        first = ref_of(self.room_id, room.generation, 0)
        return [await self.engine.join(room, newcomer((first, n))) for n in range(1, count + 1)]

    async def room(self) -> Room:
        room = await self.process.rooms.reload(RoomId(self.room_id))
        assert room is not None
        return room

    async def make_anew(self, count: int) -> None:
        """End the generation and begin the next one."""
        await self.process.service.delete(self.room_id, actor="op")
        await self.open(count)

    def ref(self, generation: int, ticket: int) -> str:
        return ref_of(self.room_id, generation, ticket)


@pytest.fixture
def line(process: Process) -> Line:
    return Line(process)


@pytest.mark.req("ENG-240", "ENG-244", "ADM-171", "ADM-173", "ADM-175", "ADM-176")
async def test_it_finds_a_waiting_visitor_by_number_ref_or_whatever_he_read_out(line: Line) -> None:
    await line.open(3)
    ref = line.ref(1, 2)

    by_number = await line.lookup.by_path("shop", "2")
    others = [
        await line.lookup.by_path("shop", ref),
        await line.lookup.by_ref("shop", ref.lower()),
        await line.lookup.by_query("shop", f" {ref[:3]}-{ref[3:]}"),
        await line.lookup.by_query("shop", " 2 "),
    ]

    moving = ("waitingSec", "joinedAt", "lastSeenAt")
    assert {name: value for name, value in by_number.items() if name not in moving} == {
        "roomId": "shop", "generation": 1, "ticket": 2, "ref": ref, "state": "waiting", "position": 2, "passedAt": None,
        "passExpiresAt": None, "sessionExpiresAt": None, "holdsSlot": False, "atDoor": False, "onSite": False,
        "present": True, "bound": {"cookie": True, "fingerprint": True},
    }  # fmt: skip
    assert 0 <= by_number["waitingSec"] < 60
    assert by_number["joinedAt"] - 200 <= by_number["lastSeenAt"] <= wall_ms() + 200, "kept in tenths"
    assert all(one["ticket"] == 2 and one.keys() == by_number.keys() for one in others)


@pytest.mark.req("ENG-240", "ENG-241", "ADM-175", "ADM-176", "ADM-178", "ADM-180")
async def test_it_shows_pass_session_and_end_with_the_wait_that_is_over(line: Line) -> None:
    await line.open(3)
    await line.process.engine.flush(RoomId("shop"), actor="op")
    await line.process.jobs.tick(RoomId("shop"))
    room, first = await line.room(), ref_of("shop", 1, 0)
    await line.engine.leave(room, holder((first, 3), 3))
    keys = RoomKeys(line.process.prefix, "shop")
    await line.process.valkey.execute("SETRANGE", keys.doors(1, 0), DOOR_BYTES, bytes(6))

    passed, unknown, over = [await line.lookup.by_path("shop", str(n)) for n in (1, 2, 3)]

    assert (passed["state"], passed["waitedSec"], passed["passExpiresAt"] - passed["passedAt"] > 0) == (
        "passed",
        0,
        True,
    )
    assert passed["passedAt"] >= passed["joinedAt"]
    assert (unknown["state"], unknown["passedAt"], unknown["waitedSec"]) == ("passed", None, None)
    assert unknown["passedUnknown"] is True, "never guessed"
    assert (over["state"], over["passExpiresAt"], over["waitedSec"], over["onSite"]) == ("expired", None, 0, False)
    assert over["passedAt"] == passed["passedAt"]
    for shown in (passed, unknown, over):
        assert "waitingSec" not in shown
        assert "recordDropped" not in shown
    await line.process.valkey.execute("SETRANGE", keys.tickets(1, 0), 2 * 72 + 8, bytes(6))
    dropped = await line.lookup.by_path("shop", "3")
    assert (dropped["state"], dropped["joinedAt"], dropped["passedAt"], dropped["waitedSec"]) == (
        *("expired", None, None, None),
    )
    assert (dropped["recordDropped"], dropped["passedUnknown"]) == (True, True)


@pytest.mark.req("ENG-246", "ADM-181")
async def test_it_lists_all_tickets_that_share_a_ref_and_picks_none(house: House, process: Process) -> None:
    line = Line(process, TWINS)
    await line.open(110)
    await house.stop_drainer()
    (last,) = await line.join(1)

    both = await line.lookup.by_ref(TWINS, "EKDVST")
    asked = await line.lookup.by_query(TWINS, "ekd-vst")
    await process.engine.undo_join(RoomId(TWINS), 1, last.seq, 111)
    left = await line.lookup.by_ref(TWINS, "EKDVST")

    listed = [{"ticket": 107, "state": "waiting"}, {"ticket": 111, "state": "waiting"}]
    assert both == {"roomId": TWINS, "ref": "EKDVST", "candidates": listed}
    assert asked == {"roomId": TWINS, "q": "ekd-vst", "candidates": listed}
    assert (left["ticket"], left["state"]) == (107, "waiting"), "a join that was withdrawn is nobody's"


@pytest.mark.req("ADM-172")
async def test_it_lists_both_when_digits_are_a_number_and_anothers_ref(process: Process) -> None:
    line = Line(process, DIGITS)
    await line.open(21)

    both = await line.lookup.by_query(DIGITS, "000017")
    number = await line.lookup.by_query(DIGITS, "17")
    ref = await line.lookup.by_ref(DIGITS, "000017")
    path = await line.lookup.by_path(DIGITS, "000017")

    assert [one["ticket"] for one in both["candidates"]] == [17, 21]
    assert (number["ticket"], ref["ticket"], path["ticket"]) == (17, 21, 17)


@pytest.mark.req("ENG-238", "ENG-247", "ENG-248", "ADM-174", "ADM-182", "ADM-183")
async def test_it_finds_a_ref_of_the_two_generations_before_and_never_takes_it_for_todays_ticket(line: Line) -> None:
    for count in (4, 6, 5):
        await (line.open(count) if count == 4 else line.make_anew(count))
    await line.make_anew(3)

    second, third = [await line.lookup.by_ref("shop", line.ref(generation, 5)) for generation in (2, 3)]
    first = await line.lookup.by_query("shop", line.ref(1, 1))
    never = await line.lookup.by_ref("shop", line.ref(3, 6))
    today = await line.lookup.by_ref("shop", line.ref(4, 3))
    not_issued = await line.lookup.by_path("shop", "4")

    hint = "The room was re-created; this visitor has to join again."
    for generation, found in ((2, second), (3, third)):
        assert found == {
            "roomId": "shop", "ref": line.ref(generation, 5), "state": "previous_generation",
            "generation": generation, "ticket": 5, "hint": hint,
        }  # fmt: skip
    assert first == {"roomId": "shop", "q": line.ref(1, 1), "state": "unknown", "searched": SEARCHED}
    assert never == {"roomId": "shop", "ref": line.ref(3, 6), "state": "unknown", "searched": SEARCHED}
    assert (today["ticket"], today["generation"]) == (3, 4)
    assert not_issued == {"roomId": "shop", "ticket": 4, "state": "unknown", "searched": SEARCHED}


def place_holder(who: object, handle: bytes) -> Proof:
    """Proof of the visitor who joined the pre-queue as ``newcomer(who)``."""
    strict = digest("strict", who)
    return Proof(Presented.HANDLE, 1, 0, digest("cookie", who), strict, digest("loose", who), handle=handle)


async def pre_queued(line: Line, count: int) -> list[bytes]:
    """A scheduled room with so many places; the handles."""
    await line.process.make("shop", rate=0, queueMaxPerIp=None, opensAt=wall_ms() + 3_600_000)
    room = await line.room()
    handles = []
    for n in range(count):
        view = (await line.engine.join(room, newcomer(n))).view
        assert view is not None
        handles.append(view.handle)
    assert len({*handles, b""}) == count + 1
    return handles


@pytest.mark.req("ENG-238", "ENG-242", "ENG-245", "ADM-174", "ADM-177")
async def test_it_finds_a_place_in_the_pre_queue_and_after_the_draw_its_ticket(line: Line) -> None:
    handles = await pre_queued(line, 5)
    refs = [ref_of("shop", 1, handle_text(handle)) for handle in handles]
    entered = await line.lookup.by_query("shop", refs[1])
    await line.engine.leave(await line.room(), place_holder(4, handles[4]))
    left = await line.lookup.by_ref("shop", refs[4])

    assert (entered["state"], entered["ticket"], entered["position"]) == ("prequeued", None, None)
    assert (entered["ref"], entered["present"], entered["onSite"]) == (refs[1], True, False)
    assert 0 <= entered["waitingSec"] < 60
    assert (left["state"], left["ticket"]) == ("expired", None)
    assert (await line.lookup.by_path("shop", "1"))["state"] == "unknown"

    await line.process.make("shop", opensAt=None)
    await line.process.jobs.tick(RoomId("shop"))
    assert (await line.lookup.by_path("shop", "1"))["state"] == "unknown", "taken by the draw, and told to nobody"
    assert (await line.lookup.by_ref("shop", refs[1]))["state"] == "prequeued"
    assert await draw_room(line.process.jobs, RoomId("shop")) is not None

    async def is_revealed() -> bool:
        await line.process.jobs.tick(RoomId("shop"))
        return bool((await line.lookup.by_ref("shop", refs[1]))["ticket"])

    await until(is_revealed)
    drawn = [await line.lookup.by_ref("shop", ref) for ref in refs[:4]]
    assert sorted(one["ticket"] for one in drawn) == [1, 2, 3, 4]
    for one in drawn:
        assert one == await line.lookup.by_path("shop", str(one["ticket"])) | {"waitingSec": one["waitingSec"]}
        assert one["state"] == "waiting"
    assert drawn[1]["joinedAt"] == entered["joinedAt"], "the wait counts from entering the pre-queue"


class Twins(RefsHere):
    """Handles are random, so two places with one ref cannot be arranged: the search says that they have it."""

    async def places(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        return [2, 3] if ref == "K7Q2MX" else []


@pytest.mark.req("ADM-181")
async def test_it_opens_one_of_several_places_without_a_number(line: Line, process: Process) -> None:
    handles = await pre_queued(line, 3)
    engine = EngineLookup(process.prefix, LuaLoader(process.valkey))
    lookup = TicketLookup(rooms=process.rooms, engine=engine, refs=Twins(engine))
    several = await lookup.by_query("shop", "k7q-2mx")
    second, third = several["candidates"]
    assert (several["q"], second["ticket"], second["state"], second["place"]) == ("k7q-2mx", None, "prequeued", 2)
    assert third == second | {"place": 3, "joinedAt": third["joinedAt"]}
    assert abs(third["joinedAt"] - wall_ms()) < 60_000

    one = await lookup.by_place("shop", "k7q-2mx", "3")
    assert (one["ref"], one["ticket"], one["state"]) == ("K7Q2MX", None, "prequeued")
    assert one["joinedAt"] == third["joinedAt"]
    await line.engine.leave(await line.room(), place_holder(2, handles[2]))
    assert (await lookup.by_place("shop", "K7Q2MX", "3"))["state"] == "expired"
    assert (await lookup.by_place("shop", "K7Q2MX", "2"))["state"] == "prequeued"
    assert (await lookup.by_place("shop", "K7Q2MX", "1"))["state"] == "unknown", "a place that has another ref"
    for ref, place in (("K7Q2MX", "x"), ("K7Q2MX", "9" * 30), ("", "3")):
        with pytest.raises(InvalidField):
            await lookup.by_place("shop", ref, place)


async def test_it_looks_again_for_places_that_have_come_since() -> None:
    index = RefIndex()
    given = [bytes([n, 1]) * 8 for n in range(1, 200)] * 20
    asked: list[int] = []

    async def handles(chunk: int) -> list[bytes]:
        asked.append(chunk)
        return given[chunk * 1024 : chunk * 1024 + 1024]

    ref = ref_of("shop", 1, handle_text(given[40]))
    assert await index.places("shop", 1, ref, 41, handles) == [41]
    assert await index.places("shop", 1, ref, 40, handles) == []
    assert await index.places("shop", 1, ref, 2000, handles) == [n for n in range(1, 2001) if n % 199 == 41]
    before = len(asked)
    assert len(await index.places("shop", 1, ref, 2000, handles)) == 10
    assert len(asked) == before, "nothing is read twice"
    assert await index.places("shop", 2, ref, 41, handles) == []


@pytest.mark.req("ADM-183")
async def test_it_refuses_what_is_neither_number_nor_ref(line: Line) -> None:
    await line.open(1)

    for text in ("", " ", "K7Q", "K7Q-2MXX", "K7U2MX", "1" * 33, "-1", "1.5", "K7Q_2M"):
        with pytest.raises(InvalidField) as refused:
            await line.lookup.by_query("shop", text)
        assert refused.value.code == "invalid_q", text
        if text != "1" * 33:
            with pytest.raises(InvalidField) as refused:
                await line.lookup.by_path("shop", text)
            assert refused.value.code == "invalid_ticket", text
    with pytest.raises(InvalidField) as refused:
        await line.lookup.by_ref("shop", "12")
    assert refused.value.code == "invalid_ref"
    with pytest.raises(NoRoom):
        await line.lookup.by_path("nobody", "1")
    assert (await line.lookup.by_path("shop", "9" * 30))["state"] == "unknown"
    assert (await line.lookup.by_path("shop", "0"))["state"] == "unknown"


@pytest.mark.req("ENG-247")
async def test_it_searches_the_first_50000_tickets_of_a_generation() -> None:
    index = RefIndex()

    assert TICKETS == 50_000
    assert await index.tickets("shop", 1, ref_of("shop", 1, 50_000), 60_000) == [50_000]
    assert await index.tickets("shop", 1, ref_of("shop", 1, 50_001), 60_000) == []
    assert await index.tickets("shop", 1, ref_of("shop", 1, 50_000), 49_999) == []
    assert await index.tickets("shop", 1, ref_of("shop", 1, 20), 19) == []
    assert await index.tickets("shop", 2, ref_of("shop", 1, 20), 50_000) == []


async def test_it_lets_others_have_their_turn_while_it_hashes() -> None:
    index, turns = RefIndex(), 0
    search = asyncio.ensure_future(index.tickets("shop", 1, ref_of("shop", 1, 7), 50_000))
    while not search.done():
        turns += 1
        await asyncio.sleep(0)

    assert turns >= 100
    assert await search == [7]
