"""`make bench`: CPU per request and latency beside a bare handler, at 1k and 1M waiting; a table and a JSON file.

All figures come from one run: each round measures the yardstick and every route one after the other, several rounds are
made, and the median of the rounds is reported, so that a slow machine or a busy neighbour touches all alike. Ratios are
what counts. Goals: docs/operations.md, "Figures".
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from bench import engine, line, neighbours, shapes
from bench.client import Result, drive
from bench.lab import REST_CORE, Lab, laboratory
from bench.ticks import tick_ms

RESULTS = Path(__file__).parent / "results"
SMALL, BIG = "small", "big"
INSIDE, WAITING = 200, 1000
STORE_ROLES = ("valkey", "drainer", "postgres", "ticker", "jobs")
GOALS = {"check": 0.45, "status": 0.45, "join": 0.6}
SUM_GOALS = {"check": 0.9, "join": 1.3}


@dataclass(slots=True)
class Cell:
    """One route at one number of connections and one length of line, over all rounds."""

    route: str
    room: str
    connections: int
    web_us: list[float] = field(default_factory=list)
    sum_us: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    web_ratio: list[float] = field(default_factory=list)
    """To the yardstick in the same round: a machine that is slower for a while is so for both."""
    sum_ratio: list[float] = field(default_factory=list)
    per_sec: list[float] = field(default_factory=list)

    def medians(self) -> dict[str, Any]:
        """The cell as it is reported."""
        figures = {name: round(statistics.median(getattr(self, name)), 3) for name in self.__slots__[3:]}
        return {"route": self.route, "room": self.room, "connections": self.connections, **figures}


Streams = Callable[[int], list[Iterator[bytes]]]


async def measure(lab: Lab, cell: Cell, port: int, streams: Streams, seconds: float) -> None:
    """One round of one cell; every answer must have been 200."""
    await drive("127.0.0.1", port, streams(cell.connections), 0.2)
    before = lab.cpu()
    result: Result = await drive("127.0.0.1", port, streams(cell.connections), seconds)
    after = lab.cpu()
    if set(result.statuses) != {200}:
        raise RuntimeError(f"{cell.route} at {cell.connections}: {dict(result.statuses)} {result.bodies}")
    count = len(result.latencies)
    spent = {role: (after[role] - before[role]) * 1e6 / count for role in after}
    web = spent["bare"] if cell.route == "bare" else spent["web"]
    cell.web_us.append(web)
    cell.sum_us.append(web + (0 if cell.route == "bare" else sum(spent.get(role, 0) for role in STORE_ROLES)))
    cell.p50_ms.append(result.quantile_ms(0.5))
    cell.p99_ms.append(result.quantile_ms(0.99))
    cell.per_sec.append(count / result.seconds)


async def run(lab: Lab, args: argparse.Namespace) -> dict[str, Any]:
    """Fill both rooms, go the rounds, and gather what was seen."""
    port, rooms = lab.port, {}
    for room in (SMALL, BIG):
        rooms[room] = await line.fill(lab, room, inside=INSIDE, waiting=WAITING)
    rebuild_sec, bytes_each = await line.lengthen(lab, BIG, args.waiting - WAITING)
    cells: dict[tuple[str, str, int], Cell] = {}
    for round_number in range(args.rounds):
        for connections in args.connections:
            routes: dict[tuple[str, str], tuple[int, Streams]] = {
                ("bare", "-"): (lab.bare_port, lambda n: shapes.cycles([shapes.bare(lab.bare_port)], n))
            }
            for room, (inside, waiting) in rooms.items():
                routes |= {
                    ("check", room): (port, _cycle([shapes.check(port, room, h) for h in inside])),
                    ("status", room): (port, _cycle([shapes.status(port, room, h) for h in waiting])),
                    ("join", room): (port, lambda n, room=room: shapes.joins(port, room, n)),  # type: ignore[misc]
                }
            for (route, room), (target, streams) in routes.items():
                cell = cells.setdefault((route, room, connections), Cell(route, room, connections))
                await measure(lab, cell, target, streams, args.seconds)
                unit = cells["bare", "-", connections].web_us[-1]
                cell.web_ratio.append(cell.web_us[-1] / unit)
                cell.sum_ratio.append(cell.sum_us[-1] / unit)
        print(f"round {round_number + 1} of {args.rounds} done", flush=True)
    real_bytes = await line.bytes_of_real_joins(lab, "real", args.real_joins)
    ticks = await tick_ms(lab, BIG)
    await line.fill(lab, "neighbour", inside=0, waiting=10)
    beside = await neighbours.measure(lab, "quiet", "neighbour", args.waiting)
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "waiting": {SMALL: WAITING, BIG: args.waiting},
        "rebuild_sec": round(rebuild_sec, 2),
        "bytes_per_waiting_ticket": {"rebuilt": round(bytes_each, 1), "joined": round(real_bytes, 1)},
        "tick_ms": ticks,
        "beside_a_neighbour": [asdict(wait) for wait in beside],
        "cells": [cell.medians() for cell in cells.values()],
    }


def _cycle(requests: list[bytes]) -> Streams:
    return lambda connections: shapes.cycles(requests, connections)


def table(report: dict[str, Any]) -> str:
    """The report for people; `x bare` is the ratio to the yardstick at the same number of connections."""
    small = {(c["route"], c["connections"]): c["web_ratio"] for c in report["cells"] if c["room"] == SMALL}
    head = f"{'route':8} {'waiting':>9} {'conns':>5} {'web µs':>8} {'x bare':>7} {'x small':>7} {'sum µs':>8}"
    lines = [head + f" {'x bare':>7} {'p50 ms':>8} {'p99 ms':>8} {'req/s':>8}"]
    for cell in sorted(report["cells"], key=lambda c: (c["connections"], c["route"] != "bare", c["route"], c["room"])):
        waiting = report["waiting"].get(cell["room"], "")
        against = cell["web_ratio"] / small[cell["route"], cell["connections"]] if cell["room"] == BIG else 1.0
        lines.append(
            f"{cell['route']:8} {waiting!s:>9} {cell['connections']:5d} {cell['web_us']:8.1f} "
            f"{cell['web_ratio']:7.2f} {against:7.2f} {cell['sum_us']:8.1f} {cell['sum_ratio']:7.2f} "
            f"{cell['p50_ms']:8.2f} {cell['p99_ms']:8.2f} {cell['per_sec']:8.0f}"
        )
    size = report["bytes_per_waiting_ticket"]
    lines += [
        "",
        f"bytes a waiting ticket   {size['rebuilt']} (rebuilt), {size['joined']} (joined)   goal ≤ 170",
        f"tick at {report['waiting'][BIG]:,} waiting   {report['tick_ms']}   goal ≤ 10 ms",
        f"rebuild of {report['waiting'][BIG]:,} tickets   {report['rebuild_sec']} s",
        "goals at 50 connections, x bare: web "
        + ", ".join(f"{name} ≤ {goal}" for name, goal in GOALS.items())
        + "; sum "
        + ", ".join(f"{name} ≤ {goal}" for name, goal in SUM_GOALS.items()),
    ]
    return "\n".join(lines)


def main() -> int:
    """Run the bench and write its result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round and 20,000 waiting")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one cell in one round")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--real-joins", type=int, default=20_000)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 50, 500])
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.seconds, args.waiting, args.real_joins = 1, 0.5, 20_000, 3000
    os.sched_setaffinity(0, {REST_CORE})
    with laboratory() as lab:
        report = uvloop.run(run(lab, args))
    print(table(report), flush=True)
    waits = [neighbours.Wait(**wait) for wait in report["beside_a_neighbour"]]
    print(f"\nChecks beside a room of {args.waiting:,}\n" + neighbours.table(waits), flush=True)
    costs, acts = uvloop.run(engine.run((1000, 20_000) if args.quick else engine.SIZES))
    print("\nWhat the engine costs Valkey\n" + engine.table(costs, acts))
    report["engine"] = {"costs": [asdict(cost) for cost in costs], "acts": [asdict(act) for act in acts]}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{path.relative_to(Path.cwd())}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
