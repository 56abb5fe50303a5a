"""The life of the server's processes: start, stop, and the death of any of them.

The application is a stand-in, since only the processes are looked at; see ``test_server`` for the real one.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.core.settings_docs import ROOT
from app.core.version import VERSION
from tests.harness import LIMITS, Server, is_running, wait_for

STANDIN = [sys.executable, "-m", "tests.process.standin"]


def standin(tmp_path: Path, **env: str | None) -> Server:
    return Server(env={"STANDIN_TRACE": str(tmp_path / "trace"), **env}, command=STANDIN)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test ends."""
    with standin(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that leave it whole."""
    with standin(tmp_path_factory.mktemp("lasting")) as running:
        yield running


def who(server: Server) -> dict[str, int]:
    answer: dict[str, int] = httpx.get(server.url + "/who", timeout=10).json()
    return answer


def web_pids(server: Server) -> set[int]:
    """Processes that answer; asked until as many as there are workers have."""
    found: set[int] = set()
    wait_for(lambda: found.add(who(server)["pid"]) or len(found) == 2)
    return found


def run_dirs(server: Server) -> list[Path]:
    """Run directories of this server's private stores, as seen in its children's command lines."""
    words = [word for line in server.descendants().values() for word in line.split() if "qm-run-" in word]
    return [Path(word.split("unixsocket:")[1]).parent for word in words if "unixsocket:" in word]


def assert_nothing_left(server: Server, pids: dict[int, str], folders: list[Path]) -> None:
    left = {pid: line for pid, line in pids.items() if is_running(pid)}
    assert left == {}
    assert [folder for folder in folders if folder.exists()] == []


def _without_names(line: str) -> str:
    return re.sub(r":\d+ store=\w+ instance=i:[0-9a-f]{8} ", " ", line)


@pytest.mark.req("CFG-095")
def test_it_prints_one_line_when_every_worker_accepts(lasting: Server) -> None:
    assert lasting.line.startswith("listening on http://127.0.0.1:")
    assert " store=memory instance=i:" in lasting.line
    assert f" version={VERSION}" in lasting.line
    for guide in ("docs/operations.md", "docs/th/operations.md"):
        sample = re.search(r"^listening .*$", (ROOT / guide).read_text(), re.MULTILINE)
        assert sample is not None
        assert _without_names(sample[0]) == _without_names(lasting.line), guide
    assert web_pids(lasting) <= set(lasting.descendants())


@pytest.mark.req("CFG-095")
@pytest.mark.req("FLT-004")
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_in_order_and_leaves_nothing(server: Server, sig: signal.Signals) -> None:
    pids, folders = server.descendants(), run_dirs(server)
    assert folders

    server.kill(sig)

    assert server.process is not None
    assert server.process.stdout is not None
    assert server.process.stdout.read() == "", "one line was all"
    assert server.wait() == 0
    assert_nothing_left(server, pids, folders)
    ended = Path(server.env["STANDIN_TRACE"]).read_text().split()
    assert sorted(ended) == ["Sanic-drainer-0", "Sanic-jobs-0", "Sanic-ticker-0"]
    assert ended[-1] == "Sanic-drainer-0"


def test_it_stops_in_order_when_its_whole_group_is_signalled(server: Server) -> None:
    pids, folders = server.descendants(), run_dirs(server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        slow = pool.submit(httpx.get, server.url + "/slow", timeout=10)
        wait_for(Path(server.env["STANDIN_TRACE"] + ".slow").exists)

        server.kill_group(signal.SIGTERM)

        assert slow.result().status_code == 200
    assert server.wait() == 0
    assert_nothing_left(server, pids, folders)


def test_it_takes_a_second_signal_that_comes_with_the_first_for_the_same(server: Server) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        slow = pool.submit(httpx.get, server.url + "/slow", timeout=10)
        wait_for(Path(server.env["STANDIN_TRACE"] + ".slow").exists)

        server.kill(signal.SIGTERM)
        server.kill_group(signal.SIGTERM)

        assert slow.result().status_code == 200
    assert server.wait() == 0


def test_it_leaves_the_listening_socket_to_main_and_the_web_workers(lasting: Server) -> None:
    port = int(lasting.url.rsplit(":", 1)[1])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inode = next(row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port)

    holders = {pid for pid in lasting.descendants() if holds(pid, f"socket:[{inode}]")}

    assert holders == web_pids(lasting)


def holds(pid: int, what: str) -> bool:
    return any(os.readlink(link) == what for link in Path(f"/proc/{pid}/fd").iterdir())


def test_it_ignores_signals_to_single_processes_of_its_own(lasting: Server) -> None:
    before = lasting.descendants()
    ours = [pid for pid, line in before.items() if line.startswith("qm-")]

    for pid in ours:
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)

    assert web_pids(lasting) <= set(ours)
    assert set(ours) <= set(lasting.descendants())


@pytest.mark.req("CFG-096")
def test_it_leaves_nothing_behind_when_killed(server: Server) -> None:
    pids = server.descendants()
    assert len(pids) > 6

    server.kill(signal.SIGKILL)

    wait_for(lambda: not any(is_running(pid) for pid in pids), deadline_sec=5)
    assert server.wait() == -signal.SIGKILL


def test_it_leaves_nothing_behind_when_killed_after_restarts(server: Server) -> None:
    first = web_pids(server)
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    assert not web_pids(server) & first
    pids = server.descendants()

    server.kill(signal.SIGKILL)

    wait_for(lambda: not any(is_running(pid) for pid in pids), deadline_sec=5)


def test_it_serves_on_while_a_killed_worker_is_replaced(lasting: Server) -> None:
    first, second = sorted(web_pids(lasting))

    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not is_running(first))

    for _ in range(50):
        assert who(lasting)["pid"] != first
    now: set[int] = set()
    wait_for(lambda: now.add(who(lasting)["pid"]) or len(now) == 2)
    assert second in now


def test_it_gives_a_new_worker_the_number_of_the_dead_one(lasting: Server) -> None:
    known: dict[int, int] = {}
    wait_for(lambda: known.update({who(lasting)["pid"]: who(lasting)["index"]}) or len(known) == 2)
    index = {}
    for _ in range(40):
        answer = who(lasting)
        index[answer["pid"]] = answer["index"]
    victim = min(index)

    os.kill(victim, signal.SIGKILL)

    wait_for(lambda: index.update({(seen := who(lasting))["pid"]: seen["index"]}) or len(index) == 3)
    replacement = max(set(index) - {victim}, key=lambda pid: pid not in known)
    assert index[replacement] == index[victim]


@pytest.mark.req("BUD-074")
def test_it_gives_those_who_answer_visitors_the_cores_first(lasting: Server) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    found = {line.split()[0]: os.getpriority(os.PRIO_PROCESS, pid) for pid, line in lasting.descendants().items()}

    assert {name: nice - own for name, nice in found.items() if name.startswith("qm-")} == {
        "qm-web": 0, "qm-ticker": 0, "qm-drainer": 0, "qm-jobs": 10,
    }  # fmt: skip


def test_it_replaces_background_processes_and_stores(lasting: Server) -> None:
    web = web_pids(lasting)
    for pid, line in lasting.descendants().items():
        if (line.startswith("qm-") and pid not in web) or "valkey-server" in line or "/bin/postgres" in line:
            os.kill(pid, signal.SIGKILL)

    def is_whole() -> bool:
        lines = list(lasting.descendants().values())
        ours = sum(line.startswith("qm-") for line in lines)
        stores = [sum(name in line for line in lines) for name in ("valkey-server", "/bin/postgres")]
        return ours == 5 and stores == [1, 1]

    wait_for(is_whole)
    assert web_pids(lasting) == web


def test_it_gives_up_with_an_error_when_a_process_never_gets_ready(tmp_path: Path) -> None:
    server = standin(tmp_path, STANDIN_FAILS="Sanic-drainer-0")
    server.start(wait=False)
    try:
        assert server.wait(100) == 1
        assert "gave_up" in server.stderr
        assert "as asked" in server.stderr
    finally:
        server.__exit__(None, None, None)


def test_it_stops_cleanly_when_asked_during_its_start(tmp_path: Path) -> None:
    server = standin(tmp_path)
    server.start(wait=False)
    try:
        wait_for(lambda: "files" in server.stderr or server.descendants())
        server.kill(signal.SIGTERM)
        assert server.wait() == 0
    finally:
        server.__exit__(None, None, None)


@pytest.mark.req("FLT-006", "OBS-185")
def test_it_refuses_a_data_dir_that_a_running_server_uses(tmp_path: Path) -> None:
    with standin(tmp_path, STORE="embedded") as first:
        second = standin(tmp_path, STORE="embedded", DATA_DIR=first.env["DATA_DIR"])
        second.start(wait=False)
        try:
            assert second.wait() == 78
            assert "refusing to start:" in second.stderr
            assert f"(pid {first.pid})" in second.stderr
        finally:
            second.__exit__(None, None, None)
        assert who(first)["ready"]


@pytest.mark.req("CFG-016")
def test_it_refuses_a_port_that_is_taken(lasting: Server, tmp_path: Path) -> None:
    second = standin(tmp_path, PORT=lasting.url.rsplit(":", 1)[1])
    second.start(wait=False)
    try:
        assert second.wait() == 78
        assert "PORT" in second.stderr
    finally:
        second.__exit__(None, None, None)


UNSET = (
    *("HOST", "STORE", "ADMIN_KEY", "SECRET", "QM_WORKERS", "SHUTDOWN_GRACE_MS", "SHUTDOWN_DRAIN_MS", "MESH_KNOCK_MS"),
    *LIMITS,
)
"""What the harness sets besides PORT and DATA_DIR, since the default port and folder may be in use here."""


@pytest.mark.req("CFG-047", "CFG-050", "CFG-021", "CFG-001")
def test_it_starts_with_nothing_set_for_its_own_machine_and_keeps_the_keys_it_makes(tmp_path: Path) -> None:
    with standin(tmp_path, **dict.fromkeys(UNSET)) as server:
        assert server.line.startswith("listening on http://127.0.0.1:")
        assert " store=embedded " in server.line
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url.replace("127.0.0.1", "127.0.0.2"), timeout=10)
        folder = Path(server.env["DATA_DIR"])
        key = (folder / "admin-key").read_text().strip()
        assert len(key) >= 32
        assert str(folder / "admin-key") in server.stderr
        assert key not in server.stderr
        assert (folder / "admin-key").stat().st_mode & 0o777 == 0o600
        assert (folder / "secret").stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700

        server.restart()

        assert (folder / "admin-key").read_text().strip() == key


@pytest.mark.req("CFG-050")
def test_it_prints_the_generated_key_once_with_throw_away_stores(tmp_path: Path) -> None:
    with standin(tmp_path, ADMIN_KEY=None) as server:
        assert server.stderr.count("ADMIN_KEY is not set: using ") == 1


@pytest.mark.req("FLT-004")
def test_it_ends_leftovers_of_its_own_data_dir_and_removes_dead_run_dirs(tmp_path: Path) -> None:
    with standin(tmp_path, STORE="embedded") as server:
        folders = run_dirs(server)
        server.kill(signal.SIGKILL)
        server.wait()
        assert folders[0].exists()
        assert folders[0].stat().st_mode & 0o777 == 0o700

        server.start()

        assert who(server)["ready"]
        assert not folders[0].exists()
