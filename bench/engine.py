"""What the engine costs Valkey: µs an item at several lengths of the line and with tickets taken out of it, and how
long single calls hold it.

Part of `make bench`, or alone: `python -m bench.engine`. The calls go to the engine itself, 50 items each, and are
timed by Valkey (`INFO commandstats`, `SLOWLOG`); no web worker takes part. All rooms stay in one Valkey meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import redis.asyncio as redis
import uvloop

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.room import Room, RoomConfig
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.engine import Engine
from app.infrastructure.engine_admin import EngineAdmin
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_results import CheckItem, JoinItem, Presented, Proof, Via
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from app.services.draws import draw_room

SIZES: Final = (1_000, 100_000, 1_000_000)
REMOVED: Final = (0.0, 0.02, 0.30)
BATCH: Final = 50
ROUNDS: Final = 60
INSIDE: Final = 200
GOAL_CALL_MS: Final = 10.0

_STRICT = b"s" * 16
_ACTOR = "bench"


@dataclass(slots=True)
class Cost:
    """One function at one length of the line."""

    function: str
    waiting: int
    removed: float
    us_an_item: float
    longest_ms: float


class Meter:
    """Valkey's own clock on what it was asked."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    async def start(self) -> None:
        """Forget what was before."""
        await self._client.config_resetstat()
        await self._client.slowlog_reset()

    async def us(self) -> float:
        """Microseconds spent in function calls since ``start``."""
        stats = await self._client.info("commandstats")
        return float(stats.get("cmdstat_fcall", {}).get("usec", 0))

    async def longest(self) -> tuple[float, str]:
        """Longest single call since ``start``: ms of wall time, and name of the function."""
        entries = [entry for entry in await self._client.slowlog_get(10_000) if b"FCALL" in entry["command"]]
        if not entries:
            return 0.0, ""
        slowest = max(entries, key=lambda entry: entry["duration"])
        return slowest["duration"] / 1000, slowest["command"].split()[1].decode().split("_", 2)[2]


class Line:
    """One room with ``waiting`` tickets in line, a share of them taken out again, and some sessions."""

    def __init__(self, valkey: Valkey, room_id: str, dice: random.Random) -> None:
        loader = LuaLoader(valkey)
        self.id = RoomId(room_id)
        self.engine = Engine(valkey, "qm:", loader)
        self.admin = EngineAdmin(valkey, "qm:", loader)
        self.jobs = EngineJobs("qm:", loader)
        self.dice = dice
        self.room: Room
        self.first, self.last = INSIDE + 1, INSIDE
        self.gone: set[int] = set()

    async def open(self) -> None:
        """Make the room and let the first visitors in."""
        config = RoomConfig(
            self.id, "Bench", "https://shop.example/", rate_per_minute=100_000, queue_max_per_ip=None,
            session_ttl_sec=86_400, session_max_sec=604_800, presence_sec=3600,
        )  # fmt: skip
        await self.admin.create(config, gen=1, salt=b"s" * 16, actor=_ACTOR)
        await self.reload()
        await self.join(INSIDE)
        while (await self.jobs.tick(self.id)).again or (await self.figures()).waiting:
            await asyncio.sleep(0.05)
        await asyncio.gather(*[self.engine.check(self.room, self.check_item(n + 1)) for n in range(INSIDE)])
        await self.rate(0)

    async def reload(self) -> None:
        """Read the room anew, as a worker does."""
        room = await self.admin.read(self.id)
        assert room is not None
        self.room = room

    async def rate(self, per_minute: int) -> None:
        """Set the pace."""
        await self.admin.update(self.id, {"rate_per_minute": per_minute}, actor=_ACTOR)
        await self.reload()

    async def schedule(self, opens_at: int | None) -> None:
        """Set or cancel the opening."""
        await self.admin.update(self.id, {"opens_at": opens_at}, actor=_ACTOR)
        await self.reload()

    async def figures(self) -> Any:
        """Live figures."""
        return (await self.admin.figures([self.id]))[self.id]

    async def commit(self) -> None:
        """Take the facts off the outbox, as the drainer does."""
        header = await self.jobs.header(self.id)
        assert header is not None
        await self.jobs.drain_next(self.id, int(header["seq"]), 0)

    def proof(self, ticket: int) -> Proof:
        """What the holder of ``ticket`` presents."""
        return Proof(Presented.VALID, 1, ticket, b"", _STRICT, _STRICT, _door(ticket))

    def join_item(self) -> JoinItem:
        """A newcomer; 0.3 addresses a ticket."""
        home = self.dice.randrange(300_000).to_bytes(8, "little")
        newcomer = Proof(Presented.NONE, 0, 0, b"", _STRICT, _STRICT)
        return JoinItem(newcomer, self.dice.randbytes(16), home, bytes(16))

    def check_item(self, ticket: int) -> CheckItem:
        """A page request of the holder of ``ticket``."""
        return CheckItem(self.proof(ticket), True, _door(ticket), Via.DIRECT)

    async def join(self, count: int) -> None:
        """``count`` newcomers, committed."""
        for start in range(0, count, 500):
            part = min(500, count - start)
            await asyncio.gather(*[self.engine.join(self.room, self.join_item()) for _ in range(part)])
            self.last += part
            if start % 50_000 == 0:
                await self.commit()
        await self.commit()

    async def take_out(self, share: float) -> None:
        """Let a share of the line leave, here and there."""
        numbers = range(self.first, self.last + 1)
        leaving = [n for n in numbers if n not in self.gone and self.dice.random() < share]
        for start in range(0, len(leaving), 500):
            part = leaving[start : start + 500]
            await asyncio.gather(*[self.engine.leave(self.room, self.proof(n)) for n in part])
        self.gone.update(leaving)
        await self.commit()

    def waiting(self) -> Iterator[int]:
        """Random tickets that stand in line."""
        while True:
            n = self.dice.randint(self.first, self.last)
            if n not in self.gone:
                yield n


def _door(ticket: int) -> bytes:
    return ticket.to_bytes(16, "little")


async def hot_costs(line: Line, meter: Meter, removed: float, waiting: int) -> list[Cost]:
    """Join, status, check of a session, check of somebody in line, leave."""
    tickets = line.waiting()

    async def leave(n: int) -> None:
        line.gone.add(n)
        await line.engine.leave(line.room, line.proof(n))

    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "join": lambda: line.engine.join(line.room, line.join_item()),
        "status": lambda: line.engine.status(line.room, line.proof(next(tickets))),
        "check (inside)": lambda: line.engine.check(line.room, line.check_item(line.dice.randint(1, INSIDE))),
        "check (in line)": lambda: line.engine.check(line.room, line.check_item(next(tickets))),
        "leave": lambda: leave(next(tickets)),
    }
    costs = []
    for name, call in calls.items():
        await meter.start()
        for _ in range(ROUNDS):
            await asyncio.gather(*[call() for _ in range(BATCH)])
        used, (longest, _) = await meter.us(), await meter.longest()
        if name == "join":
            line.last += ROUNDS * BATCH
        await line.commit()
        costs.append(Cost(name, waiting, removed, used / (ROUNDS * BATCH), longest))
    return costs


async def tick_cost(line: Line, meter: Meter, removed: float, waiting: int) -> Cost:
    """Ticks that let 1,000 visitors a second in: µs a pass, and the longest tick."""
    before = (await line.figures()).waiting
    await line.rate(60_000)
    await meter.start()
    end = time.monotonic() + (4 if waiting > 10_000 else 1)
    while time.monotonic() < end:
        await asyncio.sleep(0.25)
        await line.jobs.tick(line.id)
    used, (longest, _) = await meter.us(), await meter.longest()
    await line.rate(0)
    await line.commit()
    given = before - (await line.figures()).waiting
    line.first = int((await line.jobs.header(line.id) or {})["head"]) + 1
    return Cost("tick (a pass)", waiting, removed, used / max(1, given), longest)


@dataclass(slots=True)
class Act:
    """One long act: how long it took in all, and the longest single call of it."""

    act: str
    tickets: int
    seconds: float
    longest_ms: float
    longest_call: str


async def long_acts(line: Line, meter: Meter) -> list[Act]:
    """Purge of a long line, flush of 100,000, draw, delete of the room with its keys."""
    acts = []

    async def timed(name: str, tickets: int, act: Callable[[], Awaitable[Any]]) -> None:
        await meter.start()
        start = time.monotonic()
        await act()
        acts.append(Act(name, tickets, time.monotonic() - start, *await meter.longest()))

    async def flush() -> None:
        await line.admin.flush(line.id, actor=_ACTOR)
        while (await line.jobs.tick(line.id)).again:
            pass

    waiting = (await line.figures()).waiting
    await timed("purge", waiting, lambda: line.admin.purge(line.id, actor=_ACTOR))
    await line.commit()
    await line.join(100_000)
    await timed("flush", 100_000, flush)
    await line.commit()
    await line.schedule(wall_ms() + 3_600_000)
    await line.join(waiting)
    await line.schedule(None)  # opens the doors now, which draws
    await line.jobs.tick(line.id)
    await timed("draw", waiting, lambda: draw_room(line.jobs, line.id))
    await line.commit()
    issued = int((await line.jobs.header(line.id) or {})["last_ticket"])
    await timed("delete", issued, lambda: line.admin.delete(line.id, actor=_ACTOR))
    return acts


async def run(sizes: tuple[int, ...] = SIZES) -> tuple[list[Cost], list[Act]]:
    """All lengths and shares, and the long acts at the greatest length, in a private Valkey."""
    stores = PrivateStores(None)
    stores.start()
    valkey = await Valkey.connect(stores.valkey_url, timeout_ms=60_000)
    client = redis.from_url(stores.valkey_url)
    try:
        await client.config_set("slowlog-log-slower-than", 1000)
        await client.config_set("slowlog-max-len", 10_000)
        meter, costs = Meter(client), []
        for size in sizes:
            line = Line(valkey, f"line{size}", random.Random(size))
            await line.open()
            await line.join(size)
            for before, removed in zip((0.0, *REMOVED), REMOVED, strict=False):
                await line.take_out((removed - before) / (1 - before))
                costs += await hot_costs(line, meter, removed, size)
                costs.append(await tick_cost(line, meter, removed, size))
            print(f"engine at {size:,} waiting done", flush=True)
        return costs, await long_acts(line, meter)
    finally:
        await client.aclose()
        await valkey.close()
        stores.stop()


def table(costs: list[Cost], acts: list[Act]) -> str:
    """For people; `growth` is against the shortest line with nobody removed."""
    base = {cost.function: cost.us_an_item for cost in costs if cost.waiting == costs[0].waiting and not cost.removed}
    lines = [f"{'function':16} {'waiting':>9} {'removed':>7} {'µs/item':>8} {'growth':>7} {'longest ms':>10}"]
    lines += [
        f"{cost.function:16} {cost.waiting:9,d} {cost.removed:7.0%} {cost.us_an_item:8.2f} "
        f"{cost.us_an_item / base[cost.function]:7.2f} {cost.longest_ms:10.2f}"
        for cost in sorted(costs, key=lambda c: (c.function, c.removed, c.waiting))
    ]
    lines += [
        "",
        f"{'act':16} {'tickets':>9} {'seconds':>8} {'longest ms':>10}   goal of a call ≤ {GOAL_CALL_MS:.0f} ms",
    ]
    for act in acts:
        lines.append(f"{act.act:16} {act.tickets:9,d} {act.seconds:8.2f} {act.longest_ms:10.2f} {act.longest_call}")
    return "\n".join(lines)


def main() -> int:
    """Run it alone."""
    os.sched_setaffinity(0, {0, 1})
    print(table(*uvloop.run(run())))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
