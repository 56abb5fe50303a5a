"""The check of a gated request by the shortest way: no coroutine, no future, no turn of the loop when the answer comes.

A page has a hundred files, and each asks the engine. Belongs here: one such question on its way. Not here: what is
asked, what an answer means and what it rests on (check.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from app.infrastructure.engine_results import CheckAnswer
from app.services.visitor_proof import Identity, Visitor
from app.services.visitor_room import Covered, VisitorRoom

if TYPE_CHECKING:
    from app.services.check import CheckService, Gated

Told = Callable[["Gated | None", BaseException | None], None]
"""Hears what was decided, or what was raised; once."""


class Asking:
    """One question. It stands where the engine keeps a future, and does what it does with one."""

    __slots__ = ("_check", "_told", "covered", "door", "identity", "now_ms", "room", "visitor")

    def __init__(
        self,
        check: CheckService,
        told: Told,
        *,
        room: VisitorRoom,
        visitor: Visitor,
        identity: Identity,
        covered: Covered,
        door: tuple[str, bytes],
        now_ms: int,
    ) -> None:
        self._check = check
        self._told = told
        self.room = room
        self.visitor = visitor
        self.identity = identity
        self.covered = covered
        self.door = door
        self.now_ms = now_ms

    def done(self) -> bool:
        """As of a future: nobody takes the question back."""
        return False

    def set_result(self, answer: CheckAnswer) -> None:
        """As of a future. Whatever goes wrong is this visitor's alone: many answers come at once."""
        try:
            gated = self._check.said(self, answer)
        except Exception as error:
            self._told(None, error)
            return
        if gated is not None:
            self._told(gated, None)

    def set_exception(self, error: BaseException) -> None:
        """As of a future."""
        self._told(None, error)

    def finished(self, task: asyncio.Task[Any]) -> None:
        """What the answer rests on was waited for, in a task."""
        if task.cancelled():
            self._told(None, asyncio.CancelledError())
        else:
            error = task.exception()
            self._told(None if error is not None else task.result(), error)
