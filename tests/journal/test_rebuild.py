"""A room that was lost comes back from its journal as it was."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.automation import AutoActivate
from app.domain.draw import draw, places_in
from app.domain.layout import Phase, pack_header, unpack_header
from app.infrastructure.engine_auto import Overtaken, Switched, Tuning
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import JoinCode, Presented, Proof, Reason, Verdict, ViewState, VisitorView
from app.infrastructure.keys import RoomKeys
from app.infrastructure.postgres import Postgres
from app.services.draws import draw_room
from tests.journal.folds import assert_checkpoints_agree
from tests.journal.house import House, door_of, entry, holder, newcomer
from tests.journal.snapshot import snapshot, without_fresh

SHOP = RoomId("shop")
ANY_TIME = 1 << 50
"""A clock of the instance that keeps no door shut: the one of the live store decides."""
BRISK = AutoActivate(True, 1, 1, 1)


async def lose_and_rebuild(house: House, room: str = SHOP) -> None:
    await house.drain(room)
    await house.lose_everything()
    with pytest.raises(RoomFenced):
        await house.engine.status(house.rooms[room], holder(0, 1))
    assert await house.recovery.ensure(RoomId(room))
    await house.read(room)


async def advance(house: House, room: str, sec: int) -> None:
    """Let the room's clock run on without waiting, in steps below the 5 s at which a step is cut."""
    key = RoomKeys(house.prefix, room).header
    for _ in range(sec):
        header = unpack_header(await house.valkey.execute("GET", key))
        header["offset"] += 1000
        await house.valkey.execute("SET", key, pack_header(header))
        await house.jobs.tick(RoomId(room), ANY_TIME)


async def keep_the_time(house: House, room: str) -> None:
    """Let the false clock of ``advance`` go on after a rebuild, which knows nothing of it."""
    key = RoomKeys(house.prefix, room).header
    header = unpack_header(await house.valkey.execute("GET", key))
    header["offset"] = header["wall"] - header["last_time"]
    header["last_time"] = header["wall"]
    await house.valkey.execute("SET", key, pack_header(header))


@pytest.mark.req("FLT-081", "ENG-276")
async def test_it_gives_every_ticket_its_number_and_place_again(house: House) -> None:
    await house.create("shop")
    for who in range(30):
        await house.join("shop", who)
    for who in (3, 7, 8, 29):
        await house.engine.leave(house.rooms["shop"], holder(who, who + 1))
    await house.admin.eject(SHOP, 11, actor="ann")
    before = {who: await house.engine.status(house.rooms["shop"], holder(who, who + 1)) for who in range(30)}

    await lose_and_rebuild(house)

    for who, view in before.items():
        again = await house.engine.status(house.rooms["shop"], holder(who, who + 1))
        assert (again.state, again.reason, again.ticket, again.ahead, again.joined_at) == (
            *(view.state, view.reason, view.ticket, view.ahead, view.joined_at),
        )
    stranger = await house.engine.status(house.rooms["shop"], holder("thief", 5))
    assert stranger.state == ViewState.GONE
    new = await house.join("shop", "late")
    assert new.view is not None
    assert (new.view.ticket, new.view.ahead) == (31, 25)


async def test_it_keeps_sessions_door_keys_and_slots(house: House) -> None:
    await house.create("shop", rate_per_minute=100_000, max_concurrent=2)
    for who in range(4):
        await house.join("shop", who)
    await advance(house, "shop", 5)
    for who in (0, 1):
        answer = await house.engine.check(house.rooms["shop"], entry(who, who + 1))
        assert answer.verdict is Verdict.ADMITTED

    await lose_and_rebuild(house)

    room = house.rooms["shop"]
    with_key = entry(0, 1)
    with_key = type(with_key)(holder(0, 1, doors=door_of(0)), True, door_of("other"), with_key.via)
    assert (await house.engine.check(room, with_key)).verdict is Verdict.SESSION
    stolen = type(with_key)(holder("thief", 1), True, door_of("thief"), with_key.via)
    assert (await house.engine.check(room, stolen)).verdict is Verdict.QUEUE
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.active, figures.pending_entry, figures.waiting, figures.occupancy) == (2, 0, 2, 2)
    await house.jobs.tick(SHOP)
    assert (await house.admin.figures([SHOP]))[SHOP].occupancy == 2


@pytest.mark.req("ENG-164")
async def test_it_keeps_counting_places_per_address(house: House) -> None:
    await house.create("shop", queue_max_per_ip=2)
    for who in range(2):
        await house.join("shop", who, address="home")

    await lose_and_rebuild(house)

    assert (await house.join("shop", "third", address="home")).view is None
    await house.engine.leave(house.rooms["shop"], holder(0, 1))
    assert (await house.join("shop", "third", address="home")).view is not None


@pytest.mark.req("ENG-296")
async def test_it_keeps_counting_slots_per_address(house: House) -> None:
    await house.create("shop", rate_per_minute=100_000, max_concurrent=10, session_max_per_ip=2)
    for who in range(4):
        await house.join("shop", who, address="home")
    await advance(house, "shop", 2)
    room = house.rooms["shop"]
    assert (await house.engine.check(room, entry(0, 1))).verdict is Verdict.ADMITTED

    await lose_and_rebuild(house)

    room = house.rooms["shop"]
    assert (await house.admin.figures([SHOP]))[SHOP].top_address_slots == 2
    assert (await house.engine.check(room, entry(2, 3))).reason is Reason.AT_CAPACITY
    await house.engine.leave(room, holder(0, 1))
    await advance(house, "shop", 1)
    assert (await house.engine.check(room, entry(2, 3))).verdict is Verdict.ADMITTED
    assert (await house.engine.check(room, entry(3, 4))).reason is Reason.AT_CAPACITY


async def test_it_takes_up_the_journal_where_it_stood(house: House) -> None:
    await house.start_drainer()
    await house.create("shop")
    await house.join_committed("shop", 0)
    await lose_and_rebuild(house)

    assert await house.join_committed("shop", 1) is not None

    rows = await house.postgres.fetch("SELECT seq FROM events ORDER BY seq")
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert await house.postgres.fetchval("SELECT epoch FROM room_heads") == 2


async def test_it_brings_back_what_an_operator_set(house: House) -> None:
    await house.create("shop", rate_per_minute=5)
    await house.admin.update(SHOP, {"rate_per_minute": 77, "name": 'Märkte "/"'}, actor="ann")
    await house.admin.update(SHOP, {"state": 1}, actor="ann")
    before = await house.read("shop")

    await lose_and_rebuild(house)

    assert house.rooms["shop"] == before
    assert (await house.admin.figures([SHOP]))[SHOP].rate_per_minute == 77


@pytest.mark.req("ENG-216")
async def test_it_keeps_what_the_next_automatic_decision_rests_on(house: House) -> None:
    await house.create("shop", state=2, rate_per_minute=6000, auto_activate=BRISK)
    await house.admin.update(SHOP, {"rate_per_minute": 600}, actor="ann")
    copy = house.rooms["shop"]
    await house.join("shop", 1)
    await advance(house, "shop", 3)
    (opened,) = await house.auto.switch_many([(copy, BRISK)], leader=9)
    assert isinstance(opened, Switched)
    assert opened.outcome == 1
    (before,) = await house.auto.tuning_many([SHOP])
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert isinstance(before, Tuning)

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    (after,) = await house.auto.tuning_many([SHOP])
    assert isinstance(after, Tuning)
    assert (after.state, after.rate, after.hand_rate) == (0, 600, 600)
    assert after.hand_rate_age_ms is not None
    assert 3000 <= after.hand_rate_age_ms < (before.hand_rate_age_ms or 0) + 5000
    again = (await house.admin.figures([SHOP]))[SHOP]
    assert (again.last_switch, again.last_switch_at) == ("opened", figures.last_switch_at)
    assert isinstance((await house.auto.switch_many([(copy, BRISK)], leader=8))[0], Overtaken)
    await advance(house, "shop", 70)
    (closed,) = await house.auto.switch_many([(copy, BRISK)], leader=9)
    assert isinstance(closed, Switched)
    assert closed.outcome == 2, "the queue is still one that it opened itself"


async def test_it_keeps_the_generation_of_a_deleted_room_from_coming_back(house: House) -> None:
    await house.create("shop")
    await house.join("shop", 1)
    await house.drain("shop")
    saved = await house.valkey.execute("GET", RoomKeys(house.prefix, "shop").header)
    await house.admin.delete(SHOP, actor="ann")
    await house.drain("shop")
    await house.valkey.execute("SET", RoomKeys(house.prefix, "shop").header, saved)

    await house.recovery.ensure_all()

    header = await house.jobs.header(SHOP)
    assert header is not None
    assert header["deleted"]
    assert header["verified"]


async def test_it_rebuilds_a_line_over_several_chunks(house: House) -> None:
    await house.create("shop")
    copy = house.rooms["shop"]
    for start in range(0, 3000, 500):
        for answer in [house.engine.join(copy, newcomer(who)) for who in range(start, start + 500)]:
            await answer
    await house.drain("shop")
    before = without_fresh(await snapshot(house.valkey, house.prefix, "shop"))

    await lose_and_rebuild(house)

    assert without_fresh(await snapshot(house.valkey, house.prefix, "shop")) == before


ADDRESSES = [0, 1, 2, 3, "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:1ff::1", "2001:db8:7:1::1"]


class Chance:
    """Random acts on one room."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.people: dict[int, int] = {}
        self.places: dict[int, bytes] = {}
        """Handle of each holder of a place in the pre-queue, until he knows his ticket."""

    def pick(self) -> int | None:
        return secrets.choice(list(self.people)) if self.people else None

    async def act(self) -> None:
        name = secrets.choice(
            ["join"] * 6
            + ["status"] * 3
            + ["check"] * 6
            + ["leave", "leave", "churn", "eject", "undo_join", "undo_admission", "update", "flush", "purge"]
            + ["move", "reclaim", "hand_over"]
            + ["advance"] * 4
            + ["switch", "tune"]
            + ["schedule", "draw", "look", "look", "leave_place", "undo_prejoin", "prejoin", "prejoin"]
        )
        await getattr(self, name)()

    async def join(self) -> None:
        who = secrets.randbits(40)
        answer = await self.house.join("shop", who, address=secrets.choice(ADDRESSES))
        if answer.view is not None:
            self.keep(who, answer.view)

    def keep(self, who: int, view: VisitorView) -> None:
        if view.ticket:
            self.people[who] = view.ticket
        elif view.handle:
            self.places[who] = view.handle

    def stands(self) -> tuple[int, Proof] | None:
        """Somebody who holds a place in the pre-queue, or did so when he asked last."""
        if not self.places:
            return None
        who = secrets.choice(list(self.places))
        return who, holder(who, 0)._replace(presented=Presented.HANDLE, handle=self.places[who])

    async def schedule(self) -> None:
        """Doors that open soon, are moved, or are opened now."""
        header = unpack_header(await self.house.valkey.execute("GET", RoomKeys(self.house.prefix, "shop").header))
        opens_at = int(header["last_time"]) + secrets.randbelow(60_000) + 1 if secrets.randbelow(3) else None
        with contextlib.suppress(RoomFenced):  # an order is being drawn
            await self.house.admin.update(SHOP, {"opens_at": opens_at, "pre_queue_max_per_ip": 9}, actor="ann")
        await self.house.read("shop")

    async def prejoin(self) -> None:
        for _ in range(3):
            await self.join()

    async def draw(self) -> None:
        """A whole draw, or a part of it."""
        state = await self.house.jobs.draw_state(SHOP)
        if state.phase is Phase.DRAWING and secrets.randbelow(2):
            places = places_in(await self.house.jobs.draw_chunk(SHOP, 0), 1, state.base)
            part = draw(state.seed, places).places[state.done * 4 :][: 4 * (1 + secrets.randbelow(5))]
            await self.house.jobs.draw_put(SHOP, 1, state.seed, state.done, part)
        else:
            await draw_room(self.house.jobs, SHOP)

    async def look(self) -> None:
        if (one := self.stands()) is not None:
            self.learn(one[0], await self.house.engine.status(self.house.rooms["shop"], one[1]))

    def learn(self, who: int, view: VisitorView) -> None:
        if view.ticket or view.state is ViewState.GONE:
            del self.places[who]
            self.keep(who, view)

    async def leave_place(self) -> None:
        if (one := self.stands()) is not None:
            await self.house.engine.leave(self.house.rooms["shop"], one[1])

    async def undo_prejoin(self) -> None:
        answer = await self.house.join("shop", secrets.randbits(40))
        if answer.view is not None and answer.view.handle:
            await self.house.admin.undo_prejoin(SHOP, 1, answer.seq, answer.view.handle)

    async def status(self) -> None:
        if (who := self.pick()) is not None:
            proof = holder(who, self.people[who])
            await self.house.engine.status(self.house.rooms["shop"], proof, told=bool(secrets.randbelow(2)))

    async def check(self) -> Any:
        if (who := self.pick()) is not None:
            return await self.house.engine.check(self.house.rooms["shop"], entry(who, self.people[who]))
        return None

    async def leave(self) -> None:
        if (who := self.pick()) is not None:
            await self.house.engine.leave(self.house.rooms["shop"], holder(who, self.people[who]))

    async def churn(self) -> None:
        """One address joins and leaves again and again."""
        for _ in range(4):
            people = [secrets.randbits(40) for _ in range(8)]
            joins = [self.house.join("shop", who, address="2001:db8:0:1::9") for who in people]
            answers = zip(people, await asyncio.gather(*joins), strict=True)
            places = [holder(who, answer.view.ticket) for who, answer in answers if answer.view and answer.view.ticket]
            await asyncio.gather(*(self.house.engine.leave(self.house.rooms["shop"], place) for place in places))

    async def eject(self) -> None:
        if (who := self.pick()) is not None:
            await self.house.admin.eject(SHOP, self.people[who], actor="ann")

    async def flush(self) -> None:
        if secrets.randbelow(4) == 0:
            await self.house.admin.flush(SHOP, actor="ann")

    async def move(self) -> None:
        """An owner comes from another network, by his cookie."""
        if (who := self.pick()) is not None:
            strict, loose = secrets.token_bytes(16), secrets.token_bytes(16)
            proof = holder(who, self.people[who])._replace(strict=strict, loose=loose, may_bind=True)
            await self.house.engine.status(self.house.rooms["shop"], proof, bind=True)

    async def reclaim(self) -> None:
        """An owner joins again without his door key."""
        if (who := self.pick()) is not None:
            item = newcomer(who)._replace(proof=holder(who, self.people[who]), cookie=secrets.token_bytes(16))
            answer = await self.house.engine.join(self.house.rooms["shop"], item)
            if answer.code is JoinCode.CREATED:
                del self.people[who]  # his new cookie is nobody's here

    async def hand_over(self) -> None:
        """A join with the fingerprint by which a connector saw the visitor."""
        who = secrets.randbits(40)
        item = newcomer(who)._replace(from_loose=secrets.token_bytes(16))
        answer = await self.house.engine.join(self.house.rooms["shop"], item)
        if answer.view is not None:
            self.keep(who, answer.view)

    async def purge(self) -> None:
        if secrets.randbelow(4) == 0:
            await self.house.admin.purge(SHOP, actor="ann")

    async def undo_join(self) -> None:
        who = secrets.randbits(40)
        answer = await self.house.join("shop", who)
        if answer.view is not None and answer.view.ticket:
            await self.house.admin.undo_join(SHOP, 1, answer.seq, answer.view.ticket)

    async def undo_admission(self) -> None:
        answer = await self.check()
        if answer is not None and answer.verdict is Verdict.ADMITTED:
            await self.house.admin.undo_admission(SHOP, 1, answer.seq, answer.ticket)

    async def update(self) -> None:
        changes = secrets.choice(
            [{"rate_per_minute": 600}, {"rate_per_minute": 60}, {"max_concurrent": 3}, {"max_concurrent": None},
             {"max_concurrent": 6}, {"session_ttl_sec": 60}, {"session_ttl_sec": 120},
             {"state": 2}, {"state": 0}, {"auto_activate": None}, {"auto_activate": BRISK}, {"session_max_per_ip": 1},
             {"session_max_per_ip": None}]
        )  # fmt: skip
        await self.house.admin.update(SHOP, changes, actor="ann")
        await self.house.read("shop")

    async def switch(self) -> None:
        """A look at the threshold after some seconds in which one more comes."""
        await self.join()
        await advance(self.house, "shop", 3)
        copy = await self.house.read("shop")
        if (rule := copy.config.auto_activate) is not None:
            (answer,) = await self.house.auto.switch_many([(copy, rule)], leader=3)
            assert isinstance(answer, Switched)

    async def tune(self) -> None:
        (seen,) = await self.house.auto.tuning_many([SHOP])
        assert isinstance(seen, Tuning)
        await self.house.auto.tune(SHOP, seen, 30, leader=3, hold_ms=0, figures={"old": seen.rate})

    async def advance(self) -> None:
        await advance(self.house, "shop", secrets.randbelow(30))


@pytest.mark.req("ENG-278")
async def test_it_is_the_same_byte_for_byte_after_any_history(house: House) -> None:
    await house.create(
        "shop", rate_per_minute=60, max_concurrent=4, queue_max_per_ip=8, passed_ttl_sec=150, session_ttl_sec=90,
        session_max_sec=300, presence_sec=20,
    )  # fmt: skip
    chance = Chance(house)
    for _ in range(6):
        for _ in range(120):
            await chance.act()
        before = without_fresh(await settled(house))
        positions = {n: view.ahead for n, view in (await views(house, chance)).items()}

        await lose_and_rebuild(house)
        await keep_the_time(house, "shop")

        after = without_fresh(await snapshot(house.valkey, house.prefix, "shop"))
        for part, value in before.items():
            assert after[part] == value, part
        assert {n: view.ahead for n, view in (await views(house, chance)).items()} == positions
    await assert_checkpoints_agree(house)


async def settled(house: House) -> dict[str, Any]:
    """The room at the moment of its last fact, with nothing left that is due, nor of a flush to be written."""
    while True:
        await advance(house, "shop", 1)
        await house.admin.update(SHOP, {"name": secrets.token_hex(4)}, actor="ann")
        await house.read("shop")
        await house.drain("shop")  # a draw that is journaled is told
        shot = await snapshot(house.valkey, house.prefix, "shop")
        now = int(shot["header"]["mono"]) // 100
        if all(int.from_bytes(held[:4], "little") > now for book in shot["counting_on"] for held in book):
            return shot


async def views(house: House, chance: Chance) -> dict[int, Any]:
    found = {}
    for who, n in chance.people.items():
        view = await house.engine.status(house.rooms["shop"], holder(who, n), told=False, seen=False)
        if view.state is ViewState.WAITING:
            found[n] = view
    return found


async def test_it_leaves_a_rebuild_to_the_one_who_holds_the_lock(house: House, postgres: Postgres) -> None:
    await house.create("shop")
    await house.drain("shop")
    await house.lose_everything()
    async with postgres.dedicated() as other:
        sql = "SELECT pg_advisory_lock(hashtextextended('qm:rebuild:' || current_schema() || ':shop', 0))"
        await other.fetchval(sql)

        assert not await house.recovery.ensure(SHOP)
        assert await house.jobs.header(SHOP) is None

    assert await house.recovery.ensure(SHOP)
    assert await house.jobs.header(SHOP) is not None


@pytest.mark.req("ENG-251")
async def test_it_keeps_a_room_fenced_whose_journal_it_cannot_read(house: House) -> None:
    await house.create("shop")
    await house.create("other")
    for room in ("shop", "other"):
        await house.join(room, 1)
        await house.drain(room)
    await house.postgres.execute("UPDATE events SET type = 77 WHERE room = 'shop' AND seq = 2")
    await house.lose_everything()

    assert await house.recovery.ensure_all() == 2

    with pytest.raises(StorageUnavailable):
        await house.engine.status(house.rooms["shop"], holder(1, 1))
    view = await house.engine.status(house.rooms["other"], holder(1, 1))
    assert view.state is ViewState.WAITING


async def test_it_refuses_to_write_for_a_rebuilder_that_was_overtaken(house: House) -> None:
    await house.create("shop")
    await house.drain("shop")
    await house.jobs.fence(SHOP, 1, 1)
    assert await house.jobs.rebuild_begin(SHOP, 1, 2)
    assert await house.jobs.rebuild_begin(SHOP, 1, 3)

    assert not await house.jobs.rebuild_put(SHOP, 2, [("w", [1])])
    assert not await house.jobs.rebuild_end(SHOP, 2, b"", {})
    assert not await house.jobs.rebuild_begin(SHOP, 1, 2)
