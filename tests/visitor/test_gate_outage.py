"""The gate of an inline host while a room's live state cannot be asked: unreachable, lost, being rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core import metrics
from app.core.ids import RoomId
from app.domain.inline.hosts import InlineHost
from app.domain.room import Room
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services.inline_counts import InlineCounts
from app.services.inline_gate import Closed, Decision, Forward, InlineGate, Queued
from blueprints.visitor.request_reading import visitor_in
from tests.journal.house import House
from tests.visitor.site import Browser, Site


class Directory:
    """The copies of a process, as its gate sees them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.handlers: list[Callable[[], None]] = []

    def all(self) -> list[Room]:
        return list(self._site.rooms.copies.values())

    def on_change(self, handler: Callable[[], None]) -> None:
        self.handlers.append(handler)


@dataclass
class Gate:
    """The gate of one process, and who stands before it."""

    site: Site
    browser: Browser
    gate: InlineGate
    book: MetricBook
    totals: Counter[str]
    now: float = 1000.0
    """Clock of what may be told, s."""

    async def make(self, room: str, on_backend_down: str, **fields: Any) -> None:
        origin = "http://203.0.113.7"
        more = {"target_url": f"http://{room}.test/", "on_backend_down": on_backend_down, "proxy_origin": origin}
        await self.site.create(room, **{**more, **fields})
        self.gate.start(lambda _: None)

    def host(self, room: str) -> InlineHost | None:
        return self.gate.index.hosts.get(f"{room}.test")

    async def ask(self, room: str) -> Decision:
        host = self.host(room)
        assert host is not None
        request = self.browser.request("GET", "/cart")
        present = lambda room_id: visitor_in(request.reading, room_id)  # noqa: E731
        return await self.gate.decide(host, request.client, f"http://{room}.test/cart", present)


@pytest.fixture
async def gate(house: House, limiter: RateLimiter) -> AsyncIterator[Gate]:
    site, book, totals = Site(house, limiter), MetricBook.alone(), Counter[str]()
    table = RateLimiter.create("qm-lines-tests", workers=1, max_keys=64)
    lines = RateLimiter.attach(table.name, 0, now=lambda: gate.now)
    made = InlineGate(
        directory=Directory(site), rooms=site.visitor.rooms, check=site.visitor.check,
        counts=InlineCounts(totals, book, lines.may_say), undeclared=site.visitor.undeclared, limiter=limiter,
    )  # fmt: skip
    gate = Gate(site, Browser(site), made, book, totals)
    yield gate
    await site.stop()
    lines.close()
    table.close()


@pytest.mark.req("FLT-069", "FLT-067", "FLT-068", "FLT-072", "INL-189", "INL-197")
async def test_a_fenced_room_is_closed_or_open_like_one_whose_store_is_away(gate: Gate) -> None:
    for room, value in (("strict", "closed"), ("loose", "open")):
        await gate.make(room, value, rate_per_minute=0)
        assert isinstance(await gate.ask(room), Queued)
        await gate.site.house.drain(room)
        assert await gate.site.house.jobs.fence(RoomId(room), 1, 1)

    with capture_logs() as logs:
        for _ in range(3):
            closed, opened = await gate.ask("strict"), await gate.ask("loose")
            assert isinstance(closed, Closed)
            assert (closed.room_id, closed.error.status, closed.error.code) == ("strict", 503, "storage_unavailable")
            assert closed.error.headers["Retry-After"] == "5"
            assert opened == Forward("loose")
        gate.now += 61
        await gate.ask("strict")

    told = [(one["room"], one["kind"], one["count"]) for one in logs if one["event"] == "inline_backend_down"]
    assert told == [("strict", "closed", 1), ("loose", "open", 1), ("strict", "closed", 3)], "once a room and minute"
    assert (gate.totals["backendDownClosedTotal"], gate.totals["backendDownOpenTotal"]) == (4, 3)
    found = {labels: values[0] for (name, labels), values in gate.book.everything().items()
             if name == metrics.BACKEND_DOWN.name}  # fmt: skip
    assert found == {("closed",): 4, ("open",): 3}
    for room in ("strict", "loose"):
        assert await gate.site.house.recovery.ensure(RoomId(room))
        await gate.site.rooms.refresh(RoomId(room))
        assert isinstance(await gate.ask(room), Queued), "let through, and never let in"


@pytest.mark.req("FLT-074", "FLT-040")
async def test_it_goes_by_the_settings_that_it_saw_last(gate: Gate) -> None:
    """What was changed elsewhere shortly before the outage, and not heard of here, does not count during it."""
    await gate.make("loose", "open")
    await gate.site.house.admin.update(RoomId("loose"), {"on_backend_down": "closed"}, actor="ann")
    await gate.site.house.drain("loose")
    assert await gate.site.house.jobs.fence(RoomId("loose"), 1, 1)

    assert await gate.ask("loose") == Forward("loose")
    assert gate.host("never-seen") is None, "not gated"

    assert await gate.site.house.recovery.ensure(RoomId("loose"))
    await gate.site.rooms.refresh(RoomId("loose"))
    gate.gate.start(lambda _: None)
    assert await gate.site.house.jobs.fence(RoomId("loose"), 1, 2)
    assert isinstance(await gate.ask("loose"), Closed)
