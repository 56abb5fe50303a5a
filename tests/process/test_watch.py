"""The parts of main's watch: lives, the state table, the stop wish, Sanic's internals."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from sanic.mixins import startup
from sanic.worker.manager import WorkerManager
from sanic.worker.process import WorkerProcess

from app.core import version
from app.process import stop as stop_module
from app.process import watch
from app.process.state_table import ChildStates, StateTable
from app.process.stop import StopEarly, StopWish
from app.process.watch import Lives
from app.process.web import _take_signals
from workers.runner import STOP_SIGNAL


class Clock:
    """A clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: object) -> None:
        self.now = 1000.0
        for module in modules:
            monkeypatch.setattr(module, "mono", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, watch, stop_module)


def test_it_starts_a_process_that_lived_long_again_at_once(clock: Clock) -> None:
    lives = Lives()
    clock.now += 60

    lives.note_death(was_ready=True, was_killed=False)

    assert lives.due == clock.now
    assert not lives.is_hopeless


def test_it_waits_longer_after_each_short_life_and_gives_up(clock: Clock) -> None:
    lives, pauses = Lives(), []
    while not lives.is_hopeless:
        lives.note_death(was_ready=False, was_killed=False)
        assert lives.due is not None
        pauses.append(lives.due - clock.now)
        lives.note_birth()

    assert len(pauses) == 5
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 5


def test_it_bears_many_kills_from_outside(clock: Clock) -> None:
    lives = Lives()
    for _ in range(15):
        clock.now += 3
        lives.note_death(was_ready=False, was_killed=True)
        lives.note_birth()
    assert not lives.is_hopeless

    lives.note_death(was_ready=True, was_killed=True)
    for _ in range(15):
        clock.now += 3
        lives.note_death(was_ready=False, was_killed=True)
    assert not lives.is_hopeless


def test_it_gives_up_on_a_process_that_gets_ready_and_dies_over_and_over(clock: Clock) -> None:
    lives = Lives()
    for _ in range(60):
        clock.now += 0.5
        lives.note_death(was_ready=True, was_killed=False)

    assert lives.is_hopeless


def child_of(table: StateTable) -> ChildStates:
    maker, (entries, writer) = table.__reduce__()
    child: ChildStates = maker(dict(entries), writer)
    return child


def test_it_hears_of_changes_of_a_process_and_keeps_its_own() -> None:
    table = StateTable()
    table["Sanic-Server-0-0"] = {"server": True, "pid": 1}
    child = child_of(table)
    table["Sanic-Server-0-0"] = {**table["Sanic-Server-0-0"], "pid": 2}  # as Sanic does, after the process has started

    child["Sanic-Server-0-0"] = {**child["Sanic-Server-0-0"], "state": "ACKED"}
    child["Sanic-Server-0-0"] = {**child["Sanic-Server-0-0"], "serving": True}
    child["unknown"] = {"serving": True}
    table.drain()

    assert table["Sanic-Server-0-0"] == {"server": True, "pid": 2, "state": "ACKED", "serving": True}
    assert table.is_ready("Sanic-Server-0-0")
    assert "unknown" not in table
    table.forget_ready("Sanic-Server-0-0")
    assert not table.is_ready("Sanic-Server-0-0")


def test_its_messages_are_written_whole() -> None:
    entry = {"server": True, "state": "ACKED", "serving": True, "pid": 2**31, "starts": 10**6}

    assert len(ForkingPickler.dumps(("Sanic-Server-63-0", entry))) + 4 < 512  # the least PIPE_BUF of POSIX


def test_it_takes_signals_of_half_a_second_for_one_wish(clock: Clock) -> None:
    wish = StopWish()
    try:
        wish.check()
        wish.ask()
        clock.now += 0.4
        wish.ask()
        assert wish.is_asked
        assert not wish.is_hurried
        with pytest.raises(StopEarly):
            wish.check()
        clock.now += 0.2
        wish.ask()
        assert wish.is_hurried
    finally:
        wish.close()


def test_it_wakes_main_when_a_signal_comes() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    wish = StopWish()
    try:
        wish.install()
        signal.raise_signal(signal.SIGTERM)
        assert wish.is_asked
        assert wish._reader.recv(16)
    finally:
        wish.close()
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def test_a_web_worker_hears_a_stop_that_comes_between_two_runs_of_its_loop() -> None:
    """Sanic runs it several times; main asks once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, STOP_SIGNAL)}
    heard: list[bool] = []
    loop = uvloop.new_event_loop()

    def stop(*, terminate: bool) -> None:
        heard.append(not terminate)
        loop.stop()

    runtime = SimpleNamespace(drain_sec=7.0)
    app: Any = SimpleNamespace(stop=stop, config=SimpleNamespace(), ctx=SimpleNamespace(grace_sec=0, runtime=runtime))
    try:
        loop.run_until_complete(_take_signals(app))
        signal.raise_signal(STOP_SIGNAL)
        loop.call_later(10, loop.stop)
        loop.run_forever()
    finally:
        loop.close()
        for number, handler in before.items():
            signal.signal(number, handler)

    assert heard == [True]
    assert app.config.GRACEFUL_SHUTDOWN_TIMEOUT == 7.0


@pytest.mark.req("CFG-197")
def test_a_signal_at_the_very_end_of_main_changes_nothing() -> None:
    """Handlers are given back by Python before it takes its modules apart."""
    program = """
import os, signal
from app.process.stop import StopWish

class Late:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        for number in (15, 2):
            kill(pid, number)

late = Late()
wish = StopWish()
wish.install()
{}
"""
    codes = [
        subprocess.run([sys.executable, "-c", program.format(last)], check=False, timeout=60).returncode
        for last in ("wish.deafen()", "")
    ]

    assert codes == [0, -signal.SIGTERM]


def test_sanic_still_has_the_parts_that_are_replaced() -> None:
    serve = inspect.getsource(startup.StartupMixin.serve)

    for words in (
        "sync_manager = Manager()",
        "sync_manager.dict()",
        "sync_manager.shutdown()",
        "manager = WorkerManager(",
    ):
        assert words in serve
    for name in ("start", "processes", "manage", "monitor_subscriber"):
        assert name in inspect.getsource(WorkerManager)
    for name in ("_current_process", "def restart", "def set_state", "exitcode"):
        assert name in inspect.getsource(WorkerProcess)


def test_its_version_is_the_projects() -> None:
    import tomllib

    from app.core.settings_docs import ROOT

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == version.VERSION


def test_its_flag_reaches_other_processes() -> None:
    import multiprocessing

    from app.core.runtime import Flag

    context = multiprocessing.get_context("spawn")
    flag = Flag()
    process = context.Process(target=_wait_for_flag, args=(flag,))
    process.start()
    flag.set()
    process.join(30)

    assert process.exitcode == 0


def _wait_for_flag(flag: object) -> None:
    import time

    end = time.monotonic() + 20
    while not flag.is_set():  # type: ignore[attr-defined]
        if time.monotonic() > end:
            raise SystemExit(1)
        time.sleep(0.01)
