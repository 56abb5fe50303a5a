"""Another release at work on a test's room: ``python -m tests.engine.other_release <url> <prefix> <lua dir> <name>``.

Prints ``ready``, waits for a line on stdin, then acts as fast as it can and prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from app.infrastructure.lua_bundle import bundle
from app.infrastructure.valkey import Valkey
from tests.engine.world import ROOM, Browser, World

ROUNDS = 40


async def act(world: World, name: str) -> dict[str, list[int]]:
    """Joins, looks, checks, ticks, leaves and a change of the room, round by round."""
    tickets, admitted, browsers = [], [], []
    for turn in range(ROUNDS):
        browser = Browser(f"{name}-{turn}")
        answer = await world.join(browser)
        assert answer.view is not None
        tickets.append(answer.view.ticket)
        browsers.append(browser)
        await world.jobs.tick(ROOM)
        for holder in browsers[-8:]:
            await world.status(holder)
            check = await world.check(holder)
            if check.verdict == 4:
                admitted.append(check.ticket)
        if turn % 7 == 3:
            await world.leave(browsers[turn // 2])
        if turn % 11 == 5:
            await world.admin.update(ROOM, {"rate_per_minute": 60_000 + turn}, actor=name)
        if turn % 13 == 6:
            await world.admin.eject(ROOM, tickets[turn // 3], actor=name)
    return {"tickets": tickets, "admitted": admitted}


async def main(url: str, prefix: str, lua: str, name: str) -> None:
    valkey = await Valkey.connect(url)
    world = World(valkey, prefix, bundle=bundle(Path(lua)))
    await world.reload()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(json.dumps(await act(world, name)), flush=True)
    await valkey.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
