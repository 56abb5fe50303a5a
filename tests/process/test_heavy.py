"""The process for heavy work of a real server: what runs there, and what its death and slow readers do."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.domain.csv_text import csv_line
from app.domain.refs import ref_of
from app.infrastructure.embedded import PG_USER
from app.services.notes import COLUMNS
from app.services.ref_search import NARROW
from tests.harness import Server, is_running, wait_for
from workers.runner import STOP_SIGNAL

ENTRIES = 3000
"""Of the audit trail, 4 KB each: more than all buffers on the way hold."""
_FILL = """
INSERT INTO audit (ts, actor, actor_kind, actor_id, role, action, detail, ip, instance, room, ok)
SELECT 1700000000000 + n, 'Ann', 'operator', 'op_1', 'owner', 'room.filler', '=1+1, "' || repeat('x', 4000) || '"',
    '192.0.2.1', 'i:1', 'shop', TRUE
FROM generate_series(1, $1::integer) AS n
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(workers=1) as server:
        made = ask(
            server,
            "POST",
            "/api/admin/rooms",
            json={"id": "shop", "targetUrl": "https://shop.example", "queueMaxPerIp": 1000},
        )
        assert made.status_code == 200, made.text
        asyncio.run(_fill(server))
        yield server


async def _fill(server: Server) -> None:
    link = await asyncpg.connect(f"postgresql://{PG_USER}@/postgres?host={run_dir(server)}/pg")
    await link.execute(_FILL, ENTRIES)
    await link.close()


def run_dir(server: Server) -> str:
    found = re.search(r"unixsocket:(\S+)/valkey.sock", " ".join(server.descendants().values()))
    assert found is not None
    return found[1]


def headers(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.admin_key}"}


def ask(server: Server, method: str, path: str, **more: Any) -> httpx.Response:
    return httpx.request(method, server.url + path, headers=headers(server), timeout=60, **more)


def pids(server: Server, title: str) -> list[int]:
    return [pid for pid, line in server.descendants().items() if line == f"qm-{title}"]


def heavy_block(server: Server) -> dict[str, Any]:
    block: dict[str, Any] = ask(server, "GET", "/api/admin/health").json()["heavy"]
    return block


def begun(server: Server) -> list[str]:
    return re.findall(r"heavy_work_begun .*?kind=(\w+)", server.stderr)


def lost_work(server: Server) -> list[str]:
    return re.findall(r"heavy_work_ended .*outcome=process_ended.*", server.stderr)


@contextmanager
def held_up(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Slow:
    """A reader that has read a little of the audit trail and takes nothing more."""

    def __init__(self, server: Server, stack: ExitStack) -> None:
        address = f"{server.url}/api/admin/audit?format=csv&action=room.filler"
        client = stack.enter_context(httpx.Client(timeout=60))
        self.answer = stack.enter_context(client.stream("GET", address, headers=headers(server)))
        self.pieces = self.answer.iter_raw(4096)
        self.read = next(self.pieces)

    def rest(self) -> bytes:
        return b"".join(self.pieces)


@pytest.mark.req("BUD-074", "BUD-075", "OBS-174")
def test_it_makes_long_answers_in_a_process_of_its_own_and_small_ones_where_it_is_asked(server: Server) -> None:
    assert pids(server, "heavy") == []
    for narrow in (
        "audit", "history?roomId=shop", "reports?roomId=shop", "timeline?roomId=shop", "audit?limit=499",
        "timeline?from=2999-01-01T00:00:00Z",
    ):  # fmt: skip
        assert ask(server, "GET", f"/api/admin/{narrow}").status_code == 200, narrow
    assert pids(server, "heavy") == [], "none of these is heavy work"
    assert heavy_block(server) == {"running": [], "waiting": 0, "paused": False}

    asked = {
        "audit?format=csv&limit=1": "audit_csv",
        "audit?limit=500&action=room.filler": "audit",
        "reports": "report",
        "reports?roomId=shop&bucket=day": "report",
        "reports?roomId=shop&roomId=other&from=2030-01-01&to=2030-01-02": "report",
        "reports?roomId=shop&format=csv": "report_csv",
        "history": "chart",
        "history?roomId=shop&format=csv": "chart_csv",
        "timeline": "timeline",
    }
    for wide, kind in asked.items():
        answer = ask(server, "GET", f"/api/admin/{wide}")
        assert (answer.status_code, begun(server)[-1]) == (200, kind), wide
        head = ask(server, "HEAD", f"/api/admin/{wide}")
        assert (head.status_code, head.content, begun(server)[-1]) == (200, b"", kind)
        own = ("content-type", "content-disposition", "content-length", "cache-control")
        assert {name: head.headers.get(name) for name in own if name in head.headers} == {
            name: answer.headers[name] for name in own if name in answer.headers
        }, wide
        if answer.headers["content-type"].startswith("application/json") and kind != "chart":
            assert answer.headers["content-length"] == str(len(answer.content))
    assert " error " not in server.stderr
    assert len(pids(server, "heavy")) == 1
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for title in ("heavy", "jobs"):  # rebuilds, draws, checkpoints, mail and deleting are done by jobs
        assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids(server, title)] == [min(19, own + 10)], title
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids(server, "web")} == {own}


@pytest.mark.req("OBS-188")
def test_it_searches_a_long_line_for_a_ref_in_that_process(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client, ThreadPoolExecutor(16) as pool:
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # each is somebody else
        joins = list(pool.map(lambda _: client.post("/api/join", json={"roomId": "shop"}), range(NARROW + 1)))
    assert {join.status_code for join in joins} == {200}
    found = ask(server, "GET", f"/api/admin/rooms/shop/tickets?ref={ref_of('shop', 1, 7)}")
    assert found.json()["ticket"] == 7
    (pid,) = pids(server, "heavy")
    with ThreadPoolExecutor(1) as pool:
        with held_up(pid):
            asked = pool.submit(ask, server, "GET", f"/api/admin/rooms/shop/tickets?ref={ref_of('shop', 1, 8)}")
            wait_for(lambda: connections(server) > 1)
            assert not asked.done(), "nobody else searches"
        assert asked.result(60).json()["ticket"] == 8


@pytest.mark.req("BUD-074")
def test_the_file_is_the_same_to_the_byte(server: Server) -> None:
    answer = ask(server, "GET", "/api/admin/audit?format=csv&action=room.filler")

    assert answer.content.startswith(csv_line(COLUMNS).encode())
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert len(rows) == 1 + ENTRIES
    ids = [int(row[0]) for row in rows[1:]]
    assert ids == sorted(ids, reverse=True)
    assert rows[1][9] == "'=1+1, \"" + "x" * 4000 + '"'
    assert answer.content == "".join(csv_line(row) for row in rows).encode()


@pytest.mark.req("BUD-076", "ADM-021")
def test_slow_readers_hold_up_nobody_and_too_many_are_told(server: Server) -> None:
    with ExitStack() as stack:
        readers = [Slow(server, stack) for _ in range(4)]  # each has its turn once the one before takes nothing
        wait_for(lambda: heavy_block(server) == {"running": [], "waiting": 4, "paused": False})
        whole = ask(server, "GET", "/api/admin/reports")
        assert whole.status_code == 200

        readers.append(Slow(server, stack))
        refused = ask(server, "GET", "/api/admin/history?format=csv")
        assert (refused.status_code, refused.json()["code"]) == (429, "busy")
        assert int(refused.headers["retry-after"]) == refused.json()["retryAfterSec"] > 0
        assert ask(server, "GET", "/api/admin/audit").status_code == 200
        assert ask(server, "GET", "/api/admin/history?roomId=shop").status_code == 200

        first = readers[0]
        assert (first.read + first.rest()).count(b"\r\n") == 1 + ENTRIES
    wait_for(lambda: heavy_block(server)["waiting"] == 0)  # those who went away are worked for no longer
    assert ask(server, "GET", "/api/admin/history?format=csv").status_code == 200
    metrics = httpx.get(server.url + "/metrics", headers=headers(server), timeout=60).text
    assert 'qm_heavy_jobs_running{kind="audit_csv"} 0.0' in metrics
    assert re.search(r'qm_heavy_job_seconds_count\{kind="audit_csv"\} [1-9]', metrics)
    ended = re.findall(r"heavy_work_ended .*", server.stderr)
    for told in ("by=ADMIN_KEY", "cpu_sec=", f"rows={1 + ENTRIES}", "outcome=done", "outcome=busy"):
        assert any(told in line for line in ended), told


@pytest.mark.req("INL-229")
def test_a_request_at_the_gate_waits_for_none_of_it(server: Server) -> None:
    """With one web worker, and the process for heavy work held up in the middle. How long it takes is a figure of
    ``python -m bench.proxy``."""
    settings = {"id": "gate", "targetUrl": "https://gate.example/", "proxyOrigin": "https://8.8.8.8", "rate": 0}
    made = ask(server, "POST", "/api/admin/rooms", json=settings)
    assert made.status_code == 200, made.text
    assert ask(server, "GET", "/api/admin/history").status_code == 200
    (pid,) = pids(server, "heavy")
    wide = ("audit?format=csv", "reports", "history", "timeline")
    with ThreadPoolExecutor(len(wide)) as pool:
        with held_up(pid):
            asked = [pool.submit(ask, server, "GET", f"/api/admin/{path}") for path in wide]
            wait_for(lambda: connections(server) > len(wide))
            for _ in range(20):
                page = httpx.get(server.url, headers={"Host": "gate.example", "Accept": "text/html"}, timeout=60)
                assert page.headers["x-qm-queued"] == "1"
            assert not any(answer.done() for answer in asked)
        assert [answer.result(60).status_code for answer in asked] == [200] * len(wide)
    assert ask(server, "DELETE", "/api/admin/rooms/gate").status_code == 200


def test_it_ends_when_it_is_not_needed_and_is_there_again_when_it_is(server: Server) -> None:
    (first,) = pids(server, "heavy")
    os.kill(first, STOP_SIGNAL)  # the end it comes to by itself after a quiet while
    wait_for(lambda: not is_running(first))

    assert ask(server, "GET", "/api/admin/history").status_code == 200

    (second,) = pids(server, "heavy")
    assert second != first
    assert "process_died process=Sanic-heavy-0" not in server.stderr, "ending in order is no fault"


def test_a_file_that_breaks_off_never_looks_whole_and_the_next_one_is(server: Server) -> None:
    with ExitStack() as stack:
        reader = Slow(server, stack)
        (victim,) = pids(server, "heavy")
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(httpx.HTTPError):
            reader.rest()
    wait_for(lambda: lost_work(server))
    (line,) = lost_work(server)
    assert ("by=ADMIN_KEY" in line, "kind=audit_csv" in line) == (True, True), "told by the process that asked"
    wait_for(lambda: pids(server, "heavy") not in ([], [victim]))
    wait_for(lambda: heavy_block(server) == {"running": [], "waiting": 0, "paused": False})
    assert len(ask(server, "GET", "/api/admin/audit?format=csv").content) > 4000 * ENTRIES
    assert ask(server, "GET", "/healthz").json()["status"] == "ok"
    assert "NoneType" not in server.stderr, "who was cut off is no error of ours"

    (victim,) = pids(server, "heavy")
    with ThreadPoolExecutor(5) as pool, held_up(victim):
        asked = [pool.submit(ask, server, "GET", "/api/admin/reports") for _ in range(5)]
        wait_for(lambda: connections(server) > len(asked))
        assert ask(server, "GET", "/api/admin/reports").json()["code"] == "busy", "though the process hangs"
        assert not any(answer.done() for answer in asked)
        os.kill(victim, signal.SIGKILL)
        answers = [answer.result(60) for answer in asked]
    for answer in answers:
        # It had accepted the question, or the question waited at the socket for the next process.
        said = answer.status_code, answer.headers.get("retry-after"), answer.json().get("code")
        assert said in ((503, "5", "heavy_unavailable"), (200, None, None))


def connections(server: Server) -> int:
    """Ends of connections to the socket of the process for heavy work, the one it listens on among them."""
    return Path("/proc/net/unix").read_text().count(f"{run_dir(server)}/heavy.sock")
