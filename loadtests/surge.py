"""`make load`: the surge, headless, against a server it starts itself, with a verdict and an exit code.

Everybody arrives within seconds in a capped room; a watcher reads the room twice a second meanwhile. Exit code 0: all
assertions held, 1: at least one failed, 2: it could not be set up, 3: the ceiling was reached (TST-109).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx

from loadtests.verdict import Assertion, judge
from tests.harness import Server

ROOM = "load-surge"
RATE_PER_MIN = 600
CAP = 25
LIMITS_OFF_BUT_PROXY = {"TRUST_PROXY": "1", "TRUST_PROXY_IPS": "127.0.0.1"}


class Watcher(threading.Thread):
    """Reads the room's occupancy every half second until told to stop (TST-119)."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.client = httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.admin_key}"}, trust_env=False, timeout=10
        )
        self.ended = threading.Event()
        self.occupancy: list[int] = []
        self.peak_waiting = 0

    def run(self) -> None:
        """Poll until ``ended`` is set."""
        while not self.ended.wait(0.5):
            with contextlib.suppress(httpx.HTTPError):
                body = self.client.get(f"/api/admin/rooms/{ROOM}").json()
                room: dict[str, Any] = body.get("room", body)
                self.occupancy.append(room["occupancy"])
                self.peak_waiting = max(self.peak_waiting, room["waiting"])


def run_locust(server: Server, record: Path, visitors: int, ceiling_sec: int) -> int:
    """Run Locust to its end; 0 also when single requests failed: the verdict judges those."""
    command = [
        *(sys.executable, "-m", "locust", "-f", "loadtests/locustfile.py", "--headless", "--host", server.url),
        *("-u", str(visitors), "-r", str(visitors), "--run-time", f"{ceiling_sec}s", "--only-summary"),
        *("--exit-code-on-error", "0", "--stop-timeout", "5"),
    ]
    env = {**os.environ, "QM_LOAD_ROOM": ROOM, "QM_LOAD_RECORD": str(record)}
    process = subprocess.Popen(command, env=env, stdout=sys.stderr)
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            if _all_left(record, visitors):
                process.terminate()
                process.wait(timeout=20)
        return 0 if _all_left(record, visitors) else 3
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _all_left(record: Path, visitors: int) -> bool:
    return record.exists() and record.read_text().count('"event": "left"') >= visitors


def report(verdict: list[Assertion], watcher: Watcher, visitors: int) -> None:
    """Print the table and, as the last line, one JSON object (TST-112)."""
    for line in verdict:
        print(f"{'PASS' if line.holds else 'FAIL'}  {line.id:12} limit {line.limit:24} measured {line.measured}")
    summary = {
        "scenario": "surge",
        "visitors": visitors,
        "ratePerMinute": RATE_PER_MIN,
        "maxConcurrent": CAP,
        "peakWaiting": watcher.peak_waiting,
        "peakOccupancy": max(watcher.occupancy, default=0),
        "assertions": {line.id: line.holds for line in verdict},
    }
    print(json.dumps(summary))


def main() -> int:
    """Start the server, let the surge run, judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=600)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="a tenth of the visitors (TST-121)")
    args = parser.parse_args()
    visitors = args.visitors // 10 if args.smoke else args.visitors
    ceiling = min(900, 60 + visitors * 60 // RATE_PER_MIN * 2)
    with (
        tempfile.TemporaryDirectory(prefix="qm-load-") as folder,
        Server(env={"STORE": "memory", **LIMITS_OFF_BUT_PROXY}, workers=args.workers) as server,
    ):
        body = {"id": ROOM, "targetUrl": "https://shop.example/", "ratePerMinute": RATE_PER_MIN, "maxConcurrent": CAP}
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        httpx.post(f"{server.url}/api/admin/rooms", headers=headers, json=body, trust_env=False).raise_for_status()
        watcher = Watcher(server)
        watcher.start()
        record = Path(folder) / "record.jsonl"
        code = run_locust(server, record, visitors, ceiling)
        watcher.ended.set()
        watcher.join()
        events = [json.loads(line) for line in record.read_text().splitlines()]
    verdict = judge(events, watcher.occupancy, visitors=visitors, rate_per_min=RATE_PER_MIN, cap=CAP)
    report(verdict, watcher, visitors)
    return code or int(not all(line.holds for line in verdict))


if __name__ == "__main__":
    raise SystemExit(main())
