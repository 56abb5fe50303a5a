"""Closed-loop HTTP/1.1 load over a fixed number of keep-alive connections: prebuilt requests out, latencies back.

It does as little as an asyncio client can, so that the figures speak of the server: one write and one parsed
head per request, no objects per answer but its latency.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Result:
    """Latencies in seconds, statuses by count, and the last body of each status for diagnosis."""

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bodies: dict[int, bytes] = field(default_factory=dict)
    seconds: float = 0.0

    def quantile_ms(self, q: float) -> float:
        """Latency quantile ``q`` (0–1) in milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * q))] * 1000 if ordered else 0.0


class _Connection(asyncio.Protocol):
    """One connection that sends its next request as soon as the last one is answered."""

    def __init__(self, requests: Iterator[bytes], deadline: float, result: Result, done: asyncio.Future[None]) -> None:
        self.requests, self.deadline, self.result, self.done = requests, deadline, result, done
        self.buffer = b""
        self.left = -1
        """Bytes of the body that are still to come; -1 = the head is."""
        self.status = 0
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self.requests, None)
        self.sent = time.perf_counter()
        if request is None or self.sent > self.deadline:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self.transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.left >= 0:  # a long body is counted, not kept
            self.left -= len(data)
            if self.left <= 0:
                self._note(b"")
            return
        buffer = self.buffer + data if self.buffer else data
        head_end = buffer.find(b"\r\n\r\n")
        if head_end < 0:
            self.buffer = buffer
            return
        head = buffer[:head_end].lower()
        at = head.find(b"\r\ncontent-length:")
        length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        self.status = int(head[9:12])
        self.left = head_end + 4 + length - len(buffer)
        if self.left <= 0:
            self._note(buffer[head_end + 4 :])

    def _note(self, body: bytes) -> None:
        self.buffer, self.left = b"", -1
        self.result.latencies.append(time.perf_counter() - self.sent)
        self.result.statuses[self.status] += 1
        self.result.bodies[self.status] = body
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed a connection in use"))


async def drive(host: str, port: int, streams: Sequence[Iterator[bytes]], seconds: float) -> Result:
    """Run one connection per item of ``streams`` for ``seconds`` (or until its requests end)."""
    loop = asyncio.get_running_loop()
    result = Result()
    start = time.perf_counter()
    waits = []
    for requests in streams:
        done: asyncio.Future[None] = loop.create_future()
        await loop.create_connection(
            lambda requests=requests, done=done: _Connection(requests, start + seconds, result, done), host, port
        )
        waits.append(done)
    await asyncio.gather(*waits)
    result.seconds = time.perf_counter() - start
    return result
