"""kill -9 of every process during a surge, and the loss of the whole live store with it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import aiohttp
import httpx
import pytest

from loadtests.browser import Browser, shared_client
from tests.chaos.surge import Surge, create_room, positions
from tests.harness import Server

JOINS_A_SEC = 200


async def rush(server: Server, seconds: float) -> tuple[Surge, list[int], list[int]]:
    """Joins and ejects until the server is killed; what was acknowledged of each, and ejects of unknown outcome."""
    surge, ejected, unknown = Surge(), [], []
    key = {"Authorization": f"Bearer {server.admin_key}"}

    async def arrive(client: Any) -> None:
        browser = Browser(client, "rush")
        try:
            state = await browser.join()
        except (aiohttp.ClientError, OSError):
            return  # the server is gone: nothing was acknowledged
        if state["status"] == 200:
            surge.acknowledged.append(browser)

    async def eject(client: httpx.AsyncClient, ticket: int) -> None:
        try:
            answer = await client.post("/api/admin/rooms/rush/eject", json={"ticket": ticket}, headers=key)
        except httpx.HTTPError:
            unknown.append(ticket)
            return
        (ejected if answer.status_code == 200 else unknown).append(ticket)

    async with (
        shared_client(server.url, connections=60) as client,
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=30) as operator,
    ):
        tasks = []
        for number in range(int(seconds * JOINS_A_SEC)):
            tasks.append(asyncio.ensure_future(arrive(client)))
            if number % 10 == 9 and len(surge.acknowledged) > number // 2:
                tasks.append(asyncio.ensure_future(eject(operator, surge.tickets[number // 2])))
            await asyncio.sleep(1 / JOINS_A_SEC)
        server.kill()
        await asyncio.gather(*tasks)
    return surge, ejected, unknown


@pytest.mark.req("ENG-288", "FLT-099", "ENG-010")
@pytest.mark.req("FLT-116")
@pytest.mark.req("CFG-201")
async def test_every_acknowledged_join_and_eject_is_there_after_all_was_killed() -> None:
    """The same numbers in the same order, each still its owner's; an ejected ticket stays ejected."""
    with Server(env={"STORE": "embedded"}, workers=1) as server:
        create_room(server.url, server.admin_key, "rush", ratePerMinute=0, queueMaxPerIp=None)
        surge, ejected, unknown = await rush(server, 0.8)
        server.wait()
        (server.base / "data" / "valkey").rename(server.base / "lost")
        server.start()

        states = await positions(server.url, surge)
        stranger = await foreign(server, surge.acknowledged[-1].token or "")

    assert len(surge.tickets) > 50
    assert len(ejected) > 5
    assert len(set(surge.tickets)) == len(surge.acknowledged)
    for ticket, state in states.items():
        if ticket in unknown:
            continue
        expected = ("gone", "ejected", None) if ticket in ejected else ("waiting", None, ticket)
        assert (state["state"], state.get("reason"), state.get("ticket")) == expected
    places = [states[ticket]["position"] for ticket in sorted(states) if "position" in states[ticket]]
    assert all(before < after for before, after in pairwise(places))
    assert stranger == "bad_token"


async def foreign(server: Server, token: str) -> str:
    """Why somebody without the owner's proofs is told nothing of a ticket."""
    async with shared_client(server.url, connections=1) as client:
        browser = Browser(client, "rush", agent="somebody else")
        browser.cookies["qm_rush"] = token
        state = await browser.status()
        return str(state["reason"])
