"""CPU per request of a hot route against a bare Sanic JSON handler: ``python -m tests.edge.ratio [rounds]``; needs wrk.

Both get the POST that the browser tag really sends. Both servers run at the same time and are asked in turn, so that
a busy machine slows both; what is compared is the CPU time of each server process. Not a test: figures depend on the
machine, the ratio much less.
"""

from __future__ import annotations

import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

LUA = """
wrk.method = "POST"
wrk.path = "PATH"
wrk.body = '{"roomId":"shop","token":"' .. string.rep("a", 180) .. '","url":"https://shop.example/checkout?x=1"}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0"
wrk.headers["Accept"] = "*/*"
wrk.headers["Accept-Language"] = "en-GB,en;q=0.9"
wrk.headers["Accept-Encoding"] = "gzip, deflate, br"
wrk.headers["Origin"] = "https://shop.example"
wrk.headers["Referer"] = "https://shop.example/checkout"
wrk.headers["X-Forwarded-For"] = "203.0.113.7"
"""


def main() -> None:
    """Start both, alternate, print the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    servers = {
        "bare": (["-m", "bench.bare", "18711"], "18711", "/"),
        "hot": (["-m", "tests.edge.bench_app", "18712"], "18712", "/api/check"),
        "hot-wait": (["-m", "tests.edge.bench_app", "18713"], "18713", "/api/wait"),
        "stock": (["-m", "tests.edge.bench_app", "18714"], "18714", "/stock"),
    }
    running = {name: subprocess.Popen([sys.executable, *args]) for name, (args, _, _) in servers.items()}
    try:
        for _, port, _ in servers.values():
            _wait_for(int(port))
        costs: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, (_, port, path) in servers.items():
                costs[name].append(_cost(running[name].pid, port, path))
    finally:
        for process in running.values():
            process.terminate()
            process.wait()
    for what, middle in (("median", statistics.median), ("least", min)):
        bare = middle(costs["bare"])
        for name, found in costs.items():
            print(f"{what:7} {name:9} {middle(found):7.1f} us/request  x{middle(found) / bare:.3f}")


def _wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing answers at {port}")


def _cost(pid: int, port: str, path: str) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        Path(script.name).write_text(LUA.replace("PATH", path))
        before = psutil.Process(pid).cpu_times()
        command = ["wrk", "-t1", "-c32", "-d2s", "-s", script.name, f"http://127.0.0.1:{port}/"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        after = psutil.Process(pid).cpu_times()
    if "Non-2xx" in said:
        raise SystemExit(said)
    count = int(re.search(r"(\d+) requests in", said)[1])  # type: ignore[index]
    return (after.user + after.system - before.user - before.system) / count * 1e6


if __name__ == "__main__":
    main()
