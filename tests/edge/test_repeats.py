"""Requests that come again byte for byte: read once, by peer, and never taken for those of somebody else."""

from __future__ import annotations

import asyncio
import ipaddress
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from sanic import Sanic

from app.domain.client_address import TrustPolicy
from blueprints.edge import recurring
from blueprints.edge.hot import Answering, HotTable, Ways
from blueprints.edge.protocol import EdgeProtocol
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.edge.router import EdgeRouter
from blueprints.middleware import install

LINES = b"Host: q.example\r\nX-Forwarded-For: 203.0.113.9\r\n"


class Wire:
    """What a connection writes to."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self.sent: list[bytes] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (self._peer, 4711), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def set_write_buffer_limits(self, **_: int) -> None:
        """Nothing is kept back."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.sent.append(data)


class Desk:
    """An edge with one route, which notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[HotRequest] = []
        self.begins: list[Any] = []
        self._loop = asyncio.get_running_loop()
        table = HotTable()
        table.extend({("POST", "/api/check"): Ways(self._answer, self._begin, recurs=True)})
        self._app: Sanic[Any, Any] = Sanic(f"repeats-{uuid4().hex}", router=EdgeRouter())
        policy = TrustPolicy.of(1, [ipaddress.ip_network("10.0.0.0/8")])
        self.edge = install(self._app, hot=table, policy=policy)

    async def _answer(self, request: HotRequest) -> HotReply:
        self.asked.append(request)
        if request.repeat is not None:
            request.repeat.left = request.client.address
        return HotReply(200, b"long")

    def _begin(self, request: HotRequest, answering: Answering) -> bool:
        self.asked.append(request)
        left = None if request.repeat is None else request.repeat.left
        self.begins.append(left)
        if left is None:
            self.asked.pop()
            return False
        if left == "broken":
            raise ValueError("the beginning failed")
        answering.told(HotReply(200, b"short"), None)
        return True

    def connection(self, peer: str = "10.0.0.1") -> tuple[EdgeProtocol, Wire]:
        wire = Wire(peer)
        signal = SimpleNamespace(stopped=False)
        protocol = EdgeProtocol(loop=self._loop, app=self._app, signal=signal, connections=set())
        protocol.connection_made(wire)
        return protocol, wire

    async def send(self, data: bytes, peer: str = "10.0.0.1") -> bytes:
        """The answer to one request on a connection of its own."""
        protocol, wire = self.connection(peer)
        self._loop.call_soon(protocol.data_received, data)  # no task is current, as for a real one
        for _ in range(5):
            await asyncio.sleep(0)
        (answer,) = wire.sent
        assert protocol._timer is not None
        protocol._timer.cancel()
        return answer


def request(body: bytes = b"{}", lines: bytes = LINES) -> bytes:
    return b"POST /api/check?room=a HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


@pytest.fixture
async def desk() -> Desk:
    return Desk()


async def test_the_third_of_the_same_kind_is_answered_by_what_the_second_left(desk: Desk) -> None:
    answers = [await desk.send(request()) for _ in range(3)]

    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers] == [b"long", b"long", b"short"]
    assert desk.begins == [None, None, "203.0.113.9"]
    assert len({id(asked.reading) for asked in desk.asked[1:]}) == 1
    assert [asked.body for asked in desk.asked] == [b"{}"] * 3
    assert len({asked.request_id for asked in desk.asked}) == 3
    assert all(asked.query == {"room": "a"} for asked in desk.asked)


async def test_another_peer_with_the_same_bytes_is_somebody_else(desk: Desk) -> None:
    for _ in range(3):
        await desk.send(request())

    await desk.send(request(), peer="192.0.2.7")

    assert desk.begins[-1] is None
    assert desk.asked[-1].client.address == "192.0.2.7"


async def test_a_host_that_became_inline_is_not_answered_from_memory(desk: Desk) -> None:
    for _ in range(3):
        await desk.send(request())
    found = SimpleNamespace(host=None)
    desk.edge.index = SimpleNamespace(find=lambda host: None)  # type: ignore[assignment]
    desk.edge.front = SimpleNamespace(fast=SimpleNamespace(facts_of=lambda *_: found))  # type: ignore[assignment]

    await desk.send(request())

    assert desk.begins[-1] is None, "the hosts are others: it is read anew"


@pytest.mark.parametrize("changed", [request(b'{"a":1}'), request(lines=LINES + b"X-A: 1\r\n")])
async def test_any_other_byte_makes_it_another_request(desk: Desk, changed: bytes) -> None:
    for _ in range(3):
        await desk.send(request())

    await desk.send(changed)

    assert desk.begins[-1] is None


async def test_a_beginning_that_fails_is_answered_like_a_handler_that_fails(desk: Desk) -> None:
    for _ in range(2):
        await desk.send(request())
    (repeat,) = desk.edge.repeats.values()
    repeat.left = "broken"

    assert (await desk.send(request())).startswith(b"HTTP/1.1 500 ")


async def test_made_up_requests_only_empty_the_memory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurring, "KEPT_MAX", 8)
    monkeypatch.setattr(recurring, "SEEN_MAX", 32)
    for number in range(100):
        for _ in range(2):
            await desk.send(request(b"%d" % number))
        assert len(desk.edge.repeats) <= 8
        assert len(desk.edge.repeats._seen) <= 32


async def test_a_long_request_is_not_kept(desk: Desk) -> None:
    long = request(b"x" * recurring.REPEAT_MAX_BYTES)
    for _ in range(3):
        await desk.send(long)

    assert not desk.edge.repeats
