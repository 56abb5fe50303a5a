"""How long it takes until all rooms answer again after Valkey lost them, and what it costs others meanwhile."""

from __future__ import annotations

import asyncio
import random
import secrets
import statistics
from collections.abc import Iterator
from typing import Any

import asyncpg
import httpx
import pytest
from redis import Redis

from app.core.clock import mono, wall_ms
from app.domain.facts import encode_element
from app.domain.facts_of_tickets import Joined
from app.infrastructure.journal import outbox_to_row
from tests.chaos.fleet import Fleet

RTO_SEC = 300.0
COLUMNS = ["room", "gen", "seq", "type", "lv", "at", "ip", "body"]


def rows(room: str, count: int) -> Iterator[tuple[Any, ...]]:
    """The joins of so many visitors, as the journal has them behind the fact that made the room."""
    now, prints = wall_ms(), secrets.token_bytes(1 << 16)
    dice = random.Random(1)
    for ticket in range(1, count + 1):
        home, at = (ticket * 2654435761 % 2**32 % 300_000).to_bytes(8, "little"), dice.randrange(1 << 15)
        cookie = ticket.to_bytes(8, "little") + prints[at : at + 8]
        fact = Joined(ticket, bytes(16), home, cookie, prints[at + 8 : at + 24], prints[at + 24 : at + 40])
        yield (room, 1, ticket + 1, *outbox_to_row(encode_element(now, fact)))


async def lose(fleet: Fleet, rooms: dict[str, int]) -> None:
    """Put lines into the journal of these rooms, all in one moment, and take the rooms out of Valkey in the next."""
    link = await asyncpg.connect(fleet.stores.database_url)
    try:
        async with link.transaction():
            for room, count in rooms.items():
                await link.copy_records_to_table("events", records=rows(room, count), columns=COLUMNS)
                await link.execute("UPDATE room_heads SET seq = $2 WHERE room = $1", room, count + 1)
    finally:
        await link.close()
    with Redis(port=fleet.primary.port) as client:
        names = [name for name in client.scan_iter(match="qm:{*", count=1000) if b"{beside}" not in name]
        client.unlink(*names)


async def waiting(client: httpx.AsyncClient) -> dict[str, int | None]:
    """How many wait in each room; None = it does not answer yet."""
    answer = await client.get("/api/admin/rooms")
    if answer.status_code != 200:
        return {}
    return {room["id"]: None if room["recovering"] else room["waiting"] for room in answer.json()["rooms"]}


async def recovered(client: httpx.AsyncClient, rooms: dict[str, int]) -> float:
    """Seconds until every room has its line again; AssertionError when that takes longer than it may."""
    began = mono()
    while await waiting(client) != rooms:
        assert mono() - began < RTO_SEC, "not every room answers"
        await asyncio.sleep(0.5)
    return mono() - began


async def ask_for(client: httpx.AsyncClient, seconds: float) -> list[float]:
    """The same while nothing goes on: what the machine itself takes."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    return await ask_beside(client, over)


def p99_of(took: list[float]) -> float:
    assert len(took) >= 20, "the other room did not answer"
    return statistics.quantiles(took, n=100)[98]


async def ask_beside(client: httpx.AsyncClient, over: asyncio.Event) -> list[float]:
    """Seconds that the status of somebody in a room that is whole takes, until ``over``."""
    took = []
    while not over.is_set():
        began = mono()
        answer = await client.get("/api/status", params={"room": "beside"})
        took.append(mono() - began)
        assert answer.status_code == 200
        await asyncio.sleep(0.02)
    return took


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.req("FLT-145")
@pytest.mark.parametrize(
    "sizes", [{"huge": 1_000_000}, {f"room{n}": 10_000 for n in range(200)}], ids=["one_of_a_million", "two_hundred"]
)
async def test_every_room_answers_again_within_five_minutes(sizes: dict[str, int]) -> None:
    """Measured from the moment at which both stores answer; another room of the instance is served meanwhile."""
    with Fleet(1, RESYNC_MS="5000") as fleet:
        for room in ("beside", *sizes):
            await fleet.do(lambda room=room: fleet.room(room, ratePerMinute=0))  # type: ignore[misc]
        url, key = fleet.instances[0].url, {"Authorization": f"Bearer {fleet.admin_key}"}
        async with (
            httpx.AsyncClient(base_url=url, headers=key, timeout=60) as operator,
            httpx.AsyncClient(base_url=url, timeout=60) as visitor,
        ):
            assert (await visitor.post("/api/join", json={"roomId": "beside"})).status_code == 200
            quiet = await ask_for(visitor, 10)
            over = asyncio.Event()
            await lose(fleet, sizes)
            beside = asyncio.ensure_future(ask_beside(visitor, over))
            seconds = await recovered(operator, {"beside": 1, **sizes})
            over.set()
            took = await beside
            found = await visitor.get("/api/status", params={"room": "beside"})

        assert (found.json()["state"], found.json()["position"]) == ("waiting", 1)
        p99, before = p99_of(took), p99_of(quiet)  # FLT-093 is a figure: bench/neighbours.py measures it
        print(f"rooms={len(sizes)} seconds={seconds:.1f} p99={p99:.3f} s, before {before:.3f} s, asked={len(took)}")
