"""How main brings its processes into the world.

On Linux they are forked from main, which has read all code by then: a process begins its work at once and shares main's
memory, where one that starts from nothing reads code for most of a second. What main alone may hold (locks, its wakeup
pipe) is let go of first. Elsewhere a system's own libraries may not survive a fork, and processes are spawned. Main
forks from its one thread and before it runs any loop.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from typing import Any, Final

from app.core.runtime import SERVER_NAME
from app.process.state_table import StateTable

FORKS: Final = sys.platform == "linux"
SPAWN: Final = "spawn"


class Births:
    """Stands in for a context of ``multiprocessing`` where Sanic makes its processes."""

    def __init__(self, listener: Callable[[], None]) -> None:
        """``listener``: closes a child's copy of the listening socket, which only web workers need."""
        self._lent = [(SERVER_NAME, listener)]
        self._mains_own: list[Callable[[], None]] = []

    def withhold(self, *closers: Callable[[], None]) -> None:
        """Note what closes a child's copies of things that only main may hold."""
        self._mains_own += closers

    def lend(self, close: Callable[[], None], owner: str) -> None:
        """Note what closes a copy that only processes whose names begin with ``owner`` may hold besides main."""
        self._lent.append((owner, close))

    def Process(self, *, name: str, target: Callable[..., None], kwargs: dict[str, Any], daemon: bool) -> BaseProcess:
        """A process that is not started yet, as ``multiprocessing.Process``."""
        if not FORKS:
            return multiprocessing.get_context(SPAWN).Process(name=name, target=target, kwargs=kwargs, daemon=daemon)
        begin = {"name": name, "target": target, "given": kwargs}
        return multiprocessing.get_context("fork").Process(name=name, target=self._begin, kwargs=begin, daemon=daemon)

    def _begin(self, *, name: str, target: Callable[..., None], given: dict[str, Any]) -> None:
        """The first lines of a forked child: let go of what is main's, then run ``target``."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):  # main's handlers; every child ignores both
            signal.signal(number, signal.SIG_IGN)
        for close in self._mains_own:
            close()
        for owner, close in self._lent:
            if not name.startswith(owner):
                close()
        _forget_app()
        target(**{key: value.of_child() if isinstance(value, StateTable) else value for key, value in given.items()})


def read_ahead(modules: Iterable[str]) -> None:
    """Read code that children run, and keep the collector from writing to memory that they share."""
    if not FORKS:
        return
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def _forget_app() -> None:
    """A child makes its own application, under the name that main's has."""
    from sanic import Sanic

    Sanic._app_registry.clear()
