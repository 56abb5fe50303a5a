"""The real server on kept stores, as the README starts it: its first commands, and what was acknowledged survives a
restart, a kill, and the death of either store."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness import ROOT, Server, wait_for

pytestmark = pytest.mark.usefixtures("shop")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With the store and the key that nothing was said about."""
    with Server(env=dict.fromkeys(("STORE", "ADMIN_KEY", "SECRET")), workers=1) as running:
        running.admin_key = (Path(running.env["DATA_DIR"]) / "admin-key").read_text().strip()
        yield running


def second_terminal(server: Server) -> str:
    """Carry out what the README says to type while the server runs; what that printed."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (typed,) = (block for block in blocks if "curl" in block)
    assert "xdg-open http://127.0.0.1:8080/w/shop\n" in typed
    script = typed.replace("xdg-open", "curl -sf").replace("http://127.0.0.1:8080", server.url)
    script = script.replace("cat data/", f"cat {server.env['DATA_DIR']}/")
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def shop(server: Server) -> str:
    """What the README's commands printed; nobody is let into the room that they made."""
    printed = second_terminal(server)
    room = {"id": "shop", "rate": 0, "queueMaxPerIp": 1000}
    made = httpx.post(server.url + "/api/admin/rooms", json=room, headers=admin(server), timeout=30)
    assert made.status_code == 200, made.text
    return printed


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


def test_it_makes_a_room_and_shows_its_line_by_the_commands_of_the_readme(server: Server, shop: str) -> None:
    assert '"created":true' in shop
    assert 'data-room="shop"' in shop, "the page that a browser is sent to"
    assert httpx.get(server.url + "/qm.js", timeout=30).status_code == 200
    assert joined(server) == 1


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
