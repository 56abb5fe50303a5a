"""A question of a visitor by the shortest way: no coroutine, no future, no turn of the loop when the answer comes.

A waiting page polls, a page has a hundred files, and a surge is a hundred thousand joins. Belongs here: what such
questions have in common, standing where the engine keeps a future and doing what it does with one. Not here: what is
asked and what an answer means (check.py, status.py, join.py). Each has a long way too, of coroutines: for visitors who
are met for the first time, and for whatever has to be waited for besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from app.infrastructure.engine_errors import StaleRoom

T = TypeVar("T")
Told = Callable[[T | None, BaseException | None], None]
"""Hears what came of a question, or what was raised; once."""


def is_to_be_asked_again(error: BaseException | None) -> bool:
    """Tell whether a question failed because this process's copy of the room is old: the long way reads it anew."""
    return isinstance(error, StaleRoom)


class Asking(Generic[T]):
    """One question. Subclasses add ``set_result``: whatever goes wrong in it is this visitor's alone."""

    __slots__ = ("told",)

    told: Told[T]
    """Set by subclasses. It raises nothing: others wait for their answers behind this one."""

    def done(self) -> bool:
        """As of a future: nobody takes the question back."""
        return False

    def set_exception(self, error: BaseException) -> None:
        """As of a future."""
        self.told(None, error)

    def go_on(self, coro: Coroutine[Any, Any, T], tasks: set[asyncio.Task[T]], name: str) -> None:
        """Leave the rest to a task, which is kept in ``tasks``."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[T]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self.told(None if error is not None else task.result(), error)
