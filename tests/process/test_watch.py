"""The parts of main's watch: lives, the state table, the stop wish, Sanic's internals."""

from __future__ import annotations

import inspect
import signal
from multiprocessing.reduction import ForkingPickler

import pytest
from sanic.mixins import startup
from sanic.worker.manager import WorkerManager
from sanic.worker.process import WorkerProcess

from app.core import version
from app.process import stop as stop_module
from app.process import watch
from app.process.state_table import ChildStates, StateTable
from app.process.stop import StopEarly, StopWish
from app.process.watch import Lives


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
