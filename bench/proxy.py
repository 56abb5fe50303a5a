"""Inline mode beside a plain nginx and the bare handler: CPU per request. ``python -m bench.proxy``.

The same origin stands behind all: an nginx that serves files. Everything that is compared runs on core 0, one at a
time; the load, the origin and the stores on core 1. A page passes the gate by the cookies of a visitor who is inside
(one call of the engine, gathered with others); an asset passes it by its ending. A form is compared with the bare
handler that is sent the same form, every GET with its smallest one. Only ratios of one run count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import uvloop

from bench import nginx, pace, shapes
from bench.client import Result, drive
from bench.lab import REST_CORE, SERVER_CORE, Lab, laboratory, until
from bench.line import Operator
from loadtests.demo import free_port

HOST: Final = "front.test"
ROOM: Final = "front"
VISITORS: Final = 100
IDLE: Final = 1000
FORMS: Final = {"200": 200, "64k": 65_536, "1m": 1_048_576}
"""Bytes of a form by name. One longer than 64 KiB takes the general path."""
RESULTS: Final = Path(__file__).parent / "results"


@dataclass(slots=True)
class Row:
    """One way to the origin with one kind of request, over all rounds."""

    way: str
    request: str
    us: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    per_sec: list[float] = field(default_factory=list)

    def medians(self) -> dict[str, Any]:
        """The row as it is reported."""
        figures = {name: round(statistics.median(getattr(self, name)), 2) for name in ("us", "p50_ms", "p99_ms")}
        return {"way": self.way, "request": self.request, **figures}


@dataclass(frozen=True, slots=True)
class Way:
    """One process that is measured, and what it is sent."""

    name: str
    request: str
    process: psutil.Process
    port: int
    requests: list[bytes]


def get(path: str, host: str, cookie: str = "") -> bytes:
    """A browser's request for a file of the origin."""
    headers = shapes.BROWSER_HEADERS.replace("127.0.0.1:{port}", host)
    return (f"GET {path} HTTP/1.1\r\n{headers}{cookie}\r\n").encode()


def post(path: str, host: str, size: int, cookie: str = "") -> bytes:
    """A form of ``size`` bytes."""
    headers = shapes.BROWSER_HEADERS.replace("127.0.0.1:{port}", host)
    form = "a" * size
    kind = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
    return (f"POST {path} HTTP/1.1\r\n{headers}{cookie}{kind}\r\n{form}").encode()


async def inside(lab: Lab, origin: int) -> list[str]:
    """Make the inline room and let visitors in; the ``Cookie`` line of each."""
    operator = Operator(lab)
    fields = {"proxyOrigin": f"http://127.0.0.1:{origin}", "ratePerMinute": 100_000, "sessionTtlSec": 7200}
    await operator.save(ROOM, targetUrl=f"http://{HOST}/", **fields)
    return [await _enter(lab, shapes.address(n)) for n in range(VISITORS)]


async def _enter(lab: Lab, address: str) -> str:
    headers = {"Host": HOST, "X-Forwarded-For": address, "User-Agent": shapes.AGENT, "Sec-Fetch-Site": "same-origin"}
    async with httpx.AsyncClient(base_url=lab.server.url, headers=headers, trust_env=False) as client:
        jar: dict[str, str] = {}

        async def ask(method: str, path: str, **kw: Any) -> httpx.Response:
            cookie = "; ".join(f"{name}={value}" for name, value in jar.items())
            answer = await client.request(method, path, headers={"Cookie": cookie}, **kw)
            for line in answer.headers.get_list("set-cookie"):
                name, _, rest = line.partition("=")
                jar[name] = rest.partition(";")[0]
            return answer

        (await ask("POST", "/__qm/api/join", json={"roomId": ROOM})).raise_for_status()

        async def is_in() -> bool:
            await ask("GET", f"/__qm/api/status?room={ROOM}")
            answer = await ask("GET", "/130.html")
            return answer.status_code == 200 and f"qm_dk_{ROOM}" in jar

        await until(is_in, seconds=60, what="an admission")
    cookie = "; ".join(f"{name}={value}" for name, value in jar.items())
    return f"X-Forwarded-For: {address}\r\nCookie: {cookie}\r\n"


def ways(lab: Lab, plain: psutil.Process, port: int, cookies: list[str]) -> list[Way]:
    """Everything that is measured."""
    web = lab.roles["web"][0]
    found = [Way("bare handler", "GET", lab.bare, lab.bare_port, [shapes.bare(lab.bare_port)])]
    for size in nginx.SIZES:
        found += [
            Way("nginx", f"GET {size}", plain, port, [get(f"/{size}.html", HOST)]),
            Way("asset", f"GET {size}", web, lab.port, [get(f"/{size}.css", HOST)]),
            Way("page", f"GET {size}", web, lab.port, [get(f"/{size}.html", HOST, line) for line in cookies]),
        ]
    bare_host = f"127.0.0.1:{lab.bare_port}"
    for name, size in FORMS.items():
        found += [
            Way("bare handler", f"POST {name}", lab.bare, lab.bare_port, [post("/", bare_host, size)]),
            Way("nginx", f"POST {name}", plain, port, [post("/post", HOST, size)]),
            Way("page", f"POST {name}", web, lab.port, [post("/post", HOST, size, line) for line in cookies]),
        ]
    return found


def paced(lab: Lab, origin: int, port: int, cookies: list[str]) -> list[pace.Paced]:
    """The ways to a small file whose times are compared."""
    return [
        pace.Paced("origin", origin, [get("/130.html", HOST)]),
        pace.Paced("nginx", port, [get("/130.html", HOST)]),
        pace.Paced("asset", lab.port, [get("/130.css", HOST)]),
        pace.Paced("page", lab.port, [get("/130.html", HOST, line) for line in cookies]),
    ]


async def measure(way: Way, connections: int, seconds: float, row: Row) -> None:
    """One round of one way; every answer must have been 200."""
    streams: Callable[[], list[Iterator[bytes]]] = lambda: shapes.cycles(way.requests, connections)  # noqa: E731
    await drive("127.0.0.1", way.port, streams(), 0.1)
    before = _cpu(way.process)
    result: Result = await drive("127.0.0.1", way.port, streams(), seconds)
    spent = _cpu(way.process) - before
    if set(result.statuses) != {200}:
        raise RuntimeError(f"{way.name} {way.request}: {dict(result.statuses)} {result.bodies}")
    row.us.append(spent * 1e6 / len(result.latencies))
    row.p50_ms.append(result.quantile_ms(0.5))
    row.p99_ms.append(result.quantile_ms(0.99))
    row.per_sec.append(len(result.latencies) / result.seconds)


def _cpu(process: psutil.Process) -> float:
    """CPU seconds of all its threads; the scheduler's own account, since that of ``times`` goes by hundredths."""
    tasks = Path(f"/proc/{process.pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


async def bytes_of_idle(lab: Lab) -> float:
    """Resident bytes of a keep-alive connection of an inline host that has had one answer."""
    web = lab.roles["web"][0]
    request, open_now = get("/130.css", HOST), []
    before = web.memory_info().rss
    for _ in range(IDLE):
        reader, writer = await asyncio.open_connection("127.0.0.1", lab.port)
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        open_now.append((reader, writer))
    each = (web.memory_info().rss - before) / IDLE
    for _, writer in open_now:
        writer.close()
    return each


async def run(lab: Lab, args: argparse.Namespace, ports: tuple[int, int], plain: psutil.Process) -> dict[str, Any]:
    """Go the rounds."""
    origin, port = ports
    cookies = await inside(lab, origin)
    rows: dict[tuple[str, str], Row] = {}
    all_ways = ways(lab, plain, port, cookies)
    idle = await bytes_of_idle(lab)
    for number in range(args.rounds):
        for way in all_ways:
            row = rows.setdefault((way.name, way.request), Row(way.name, way.request))
            await measure(way, args.connections, args.seconds, row)
        print(f"round {number + 1} of {args.rounds} done", flush=True)
    busy = statistics.median(rows["page", "GET 130"].per_sec)
    added = await pace.measure(lab, paced(lab, origin, port, cookies), busy, args.rounds)
    return {"idle_bytes": round(idle), "rows": [row.medians() for row in rows.values()], "added": added}


def table(report: dict[str, Any]) -> str:
    """For people."""
    rows = {(row["way"], row["request"]): row for row in report["rows"]}
    smallest = rows["bare handler", "GET"]
    lines = [f"{'way':13} {'request':9} {'µs':>8} {'x bare':>7} {'x nginx':>8} {'p50 ms':>8} {'p99 ms':>8}"]
    for (way, request), row in rows.items():
        plain = rows.get(("nginx", request))
        bare = rows.get(("bare handler", request), smallest)["us"]
        beside = f"{row['us'] / plain['us']:8.2f}" if plain else f"{'':8}"
        lines.append(
            f"{way:13} {request:9} {row['us']:8.1f} {row['us'] / bare:7.2f} {beside} {row['p50_ms']:8.2f} "
            f"{row['p99_ms']:8.2f}"
        )
    lines += [
        f"\nan idle connection   {report['idle_bytes']} bytes   goal ≤ 8192",
        "goals: page ≤ 1.05 x bare; asset ≤ 0.75 x bare and ≤ 3 x nginx; 1m ≤ 1.2 x nginx",
    ]
    return "\n".join(lines)


def main() -> int:
    """Run it; 2 where nginx is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=50)
    args = parser.parse_args()
    if nginx.PROGRAM is None:
        print("nginx is not installed; it is the yardstick of this bench")
        return 2
    os.sched_setaffinity(0, {REST_CORE})
    ports = free_port(0), free_port(0)
    with nginx.running(*ports) as (_, plain), laboratory(PROXY_ALLOW_PRIVATE="1") as lab:
        plain.cpu_affinity([SERVER_CORE])
        report = uvloop.run(run(lab, args, ports, plain))
    print(table(report), flush=True)
    print("\n" + pace.table(report["added"]), flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / time.strftime("proxy-%Y%m%d-%H%M%S.json")).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
