"""What one instance cannot do any more stays unseen while another does it: after each fault, each must serve alone.

The seed is printed and can be set by `QM_CHAOS_SEED`. The long form plays many faults, one after the other.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import pytest

from app.core.clock import mono
from loadtests.browser import Browser
from tests.chaos.fleet import Fleet

pytestmark = pytest.mark.timeout(600)

Fault = Callable[[Fleet, random.Random], Awaitable[None]]
SERVES_SEC = 60.0


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet(2) as running:
        yield running


async def postgres_dies(fleet: Fleet, dice: random.Random) -> None:
    await fleet.do(fleet.kill_postgres)
    await asyncio.sleep(dice.choice([0, 0.3, 1.5]))
    await fleet.do(fleet.start_postgres)


async def primary_dies(fleet: Fleet, dice: random.Random) -> None:
    await fleet.do(fleet.lose_the_primary)
    await asyncio.sleep(dice.random())
    await fleet.do(fleet.replace_the_replica)


async def one_loses_postgres(fleet: Fleet, dice: random.Random) -> None:
    wire = dice.choice(fleet.pg_wires)
    dice.choice([wire.cut, wire.mute])()
    await asyncio.sleep(dice.random() * 2)
    wire.mend()


async def one_loses_valkey(fleet: Fleet, dice: random.Random) -> None:
    wire = dice.choice(fleet.wires)
    dice.choice([wire.cut, wire.mute])()
    await asyncio.sleep(dice.random() * 2)
    wire.mend()


async def joins(client: aiohttp.ClientSession, url: str, room: str) -> bool:
    """Whether a new visitor gets a place there."""
    browser = Browser(client, room)
    try:
        async with client.post(f"{url}/api/join", json={"roomId": room}, headers=browser.headers) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def serves(client: aiohttp.ClientSession, fleet: Fleet, number: int, room: str) -> None:
    """Return when the instance has taken a visitor."""
    end = mono() + SERVES_SEC
    while not await joins(client, fleet.instances[number].url, room):
        assert mono() < end, f"i{number} does not serve alone\n{fleet.tell()}"
        await asyncio.sleep(0.1)


async def play(fleet: Fleet, faults: list[Fault], dice: random.Random) -> int:
    """Each fault while visitors come to both instances, then either of them without the other; how often one served."""
    room = f"r{secrets.token_hex(4)}"
    await fleet.do(lambda: fleet.room(room, ratePerMinute=600, maxConcurrent=30))
    over, served = asyncio.Event(), 0
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as client:

        async def come() -> None:
            while not over.is_set():
                await joins(client, dice.choice(fleet.instances).url, room)
                await asyncio.sleep(0.1)

        coming = [asyncio.ensure_future(come()) for _ in range(4)]
        try:
            for fault in faults:
                await fault(fleet, dice)
                await asyncio.sleep(dice.random())
                for number, wire in enumerate(reversed(fleet.wires)):
                    dice.choice([wire.cut, wire.mute])()  # the other one's: it stores nothing from now on
                    await asyncio.sleep(dice.choice([0, 1.5]))
                    await serves(client, fleet, number, room)
                    wire.mend()
                    served += 1
        finally:
            over.set()
            await asyncio.gather(*coming)
    return served


def dice() -> random.Random:
    """Of this run, or of the one that QM_CHAOS_SEED names."""
    seed = int(os.environ.get("QM_CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"QM_CHAOS_SEED={seed}")
    return random.Random(seed)


@pytest.mark.req("FLT-010")
async def test_each_instance_serves_alone_after_both_stores_were_lost(fleet: Fleet) -> None:
    assert await play(fleet, [postgres_dies, primary_dies], dice()) == 4


@pytest.mark.slow
@pytest.mark.req("FLT-010")
async def test_each_instance_serves_alone_after_many_faults(fleet: Fleet) -> None:
    thrown = dice()
    faults = thrown.choices([postgres_dies, primary_dies, one_loses_postgres, one_loses_valkey], k=40)

    assert await play(fleet, faults, thrown) == 80
