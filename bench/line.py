"""Fills a room for the bench: sessions and a short line by real requests, a million tickets by its journal.

The million is written into the journal as `joined` facts; the server then finds its live room behind the journal and
rebuilds it, as after a loss of Valkey: seconds instead of minutes, and the same bytes a join would have left.
"""

from __future__ import annotations

import itertools
import secrets
import time
from typing import Any

import aiohttp
import asyncpg
import httpx

from app.domain.facts import encode_element
from app.domain.facts_of_tickets import Joined
from app.infrastructure.journal import outbox_to_row
from bench.lab import Lab, until
from bench.shapes import AGENT, PAGE, Holder, address
from loadtests.browser import Browser, shared_client


class Operator:
    """The few admin calls the bench needs."""

    def __init__(self, lab: Lab) -> None:
        self.client = httpx.AsyncClient(
            base_url=lab.server.url,
            headers={"Authorization": f"Bearer {lab.server.admin_key}"},
            trust_env=False,
            timeout=30,
        )

    async def save(self, room: str, **fields: Any) -> None:
        """Create or change a room."""
        body = {"id": room, "targetUrl": "https://shop.example/", "queueMaxPerIp": None, **fields}
        (await self.client.post("/api/admin/rooms", json=body)).raise_for_status()

    async def read(self, room: str) -> dict[str, Any]:
        """The room with its figures; {} while it cannot be told."""
        answer = await self.client.get(f"/api/admin/rooms/{room}")
        body: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return body.get("room", body)


async def _join(client: aiohttp.ClientSession, room: str, n: int) -> Holder:
    browser = Browser(client, room, agent=AGENT)
    browser.headers["X-Forwarded-For"] = where = address(n)
    state = await browser.join()
    if state["status"] != 200:
        raise RuntimeError(f"a join was refused: {state}")
    return Holder(where, state["token"], browser.cookies[f"qms_{room}"])


async def _enter(client: aiohttp.ClientSession, room: str, holder: Holder) -> Holder:
    """Wait for the pass and take it to the door."""
    browser = Browser(client, room, agent=AGENT)
    browser.headers["X-Forwarded-For"] = holder.address

    async def ask() -> bool:
        body = {"token": holder.token, "url": PAGE}
        answer = (await browser.send("POST", f"/api/check?room={room}", json=body)).json()
        browser.door_key = answer.get("doorKey", browser.door_key)
        return browser.door_key is not None

    await until(ask, seconds=60, what="an admission")
    assert browser.door_key is not None
    return Holder(holder.address, holder.token, holder.session, browser.door_key)


async def fill(lab: Lab, room: str, *, inside: int, waiting: int) -> tuple[list[Holder], list[Holder]]:
    """``inside`` sessions, then ``waiting`` tickets with nobody let in any more."""
    operator = Operator(lab)
    await operator.save(room, ratePerMinute=100_000, sessionTtlSec=7200)
    async with shared_client(lab.server.url) as client:
        joined = [await _join(client, room, n) for n in range(inside)]
        entered = [await _enter(client, room, holder) for holder in joined]
        await operator.save(room, ratePerMinute=0)
        line = [await _join(client, room, inside + n) for n in range(waiting)]
    return entered, line


async def lengthen(lab: Lab, room: str, more: int) -> tuple[float, float]:
    """Put ``more`` tickets behind the line through the journal; (seconds of the rebuild, bytes each in Valkey)."""
    used = await _valkey_bytes(lab)
    waiting = await write_ahead(lab, room, more)
    start = time.monotonic()
    await await_rebuilt(Operator(lab), room, waiting)
    took = time.monotonic() - start
    return took, (await _valkey_bytes(lab) - used) / more


async def write_ahead(lab: Lab, room: str, more: int) -> int:
    """Write ``more`` tickets behind the line into the journal alone; how many then wait. A rebuild follows."""
    before = await Operator(lab).read(room)
    first = before["lastTicket"] + 1
    connection = await asyncpg.connect(lab.stores.database_url)
    try:
        gen, seq = await connection.fetchrow("SELECT gen, seq FROM room_heads WHERE room = $1 ORDER BY gen DESC", room)
        now = int(time.time() * 1000)
        rows = ((room, gen, seq + 1 + i, *outbox_to_row(encode_element(now, _joined(first + i)))) for i in range(more))
        async with connection.transaction():
            await connection.copy_records_to_table(
                "events", records=rows, columns=["room", "gen", "seq", "type", "lv", "at", "ip", "body"]
            )
            await connection.execute(
                "UPDATE room_heads SET seq = seq + $2 WHERE room = $1 AND gen = $3", room, more, gen
            )
    finally:
        await connection.close()
    return int(before["waiting"]) + more


async def await_rebuilt(operator: Operator, room: str, waiting: int) -> None:
    """Return when the room tells this many who wait."""

    async def is_rebuilt() -> bool:
        return (await operator.read(room)).get("waiting") == waiting

    await until(is_rebuilt, seconds=300, what="the rebuild")


def _joined(ticket: int) -> Joined:
    # 0.3 addresses a ticket, as in a crowd of homes, offices and phones
    home = (ticket * 2654435761 % 2**32 % 300_000).to_bytes(8, "little")
    return Joined(ticket, bytes(16), home, *(secrets.token_bytes(16) for _ in range(3)))


async def _valkey_bytes(lab: Lab) -> int:
    import redis.asyncio as redis

    client = redis.from_url(lab.stores.valkey_url)
    try:
        return int((await client.info("memory"))["used_memory"])
    finally:
        await client.aclose()


async def bytes_of_real_joins(lab: Lab, room: str, count: int) -> float:
    """Bytes in Valkey for each of ``count`` tickets given by real joins: the check on the rebuilt million."""
    from bench import shapes
    from bench.client import drive

    await Operator(lab).save(room, ratePerMinute=0)
    used = await _valkey_bytes(lab)
    streams = [itertools.islice(stream, count // 50) for stream in shapes.joins(lab.port, room, 50)]
    result = await drive("127.0.0.1", lab.port, streams, 300)
    if set(result.statuses) != {200}:
        raise RuntimeError(f"joins failed: {dict(result.statuses)}")
    return (await _valkey_bytes(lab) - used) / (count // 50 * 50)
