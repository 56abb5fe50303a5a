"""How much the live store does for one call, counted in commands: a long line makes more calls of an act, none longer.

A command of a function touches one chunk of records or at most a thousand members, so that their number bounds a call.
How long calls last is no matter of a test: `make bench` shows it (bench/engine.py, bench/neighbours.py).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from app.domain.layout import pack_header
from app.infrastructure.valkey import Valkey
from app.services.draws import draw_room
from tests.engine.world import ROOM, Browser, World

MOST_COMMANDS = 5000
"""Of one call: some milliseconds. What a call does for each of a thousand tickets, it does with a few commands."""

BY_TIME = 300
"""Commands that a call may have for the seconds since the one before, whatever the line: figures of a minute."""


async def commands(valkey: Valkey) -> int:
    """Commands that the live store has carried out, those inside of functions and not the functions themselves."""
    text = (await valkey.execute("INFO", "commandstats")).decode()
    lines = [line for line in text.splitlines() if line.startswith("cmdstat_")]
    counts = {line[8:].partition(":")[0]: int(line.partition("calls=")[2].partition(",")[0]) for line in lines}
    return sum(number for name, number in counts.items() if name not in ("info", "fcall"))


class Counted:
    """In the place of the Valkey of a loader: what each single call of a function took."""

    def __init__(self, valkey: Valkey) -> None:
        self._valkey = valkey
        self.calls: dict[str, list[int]] = defaultdict(list)
        """Function → commands of each of its calls."""

    async def execute(self, *command: Any) -> Any:
        if command[0] != "FCALL":
            return await self._valkey.execute(*command)
        before = await commands(self._valkey)
        reply = await self._valkey.execute(*command)
        name = command[1].split("_", 2)[2]  # behind the library's own
        self.calls[name].append(await commands(self._valkey) - before)
        return reply

    async def pipeline(self, many: list[Sequence[Any]]) -> list[Any]:
        return [await self.execute(*command) for command in many]


async def crowd(world: World, count: int, **fields: Any) -> list[Browser]:
    """``count`` browsers that have joined at the same time."""
    browsers = [Browser(**fields) for _ in range(count)]
    await asyncio.gather(*(world.join(browser) for browser in browsers))
    return browsers


async def ticks(world: World) -> None:
    """Until nothing is left to do."""
    while (await world.jobs.tick(ROOM, await world.now())).again:
        pass


async def _flush(world: World) -> None:
    await world.admin.flush(ROOM, actor="ann")
    await ticks(world)


async def _purge(world: World) -> None:
    await world.admin.purge(ROOM, actor="ann")
    await ticks(world)


async def _absent(world: World) -> None:
    """Nobody is there when the line moves on; then all the passes end."""
    await world.update(rate_per_minute=60_000)
    await world.advance(1)
    await ticks(world)
    await world.advance(2000)
    await ticks(world)


async def _draw(world: World) -> None:
    await world.update(opens_at=None)
    await ticks(world)
    assert await draw_room(world.jobs, ROOM) is not None
    await ticks(world)


@pytest.mark.req("ENG-003")
@pytest.mark.parametrize("act", [_flush, _purge, _absent, _draw])
async def test_no_call_of_a_long_act_does_more_for_a_longer_line(
    world: World, act: Callable[[World], Awaitable[None]]
) -> None:
    """Calls of other rooms come between those of the act and of the deletion behind it."""
    longest, numbers = [], []
    for gen, size in ((1, 1100), (2, 3300)):
        await world.create(gen, rate_per_minute=0, queue_max_per_ip=None, pre_queue_max_per_ip=None, presence_sec=30)
        if act is _draw:
            await world.update(opens_at=await world.now() + 3_600_000)
        await crowd(world, size, address=None)
        await world.advance(60)
        counted = Counted(world.valkey)
        world.loader._valkey = cast(Any, counted)
        await act(world)
        await world.admin.delete(ROOM, actor="ann")
        world.loader._valkey = world.valkey
        longest.append({name: max(calls) for name, calls in counted.calls.items()})
        numbers.append(sum(map(len, counted.calls.values())))
        await world.commit()

    short, long = longest
    assert max(long.values()) <= MOST_COMMANDS
    for name, most in long.items():
        assert most <= short.get(name, 0) * 1.5 + BY_TIME, name
    assert act is _purge or numbers[1] > numbers[0], "more work is more calls"


async def spent_on_visitors(world: World, gen: int, waiting: int) -> dict[str, int]:
    """Commands for each call of a visitor in a line of this length, and of somebody inside."""
    await world.create(gen, rate_per_minute=60, queue_max_per_ip=None, presence_sec=3600)
    inside, _, gone = await world.joined(3)
    await world.check(inside)
    await world.update(rate_per_minute=0)
    await world.leave(gone)
    header = await world.header()
    await world.valkey.execute("SET", world.keys.header, pack_header(header | {"last_ticket": waiting}))
    (last,) = await world.joined()
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "join": lambda: world.join(Browser()),
        "status": lambda: world.status(last),
        "check": lambda: world.check(last),
        "session": lambda: world.check(inside),
    }
    spent = {}
    for name, call in calls.items():
        await call()  # what is done once is done
        before = await commands(world.valkey)
        await call()
        spent[name] = await commands(world.valkey) - before
    assert (await world.status(last)).ahead > waiting - 10
    await world.admin.delete(ROOM, actor="ann")
    await world.commit()
    return spent


@pytest.mark.req("ENG-009")
async def test_a_call_of_a_visitor_does_no_more_in_a_line_of_half_a_million(world: World) -> None:
    """Somebody at its end, with one who left before him: places are counted in blocks, once for all who ask at once."""
    short, long = [await spent_on_visitors(world, gen, size) for gen, size in ((1, 1000), (2, 500_000))]

    blocks = 500_000 // 65_536
    assert {**long, "status": 0} == {**short, "status": 0}
    assert short["status"] <= long["status"] <= short["status"] + blocks
