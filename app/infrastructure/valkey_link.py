"""One connection that many callers share: commands go out together, replies come back in order.

A pool gives each command a connection, a lock and a timer of its own, which costs a web worker several times what the
reply is worth. Here the commands of one turn of the event loop leave in one write, and one task hands the replies out.
Nothing is ever sent twice. Opening (TLS, credentials, database) is redis-py's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import hiredis
from redis import exceptions as wrong
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection

from app.core.clock import mono

Reply = asyncio.Future[Any]

READ_BYTES: Final = 262_144
DRIVER_ERRORS: Final = (wrong.RedisError, OSError, RuntimeError)
"""What a call of redis-py raises. The RuntimeError is uvloop's, about a write to a transport that closed a moment ago;
asyncio's own loop says nothing and lets the reader find out."""
MAX_WAITING: Final = 50_000
"""Commands without a reply, above which a call is refused: a store that has stopped reading must not fill memory."""


class LinkClosed(wrong.ConnectionError):
    """The connection ended; whether the commands under way have run is not known."""


class Link:
    """A shared connection, opened at first use. ``on_loss`` is told of its end, ``on_open`` of each new one."""

    def __init__(
        self,
        make_connection: Callable[[], AbstractConnection],
        *,
        timeout_sec: float,
        on_loss: Callable[[Exception], None],
        on_open: Callable[[], None],
    ) -> None:
        self._make_connection = make_connection
        self._timeout = timeout_sec
        self._on_loss = on_loss
        self._on_open = on_open
        self._connection: AbstractConnection | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[float, Reply]] = deque()
        self._out: list[bytes] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_renewed = False

    async def call(self, command: Iterable[Any]) -> Any:
        """Reply to one command; redis.exceptions.ResponseError, LinkClosed, or a TimeoutError of redis-py."""
        if self._writer is None:
            await self._open()
        return await self._send(command)

    async def call_many(self, commands: Iterable[Iterable[Any]]) -> list[Any]:
        """Replies in order, an error in its place; LinkClosed or TimeoutError when one of them did not come."""
        if self._writer is None:
            await self._open()
        replies = await asyncio.gather(*[self._send(command) for command in commands], return_exceptions=True)
        for reply in replies:
            if isinstance(reply, wrong.ConnectionError | wrong.TimeoutError | OSError):
                raise reply
            if isinstance(reply, BaseException) and not isinstance(reply, Exception):
                raise reply
        return replies

    async def close(self) -> None:
        """End the connection; commands under way get LinkClosed."""
        for task in (self._opening, self._reading):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self._drop(LinkClosed("closed"))

    def cut(self) -> None:
        """Give up on this connection, for example because it is mute; the next call opens another."""
        if self._writer is not None:
            self._writer.transport.abort()  # the reader hears of it, also one that has not begun yet

    @property
    def is_mute(self) -> bool:
        """True when a reply is overdue that has not come yet."""
        return bool(self._waiting) and self._waiting[0][0] <= mono()

    async def renew(self) -> None:
        """Give up on this connection without a loss to tell of: the store is there, and the next call opens another."""
        if self._writer is not None and self._reading is not None:
            self._is_renewed = True
            self.cut()
            await asyncio.wait([self._reading])

    async def _open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._connect())
        # One caller's cancellation must not end the opening that others wait for.
        await asyncio.shield(self._opening)

    async def _connect(self) -> None:
        connection = self._make_connection()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        finally:
            self._opening = None
        self._connection, self._writer = connection, connection._writer
        self._reading = asyncio.get_running_loop().create_task(self._read(connection))
        self._on_open()

    def _send(self, command: Iterable[Any]) -> Reply:
        loop = self._loop
        if loop is None:  # kept, since asking for it costs a system call in Python 3.11
            loop = self._loop = asyncio.get_running_loop()
        reply: Reply = loop.create_future()
        if self._writer is None or len(self._waiting) >= MAX_WAITING:
            reply.set_exception(LinkClosed("not connected" if self._writer is None else "too many calls under way"))
            return reply
        packed = hiredis.pack_command(tuple(command))
        self._waiting.append((mono() + self._timeout, reply))
        if not self._out:
            loop.call_soon(self._flush)
        self._out.append(packed)
        if self._alarm is None:
            self._alarm = loop.call_later(self._timeout, self._look_for_late)
        return reply

    def _flush(self) -> None:
        if self._writer is not None:
            # uvloop refuses to write to a transport that closed a moment ago, and the reader is about to hear of it.
            with contextlib.suppress(RuntimeError):
                self._writer.write(b"".join(self._out) if len(self._out) > 1 else self._out[0])
        self._out.clear()

    async def _read(self, connection: AbstractConnection) -> None:
        parser = hiredis.Reader(replyError=BaseParser.parse_error)
        stream: Any = connection._reader
        end: Exception = LinkClosed("the store closed the connection")
        try:
            while data := await stream.read(READ_BYTES):
                parser.feed(data)
                while (reply := parser.gets()) is not False:
                    self._hand_out(reply)
        except (OSError, hiredis.ProtocolError, IndexError) as error:
            end = LinkClosed(str(error))
            end.__cause__ = error
        is_renewed, self._is_renewed = self._is_renewed, False
        if is_renewed:
            end = wrong.TimeoutError("no reply in time")
        await self._drop(end)
        if not is_renewed:
            self._on_loss(end)

    def _hand_out(self, reply: Any) -> None:
        """Give it to the oldest call. IndexError: nobody asked."""
        _, waiter = self._waiting.popleft()
        if waiter.done():  # its caller has given up; the reply had to be taken off all the same
            return
        if isinstance(reply, Exception):
            waiter.set_exception(reply)
        else:
            waiter.set_result(reply)

    def _look_for_late(self) -> None:
        """Fail the calls whose time is up. Their replies may still come and are then thrown away."""
        now = mono()
        self._alarm = None
        for due, waiter in self._waiting:
            if due > now:
                self._alarm = asyncio.get_running_loop().call_later(due - now, self._look_for_late)
                break
            if not waiter.done():
                waiter.set_exception(wrong.TimeoutError("no reply in time"))

    async def _drop(self, end: Exception) -> None:
        connection, self._connection, self._writer, self._reading = self._connection, None, None, None
        waiting, self._waiting = self._waiting, deque()
        self._out.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(end)
                waiter.exception()  # a caller that was cancelled will not collect it
        if connection is not None:
            with contextlib.suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)
