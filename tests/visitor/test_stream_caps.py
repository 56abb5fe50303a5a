"""How many streams there may be, of one address and in all, on a real server (CFG-178)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.harness import Server, wait_for


class Listeners:
    """Open streams, each asked for from some address."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        self.server = server
        self.stack = stack
        self.http = stack.enter_context(httpx.Client(base_url=server.url, timeout=20))

    def ask(self, path: str, address: str, **headers: str) -> httpx.Response:
        request = self.http.build_request("GET", path, headers={"X-Forwarded-For": address, **headers})
        answer = self.http.send(request, stream=True)
        self.stack.callback(answer.close)
        return answer

    def admin(self, address: str) -> httpx.Response:
        return self.ask("/api/admin/events", address, Authorization=f"Bearer {self.server.admin_key}")


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    env = {"SSE_PER_IP": "2", "SSE_MAX_TOTAL": "3", "TRUST_PROXY": "1", "TRUST_PROXY_IPS": "127.0.0.1"}
    with Server(env=env, workers=2) as server, ExitStack() as stack:
        made = Listeners(server, stack)
        key = {"Authorization": f"Bearer {server.admin_key}"}
        body: dict[str, Any] = {"id": "shop", "targetUrl": "https://shop.example", "state": "paused"}
        assert made.http.post("/api/admin/rooms", json=body, headers=key).status_code == 200
        yield made


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    answer.read()
    return answer.status_code, answer.json()["code"], answer.headers["retry-after"]


@pytest.mark.req("CFG-178")
def test_streams_are_bound_by_address_and_in_all_and_admin_streams_count_in_neither(listeners: Listeners) -> None:
    for _ in range(4):
        assert listeners.admin("203.0.113.1").status_code == 200
    # A visitor without a place gets one frame and the end; one with a place stays.
    places = [
        listeners.http.post("/api/join", json={"roomId": "shop"}, headers={"X-Forwarded-For": f"203.0.113.{n}"}).json()
        for n in (1, 2, 3)
    ]

    def stay(who: int, address: str) -> httpx.Response:
        return listeners.ask(f"/events?room=shop&token={places[who]['token']}", address)

    first = [stay(0, "203.0.113.1") for _ in range(2)]
    assert [answer.status_code for answer in first] == [200, 200]
    assert refusal(stay(0, "203.0.113.1")) == (429, "sse_limit", "30")
    assert stay(1, "203.0.113.2").status_code == 200
    assert refusal(stay(2, "203.0.113.3")) == (503, "sse_full", "30")
    assert listeners.admin("203.0.113.1").status_code == 200
    first[0].close()

    def is_free() -> bool:
        answer = stay(2, "203.0.113.3")
        if answer.status_code != 200:
            answer.close()
        return answer.status_code == 200

    wait_for(is_free)
