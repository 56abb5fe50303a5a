"""Deadlines of a connection, shortened: each in all and not per byte (CFG-233)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from blueprints.edge.deadlines import Phase
from blueprints.edge.protocol import EdgeProtocol
from tests.edge.wire import HOST, DevServer, Wire

SHORT = {"FIRST_BYTE_SEC": 0.8, "IDLE_SEC": 1.6, "HEAD_SEC": 0.7, "BODY_SEC": 0.9, "SEND_SEC": 1.0, "LINGER_SEC": 0.3}


@pytest.fixture(scope="module")
def hasty() -> Iterator[DevServer]:
    """A dev app with short deadlines."""
    with DevServer(deadlines=SHORT) as server:
        yield server


def drip(wire: Wire, byte: bytes, seconds: float = 6.0) -> float:
    """Send a byte every 50 ms until the server answers or closes; seconds that took."""
    began = time.monotonic()
    wire.sock.settimeout(0.05)
    while time.monotonic() - began < seconds:
        try:
            data = wire.sock.recv(65536)
        except TimeoutError:
            wire.sock.send(byte)
            continue
        wire.sock.settimeout(10)
        wire.buffer += data
        return time.monotonic() - began
    raise AssertionError("the server waits for ever")


@pytest.mark.req("CFG-233")
def test_it_closes_a_connection_that_never_sends(hasty: DevServer) -> None:
    with Wire(hasty.port) as wire:
        assert wire.is_closed()


@pytest.mark.req("CFG-233")
@pytest.mark.parametrize(
    "before", [b"", b"GET /api/check HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /stock HTTP/1.1\r\n" + HOST + b"\r\n"]
)
def test_it_answers_408_to_a_head_that_drips(hasty: DevServer, before: bytes) -> None:
    with Wire(hasty.port) as wire:
        if before:
            assert wire.send(before).answer().status == 200
        wire.send(b"GET /api/check HTTP/1.1\r\n" + HOST + b"X: ")

        drip(wire, b"x")
        answer = wire.answer()

        assert answer.status == 408
        assert "code" not in answer.fields
        assert answer.headers["connection"] == "close"
        assert wire.is_closed()


@pytest.mark.req("CFG-233")
@pytest.mark.parametrize("path", ["/api/join", "/stock"])
@pytest.mark.parametrize("form", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_it_answers_408_to_a_body_that_drips(hasty: DevServer, path: str, form: str) -> None:
    with Wire(hasty.port) as wire:
        start = b"" if form.startswith("Content") else b"3e8\r\n"
        wire.send(f"POST {path} HTTP/1.1\r\n{form}\r\n".encode() + HOST + b"\r\n" + start)

        drip(wire, b"x")

        assert wire.answer().status == 408
        assert wire.is_closed()


@pytest.mark.req("CFG-233")
@pytest.mark.parametrize(
    ("path", "fields"),
    [("/api/check", ()), ("/stock", ()), ("/stream", ()), ("/stock", ("Connection: Upgrade", "Upgrade: websocket"))],
)
def test_it_closes_an_idle_connection_later_than_a_silent_one(
    hasty: DevServer, path: str, fields: tuple[str, ...]
) -> None:
    with Wire(hasty.port) as wire:
        assert wire.ask(f"GET {path}", *fields).status == 200
        began = time.monotonic()

        assert wire.is_closed()
        assert time.monotonic() - began > SHORT["FIRST_BYTE_SEC"]


def test_it_serves_on_as_long_as_requests_come(hasty: DevServer) -> None:
    with Wire(hasty.port) as wire:
        until = time.monotonic() + SHORT["IDLE_SEC"] * 1.25
        while time.monotonic() < until:
            assert wire.ask("GET /api/check").status == 200
            assert wire.ask("GET /api/status?sec=0.3").status == 200


def test_it_waits_for_a_handler_longer_than_for_a_client(hasty: DevServer) -> None:
    with Wire(hasty.port) as wire:
        assert wire.ask("GET /api/status?sec=1.9&name=late").fields == {"slow": "late"}
        assert wire.ask("GET /stream?n=95").body.count(b"\n") == 95


@pytest.mark.req("CFG-233")
def test_it_cuts_a_client_that_takes_in_nothing(hasty: DevServer) -> None:
    with Wire(hasty.port) as wire:
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.sock.settimeout(0.2)
        ask = b"GET /api/check?n=1 HTTP/1.1\r\n" + HOST + b"\r\n"
        try:
            while True:  # until neither side takes anything more
                wire.sock.sendall(ask * 100)
        except TimeoutError:
            pass
        deadline = time.monotonic() + 20
        with Wire(hasty.port) as other:
            while other.ask("GET /connections").fields["open"] > 1:
                assert time.monotonic() < deadline
                assert other.ask("GET /api/status?sec=0.1").status == 200


def test_it_stops_listening_to_a_client_it_has_refused(hasty: DevServer) -> None:
    with Wire(hasty.port) as wire:
        wire.send(b"POST /api/join HTTP/1.1\r\n" + HOST + b"Content-Length: 9999999\r\n\r\n")
        assert wire.answer().status == 413
        deadline = time.monotonic() + 10
        try:
            while time.monotonic() < deadline:
                wire.sock.sendall(b"x" * 1000)
                time.sleep(0.02)
        except OSError:
            return
        pytest.fail("still listening")


@pytest.mark.req("CFG-233")
def test_its_deadlines_are_the_published_ones() -> None:
    names = ("FIRST_BYTE", "IDLE", "HEAD", "RESERVE", "BODY", "UPLOAD", "SEND")

    assert [getattr(EdgeProtocol, f"{name}_SEC") for name in names] == [30, 75, 10, 2, 15, 60, 60]


@pytest.mark.req("CFG-233")
def test_a_forwarded_body_has_its_time_for_each_byte_and_any_other_for_all_of_it() -> None:
    now = [100.0]

    class Loop:
        def time(self) -> float:
            return now[0]

        def call_later(self, seconds: float, _look: object) -> SimpleNamespace:
            at = now[0] + seconds
            return SimpleNamespace(when=lambda: at, cancel=lambda: None)

    def deadlines(expect: str) -> list[float]:
        line = EdgeProtocol.__new__(EdgeProtocol)
        line.loop, line._timer, line._phase = Loop(), None, Phase.HANDLER  # type: ignore[assignment]
        found = []
        for _ in range(3):
            getattr(line, expect)()
            assert line._phase is Phase.BODY
            found.append(line._deadline)
            now[0] += 10
        return found

    assert deadlines("expect_body") == [115, 115, 115]
    assert deadlines("expect_upload") == [190, 200, 210]


@pytest.mark.req("CFG-233")
def test_a_connection_above_the_cap_has_little_time_for_its_head() -> None:
    """However it spends it; those inside have the time they always have."""
    settings = {"max_connections": 1, "connection_reserve": 4}
    deadlines = {"RESERVE_SEC": 0.5, "FIRST_BYTE_SEC": 60.0, "HEAD_SEC": 60.0}
    with DevServer(settings=settings, deadlines=deadlines) as server, Wire(server.port) as inside:
        inside.send(b"GET /api/check HTTP/1.1\r\n" + HOST)
        with Wire(server.port) as silent, Wire(server.port) as dripping:
            dripping.send(b"GET /api/check HTTP/1.1\r\n" + HOST + b"X: ")
            drip(dripping, b"x", 20)
            assert silent.is_closed()
        assert inside.send(b"\r\n").answer().status == 200
