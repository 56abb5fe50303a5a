"""Many visitors at once over two workers: numbers without gap or double, and a cap that holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from loadtests.browser import Browser, patiently, shared_client
from tests.chaos.surge import create_room, join_many, positions, read_room
from tests.harness import Server

PAGE = "https://shop.example/checkout"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(env={"STORE": "memory"}, workers=2) as running:
        yield running


@pytest.mark.req("FLT-007")
async def test_it_numbers_two_thousand_joins_without_gap_or_double(server: Server) -> None:
    create_room(server.url, server.admin_key, "rush", ratePerMinute=0, queueMaxPerIp=None)

    surge = await join_many(server.url, "rush", 2000, at_once=2000)

    # A new room starts with the credit 1 but a rate of 0 lets nobody in, so all of them stand in line.
    assert sorted(surge.tickets) == list(range(1, 2001))
    assert surge.statuses == {200}
    states = await positions(server.url, surge)
    assert {ticket: state["position"] for ticket, state in states.items()} == {n: n for n in range(1, 2001)}
    assert read_room(server.url, server.admin_key, "rush")["waiting"] == 2000


async def test_it_never_lets_more_than_the_cap_inside(server: Server) -> None:
    """500 browsers want in at once, a room takes ten; it is watched until many have come and gone."""
    cap, visitors, enough = 10, 500, 100
    create_room(
        server.url,
        server.admin_key,
        "full",
        ratePerMinute=100_000,
        maxConcurrent=cap,
        queueMaxPerIp=None,
        presenceSec=60,
    )
    inside: set[int] = set()
    most_inside = served = 0

    async with shared_client(server.url, connections=visitors) as client:

        async def visit() -> None:
            nonlocal most_inside, served
            browser = Browser(client, "full")
            state = await patiently(browser.join)
            assert state["status"] == 200, state
            while state["state"] in ("waiting", "at_capacity"):
                # Whoever is near asks more often, as a stream would tell him at once.
                await asyncio.sleep(min(2.0, 0.05 * state.get("position", 1)))
                if served >= enough:
                    return
                state = await patiently(browser.status)
                assert state["status"] == 200, state
            assert state["state"] == "passed", state
            while (answer := await patiently(lambda: browser.check(PAGE))).get("action") != "pass":
                await asyncio.sleep(0.2)
                await patiently(browser.status)
            assert browser.ticket is not None
            inside.add(browser.ticket)
            most_inside = max(most_inside, len(inside))
            assert answer["reason"] == "admitted"
            await asyncio.sleep(0.1)
            inside.discard(browser.ticket)
            await patiently(browser.leave)
            served += 1

        occupancy: list[int] = []

        async def watch() -> None:
            while served < enough:
                room = await asyncio.to_thread(read_room, server.url, server.admin_key, "full")
                occupancy.append(room["occupancy"])
                await asyncio.sleep(0.2)

        await asyncio.gather(watch(), *(visit() for _ in range(visitors)))

    assert served >= enough
    assert most_inside <= cap
    assert max(occupancy) == cap, "it was full, and no more than that"
