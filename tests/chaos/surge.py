"""A surge of joins that survives faults the way a page does: it retries, and remembers what was acknowledged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.browser import Browser, patiently, shared_client

GIVE_UP_SEC = 60.0


@dataclass
class Surge:
    """Acknowledged joins in the order of their answers, and every status that was seen."""

    acknowledged: list[Browser] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    @property
    def tickets(self) -> list[int]:
        """Ticket numbers of the acknowledged joins."""
        return [browser.ticket for browser in self.acknowledged if browser.ticket is not None]


async def _join_until_acknowledged(browser: Browser, surge: Surge) -> None:
    async def join() -> dict[str, Any]:
        state = await browser.join()
        surge.statuses.add(state["status"])
        return state

    state = await patiently(join, seconds=GIVE_UP_SEC)
    assert state["status"] == 200, f"a visitor was never answered: {state}"
    surge.acknowledged.append(browser)


async def join_many(url: str, room: str, count: int, *, at_once: int) -> Surge:
    """``count`` browsers join, at most ``at_once`` at the same time; every one of them is acknowledged in the end."""
    surge = Surge()
    gate = asyncio.Semaphore(at_once)
    async with shared_client(url, connections=at_once) as client:

        async def one() -> None:
            async with gate:
                await _join_until_acknowledged(Browser(client, room), surge)

        await asyncio.gather(*(one() for _ in range(count)))
    return surge


async def join_until(url: str, room: str, end: asyncio.Task[Any], *, at_once: int) -> Surge:
    """Browsers keep joining, ``at_once`` at the same time, until ``end`` is done; each is acknowledged in the end."""
    surge = Surge()
    async with shared_client(url, connections=at_once) as client:

        async def arrive() -> None:
            while not end.done():
                await _join_until_acknowledged(Browser(client, room), surge)

        await asyncio.gather(*(arrive() for _ in range(at_once)))
    return surge


async def positions(url: str, surge: Surge, *, at_once: int = 50) -> dict[int, dict[str, Any]]:
    """The visitor state of every acknowledged ticket as its owner is told it now, retrying while a store is away."""
    gate = asyncio.Semaphore(at_once)
    found: dict[int, dict[str, Any]] = {}
    async with shared_client(url, connections=at_once) as client:

        async def one(browser: Browser) -> None:
            browser.client = client
            async with gate:
                state = await patiently(browser.status, seconds=GIVE_UP_SEC)
            assert state["status"] == 200, f"ticket {browser.ticket} was never answered: {state}"
            assert browser.ticket is not None
            found[browser.ticket] = state

        await asyncio.gather(*(one(browser) for browser in surge.acknowledged))
    return found


def create_room(url: str, admin_key: str, room: str, **fields: Any) -> dict[str, Any]:
    """Create or change a room as an operator's script does; the room of the answer."""
    body = {"id": room, "targetUrl": "https://shop.example/", **fields}
    answer = httpx.post(
        f"{url}/api/admin/rooms",
        headers={"Authorization": f"Bearer {admin_key}"},
        json=body,
        trust_env=False,
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    room_object: dict[str, Any] = answer.json()["room"]
    return room_object


def read_room(url: str, admin_key: str, room: str) -> dict[str, Any]:
    """The room with its live figures."""
    answer = httpx.get(
        f"{url}/api/admin/rooms/{room}", headers={"Authorization": f"Bearer {admin_key}"}, trust_env=False, timeout=30
    )
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body.get("room", body)
