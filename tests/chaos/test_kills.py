"""kill -9 at random moments of a surge: no acknowledged join is lost, none appears twice, the order stays.

`STORE=embedded` with two web workers. Whoever got no answer tries again, as the page does; what he may leave behind is
a place that nobody was told of, never a place of somebody else. The seed of each run is printed and can be set by
`QM_CHAOS_SEED`.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest

from tests.chaos.surge import create_room, join_many, positions, read_room
from tests.harness import Server

VISITORS = 400


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(env={"STORE": "embedded"}, workers=2) as running:
        yield running


@pytest.fixture
def dice() -> random.Random:
    seed = int(os.environ.get("QM_CHAOS_SEED") or secrets.randbelow(1_000_000))
    print(f"QM_CHAOS_SEED={seed}")
    return random.Random(seed)


def processes(server: Server, role: str) -> list[psutil.Process]:
    """Processes of one role: ``web``, ``drainer``, ``ticker``, ``jobs``, or the name of a private store's program."""
    found = []
    for process in psutil.Process(server.pid).children(recursive=True):
        name = process.name()
        if name == role or name.removeprefix("qm-") == role:
            found.append(process)
    return found


async def _sabotage(server: Server, role: str, dice: random.Random, ended: asyncio.Event) -> int:
    """Kill one process of ``role`` again and again until the surge has ended; how many were killed."""
    killed = 0
    while not ended.is_set():
        await asyncio.sleep(0.3 + dice.random())
        victims = processes(server, role)
        if victims and not ended.is_set():
            victim = dice.choice(victims)
            victim.send_signal(signal.SIGKILL)
            killed += 1
            await asyncio.sleep(1.5)
    return killed


@pytest.mark.parametrize("role", ["web", "drainer", "valkey-server"])
async def test_it_keeps_every_acknowledged_join_when_a_process_is_killed(
    server: Server, dice: random.Random, role: str
) -> None:
    create_room(server.url, server.admin_key, "rush", ratePerMinute=0, queueMaxPerIp=None)
    ended = asyncio.Event()
    sabotage = asyncio.create_task(_sabotage(server, role, dice, ended))

    surge = await join_many(server.url, "rush", VISITORS, at_once=8)
    while sabotage.done() is False and not surge.statuses:
        await asyncio.sleep(0.05)
    ended.set()
    killed = await sabotage

    assert killed >= 1
    assert surge.statuses <= {200, 503}
    assert len(surge.acknowledged) == VISITORS
    assert len(set(surge.tickets)) == VISITORS
    states = await positions(server.url, surge)
    assert {ticket: state.get("ticket") for ticket, state in states.items()} == {t: t for t in surge.tickets}
    places = [states[ticket]["position"] for ticket in sorted(states)]
    assert all(before < after for before, after in pairwise(places))
    assert read_room(server.url, server.admin_key, "rush")["waiting"] >= VISITORS
