"""A surge of joins that survives faults the way a page does: it retries, and remembers what was acknowledged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadtests.browser import Browser, shared_client

RETRY_SEC = 0.2
GIVE_UP_SEC = 60.0


@dataclass
class Surge:
    """Acknowledged joins in the order of their answers, and every status that was seen."""

    acknowledged: list[Browser] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    lost_connections: int = 0

    @property
    def tickets(self) -> list[int]:
        """Ticket numbers of the acknowledged joins."""
        return [browser.ticket for browser in self.acknowledged if browser.ticket is not None]


async def _join_until_acknowledged(browser: Browser, surge: Surge) -> None:
    for _ in range(int(GIVE_UP_SEC / RETRY_SEC)):
        try:
            state = await browser.join()
        except httpx.TransportError:
            surge.lost_connections += 1
        else:
            surge.statuses.add(state["status"])
            if state["status"] == 200:
                surge.acknowledged.append(browser)
                return
        await asyncio.sleep(RETRY_SEC)
    raise AssertionError("a visitor was never answered")


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


async def positions(url: str, surge: Surge, *, at_once: int = 50) -> dict[int, dict[str, Any]]:
    """The visitor state of every acknowledged ticket as its owner is told it now, retrying while a store is away."""
    gate = asyncio.Semaphore(at_once)
    found: dict[int, dict[str, Any]] = {}
    async with shared_client(url, connections=at_once) as client:

        async def one(browser: Browser) -> None:
            browser.client = client
            async with gate:
                for _ in range(int(GIVE_UP_SEC / RETRY_SEC)):
                    state = await browser.status()
                    if state["status"] == 200:
                        assert browser.ticket is not None
                        found[browser.ticket] = state
                        return
                    await asyncio.sleep(RETRY_SEC)
            raise AssertionError(f"ticket {browser.ticket} was never answered")

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
