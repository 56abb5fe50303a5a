"""What a connection waits for, and for how long: one timer a connection, set anew only when it would come too late.

Every deadline is one in all, not one per byte (CFG-233), so a client that sends a byte a second gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sanic.exceptions import RequestCancelled
from sanic.server.protocols.http_protocol import HttpProtocol

from app.core.clock import mono
from app.core.errors import QmError, Unavailable
from blueprints.edge.crowd import Standing
from blueprints.edge.head import Uncoded
from blueprints.edge.run import QuickRun, Run

if TYPE_CHECKING:
    from blueprints.edge.inline.exchange import Exchange

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close send RST: a cut answer must not look like a complete one."""


class Phase(IntEnum):
    """What a connection is waiting for, and with it what its deadline means."""

    FIRST = 0
    IDLE = 1
    HEAD = 2
    BODY = 3
    HANDLER = 4
    FORWARD = 5
    """The request is with an origin, which has its own deadlines (inline/exchange.py)."""
    LINGER = 6
    CLOSED = 7


class Deadlines(HttpProtocol):
    """The part of a connection that knows time; protocol.py has the rest."""

    FIRST_BYTE_SEC: ClassVar[float] = 30.0
    IDLE_SEC: ClassVar[float] = 75.0
    HEAD_SEC: ClassVar[float] = 10.0
    RESERVE_SEC: ClassVar[float] = 2.0
    """How long a connection above the cap may take for all of its head."""
    BODY_SEC: ClassVar[float] = 15.0
    UPLOAD_SEC: ClassVar[float] = 60.0
    """How long a forwarded body may bring no byte."""
    SEND_SEC: ClassVar[float] = 60.0
    """How long a client may take in no byte of an answer."""
    LINGER_SEC: ClassVar[float] = 2.0
    """How long input is discarded after a last answer, so that a reset does not take the answer away."""

    transport: Any
    """None once the connection was aborted."""
    conn_info: Any

    __slots__ = (
        "_deadline",
        "_is_choked",
        "_parked",
        "_phase",
        "_quiet_since",
        "_run",
        "_timer",
        "_unsent",
        "standing",
    )

    def __init__(self, **kw: Any) -> None:
        """Made by Sanic's server for each connection."""
        super().__init__(**kw)
        self._http = None  # the slot is unset until the connection has a task
        self._run: Run | QuickRun | Exchange | None = None
        """What the fast path is at work on."""
        self._parked = False
        self._is_choked = False
        self._phase = Phase.FIRST
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._quiet_since = 0.0
        self.standing = Standing.OUTSIDE

    def expect(self, phase: Phase, seconds: float) -> None:
        """Wait for ``phase`` to pass for at most ``seconds``; 0 = without end."""
        self._phase = phase
        self._deadline = self.loop.time() + seconds if seconds else 0.0
        if seconds:
            self._arm(seconds)

    def expect_head(self) -> None:
        """The first bytes of a head are there, the rest has to follow."""
        self._quiet_since = self.quiet_since() or self.loop.time()
        self.expect(Phase.HEAD, self.HEAD_SEC)
        if self.standing is Standing.SURPLUS:
            self._deadline = self._quiet_since + self.RESERVE_SEC
            self._arm(max(0.0, self._deadline - self.loop.time()))

    def expect_body(self) -> None:
        """The head is there, the body has to follow; one deadline for all of it."""
        if self._phase is not Phase.BODY:
            self.expect(Phase.BODY, self.BODY_SEC)

    def expect_upload(self) -> None:
        """More of a body that is forwarded has to come; there is no bound for all of it."""
        self.expect(Phase.BODY, self.UPLOAD_SEC)

    def expect_handler(self) -> None:
        """The request is there: now it is the handler's time."""
        self.handler_lives()
        self._phase = Phase.HANDLER
        self._deadline = 0.0

    def handler_lives(self) -> None:
        """The handler shows that it is at work: it is ended when it has not for RESPONSE_TIMEOUT."""
        self._time = mono()

    def quiet_since(self) -> float | None:
        """Since when no complete request has come (loop's clock); None while one is at work or an answer is unsent."""
        if self._is_choked or self._run is not None:
            return None
        if self._phase is Phase.HEAD:
            return self._quiet_since
        if self._phase is Phase.FIRST:
            return self._deadline - (self.RESERVE_SEC if self.standing is Standing.SURPLUS else self.FIRST_BYTE_SEC)
        return self._deadline - self.IDLE_SEC if self._phase is Phase.IDLE else None

    def _arm(self, seconds: float) -> None:
        """Look at the deadline in ``seconds`` at the latest; an earlier look that is planned stays."""
        when = self.loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Act on what has passed, and plan the next look."""
        self._timer = None
        if self._phase is Phase.CLOSED:
            return
        if self._is_choked and self._is_stuck():
            self.cut()
            return
        now = self.loop.time()
        if self._deadline and now >= self._deadline - 0.001:
            self._expired()
            return
        if self._phase is Phase.HANDLER and self._run is None and mono() - self._time > self.response_timeout:
            self._fail_task(Unavailable())
            return
        wait = self._deadline - now if self._deadline else self.response_timeout
        self._arm(min(wait, self.SEND_SEC / 4) if self._is_choked else wait)

    def _is_stuck(self) -> bool:
        """Whether the client took in nothing for SEND_SEC: four looks in a row found as much unsent."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self._time = unsent, mono()
            return False
        return mono() - self._time >= self.SEND_SEC

    def _expired(self) -> None:
        if self._phase in (Phase.FIRST, Phase.IDLE, Phase.LINGER):
            self._phase = Phase.CLOSED
            self.close()
        elif self._task is not None:
            self._fail_task(Uncoded("The request did not arrive in time.", status=408))

    def _fail_task(self, error: QmError) -> None:
        if self._http is not None and self._task is not None:
            self._http.exception = error
            self._task.cancel()
        else:
            self.close()

    async def send(self, data: bytes) -> None:
        """As Sanic's; what is sent after the connection was cut goes nowhere, and its handler ends."""
        await self._can_write.wait()
        if self.transport is None:
            raise RequestCancelled
        await super().send(data)  # type: ignore[no-untyped-call]

    def cut(self) -> None:
        """Break the connection off with a reset, so that nobody takes a half answer for a whole one."""
        self._phase = Phase.CLOSED
        self._parked = False
        if self.transport is None:
            return
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()  # type: ignore[no-untyped-call]

    def check_timeouts(self) -> None:
        """Sanic's own timeouts are idle timers and are not used: see ``_look``."""
