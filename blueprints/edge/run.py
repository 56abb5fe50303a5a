"""Running a handler without a task of its own.

A task costs two turns of the event loop. A ``Run`` takes the first step at once, in the callback that brought the
request, and each further step in the callback of what it waits for. It is a task implementation in the sense of the
asyncio manual ("Extending", Task lifetime support), so that ``asyncio.timeout`` and ``TaskGroup`` work inside it.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio.tasks import _enter_task, _leave_task  # documented for task implementations
from collections.abc import Callable, Coroutine
from typing import Any

from app.core.log import REQUEST_ID
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest


class Run:
    """One coroutine on its way; ``start`` it once."""

    __slots__ = ("_cancels", "_context", "_coro", "_is_cancel_due", "_is_over", "_loop", "_waits_for")

    def __init__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._coro = coro
        self._context = contextvars.copy_context()
        self._waits_for: asyncio.Future[Any] | None = None
        self._cancels = 0
        self._is_cancel_due = False
        self._is_over = False

    def start(self) -> None:
        """Take the first step: at once, or next where a task is under way, which cannot be entered by another.

        Answers of the engine are told within the task that asked it, and each may begin what comes after it.
        """
        if asyncio.current_task(self._loop) is None:
            self._context.run(self._begin)
        else:
            self._loop.call_soon(self._begin, context=self._context)

    def cancel(self, msg: object = None) -> bool:
        """As of ``asyncio.Task``: what a timeout inside the handler calls."""
        self._cancels += 1
        if self._waits_for is None or not self._waits_for.cancel(msg):
            self._is_cancel_due = True
        return True

    def cancelling(self) -> int:
        """As of ``asyncio.Task``."""
        return self._cancels

    def uncancel(self) -> int:
        """As of ``asyncio.Task``."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def done(self) -> bool:
        """As of ``asyncio.Task``."""
        return self._is_over

    def _begin(self) -> None:
        self._step(None)

    def _end(self, result: Any, error: BaseException | None) -> None:
        """Called once with the result and None, or with None and the exception; from ``start`` when nothing is waited
        for, else from a later callback."""
        raise NotImplementedError

    def _step(self, error: BaseException | None) -> None:
        if self._is_cancel_due:
            self._is_cancel_due = False
            error = error or asyncio.CancelledError()
        self._waits_for = None
        loop = self._loop
        _enter_task(loop, self)  # type: ignore[arg-type]
        try:
            waits_for = self._coro.send(None) if error is None else self._coro.throw(error)
        except StopIteration as stop:
            _leave_task(loop, self)  # type: ignore[arg-type]
            self._is_over = True
            self._end(stop.value, None)
            return
        except (Exception, asyncio.CancelledError) as failure:
            _leave_task(loop, self)  # type: ignore[arg-type]
            self._is_over = True
            self._end(None, failure)
            return
        _leave_task(loop, self)  # type: ignore[arg-type]
        if waits_for is None:  # a bare yield, as of asyncio.sleep(0)
            loop.call_soon(self._step, None, context=self._context)
        elif getattr(waits_for, "_asyncio_future_blocking", None):
            waits_for._asyncio_future_blocking = False
            waits_for.add_done_callback(self._wake, context=self._context)
            self._waits_for = waits_for
            if self._is_cancel_due and waits_for.cancel():
                self._is_cancel_due = False
        else:
            loop.call_soon(self._step, RuntimeError(f"a hot handler awaits {waits_for!r}"), context=self._context)

    def _wake(self, _future: asyncio.Future[Any]) -> None:
        # The coroutine itself takes the result or the exception out of the future when it goes on.
        self._step(None)


Done = Callable[["HotRun | QuickRun", HotReply | None, BaseException | None], None]
"""Called once with the run and its result or exception."""


class HotRun(Run):
    """One handler on its way."""

    __slots__ = ("_done", "is_kept", "request")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Callable[[HotRequest], Coroutine[Any, Any, HotReply]],
        request: HotRequest,
        is_kept: bool,
        done: Done,
    ) -> None:
        """``done``: called as ``_end`` is."""
        super().__init__(loop, handler(request))
        self._done = done
        self.request = request
        self.is_kept = is_kept
        """Whether the client would keep the connection."""

    def _begin(self) -> None:
        REQUEST_ID.set(self.request.request_id)
        self._step(None)

    def _end(self, result: HotReply | None, error: BaseException | None) -> None:
        self._done(self, result, error)


class QuickRun:
    """One request that is answered without a coroutine (``hot.Answering``)."""

    __slots__ = ("_done", "_handler", "_loop", "is_kept", "request")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Callable[[HotRequest], Coroutine[Any, Any, HotReply]],
        request: HotRequest,
        is_kept: bool,
        done: Done,
    ) -> None:
        """As of HotRun."""
        self._loop = loop
        self._handler = handler
        self._done = done
        self.request = request
        self.is_kept = is_kept

    def told(self, reply: HotReply | None, error: BaseException | None) -> None:
        """As of Answering."""
        try:
            self._done(self, reply, error)
        except Exception as failure:  # answers to others wait behind this one
            self._loop.call_exception_handler({"message": "an answer could not be written", "exception": failure})

    def again(self) -> None:
        """As of Answering."""
        HotRun(self._loop, self._handler, self.request, self.is_kept, self._done).start()
