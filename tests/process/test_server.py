"""The real server on kept stores: what was acknowledged survives a restart, a kill, and the death of either store."""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from tests.harness import Server, wait_for


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(env={"STORE": "embedded"}, workers=1) as running:
        room = {"id": "shop", "name": "Shop", "targetUrl": "https://shop.example/", "rate": 0, "queueMaxPerIp": 1000}
        made = httpx.post(running.url + "/api/admin/rooms", json=room, headers=admin(running), timeout=30)
        assert made.status_code == 200, made.text
        yield running


def admin(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.admin_key}"}


def join(server: Server) -> int | None:
    """Number of a new ticket, or None for a 503."""
    answer = httpx.post(server.url + "/api/join", json={"roomId": "shop"}, timeout=30)
    if answer.status_code == 503:
        assert answer.json()["code"] == "storage_unavailable"
        return None
    assert answer.status_code == 200, answer.text
    payload = answer.json()["token"].split(".")[0]
    number: int = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["ticket"]
    return number


def joined(server: Server) -> int:
    """Number of a new ticket, as soon as the server gives one."""
    numbers: list[int] = []
    wait_for(lambda: (number := join(server)) is not None and (numbers.append(number) or True), 30)
    return numbers[0]


def last_ticket(server: Server) -> int:
    rooms = httpx.get(server.url + "/api/admin/rooms", headers=admin(server), timeout=30).json()["rooms"]
    number: int = next(room["lastTicket"] for room in rooms if room["id"] == "shop")
    return number


def kill_child(server: Server, name: str) -> None:
    victim = next(pid for pid, line in server.descendants().items() if name in line)
    os.kill(victim, signal.SIGKILL)


@pytest.mark.req("CFG-091", "TST-007")
def test_it_keeps_the_line_over_a_restart(server: Server) -> None:
    number = joined(server)

    server.restart()

    assert joined(server) == number + 1


def test_it_keeps_the_line_over_a_kill(server: Server) -> None:
    number = joined(server)

    server.kill(signal.SIGKILL)
    server.wait()
    server.start()

    assert joined(server) > number


@pytest.mark.parametrize("name", ["valkey-server", "/bin/postgres"])
def test_it_loses_nothing_acknowledged_when_a_store_is_killed(server: Server, name: str) -> None:
    before = [joined(server) for _ in range(3)]

    kill_child(server, name)
    after = [joined(server) for _ in range(3)]

    assert before == sorted(set(before))
    assert after == sorted(set(after))
    assert after[0] > before[-1]
    assert last_ticket(server) >= after[-1]


def test_it_answers_admin_and_visitors_after_a_background_process_was_killed(server: Server) -> None:
    web = [pid for pid, line in server.descendants().items() if line.startswith("qm-")]
    for pid in web:
        os.kill(pid, signal.SIGKILL)  # web worker, ticker, drainer and jobs at once

    wait_for(lambda: _answers(server), 30)
    number = joined(server)

    assert last_ticket(server) >= number


def _answers(server: Server) -> bool:
    try:
        return httpx.get(server.url + "/healthz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
