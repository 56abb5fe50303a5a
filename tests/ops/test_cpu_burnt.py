"""A CPU that is burnt beside the server (BUD-061). The short form is in test_capacity_watch.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from tests.admin.callers import Callers
from tests.harness import Server

BURNERS = 8


@contextmanager
def burning(cpu: int) -> Iterator[None]:
    """Processes that are nobody's business use up one CPU."""
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True:\n    pass"
    made = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(BURNERS)]
    try:
        yield
    finally:
        for one in made:
            one.kill()
        for one in made:
            one.wait()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins no process to a CPU")
@pytest.mark.req("BUD-055", "BUD-056", "BUD-057", "BUD-059", "BUD-061", "OBS-005")
def test_a_burnt_cpu_is_told_of_within_45_s_and_no_request_fails() -> None:
    """Server and burners share one CPU, so that it does not matter how many the machine has, nor how fast they are."""
    cpu = min(os.sched_getaffinity(0))
    env: dict[str, str | None] = {"LOOP_LAG_WARN_MS": "5", "INSTANCE_MIN_CPUS": "1"}
    with ExitStack() as held, Server(env=env, workers=1) as server:
        callers = Callers(server)
        held.callback(callers.close)
        owner = callers.with_key(server.admin_key)
        assert (
            owner("POST", "/api/admin/rooms", {"id": "shop", "targetUrl": "https://shop.example/"}).status_code == 200
        )
        for pid in server.descendants():
            os.sched_setaffinity(pid, {cpu})
        answered = 0
        with burning(cpu), httpx.Client(base_url=server.url, timeout=30) as visitor:
            end = time.monotonic() + 45
            while "cpu_contention" not in (body := visitor.get("/healthz").json())["degraded"]:
                assert time.monotonic() < end, "not told within 45 s"
                assert visitor.post("/api/join", json={"roomId": "shop"}).status_code == 200
                answered += 1
            assert (body["ready"], body["status"]) == (True, "degraded")
            found = owner("GET", "/api/admin/health").json()
            assert found["cpu"]["contention"] is True
            (incident,) = [one for one in found["incidents"] if one["code"] == "cpu_contention"]
            assert incident["text"].startswith(f"CPU contention on {found['instance']}: ")
            assert "a process that is not Queue Manager uses " in incident["text"]
            text = owner("GET", "/metrics").text
            assert "qm_cpu_contention 1.0" in text
        assert answered > 0
