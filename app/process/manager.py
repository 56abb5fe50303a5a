"""Sanic's worker manager, with our own watch over the processes and our own stop.

All starting is done by main's one thread: the death signal of a child follows the *thread* that started it. Tried with
Sanic 25.12; ``tests/process/test_sanic_internals.py`` names what is relied on.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, Final

import structlog
from sanic.worker.constants import ProcessState
from sanic.worker.manager import WorkerManager
from sanic.worker.process import WorkerProcess

from app.core.clock import mono
from app.core.runtime import SERVER_NAME, Runtime
from app.infrastructure.embedded import PrivateStores
from app.process.birth import Births, read_ahead
from app.process.state_table import StateTable
from app.process.stop import StopWish, kept_sec
from app.process.watch import Lives
from workers.runner import BACKGROUND, LAST, ON_DEMAND, STOP_SIGNAL, run_process

log = structlog.get_logger(__name__)

ON_DEMAND_PROCESS: Final = f"Sanic-{ON_DEMAND}-0"
_LOOK_SEC: Final = 0.25
"""Longest pause between two looks; a death, a signal and a message end it at once."""
_HARD_STOP_SEC: Final = 5.0
_BACKGROUND_WAIT_SEC: Final = 5.0
"""How long the ``listening`` line waits for background processes; a boot without its stores has to listen too."""


@dataclass(slots=True)
class Plan:
    """What the manager works with besides Sanic's own arguments, and what came of it."""

    runtime: Runtime
    table: StateTable
    wish: StopWish
    stores: PrivateStores | None
    births: Births
    inbox: socket.socket
    """Where the process that runs on demand is asked; readable while somebody waits for it."""
    announce: Callable[[], None]
    """Called once, when every process is ready."""
    close_listener: Callable[[], None]
    """Lets nobody new in: the last open handle on the listening socket once the web workers have closed theirs."""
    exit_code: int = 0
    lives: dict[str, Lives] = field(default_factory=dict)


class Manager(WorkerManager):
    """Runs the web workers and the background processes until a stop is asked for or nothing helps any more."""

    def __init__(
        self, plan: Plan, number: int, serve: Any, settings: dict[str, Any], _context: Any, pipe: Any, states: Any
    ) -> None:
        plan.births.withhold(plan.table.reader.close, pipe[1].close)
        read_ahead(f"workers.{name}" for name in BACKGROUND)
        births: Any = plan.births  # all that is asked of a context
        super().__init__(number, serve, settings, births, pipe, states)
        self._plan = plan
        self._is_announced = False
        self._accepting_since: float | None = None
        plan.wish.install()  # Sanic's constructor has just put its own handlers in place
        for name in BACKGROUND:
            if name != ON_DEMAND:
                kwargs = {"name": name, "runtime": plan.runtime, "states": plan.table}
                self.manage(name, run_process, kwargs, transient=False, restartable=True)
        waked: dict[str, Any] = {
            "name": ON_DEMAND, "runtime": plan.runtime, "states": plan.table, "inbox": plan.inbox,
        }  # fmt: skip
        worker = self.manage(ON_DEMAND, run_process, waked, restartable=True, auto_start=False)
        (self._sleeper,) = worker.processes

    def run(self) -> None:
        """Start everything, watch it, and stop it in order."""
        try:
            self.start()  # type: ignore[no-untyped-call]
            while not self._plan.wish.is_asked and not self._plan.exit_code:
                self._look()
        finally:
            self._stop()

    def _look(self) -> None:
        plan = self._plan
        alive = [process for process in self.processes if _is_alive(process)]
        sentinels = [process._current_process.sentinel for process in alive]
        sources: list[Any] = [plan.table.reader, plan.wish, self.monitor_subscriber, *sentinels]
        if self._may_wake():
            sources.append(plan.inbox)
        wait(sources, timeout=_LOOK_SEC)
        plan.wish.drain()
        plan.table.drain()
        self._read_messages()
        self._announce_when_ready()
        for process in self._all():
            if process is not self._sleeper:
                self._see_to(process)
        self._see_to_sleeper()
        if plan.stores is not None and not plan.stores.watch():
            self._give_up("private_store")

    def _announce_when_ready(self) -> None:
        """All web workers accept; the background processes too, or a store keeps them waiting (CFG-186)."""
        if self._is_announced:
            return
        needed = [process.name for process in self._all() if process is not self._sleeper]
        late = [name for name in needed if not self._plan.table.is_ready(name)]
        if any(name.startswith(SERVER_NAME) for name in late):
            return
        if self._accepting_since is None:
            self._accepting_since = mono()
        if not late or mono() - self._accepting_since > _BACKGROUND_WAIT_SEC:
            self._is_announced = True
            if late:
                log.warning("listening_without", processes=late)
            self._plan.announce()

    def _see_to(self, process: WorkerProcess) -> None:
        """Start a dead process again when it is due."""
        lives = self._plan.lives.setdefault(process.name, Lives())
        if _is_alive(process):
            return
        if lives.due is None:
            was_killed = (process.exitcode or 0) < 0
            lives.note_death(was_ready=self._plan.table.is_ready(process.name), was_killed=was_killed)
            self._plan.table.forget_ready(process.name)
            log.error("process_died", process=process.name, exit_code=process.exitcode)
        if lives.is_hopeless:
            self._give_up(process.name)
        elif lives.due is not None and mono() >= lives.due and not self._plan.wish.is_asked:
            process.restart()  # type: ignore[no-untyped-call]
            lives.note_birth()
            log.info("process_started_again", process=process.name, pid=process.pid)

    def _see_to_sleeper(self) -> None:
        """Start the process that runs on demand when somebody knocks; that it ended by itself is no fault.

        One that died at work is started at once, to put right what it told of itself. The instance never gives up on
        it: visitors do not need it.
        """
        process = self._sleeper
        lives = self._plan.lives.setdefault(process.name, Lives())
        if _is_alive(process):
            return
        was_at_work = False
        if lives.due is None and process.exitcode:
            was_at_work = self._plan.table.is_ready(process.name)
            lives.note_death(was_ready=was_at_work, was_killed=process.exitcode < 0)
            log.error("process_died", process=process.name, exit_code=process.exitcode)
        self._plan.table.forget_ready(process.name)
        if was_at_work or (self._may_wake() and wait([self._plan.inbox], timeout=0)):
            process.restart()  # type: ignore[no-untyped-call]
            lives.note_birth()
            log.info("process_started", process=process.name, pid=process.pid)

    def _may_wake(self) -> bool:
        """The process that runs on demand is not there, and not waiting for its next life either."""
        lives = self._plan.lives.get(self._sleeper.name)
        is_due = lives is None or lives.due is None or mono() >= lives.due
        return is_due and not self._plan.wish.is_asked and not _is_alive(self._sleeper)

    def _give_up(self, name: str) -> None:
        log.error("gave_up", process=name, why="it does not stay alive")
        self._plan.exit_code = 1

    def _read_messages(self) -> None:
        """Workers speak to the manager through Sanic: all that is heeded is the wish to stop."""
        while self.monitor_subscriber.poll():
            if self.monitor_subscriber.recv() == "__TERMINATE__":
                self._plan.wish.ask()

    def _all(self) -> Iterable[WorkerProcess]:
        return sorted(self.processes, key=lambda process: str(process.name))

    def _stop(self) -> None:
        """Not ready; web workers; background processes; the drainer, so that what it holds is stored (CFG-192)."""
        runtime = self._plan.runtime
        runtime.stopping.set()
        log.info("stop_begun", hurried=self._plan.wish.is_hurried)
        drain = runtime.drain_sec
        kept = kept_sec(drain)
        began = mono()
        runtime.background_until.set(began + drain - kept / 2)
        web = [process for process in self._all() if process.name.startswith(SERVER_NAME)]
        last = [process for process in self._all() if process.name == f"Sanic-{LAST}-0"]
        others = [process for process in self._all() if process not in web and process not in last]
        was_ready = any(_is_alive(process) and self._plan.table.is_ready(process.name) for process in last)
        self._end_web(web, began, began + max(0.0, drain - kept))
        log.debug("web_workers_ended", sec=round(mono() - began, 3))
        self._end(others, began + drain - kept / 2)
        self._end(last, began + drain)
        log.debug("background_ended", sec=round(mono() - began, 3))
        for process in self._all():
            process.set_state(ProcessState.TERMINATED, True)  # Sanic waits for this word before it lets main end
        # A drainer that never got ready holds nothing yet; one that is just being started again leaves facts behind.
        is_unsure = any(process.exitcode != 0 for process in last) if was_ready else self._is_announced
        if is_unsure:
            log.error(
                "shutdown WITH STORAGE FAILING", risk="changes since the last good commit are not in the events journal"
            )
            self._plan.exit_code = 1

    def _end_web(self, processes: list[WorkerProcess], began: float, until: float) -> None:
        """As ``_end``, in two parts: the listener closes with the grace, as those of the workers do (CFG-192)."""
        grace_over = began + self._plan.runtime.settings.shutdown_grace_ms / 1000
        for process in processes:
            _send(process, STOP_SIGNAL)
        self._wait_for(processes, min(grace_over, until), may_hurry=True)
        self._plan.close_listener()
        self._kill(self._wait_for(processes, until, may_hurry=True))

    def _end(self, processes: list[WorkerProcess], until: float) -> None:
        """Ask each to stop, wait until ``until``, then kill."""
        for process in processes:
            _send(process, STOP_SIGNAL)
        self._kill(self._wait_for(processes, until))

    def _kill(self, processes: list[WorkerProcess]) -> None:
        for process in processes:
            log.warning("process_killed", process=process.name, pid=process.pid)
            _send(process, signal.SIGKILL)
            process._current_process.join(_HARD_STOP_SEC)

    def _wait_for(
        self, processes: list[WorkerProcess], until: float, *, may_hurry: bool = False
    ) -> list[WorkerProcess]:
        """Those that are still alive at ``until``, or when somebody is in a hurry."""
        while left := [process for process in processes if _is_alive(process)]:
            if mono() >= until or (may_hurry and self._plan.wish.is_hurried):
                break
            pause = min(_LOOK_SEC, max(0.0, until - mono()))
            sources: list[Any] = [self._plan.wish, *(process._current_process.sentinel for process in left)]
            wait(sources, timeout=pause)
            self._plan.wish.drain()
            self._plan.table.drain()
        return left


def _is_alive(process: WorkerProcess) -> bool:
    return bool(process.is_alive())  # type: ignore[no-untyped-call]


def _send(process: WorkerProcess, number: signal.Signals) -> None:
    if _is_alive(process) and process.pid:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def print_line(text: str) -> None:
    """The one line on stdout; a reader that has gone away is no reason to end."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return
