"""Random histories of a room, which a seed tells again, and what is compared before and after a rebuild of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.automation import AutoActivate
from app.domain.draw import draw, places_in
from app.domain.layout import Phase, pack_header, unpack_header
from app.infrastructure.engine_auto import Switched, Tuning
from app.infrastructure.engine_errors import RoomFenced
from app.infrastructure.engine_results import JoinCode, Presented, Proof, Verdict, ViewState, VisitorView
from app.infrastructure.keys import RoomKeys
from app.services.draws import draw_room
from tests.journal.house import House, entry, holder, newcomer
from tests.journal.snapshot import assert_alike, snapshot, without_fresh

SHOP = RoomId("shop")
ANY_TIME = 1 << 50
"""A clock of the instance that keeps no door shut: the one of the live store decides."""
PAUSE_MS = 1000
"""So long between two calls is a pause of the machine."""
BRISK = AutoActivate(True, 1, 1, 1)


async def lose_and_rebuild(house: House, room: str = SHOP) -> None:
    await house.drain(room)
    await house.lose_everything()
    with pytest.raises(RoomFenced):
        await house.engine.status(house.rooms[room], holder(0, 1))
    assert await house.recovery.ensure(RoomId(room))
    await house.read(room)


async def advance(house: House, room: str, sec: int, seed: bytes | None = None) -> None:
    """Let the room's clock run on without waiting, in steps below the 5 s at which a step is cut.

    ``seed``: of a draw that this may begin.
    """
    for _ in range(sec):
        await bridge_pause(house, room, 1000)
        await house.jobs.tick(RoomId(room), ANY_TIME, seed)


async def bridge_pause(house: House, room: str, ms: int = 0) -> None:
    """Let ``ms`` pass for the room, and take out of its time a pause of this machine since its last call.

    The room's clock would cut a long one, the recorded times would not: its ends would be others after a rebuild.
    """
    key = RoomKeys(house.prefix, room).header
    sec, micros = map(int, await house.valkey.execute("TIME"))
    header = unpack_header(await house.valkey.execute("GET", key))
    paused = sec * 1000 + micros // 1000 + header["offset"] - header["last_time"]
    header["offset"] += ms - (paused if paused > PAUSE_MS else 0)
    await house.valkey.execute("SET", key, pack_header(header))


async def step(house: House, by_ms: int, room: str = SHOP) -> None:
    """The clock of the live store's host jumps, for this room."""
    key = RoomKeys(house.prefix, room).header
    header = unpack_header(await house.valkey.execute("GET", key))
    header["offset"] += by_ms
    await house.valkey.execute("SET", key, pack_header(header))


async def keep_the_time(house: House, room: str) -> None:
    """Let the false clock of ``advance`` go on after a rebuild, which knows nothing of it."""
    key = RoomKeys(house.prefix, room).header
    header = unpack_header(await house.valkey.execute("GET", key))
    header["offset"] = header["wall"] - header["last_time"]
    header["last_time"] = header["wall"]
    await house.valkey.execute("SET", key, pack_header(header))


ADDRESSES = [0, 1, 2, 3, "2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:1ff::1", "2001:db8:7:1::1"]


def proof_of(who: int, view: VisitorView | None) -> Proof:
    """What the visitor shows who was just given this view."""
    assert view is not None
    proof = holder(who, view.ticket)
    return proof if view.ticket else proof._replace(presented=Presented.HANDLE, handle=view.handle)


class Chance:
    """Random acts on one room, the same each time by ``seed``. Act n has dice of its own: it is the same without the
    acts before it."""

    def __init__(self, house: House, seed: int | None = None) -> None:
        self.house = house
        self.seed = secrets.randbits(32) if seed is None else seed
        self.acts = 0
        self.dice = random.Random(self.seed)
        self.people: dict[int, int] = {}
        self.places: dict[int, bytes] = {}
        """Handle of each holder of a place in the pre-queue, until he knows his ticket."""

    def pick(self) -> int | None:
        return self.dice.choice(list(self.people)) if self.people else None

    async def act(self, number: int | None = None) -> None:
        """The next act, or act ``number`` of this seed."""
        self.acts = self.acts + 1 if number is None else number
        self.dice = random.Random(f"{self.seed} {self.acts}")
        await bridge_pause(self.house, SHOP)
        name = self.dice.choice(
            ["join"] * 6
            + ["status"] * 3
            + ["check"] * 6
            + ["leave", "leave", "churn", "eject", "undo_join", "undo_admission", "update", "flush", "purge"]
            + ["move", "reclaim", "hand_over"]
            + ["advance"] * 4
            + ["step"]
            + ["switch", "tune"]
            + ["schedule", "draw", "look", "look", "leave_place", "leave_place", "undo_prejoin", "prejoin", "prejoin"]
            + ["move_place", "come_back"]
        )
        await getattr(self, name)()

    async def join(self) -> None:
        who = self.dice.getrandbits(40)
        answer = await self.house.join("shop", who, address=self.dice.choice(ADDRESSES))
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
        who = self.dice.choice(list(self.places))
        return who, holder(who, 0)._replace(presented=Presented.HANDLE, handle=self.places[who])

    async def schedule(self) -> None:
        """Doors that open soon, are moved, or are opened now."""
        header = unpack_header(await self.house.valkey.execute("GET", RoomKeys(self.house.prefix, "shop").header))
        opens_at = int(header["last_time"]) + self.dice.randrange(60_000) + 1 if self.dice.randrange(3) else None
        with contextlib.suppress(RoomFenced):  # an order is being drawn
            await self.house.admin.update(
                SHOP, {"opens_at": opens_at, "pre_queue_max_per_ip": self.dice.choice((2, 9))}, actor="ann"
            )
        await self.house.read("shop")

    async def prejoin(self) -> None:
        for _ in range(3):
            await self.join()

    async def draw(self) -> None:
        """A whole draw, or a part of it."""
        state = await self.house.jobs.draw_state(SHOP)
        if state.phase is Phase.DRAWING and self.dice.randrange(2):
            places = places_in(await self.house.jobs.draw_chunk(SHOP, 0), 1, state.base)
            part = draw(state.seed, places).places[state.done * 4 :][: 4 * (1 + self.dice.randrange(5))]
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
        answer = await self.house.join("shop", self.dice.getrandbits(40))
        if answer.view is not None and answer.view.handle:
            await self.house.admin.undo_prejoin(SHOP, 1, answer.seq, answer.view.handle)

    async def status(self) -> None:
        if (who := self.pick()) is not None:
            proof = holder(who, self.people[who])
            await self.house.engine.status(self.house.rooms["shop"], proof, told=bool(self.dice.randrange(2)))

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
            people = [self.dice.getrandbits(40) for _ in range(8)]
            joins = [self.house.join("shop", who, address="2001:db8:0:1::9") for who in people]
            answers = zip(people, await asyncio.gather(*joins), strict=True)
            proofs = [proof_of(who, answer.view) for who, answer in answers if answer.code is JoinCode.CREATED]
            await asyncio.gather(*(self.house.engine.leave(self.house.rooms["shop"], proof) for proof in proofs))

    async def eject(self) -> None:
        """Of somebody, or of any number, known to somebody or not."""
        if self.dice.randrange(4) == 0:
            header = await self.house.jobs.header(SHOP) or {}
            await self.house.admin.eject(SHOP, 1 + self.dice.randrange(int(header["last_ticket"]) + 1), actor="ann")
        elif (who := self.pick()) is not None:
            await self.house.admin.eject(SHOP, self.people[who], actor="ann")

    async def flush(self) -> None:
        if self.dice.randrange(4) == 0:
            await self.house.admin.flush(SHOP, actor="ann")

    async def move(self) -> None:
        """An owner comes from another network, by his cookie."""
        if (who := self.pick()) is not None:
            strict, loose = self.dice.randbytes(16), self.dice.randbytes(16)
            proof = holder(who, self.people[who])._replace(strict=strict, loose=loose, may_bind=True)
            await self.house.engine.status(self.house.rooms["shop"], proof, bind=True)

    async def move_place(self) -> None:
        """The same, before he has a number."""
        if (one := self.stands()) is not None:
            strict, loose = self.dice.randbytes(16), self.dice.randbytes(16)
            proof = one[1]._replace(strict=strict, loose=loose, may_bind=True)
            self.learn(one[0], await self.house.engine.status(self.house.rooms["shop"], proof, bind=True))

    async def come_back(self) -> None:
        """An owner joins again with nothing but his cookie."""
        if (one := self.stands()) is not None:
            proof = one[1]._replace(presented=Presented.NONE, handle=b"")
            item = newcomer(one[0])._replace(proof=proof, cookie=self.dice.randbytes(16))
            answer = await self.house.engine.join(self.house.rooms["shop"], item)
            if answer.code is JoinCode.CREATED:
                del self.places[one[0]]  # his new cookie is nobody's here
            elif answer.view is not None and answer.code is JoinCode.EXISTING:
                self.learn(one[0], answer.view)

    async def reclaim(self) -> None:
        """An owner joins again without his door key."""
        if (who := self.pick()) is not None:
            item = newcomer(who)._replace(proof=holder(who, self.people[who]), cookie=self.dice.randbytes(16))
            answer = await self.house.engine.join(self.house.rooms["shop"], item)
            if answer.code is JoinCode.CREATED:
                del self.people[who]  # his new cookie is nobody's here

    async def hand_over(self) -> None:
        """A join with the fingerprint by which a connector saw the visitor."""
        who = self.dice.getrandbits(40)
        item = newcomer(who)._replace(from_loose=self.dice.randbytes(16))
        answer = await self.house.engine.join(self.house.rooms["shop"], item)
        if answer.view is not None:
            self.keep(who, answer.view)

    async def purge(self) -> None:
        if self.dice.randrange(4) == 0:
            await self.house.admin.purge(SHOP, actor="ann")

    async def undo_join(self) -> None:
        who = self.dice.getrandbits(40)
        answer = await self.house.join("shop", who)
        if answer.view is not None and answer.view.ticket:
            await self.house.admin.undo_join(SHOP, 1, answer.seq, answer.view.ticket)

    async def undo_admission(self) -> None:
        answer = await self.check()
        if answer is not None and answer.verdict is Verdict.ADMITTED:
            await self.house.admin.undo_admission(SHOP, 1, answer.seq, answer.ticket)

    async def update(self) -> None:
        changes = self.dice.choice(
            [{"rate_per_minute": 600}, {"rate_per_minute": 60}, {"max_concurrent": 3}, {"max_concurrent": None},
             {"max_concurrent": 6}, {"session_ttl_sec": 60}, {"session_ttl_sec": 120},
             {"state": 2}, {"state": 0}, {"auto_activate": None}, {"auto_activate": BRISK}, {"session_max_per_ip": 1},
             {"session_max_per_ip": None}, {"queue_max_per_ip": 1}, {"queue_max_per_ip": 8},
             {"pre_queue_max_per_ip": 2}, {"pre_queue_max_per_ip": None}]
        )  # fmt: skip
        await self.house.admin.update(SHOP, changes, actor="ann")
        await self.house.read("shop")

    async def switch(self) -> None:
        """A look at the threshold after some seconds in which one more comes."""
        await self.join()
        await advance(self.house, "shop", 3, self.dice.randbytes(32))
        copy = await self.house.read("shop")
        if (rule := copy.config.auto_activate) is not None:
            (answer,) = await self.house.auto.switch_many([(copy, rule)], leader=3)
            assert isinstance(answer, Switched)

    async def tune(self) -> None:
        (seen,) = await self.house.auto.tuning_many([SHOP])
        assert isinstance(seen, Tuning)
        await self.house.auto.tune(SHOP, seen, 30, leader=3, hold_ms=0, figures={"old": seen.rate})

    async def advance(self) -> None:
        await advance(self.house, "shop", self.dice.randrange(30), self.dice.randbytes(32))

    async def step(self) -> None:
        """The clock of the live store's host is set to another time."""
        await step(self.house, self.dice.choice((3_600_000, -3_600_000, 20_000, -20_000, 6000, -300)))
        await self.house.jobs.tick(SHOP, ANY_TIME, self.dice.randbytes(32))  # no pause of this machine, then


HISTORY: dict[str, Any] = {
    "rate_per_minute": 60, "max_concurrent": 4, "queue_max_per_ip": 8, "passed_ttl_sec": 150, "session_ttl_sec": 90,
    "session_max_sec": 300, "presence_sec": 20,
}  # fmt: skip
"""Configuration of a room in which much happens."""


async def assert_rebuilt_alike(chance: Chance) -> None:
    """The room of a history is lost and comes back as it was."""
    house = chance.house
    before = without_fresh(await settled(house))
    positions = {n: view.ahead for n, view in (await views(house, chance)).items()}

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    after = without_fresh(await snapshot(house.valkey, house.prefix, "shop"))
    assert_alike(before, after, f"history {chance.seed}, act {chance.acts}")
    again = {n: view.ahead for n, view in (await views(house, chance)).items()}
    assert again == positions, f"history {chance.seed}, act {chance.acts}: positions"


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
