"""Nobody forces the door open: a stranger does his worst, and those beside him are answered as ever (VIS-235)."""

from __future__ import annotations

import contextlib
import json
import resource
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.edge.wire import Answer, Wire
from tests.harness import LIMITS, Server, wait_for
from tests.inline.origin import Origin

KEY = "pk_a-public-key-of-the-connectors-0123"
STRANGER, CONNECTOR, TAG, ANN, BEN = (f"127.0.0.{number}" for number in (66, 5, 7, 8, 9))
LONG = "/" + "x" * 60_000
SMALL = {"MAX_CONNECTIONS": "40", "CONNECTION_RESERVE": "10", "VALKEY_TIMEOUT_MS": "10000"}  # for a busy machine
BAD_COOKIES = ("qm_shop=%", "qm_shop=\xff\xfe; qms_shop=\x80", "; ".join(f"qm_r{n}=x.y" for n in range(200)), "=;=;qm_")


@dataclass
class Street:
    """The server, everybody on it, and every answer that was given."""

    server: Server
    origin: Origin
    given: list[Answer] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def ask(self, source: str, line: str, *headers: str, body: bytes = b"", host: str = "") -> Answer:
        """One request on a connection of its own."""
        with Wire(self.port, timeout=60, source=source) as wire:
            if host:
                head = "".join(f"{each}\r\n" for each in (f"{line} HTTP/1.1", f"Host: {host}", *headers))
                wire.send(head.encode("latin-1") + b"\r\n")
                answer = wire.answer(head_only=line.startswith("HEAD "))
            else:
                answer = wire.ask(line, *headers, body=body)
        self.given.append(answer)
        return answer

    def join(self, source: str, room: str) -> Answer:
        return self.ask(source, "POST /api/join", body=json.dumps({"roomId": room}).encode())

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.server.admin_key}"}
        answer = httpx.request(method, f"{self.server.url}/api/admin/{path}", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def others_are_served(self) -> None:
        """Checks of other visitors, by a connector and by the tag; what a check of theirs must never be is a 5xx."""
        visitor = f"198.51.100.{secrets.randbelow(200)}"
        vouched = f"GET /api/check?room=shop&ip={visitor}&agent=Mozilla&url=https%3A%2F%2Fshop.example%2Fpay"
        by_connector = self.ask(CONNECTOR, vouched, f"Authorization: Bearer {KEY}")
        by_tag = self.ask(
            TAG, "POST /api/check?room=shop", "Origin: https://shop.example", "Sec-Fetch-Site: cross-site",
            body=b'{"url":"https://shop.example/pay","tag":"1.4.0"}',
        )  # fmt: skip
        for answer in (by_connector, by_tag):
            assert answer.status in (200, 429), answer.head
            assert answer.status == 429 or answer.fields["action"] == "queue"


@pytest.fixture
def street(request: pytest.FixtureRequest) -> Iterator[Street]:
    """Default settings, but for what ``request.param`` says."""
    env: dict[str, str | None] = {
        **dict.fromkeys(LIMITS), "PUBLIC_API_KEY": KEY, "QM_CONNECTOR_IPS": CONNECTOR, "PROXY_ALLOW_PRIVATE": "1",
        **request.param,
    }  # fmt: skip
    with Origin() as origin, Server(env, workers=1) as server:
        made = Street(server, origin)
        shop = {"id": "shop", "targetUrl": "https://shop.example/", "rate": 6000, "passedTtlSec": 3600}
        made.admin("POST", "rooms", shop)
        made.admin("POST", "rooms", {"id": "front", "targetUrl": "http://front.test/", "proxyOrigin": origin.address,
                                     "rate": 0})  # fmt: skip
        yield made


@contextlib.contextmanager
def crowd(street: Street, idle: int, half: int) -> Iterator[None]:
    """The stranger's connections: silent ones, and heads that never end. The server may close them as it likes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = hard - 500
    held: list[Wire] = []
    try:
        for number in range(min(idle + half, room)):
            with contextlib.suppress(OSError):
                held.append(Wire(street.port, timeout=60, source=STRANGER))
                if number < half:
                    held[-1].send(b"GET /api/check?room=shop HTTP/1.1\r\nHost: queue.test\r\nX-Slow: ")
        yield
    finally:
        for wire in held:
            wire.sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def bend(street: Street) -> None:
    """Requests as no browser makes them, at the queue's own host and at that of an inline room."""
    for line in (
        f"GET /api/check?room=shop&url=https://shop.example{LONG}", "GET /api/check?room=shop&url=%ff%fe%00",
        "GET /api/check?room=shop&token=%ff.%fe", "GET /api/check?room=%ff", "GET /api/status?room=shop&token=x.y",
    ):  # fmt: skip
        for cookie in BAD_COOKIES:
            answer = street.ask(STRANGER, line, f"Cookie: {cookie}", "X-QM-Failover: 1")
            assert answer.status < 500, answer.head
            assert answer.status != 200 or answer.fields.get("action") != "pass"
    huge = json.dumps({"url": "https://shop.example" + LONG}).encode()
    assert street.ask(STRANGER, "POST /api/check?room=shop", body=huge).status == 413
    for line in ("GET /", f"GET {LONG}", "POST /pay", "GET /%ff%fe", "GET /__qm/../pay", "HEAD /pay"):
        for cookie in BAD_COOKIES:
            headers = (f"Cookie: {cookie}", "X-QM-Failover: 1", "X-QM-Queued: 0", "Content-Length: 0")
            street.ask(STRANGER, line, *headers, host="front.test")


@pytest.mark.req("VIS-235")
@pytest.mark.parametrize(
    ("street", "idle", "half", "joins", "flood"),
    [
        pytest.param(SMALL, 60, 20, 30, 40, id="small"),
        pytest.param({}, 20_000, 5000, 700, 4000, id="whole", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
    indirect=["street"],
)
def test_nobody_forces_the_door_open(street: Street, idle: int, half: int, joins: int, flood: int) -> None:
    ben = street.join(BEN, "shop")
    own = {value.split("=")[0]: value.partition(";")[0] for value in ben.all("set-cookie")}
    jar = "Cookie: " + "; ".join(own.values())
    wait_for(lambda: street.ask(BEN, "GET /api/status?room=shop", jar).fields["state"] == "passed")
    street.admin("POST", "rooms/shop/pause")
    ann = street.join(ANN, "shop")
    ann_jar = "Cookie: " + "; ".join(value.partition(";")[0] for value in ann.all("set-cookie"))
    before = street.admin("GET", "rooms/shop")["room"]
    assert (ann.fields["position"], before["passesOutstanding"] + before["pendingEntry"]) == (1, 1)
    street.others_are_served()

    wrong = [
        street.ask(
            CONNECTOR, f"GET /api/check?room=shop&ip=198.51.100.7&agent=x&n={number}", "Authorization: Bearer no"
        )
        for number in range(25)
    ]
    assert {answer.status for answer in wrong} == {401}
    street.others_are_served()

    outcomes = [street.join(STRANGER, "shop") for _ in range(joins)]
    assert sum(answer.status == 200 for answer in outcomes) == 16
    assert {answer.fields["code"] for answer in outcomes[16:]} <= {"queue_identity_limit", "rate_limited"}
    street.others_are_served()

    bend(street)
    street.others_are_served()

    for number in range(flood):
        answer = street.ask(STRANGER, f"GET /api/check?room=r{number}")
        assert answer.status in (404, 429)
        token = f"{secrets.token_urlsafe(60)}.{secrets.token_urlsafe(32)}"
        answer = street.ask(STRANGER, f"GET /api/check?room=shop&token={token}")
        assert answer.status == 429 or answer.fields["action"] == "queue"
    street.others_are_served()

    with crowd(street, idle, half):
        for _ in range(5):
            street.others_are_served()
    wait_for(lambda: street.ask(STRANGER, "GET /healthz").status == 200, 60)

    after = street.admin("GET", "rooms/shop")["room"]
    assert after["waiting"] == before["waiting"] + 16
    assert after["passesOutstanding"] + after["pendingEntry"] == 1
    for name in ("rate", "state", "active"):
        assert after[name] == before[name], name
    assert street.ask(ANN, "GET /api/status?room=shop", ann_jar).fields["position"] == 1
    admitted = street.ask(BEN, "GET /api/check?room=shop&url=https%3A%2F%2Fshop.example%2Fpay", jar)
    assert (admitted.fields["action"], admitted.fields["reason"]) == ("pass", "admitted")
    assert street.origin.heads == []
    assert not any(name == "x-qm-failover" for answer in street.given for name, _ in answer.lines)
