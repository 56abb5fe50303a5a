"""A question of a visitor by the shortest way: no coroutine, no future, no turn of the loop when the answer comes.

A waiting page polls, a page has a hundred files, and a surge is a hundred thousand joins. Belongs here: what such
questions have in common, standing where the engine keeps a future and doing what it does with one. Not here: what is
asked and what an answer means (check.py, status.py, join.py). Each has a long way too, of coroutines: for visitors who
are met for the first time, and for whatever has to be waited for besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from app.infrastructure.engine_errors import StaleRoom

T = TypeVar("T")
Told = Callable[[T | None, BaseException | None], None]
"""Hears what came of a question, or what was raised; once."""


def is_to_be_asked_again(error: BaseException | None) -> bool:
    """Tell whether a question failed because this process's copy of the room is old: the long way reads it anew."""
    return isinstance(error, StaleRoom)


class Hearer(Protocol):
    """The use case that asked."""

    def heard(self, asking: Any, answer: Any, /) -> None:
        """The engine has answered. May raise: it is told."""


class Asking(Generic[T]):
    """One question. Subclasses set both members and add what has to be known when the answer comes."""

    __slots__ = ("_service", "told")

    _service: Hearer
    told: Told[T]
    """It raises nothing: others wait for their answers behind this one."""

    def done(self) -> bool:
        """As of a future: nobody takes the question back."""
        return False

    def set_result(self, answer: Any) -> None:
        """As of a future. Whatever goes wrong is this visitor's alone: many answers come at once."""
        try:
            self._service.heard(self, answer)
        except Exception as error:
            self.told(None, error)

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
