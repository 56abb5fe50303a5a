"""HTTP/1.1 load over a fixed number of keep-alive connections: prebuilt requests out, latencies back.

Either each connection sends its next request as soon as the last one is answered, or all together keep a pace. It does
as little as an asyncio client can, so that the figures speak of the server: one write and one parsed head per request,
no objects per answer but its latency.
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
    """One connection. ``due``: of its first request; the others follow ``every`` seconds apart, 0 = at once."""

    def __init__(
        self,
        requests: Iterator[bytes],
        deadline: float,
        result: Result,
        done: asyncio.Future[None],
        due: float,
        every: float,
    ) -> None:
        self.requests, self.deadline, self.result, self.done = requests, deadline, result, done
        self.due, self.every = due, every
        self.buffer = b""
        self.left = -1
        """Bytes of the body that are still to come; -1 = the head is."""
        self.status = 0
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send_when_due()

    def _send_when_due(self) -> None:
        wait = self.due - time.perf_counter()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._send)
        else:
            self._send(since=self.due if self.every else 0.0)  # who asks late has waited since he meant to

    def _send(self, since: float = 0.0) -> None:
        request = next(self.requests, None)
        self.sent = since or time.perf_counter()
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
        self.due += self.every
        self._send_when_due()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed a connection in use"))


async def drive(
    host: str, port: int, streams: Sequence[Iterator[bytes]], seconds: float, *, per_sec: float | None = None
) -> Result:
    """Run one connection per item of ``streams`` for ``seconds`` (or until its requests end).

    ``per_sec``: requests of all of them together; None = as many as are answered.
    """
    loop = asyncio.get_running_loop()
    result = Result()
    start = time.perf_counter()
    waits = []
    every = len(streams) / per_sec if per_sec else 0.0
    for number, requests in enumerate(streams):
        done: asyncio.Future[None] = loop.create_future()
        due = start + number / per_sec if per_sec else 0.0
        made = _Connection(requests, start + seconds, result, done, due, every)
        await loop.create_connection(lambda made=made: made, host, port)  # type: ignore[misc]
        waits.append(done)
    await asyncio.gather(*waits)
    result.seconds = time.perf_counter() - start
    return result
