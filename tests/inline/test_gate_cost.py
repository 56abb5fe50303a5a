"""What the gate adds to a request, at the pace of a big site (INL-229); wants a machine that does nothing else.

CPU per request stands in bench/proxy.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from tests.harness import Server
from tests.inline.conftest import Front
from tests.inline.origin import Origin
from tests.inline.people import Visitor

PACE = 500
"""Requests a second."""
SECONDS = 3.0
ROUNDS = 8
BOUNDS_MS = (10, 40, 5)
"""At most added: to the median and the 99th percentile of gated requests, to the median of files."""
CONNECTIONS = 25


@dataclass
class Times:
    """How long answers took, in ms, from the moment at which each request was due."""

    ms: list[float] = field(default_factory=list)

    def median(self) -> float:
        return statistics.median(self.ms)

    def p99(self) -> float:
        return statistics.quantiles(self.ms, n=100)[98]


async def paced(address: str, requests: list[bytes]) -> Times:
    """Send requests at PACE over CONNECTIONS; every answer must be 200."""
    times, loop = Times(), asyncio.get_running_loop()
    begin = loop.time() + 0.2
    part = urlsplit(address)

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection(part.hostname, part.port)
        with contextlib.closing(writer):
            for turn in range(int(SECONDS * PACE / CONNECTIONS)):
                due = begin + (turn * CONNECTIONS + number) / PACE
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(requests[number % len(requests)])
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200"), head
                await reader.readexactly(2)
                times.ms.append((loop.time() - due) * 1000)

    await asyncio.gather(*[one(number) for number in range(CONNECTIONS)])
    return times


@pytest.fixture
def busy(the_origin: Origin) -> Iterator[Front]:
    """A server as it is deployed, with as many workers as cores."""
    the_origin.reset()
    with Server(env={"PROXY_ALLOW_PRIVATE": "1"}, workers=2) as server:
        front = Front(server, the_origin)
        front.room("busy", rate=60_000, queueMaxPerIp=None, sessionTtlSec=3600)
        yield front


@pytest.mark.slow
@pytest.mark.req("INL-229")
async def test_it_adds_little_to_a_request_while_everything_else_goes_on(busy: Front) -> None:
    """Beside it: waiting pages of rooms that were just made, exports, metrics, health."""
    people = [Visitor(busy, "busy", agent=f"G/{number}") for number in range(10)]
    for person in people:
        await asyncio.to_thread(person.enter)
        person.close()
    cookies = ["; ".join(f"{name}={value}" for name, value in person.jar.items()) for person in people]
    direct = b"GET /page HTTP/1.1\r\nHost: busy.test\r\n\r\n"
    gated = [
        f"GET /page HTTP/1.1\r\nHost: busy.test\r\nUser-Agent: {person.agent}\r\nCookie: {cookie}\r\n\r\n".encode()
        for person, cookie in zip(people, cookies, strict=True)
    ]
    file = b"GET /x.js HTTP/1.1\r\nHost: busy.test\r\n\r\n"
    is_over = asyncio.Event()

    def others(turn: int) -> None:
        busy.room(f"side{turn % 5}", rate=turn, name=f"Side {turn}")
        with busy.connect() as client:
            key = f"Authorization: Bearer {busy.server.admin_key}"
            assert client.ask(f"GET / HTTP/1.1\nHost: side{turn % 5}.test\nAccept: text/html").status in (404, 503)
            for path in ("/metrics", "/api/admin/health", "/api/admin/audit?format=csv", "/api/admin/rooms"):
                assert client.ask(f"GET {path} HTTP/1.1\nHost: 127.0.0.1\n{key}").status == 200, path

    async def meanwhile() -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            await asyncio.to_thread(others, turn)
            await asyncio.sleep(0.25)

    beside = asyncio.ensure_future(meanwhile())
    added: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        plain = await paced(busy.origin.address, [direct])
        through, passing = await paced(busy.server.url, gated), await paced(busy.server.url, [file])
        added.append(
            (through.median() - plain.median(), through.p99() - plain.p99(), passing.median() - plain.median())
        )
        if is_little(added):
            break
    is_over.set()
    await beside

    assert is_little(added), added


def is_little(added: list[tuple[float, ...]]) -> bool:
    """Whether the least of the rounds are within the bounds: what others do on this machine is not the gate's."""
    return all(min(column) <= most for column, most in zip(zip(*added, strict=True), BOUNDS_MS, strict=True))
