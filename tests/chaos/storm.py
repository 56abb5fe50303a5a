"""Visitors of a fleet in a storm: each request goes to another instance, and what was acknowledged is remembered.

``verify`` says what must hold whatever broke meanwhile (FLT-144, FLT-146).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp
import asyncpg

from app.core.clock import mono
from app.domain.facts import FactType, decode_body
from app.domain.facts_of_passes import Promoted
from loadtests.browser import Answer, Browser, patiently
from tests.chaos.fleet import Fleet

PAGE = "https://shop.example/checkout"
GIVE_UP_SEC = 150.0
DOCUMENTED = {200, 503}
WINDOW_MS = 5000


class Roaming(Browser):
    """A browser whose every request goes to an instance taken at random, as a balancer without stickiness does."""

    def __init__(self, client: aiohttp.ClientSession, room: str, fleet: Fleet, dice: random.Random) -> None:
        super().__init__(client, room)
        self._fleet, self._dice = fleet, dice

    async def send(self, method: str, path: str, **kw: Any) -> Answer:
        """To one of those that run."""
        if not (urls := self._fleet.urls):
            raise aiohttp.ClientConnectionError
        return await super().send(method, self._dice.choice(urls) + path, **kw)


@dataclass
class Record:
    """What visitors were told.

    ``inside``: admitted and not left; ``unsure``: those whom the door turned back, since the answer that admitted them
    was lost (FLT-113); ``slowest``: seconds of the slowest answer.
    """

    room: str
    rate: int
    cap: int
    joined: list[Roaming] = field(default_factory=list)
    inside: set[Roaming] = field(default_factory=set)
    left: set[Roaming] = field(default_factory=set)
    unsure: set[Roaming] = field(default_factory=set)
    most_inside: int = 0
    statuses: set[int] = field(default_factory=set)
    slowest: float = 0.0


class Storm:
    """Visitors who join, wait, enter, stay for a moment and leave, for as long as ``during`` lasts."""

    def __init__(self, fleet: Fleet, room: str, *, seed: int, rate: int = 600, cap: int = 30) -> None:
        self.fleet, self.dice = fleet, random.Random(seed)
        self.record = Record(room, rate, cap)

    async def blow(self, during: Callable[[], Awaitable[None]], *, joiners: int = 6) -> Record:
        """Let visitors come while ``during`` runs, and a second longer."""
        connector = aiohttp.TCPConnector(limit=200)
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout
        ) as client:
            over = asyncio.Event()
            arriving = [asyncio.ensure_future(self._arrive(client, over)) for _ in range(joiners)]
            try:
                try:
                    await asyncio.sleep(1)
                    await during()
                    await asyncio.sleep(1)
                finally:
                    over.set()
                    await asyncio.gather(*arriving)
                await self._verify(client)
            except Exception as error:
                error.add_note(self.fleet.tell())
                raise
        return self.record

    async def _arrive(self, client: aiohttp.ClientSession, over: asyncio.Event) -> None:
        visits = []
        while not over.is_set():
            browser = Roaming(client, self.record.room, self.fleet, self.dice)
            state = await self._ask(browser.join)
            assert state["status"] == 200, f"a visitor was never answered: {state}"
            self.record.joined.append(browser)
            visits.append(asyncio.ensure_future(self._visit(browser, over)))
            await asyncio.sleep(0.1)
        await asyncio.gather(*visits)

    async def _visit(self, browser: Roaming, over: asyncio.Event) -> None:
        record = self.record
        while not over.is_set():
            state = await self._ask(browser.status)
            if state["state"] == "passed":
                break
            await asyncio.sleep(0.5)
        else:
            return
        answer = await self._ask(lambda: browser.check(PAGE))
        if answer.get("reason") not in ("admitted", "session"):
            record.unsure.add(browser)
            return
        record.inside.add(browser)
        record.most_inside = max(record.most_inside, len(record.inside))
        await asyncio.sleep(self.dice.random() * 2)
        if over.is_set():
            return
        # Whoever is about to leave may have left already when the answer comes.
        record.inside.discard(browser)
        record.left.add(browser)
        await self._ask(browser.leave)

    async def _ask(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            began = mono()
            state = await ask()
            self.record.slowest = max(self.record.slowest, mono() - began)
            self.record.statuses.add(state["status"])
            return state

        return await patiently(once, seconds=GIVE_UP_SEC)

    async def _verify(self, client: aiohttp.ClientSession) -> None:
        record = self.record
        assert record.statuses <= DOCUMENTED, record.statuses
        assert record.most_inside <= record.cap
        numbers = [browser.ticket for browser in record.joined]
        assert len(set(numbers)) == len(numbers), "a number was given twice"
        assert len(record.unsure) < max(5, len(record.joined) / 5)
        await self.fleet.do(
            lambda: self.fleet.room(record.room, state="paused")
        )  # so that the line stands still while it is looked at
        places: dict[int, int] = {}

        async def look(browser: Roaming) -> None:
            state = await self._ask(browser.status)
            assert state["status"] == 200
            assert state["ticket"] == browser.ticket, state
            if browser in record.inside:
                assert state["state"] == "active", state
                answer = await self._ask(lambda: browser.check(PAGE))
                assert (answer["action"], answer["reason"]) == ("pass", "session"), (browser.ticket, answer)
            elif state["state"] == "paused":
                places[state["ticket"]] = state["position"]
            else:
                assert state["state"] in ("passed", "at_capacity"), state

        standing = set(record.joined) - record.left - record.unsure
        async with asyncio.TaskGroup() as tasks:
            for browser in standing:
                tasks.create_task(look(browser))
        order = [places[ticket] for ticket in sorted(places)]
        assert all(before < after for before, after in pairwise(order)), "somebody was overtaken"
        await verify_journal(self.fleet, record)


async def verify_journal(fleet: Fleet, record: Record) -> None:
    """Acknowledged joins are in the journal once each and in order, and nobody was let in faster than the rate."""
    link = await asyncpg.connect(fleet.stores.database_url)
    try:
        rows = await link.fetch(
            "SELECT gen, seq, type, lv, at, body FROM events WHERE room = $1 ORDER BY gen, seq", record.room
        )
    finally:
        await link.close()
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    joined = [int.from_bytes(row["body"][:4], "little") for row in rows if row["type"] == FactType.JOINED]
    assert all(before < after for before, after in pairwise(joined)), "a number was journaled twice or out of order"
    assert {browser.ticket for browser in record.joined} <= set(joined)
    passes = []
    for row in rows:
        if row["type"] == FactType.PROMOTED:
            fact = decode_body(row["type"], row["lv"], row["body"])
            assert isinstance(fact, Promoted)
            passes += [row["at"]] * sum(run.count for run in fact.runs if run.flags)
    # A tick gives what has become due since the last one, so a window may hold one tick more.
    allowed = record.rate * (WINDOW_MS + 1000) / 60_000 + 1
    for first, at in enumerate(passes):
        inside = sum(1 for other in passes[first:] if other < at + WINDOW_MS)
        assert inside <= allowed, f"{inside} passes within {WINDOW_MS} ms"
