"""Three instances are replaced by the next release, one after the other, while visitors join and load pages."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from app.core.clock import mono
from loadtests.browser import Answer, Browser
from tests.chaos.builds import VERSION, PageLoads, next_build
from tests.chaos.fleet import Fleet
from tests.chaos.surge import Surge, positions
from tests.process.waiting import until

JOINS_A_SEC = 500
PAGES = 10_000


class Arrivals:
    """Joins at a steady pace, each at an instance in rotation; one that takes no connection is left for another."""

    def __init__(self, fleet: Fleet, rotation: list[str]) -> None:
        self.fleet, self.rotation, self.dice = fleet, rotation, random.Random(3)
        self.surge = Surge()
        self.broken = 0
        """Connections that ended without an answer: such a visitor comes again, and may leave a place behind."""

    async def run(self, client: aiohttp.ClientSession, over: asyncio.Event) -> None:
        """Until ``over`` is set and everybody has his answer."""
        coming: set[asyncio.Task[None]] = set()
        due = mono()
        while not over.is_set():
            due += 1 / JOINS_A_SEC
            if len(coming) < 2 * JOINS_A_SEC:  # a machine that is too slow is not asked for more than it can
                task = asyncio.ensure_future(self._join(client))
                coming.add(task)
                task.add_done_callback(coming.discard)
            await asyncio.sleep(max(0.0, due - mono()))
        await asyncio.gather(*coming)

    async def _join(self, client: aiohttp.ClientSession) -> None:
        while True:
            browser = _At(client, "rush", self.dice.choice(self.rotation))
            try:
                state = await browser.join()
            except aiohttp.ClientConnectorError:
                continue
            except aiohttp.ClientError:
                self.broken += 1
                continue
            self.surge.statuses.add(state["status"])
            if state["status"] == 200:
                self.surge.acknowledged.append(browser)
            return


class _At(Browser):
    """A browser whose requests go to ``url``; "" = to its client's own."""

    def __init__(self, client: aiohttp.ClientSession, room: str, url: str) -> None:
        super().__init__(client, room)
        self.url = url

    async def send(self, method: str, path: str, **kw: Any) -> Answer:
        """There."""
        return await super().send(method, self.url + path, **kw)


async def replace(fleet: Fleet, number: int, rotation: list[str], root: Path) -> None:
    """Stop an instance as a platform does, and put the next release in its place."""
    old = fleet.instances[number]
    url = old.url
    stopping = asyncio.ensure_future(fleet.do(old.stop))
    await until(lambda: probe(url) != 200, deadline_sec=60)
    rotation.remove(url)
    await stopping
    await fleet.do(lambda: fleet.start_build(number, root))
    new = fleet.instances[number]
    assert f" version={VERSION}" in new.line
    await until(lambda: probe(new.url) == 200, deadline_sec=60)
    rotation.append(new.url)


def probe(url: str) -> int:
    """Status of ``/healthz``; 0 when nobody listens."""
    try:
        return httpx.get(url + "/healthz", timeout=10).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.req("FLT-139")
async def test_nobody_notices_that_all_instances_are_replaced_by_the_next_release(tmp_path: Path) -> None:
    """No 404 for a file, no 5xx; every number once, in order, and still its owner's afterwards."""
    root = next_build(tmp_path / "build")
    with Fleet(3, SHUTDOWN_GRACE_MS="3000") as fleet:
        fleet.room("rush", ratePerMinute=0)
        rotation = list(fleet.urls)
        arrivals, loads, over = Arrivals(fleet, rotation), PageLoads(lambda: list(rotation), "/w/rush"), asyncio.Event()
        connector = aiohttp.TCPConnector(limit=400)
        with ThreadPoolExecutor(1) as pool:
            loading = asyncio.get_running_loop().run_in_executor(
                pool, lambda: loads.run(lambda found: found.pages >= PAGES, visitors=4, pause_sec=0)
            )
            async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as client:
                arriving = asyncio.ensure_future(arrivals.run(client, over))
                await asyncio.sleep(2)
                for number in range(3):
                    await replace(fleet, number, rotation, root)
                    await asyncio.sleep(2)
                over.set()
                await arriving
                await loading

        surge = arrivals.surge
        print(f"joins={len(surge.tickets)} broken={arrivals.broken} pages={loads.pages} files={len(loads.files)}")
        assert surge.statuses == {200}
        assert (loads.strange, set(loads.statuses)) == ([], {200})
        assert len([path for path in loads.files if path.endswith(".css")]) == 2, "of both builds"
        assert len(set(surge.tickets)) == len(surge.tickets)
        assert max(surge.tickets) <= len(surge.tickets) + arrivals.broken
        some = Surge(random.Random(4).sample(surge.acknowledged, 500))
        for browser in some.acknowledged:
            browser.url = ""  # type: ignore[attr-defined]
        found = await positions(rotation[0], some)
        ranks = [found[ticket]["position"] for ticket in sorted(found)]
        assert ranks == sorted(found), "nobody before them has left"
