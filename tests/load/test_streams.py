"""Many streams on one web worker: everybody is told, and what that costs."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.streams import measure
from tests.harness import Server

OUTPUT = Path(__file__).resolve().parents[1] / "output"


def worker_of(server: Server) -> int:
    """Process id of the one web worker; it takes its name a moment after its start."""
    end = time.monotonic() + 30
    while True:
        found = [pid for pid, name in server.descendants().items() if "qm-web" in name]
        if found:
            return found[0]
        assert time.monotonic() < end, server.descendants()
        time.sleep(0.1)


@pytest.mark.req("VIS-165", "VIS-174")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_it_tells_every_stream_of_one_worker(count: int) -> None:
    with Server(env={"SSE_PER_IP": "0"}, workers=1) as server:
        run = measure(server.url, server.admin_key, worker_of(server), count, deadline_sec=120, idle_sec=1)
        figures = asyncio.run(run)

    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / f"streams-{count}.json").write_text(json.dumps(asdict(figures)))
    assert figures.told == count
