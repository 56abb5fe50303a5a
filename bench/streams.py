"""Many open ``/events`` streams on one web worker: memory each, CPU of a frame. ``python -m bench.streams --help``.

Every visitor has a place of his own; then the room is paused, so that each stream gets one frame. What is measured is
the web worker: resident memory before and after the streams were opened, CPU time while nothing
happens, and between the pause and the last frame.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from app.core.clock import mono

AGENT: Final = "bench"
ROOM: Final = "streams"
AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Figures:
    """What was found."""

    streams: int
    told: int
    """Streams that were told of the pause."""
    kb_each: float
    us_per_frame: float
    """Beyond what the streams cost meanwhile anyhow."""
    us_idle: float
    """Of a stream to which nothing new is said, a second: its place is looked at every few seconds."""


class Reader:
    """One open stream: the bytes that came, nothing parsed."""

    def __init__(self) -> None:
        self.data = b""
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, host: str, port: int, token: str) -> None:
        """Ask for the stream and wait for its first frame."""
        reader, self._writer = await asyncio.open_connection(host, port)
        head = f"GET /events?room={ROOM}&token={token} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: {AGENT}\r\n\r\n"
        self._writer.write(head.encode())
        while b'"pollMs"' not in self.data:
            piece = await reader.read(4096)
            if not piece:
                raise RuntimeError(self.data[:200].decode())
            self.data += piece
        self._task = asyncio.create_task(self._read(reader))

    async def close(self) -> None:
        """End the connection."""
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(4096):
            self.data += piece


async def measure(
    url: str, admin_key: str, worker: int, count: int, *, deadline_sec: float = 60.0, idle_sec: float = 6.0
) -> Figures:
    """Open ``count`` streams on the server at ``url``, whose only web worker is process ``worker``.

    ``deadline_sec``: how long to wait for the last frame; ``idle_sec``: over how long idle streams are watched.
    """
    parts = urlsplit(url)
    host, port = str(parts.hostname), parts.port or 80
    headers = {"Authorization": f"Bearer {admin_key}"}
    async with httpx.AsyncClient(base_url=url, timeout=60, headers={"User-Agent": AGENT}) as client:
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # each join is a newcomer's
        made = {"id": ROOM, "targetUrl": "https://shop.example/", "rate": 0, "queueMaxPerIp": None}
        (await client.post("/api/admin/rooms", json=made, headers=headers)).raise_for_status()
        tokens = await _each(range(count), lambda _n: _join(client))
        before = _resident_kb(worker)
        readers = [Reader() for _ in range(count)]
        pairs = list(zip(readers, tokens, strict=True))
        await _each(pairs, lambda pair: pair[0].open(host, port, pair[1]))
        after = _resident_kb(worker)
        await asyncio.sleep(1)
        idle = await _cpu_a_second(worker, idle_sec)
        cpu, since = _cpu_sec(worker), mono()
        (await client.post(f"/api/admin/rooms/{ROOM}/pause", headers=headers)).raise_for_status()
        told = await _until_told(readers, mono() + deadline_sec)
        used = _cpu_sec(worker) - cpu - idle * (mono() - since)
        for reader in readers:
            await reader.close()
    each = used * 1e6 / max(1, told)
    return Figures(count, told, round((after - before) / count, 1), round(each, 1), round(idle * 1e6 / count, 1))


async def _join(client: httpx.AsyncClient) -> str:
    answer = await client.post("/api/join", json={"roomId": ROOM})
    answer.raise_for_status()
    return str(answer.json()["token"])


async def _each(items: Iterable[Any], work: Callable[[Any], Awaitable[Any]]) -> list[Any]:
    """Do ``work`` for each item, so many at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: Any) -> Any:
        async with gate:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


async def _until_told(readers: list[Reader], deadline: float) -> int:
    while True:
        told = sum(b'"state":"paused"' in reader.data for reader in readers)
        if told == len(readers) or mono() > deadline:
            return told
        await asyncio.sleep(0.2)


def _resident_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ValueError("no VmRSS")


async def _cpu_a_second(pid: int, over_sec: float) -> float:
    """CPU seconds that a process spends a second, now."""
    cpu, since = _cpu_sec(pid), mono()
    await asyncio.sleep(over_sec)
    return (_cpu_sec(pid) - cpu) / (mono() - since)


def _cpu_sec(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure a server that is running, with one web worker and ``SSE_PER_IP=0``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--admin-key", required=True)
    parser.add_argument("--worker", type=int, required=True, help="process id of the web worker (qm-web)")
    parser.add_argument("--streams", type=int, default=5000)
    args = parser.parse_args()
    figures = asyncio.run(measure(args.url, args.admin_key, args.worker, args.streams))
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
