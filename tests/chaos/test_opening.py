"""kill -9 of every process around the opening of the doors: one ticket for each holder, and what was told stays."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from app.core.clock import mono, wall_ms
from loadtests.browser import Browser, patiently, shared_client
from tests.chaos.surge import create_room, join_many
from tests.chaos.test_kills import dice as dice  # the seed is printed
from tests.harness import Server

PEOPLE = 10_000
TOLD_SEC = 60.0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.req("ENG-283", "ENG-179", "FLT-086")
async def test_it_draws_once_when_everything_is_killed_at_the_opening(dice: random.Random) -> None:
    with Server(env={"STORE": "embedded"}, workers=2) as server:
        caps = {"preQueueMaxPerIp": None, "queueMaxPerIp": None, "ratePerMinute": 0}
        create_room(server.url, server.admin_key, "drop", **caps, opensAt=wall_ms() + 3_600_000)
        surge = await join_many(server.url, "drop", PEOPLE, at_once=50)
        people = surge.acknowledged
        assert surge.tickets == []
        opens_at = wall_ms() + 4000
        create_room(server.url, server.admin_key, "drop", opensAt=opens_at)
        kill_at = opens_at + dice.randint(-1000, 1000)

        told = await _ask_until(server.url, dice.sample(range(PEOPLE), 500), people, kill_at)
        server.kill()
        server.wait()
        server.start()
        numbers = await _numbers(server.url, people)

        assert sorted(numbers) == list(range(1, PEOPLE + 1))
        assert {who: numbers[who] for who in told} == told
        server.kill()
        server.wait()
        server.start()
        assert await _numbers(server.url, people) == numbers


async def _ask_until(url: str, some: list[int], people: list[Browser], end_ms: int) -> dict[int, int]:
    """Numbers that are told until a moment, by holder."""
    told: dict[int, int] = {}
    async with shared_client(url, connections=20) as client:

        async def ask(who: int) -> None:
            people[who].client = client
            state = await people[who].status()
            if state.get("ticket"):
                told[who] = state["ticket"]

        while wall_ms() < end_ms:
            for who in some:
                if wall_ms() >= end_ms:
                    break
                await ask(who)
    return told


async def _numbers(url: str, people: list[Browser]) -> list[int]:
    """The number of each holder, once it is told."""
    gate = asyncio.Semaphore(50)
    async with shared_client(url, connections=50) as client:

        async def number(browser: Browser) -> int:
            browser.client = client
            end = mono() + TOLD_SEC
            state: dict[str, Any] = {}
            async with gate:
                while "ticket" not in state and mono() < end:
                    state = await patiently(browser.status)
            return int(state["ticket"])

        return list(await asyncio.gather(*(number(browser) for browser in people)))
