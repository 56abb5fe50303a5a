"""The real engine as the model sees it: its clock stands still between steps, its answers are in the model's words.

The room's clock is set before each call. The store's own clock is kept BEHIND_SEC in the past, so that no real time
flows into the room's (a step back of a clock does not move it, ENG-012). The journal is a list.
Not here: the model, comparing.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from app.core.ids import RoomId
from app.domain.facts import FactType, split_element
from app.domain.fold import RoomFold
from app.domain.fold_image import make_image
from app.domain.layout import HEADER_FIELDS
from app.domain.room import Room, RoomConfig, RoomState
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin, LineCode
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import (
    CheckItem,
    JoinItem,
    Presented,
    Proof,
    Reason,
    RoomFigures,
    TicketState,
    Via,
    ViewState,
    VisitorView,
)
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from app.services.draws import draw_room
from tests.model.people import Checked, Ds, Holder, Settings, Shown, View

ROOM = RoomId("shop")
SALT = b"s" * 16
BEHIND_SEC = 20
"""How far the store's clock is behind the room's; doors open by the later of both."""
LONG_SEC = 3600
"""The same where it must not come near an opening time, however slow the machine is."""
STEP: Ds = 50
"""Most that the room's clock moves when the store's is set forward (ENG-012)."""
_CLOCKS = struct.Struct("<dddd")
_AT = HEADER_FIELDS.index("last_time") * 8
assert HEADER_FIELDS[_AT // 8 : _AT // 8 + 4] == ("last_time", "mono", "wall", "offset")
_JOINED_IP = slice(4, 20)
_PREJOINED_IP = slice(4, 20)

FIELD_OF = {
    "rate": "rate_per_minute", "passed_ttl": "passed_ttl_sec", "session_ttl": "session_ttl_sec",
    "session_max": "session_max_sec", "presence": "presence_sec", "ip_cap": "queue_max_per_ip",
    "pre_ip_cap": "pre_queue_max_per_ip", "session_ip_cap": "session_max_per_ip", "max_concurrent": "max_concurrent",
    "state": "state", "opens_at": "opens_at",
}  # fmt: skip
"""Setting of the model → field of RoomConfig."""


def digest(text: str, size: int = 16) -> bytes:
    """Some digest; real ones are salted, which the engine never sees."""
    return hashlib.sha256(text.encode()).digest()[:size]


def handle_of(cookie: str) -> bytes:
    """The handle of a place whose owner has this cookie (lua/lib/prequeue.lua)."""
    return hashlib.sha1(b"qm:handle\0" + digest("cookie" + cookie)).digest()[:16]


@dataclass(frozen=True)
class Answer:
    """``what``: the answer in the model's words; ``mark``: of the fact it has to wait for; ``view``: as it came."""

    what: Any
    mark: int = 0
    view: VisitorView | None = None


class Rig:
    """One room on a real Valkey."""

    def __init__(self, valkey: Valkey, prefix: str) -> None:
        loader = LuaLoader(valkey)
        self.valkey, self.prefix = valkey, prefix
        self.engine = Engine(valkey, prefix, loader)
        self.admin = EngineAdmin(valkey, prefix, loader)
        self.jobs = EngineJobs(prefix, loader)
        self.keys = RoomKeys(prefix, ROOM)
        self.journal: list[tuple[int, int, int, int, bytes]] = []
        """Committed facts of this generation, as a fold reads them."""
        self.t0 = 0
        self.epoch = 1
        self.room: Room

    async def create(self, gen: int, settings: Settings) -> None:
        """A new room; its clock begins at 0."""
        config = RoomConfig(ROOM, "Shop", "https://shop.example/", **self.fields(vars(settings)))
        await self.admin.create(config, gen=gen, salt=SALT, actor="op")
        self.journal, self.epoch = [], 1
        header = await self.header()
        self.t0 = int(header["t0"])
        assert header["created_at"] == header["t0"]
        await self.reload()

    def fields(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Room fields from settings of the model."""
        found = {FIELD_OF[name]: value for name, value in settings.items()}
        if "state" in found:
            found["state"] = RoomState[found["state"].upper()]
        if found.get("opens_at") is not None:
            found["opens_at"] = self.wall(found["opens_at"])
        return found

    def wall(self, ds: Ds) -> int:
        """Wall ms of a moment of the room's clock."""
        return self.t0 + ds * 100

    def ds(self, wall_ms: int) -> Ds:
        """Reverse of ``wall``; 0 stays 0."""
        if not wall_ms:
            return 0
        whole, rest = divmod(wall_ms - self.t0, 100)
        assert not rest, "every time is a whole tenth of a second"
        return whole

    async def set_clock(self, now: Ds, *, behind_sec: int = BEHIND_SEC) -> None:
        """Let the next call happen at ``now``, the store's own clock being ``behind_sec`` behind."""
        wall = self.wall(now)
        offset = wall - behind_sec * 1000 - int(time.time() * 1000)
        await self.valkey.execute("SETRANGE", self.keys.header, _AT, _CLOCKS.pack(wall, now * 100, wall, offset))

    async def step_clock(self, now: Ds, sec: int) -> None:
        """Let the store's clock be set forward by ``sec`` at ``now`` and be right again a moment later, as seen by
        changes of the room, which record no time of anybody. The room's clock counts STEP of it."""
        await self.set_clock(now)
        before = self.wall(now) - (BEHIND_SEC + sec) * 1000
        await self.valkey.execute("SETRANGE", self.keys.header, _AT, struct.pack("<d", before))
        await self.admin.update(ROOM, {"name": f"Shop at {now}"}, actor="op")
        header = await self.header()
        assert (header["mono"], header["wall"]) == ((now + STEP) * 100, self.wall(now))
        await self.set_clock(now + STEP)
        await self.admin.update(ROOM, {"name": f"Shop from {now + STEP}"}, actor="op")
        await self.reload()

    async def header(self) -> dict[str, Any]:
        header = await self.jobs.header(ROOM)
        assert header is not None
        return header

    async def reload(self) -> None:
        room = await self.admin.read(ROOM)
        assert room is not None
        self.room = room

    # -------------------------------------------------------------- visitors

    def proof(self, shown: Shown) -> Proof:
        """What a request shows as the engine is told it."""
        token, handle = shown.token, b""
        presented, gen, number = Presented.NONE, 0, 0
        if isinstance(token, str):
            presented = Presented.REFUSED
        elif token is not None:
            presented, (gen, what) = Presented.VALID, token
            if isinstance(what, bytes):
                presented, handle = Presented.HANDLE, what
            else:
                number = what
        return Proof(
            presented,
            gen,
            number,
            b"".join(digest("cookie" + value) for value in shown.cookies),
            digest("strict" + shown.strict),
            digest("loose" + shown.loose),
            b"".join(digest("key" + value) for value in shown.keys),
            handle,
            shown.is_loose_proof,
            shown.may_bind,
        )

    async def join(self, shown: Shown, new: Holder) -> Answer:
        """``new``: who the visitor would be with a place of his own."""
        item = JoinItem(
            self.proof(shown),
            digest("cookie" + new.cookie),
            digest("address" + new.address, 8),
            digest("ip" + new.address),
            from_loose=digest("loose" + new.came_from) if new.came_from else b"",
        )
        answer = await self.engine.join(self.room, item)
        assert answer.generation == self.room.generation
        view = None if answer.view is None else self.view(answer.view)
        reason = "" if answer.reason is Reason.NONE else answer.reason.word
        return Answer((answer.code.name.lower(), reason, view), answer.seq, answer.view)

    async def status(self, shown: Shown, *, told: bool, seen: bool) -> Answer:
        view = await self.engine.status(self.room, self.proof(shown), told=told, seen=seen, bind=seen)
        return Answer(self.view(view), 0, view)

    async def look_at(self, everybody: list[Shown]) -> list[View]:
        """What each would be told, changing nothing."""
        asked = [self.engine.status(self.room, self.proof(shown), told=False, seen=False) for shown in everybody]
        return [self.view(await answer) for answer in asked]

    def view(self, view: VisitorView) -> View:
        """The view without what does not belong to its state."""
        state = view.state
        session_end = self.ds(view.session_expires_at)
        passed, pass_end, claim = self.ds(view.passed_at), self.ds(view.pass_expires_at), self.ds(view.claim_until)
        joined, word = self.ds(view.joined_at), state.word
        if state is ViewState.GONE:
            shown = (view.ticket, view.ahead, view.joined_at, view.passed_at, view.pass_expires_at, view.claim_until)
            assert not any((*shown, view.handle)), "nothing is told about a ticket that is not his, or over"
            return View(word, view.reason.word, view.by_purge)
        if state is ViewState.BYPASS:
            return View(word)
        if state is ViewState.ACTIVE:
            return View(word, number=view.ticket, session_end=session_end)
        if state is ViewState.PASSED:
            return View(word, "", False, view.ticket, 0, joined, passed, pass_end, claim)
        if state is ViewState.AT_CAPACITY:
            return View(word, "", False, view.ticket, view.ahead, 0, passed, pass_end)
        return View(word, "", False, view.ticket, view.ahead, joined)

    async def check(self, shown: Shown, *, covered: bool, key: str, vouched: bool, address: str) -> Answer:
        came = digest("address" + address, 8) + digest("client" + address, 8)
        item = CheckItem(self.proof(shown), covered, digest("key" + key), Via.VOUCHED if vouched else Via.DIRECT, came)
        answer = await self.engine.check(self.room, item)
        reason = "" if answer.reason is Reason.NONE else answer.reason.word
        what = Checked(answer.verdict.word, reason, answer.ticket, self.ds(answer.session_expires_at))
        return Answer((what, answer.room_state.word), answer.seq)

    async def leave(self, shown: Shown) -> Answer:
        answer = await self.engine.leave(self.room, self.proof(shown))
        return Answer(_word(answer.was), answer.seq)

    # ------------------------------------------------------------- operators

    async def eject(self, number: int) -> Answer:
        answer = await self.admin.eject(ROOM, number, actor="op")
        return Answer(_word(answer.was), answer.seq)

    async def flush(self) -> Answer:
        answer = await self.admin.flush(ROOM, actor="op")
        refused = {LineCode.BYPASSED: "bypass", LineCode.SCHEDULED: "scheduled"}.get(answer.code)
        return Answer(refused or answer.waiting, answer.seq)

    async def purge(self) -> Answer:
        answer = await self.admin.purge(ROOM, actor="op")
        return Answer((answer.waiting, answer.pre_queue), answer.seq)

    async def update(self, **changes: Any) -> Answer:
        answer = await self.admin.update(ROOM, self.fields(changes), actor="op")
        await self.reload()
        return Answer(answer.changed, answer.seq)

    async def tick(self, now: Ds, *, instance_behind: Ds = 0, seed: bytes) -> None:
        """Ticks of an instance whose own clock is behind the room's, until there is no work left."""
        while (await self.jobs.tick(ROOM, self.wall(now - instance_behind), seed)).again:
            pass

    async def draw(self) -> bool:
        return await draw_room(self.jobs, ROOM) is not None

    async def look(self) -> tuple[RoomFigures, dict[str, Any]]:
        """Live figures and header."""
        figures, header = await asyncio.gather(self.admin.figures([ROOM]), self.header())
        return figures[ROOM], header

    # --------------------------------------------------------------- journal

    async def commit(self) -> list[Any]:
        """Store everything that is in the outbox; the facts."""
        committed, facts = len(self.journal), []
        while True:
            pulled = await self.jobs.drain_next(ROOM, committed, 1000)
            assert pulled.base == committed, "no fact is missing between outbox and journal"
            assert pulled.epoch == self.epoch
            if not pulled.elements:
                return facts
            for data in pulled.elements:
                element = split_element(data)
                facts.append((element.at, element.decode()))
                committed += 1
                body = _without_address(element.type, element.body)
                self.journal.append((committed, element.type, element.lv, element.at, body))

    def folded(self, now: Ds) -> RoomFold:
        fold = RoomFold(self.wall(now))
        fold.feed(self.journal)
        return fold

    async def lose_everything(self, *, keys: bool) -> None:
        """Lose the live state (``keys``), or find that it is older than its journal and fence it."""
        if keys:
            await self.drop()
        else:
            await self.jobs.fence(ROOM, self.room.generation, self.epoch)

    async def rebuild(self, now: Ds) -> Fraction:
        """Make the room again from the journal; its credit afterwards."""
        self.epoch += 1
        gen = self.room.generation
        assert await self.jobs.rebuild_begin(ROOM, gen, self.epoch)
        image = make_image(self.folded(now))
        assert await self.jobs.rebuild_put(ROOM, self.epoch, list(image.writes()))
        assert await self.jobs.rebuild_end(ROOM, self.epoch, image.header_bytes(self.epoch), image.cfg())
        await self.reload()
        return Fraction((await self.header())["credit"])

    async def drop(self) -> None:
        """Take every key of the room out of the store."""
        names = await self.valkey.execute("KEYS", self.keys.base.replace("{", "\\{").replace("}", "\\}") + "*")
        if names:
            await self.valkey.execute("DEL", *names)


def _word(state: TicketState) -> str:
    return "" if state is TicketState.NONE else state.name.lower()


def _without_address(kind: int, body: bytes) -> bytes:
    """The journal keeps the readable address apart (FLT-150)."""
    if kind == FactType.JOINED:
        return body[: _JOINED_IP.start] + body[_JOINED_IP.stop :]
    if kind == FactType.PREJOINED:
        return body[: _PREJOINED_IP.start] + body[_PREJOINED_IP.stop :]
    return body
