"""kill -9 at random moments of a surge: no acknowledged join is lost, none appears twice, the order stays.

Two web workers; `STORE=memory` loses all of Valkey with its process, `STORE=embedded` at most the last second. Whoever
got no answer tries again, as the page does; what he may leave behind is a place that nobody was told of, never a place
of somebody else. The seed of each run is printed and can be set by `QM_CHAOS_SEED`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest

from tests.chaos.surge import create_room, join_until, positions, read_room
from tests.harness import Server

KILLS = 3


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(env={"STORE": request.param}, workers=2) as running:
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
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            name = process.name()
            if name == role or name.removeprefix("qm-") == role:
                found.append(process)
    return found


async def _sabotage(server: Server, role: str, dice: random.Random) -> list[int]:
    """Kill a process of ``role`` at random moments, each time one that has come back; the ids of the victims."""
    victims: list[int] = []
    while len(victims) < KILLS:
        await asyncio.sleep(0.2 + dice.random())
        alive = [process for process in processes(server, role) if process.pid not in victims]
        if alive:
            victim = dice.choice(alive)
            victim.send_signal(signal.SIGKILL)
            victims.append(victim.pid)
    return victims


@pytest.mark.parametrize(
    ("server", "role"),
    [("embedded", "web"), ("embedded", "drainer"), ("embedded", "valkey-server"), ("memory", "valkey-server")],
    indirect=["server"],
)
@pytest.mark.req("FLT-005")
async def test_it_keeps_every_acknowledged_join_when_a_process_is_killed(
    server: Server, dice: random.Random, role: str
) -> None:
    create_room(server.url, server.admin_key, "rush", ratePerMinute=0, queueMaxPerIp=None)
    sabotage = asyncio.create_task(_sabotage(server, role, dice))

    surge = await join_until(server.url, "rush", sabotage, at_once=4)

    assert len(set(await sabotage)) == KILLS
    assert surge.statuses <= {200, 503}
    assert len(surge.acknowledged) > KILLS
    assert len(set(surge.tickets)) == len(surge.acknowledged)
    states = await positions(server.url, surge)
    assert {ticket: state.get("ticket") for ticket, state in states.items()} == {t: t for t in surge.tickets}
    places = [states[ticket]["position"] for ticket in sorted(states)]
    assert all(before < after for before, after in pairwise(places))
    assert read_room(server.url, server.admin_key, "rush")["waiting"] >= len(surge.acknowledged)
