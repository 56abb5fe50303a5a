"""The one way to Valkey: commands that run at most once, an outage that answers at once, listening that resyncs.

Belongs here: connections and their loss. Not here: names of keys (``keys``), engine calls (``engine``).

A command is sent once: redis-py's own repetition is off, since a command whose reply was lost may have run (an INCR
with a lost reply did run twice). What a caller learns is StorageUnavailable, and that the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import structlog
from redis import exceptions as wrong
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.store_trouble import Trouble, trouble_of
from app.infrastructure.valkey_link import DRIVER_ERRORS, Link

log = structlog.get_logger(__name__)

Command = Sequence[Any]
Hook = Callable[[], Awaitable[None]]
MessageHandler = Callable[[bytes], Awaitable[None] | None]

SHOWN_DOWN_SEC: Final = 5.0
"""How long a command timeout alone shows as ``down`` (FLT-062)."""
LISTEN_IDLE_SEC: Final = 5.0
"""Silence after which a listener asks whether its connection still lives, and how long it then waits for the answer."""
_LATE_SEC: Final = 0.1
"""A reply that comes with that of the PING on another connection was only slow."""
_PROBE_FIRST_SEC: Final = 0.02
_PROBE_LAST_SEC: Final = 1.0

_LOST: Final = (
    wrong.ConnectionError,
    OSError,
    RuntimeError,
    wrong.ReadOnlyError,
    wrong.AuthenticationError,
    wrong.AuthorizationError,
    wrong.NoPermissionError,
)
"""A store that cannot be worked with: gone, being loaded (BusyLoading is a ConnectionError), demoted, closed to us."""
_TIMED_OUT: Final = (wrong.TimeoutError, TimeoutError)
_REFUSED_ONE: Final = (wrong.OutOfMemoryError, wrong.TryAgainError)
"""The store lives and refused this command: 503 for this one call (FLT-048)."""


def client_url(url: str, ca_file: str | None = None) -> str:
    """``url`` as redis-py reads it: its scheme names, and the CA of a TLS Valkey."""
    for ours, theirs in (("valkeys://", "rediss://"), ("valkey://", "redis://")):
        if url.startswith(ours):
            url = theirs + url.removeprefix(ours)
    if ca_file is not None and url.startswith("rediss://"):
        url += ("&" if "?" in url else "?") + f"ssl_ca_certs={ca_file}"
    return url


class Valkey:
    """Commands, pipelines and channels of one Valkey, for one process and one event loop.

    Every call raises StorageUnavailable when the store cannot be reached or did not answer in time, at once while an
    outage lasts (FLT-061). Errors that Valkey answers (``redis.exceptions.ResponseError``) pass through unchanged.
    Replies are as RESP2 has them: bytes, int, list, None. All calls share one connection (see ``valkey_link``), so
    commands that wait (BLPOP, WAIT) must not be used.
    """

    def __init__(self, url: str, *, timeout_ms: int = 1000) -> None:
        self._timeout = timeout_ms / 1000
        self._url = url
        self._maker = _make_pool(url, self._timeout)
        self._link = Link(
            self._maker.make_connection, timeout_sec=self._timeout, on_loss=self._lost, on_open=self._opened
        )
        self._hooks: list[Hook] = []
        self._probe: asyncio.Task[None] | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._down = False
        self._is_closing = False
        self._trouble: Trouble | None = None
        self._timed_out_at = -SHOWN_DOWN_SEC
        self.ever_connected = False
        """True once this process has reached Valkey (FLT-055)."""

    @classmethod
    async def connect(cls, url: str, *, timeout_ms: int = 1000) -> Valkey:
        """An adapter that has tried once; a Valkey that cannot be reached is no error, it is tried on."""
        valkey = cls(url, timeout_ms=timeout_ms)
        with contextlib.suppress(StorageUnavailable):
            await valkey.execute("PING")
        return valkey

    @property
    def is_down(self) -> bool:
        """True while calls are refused at once."""
        return self._down

    @property
    def shown_state(self) -> str:
        """``up`` or ``down`` as health shows it: down too for 5 s after a command timeout (FLT-062)."""
        return "down" if self._down or mono() - self._timed_out_at < SHOWN_DOWN_SEC else "up"

    @property
    def trouble(self) -> Trouble | None:
        """Why an outage will not pass by itself, as far as that was seen (FLT-056)."""
        return self._trouble

    def on_reconnect(self, hook: Hook) -> None:
        """Call ``hook`` each time the store is back after a lost connection; it may itself use this adapter."""
        self._hooks.append(hook)

    async def execute(self, *command: Any) -> Any:
        """Run one command and return its reply."""
        if self._down:
            raise StorageUnavailable
        try:
            return await self._link.call(command)
        except DRIVER_ERRORS as error:
            self._judge(error)
            raise

    async def pipeline(self, commands: Iterable[Command]) -> list[Any]:
        """Run commands in one round trip, not as a transaction.

        A command's own error is an exception object in its place of the list; the others have run.
        """
        if self._down:
            raise StorageUnavailable
        try:
            return await self._link.call_many(commands)
        except DRIVER_ERRORS as error:
            self._judge(error)
            raise

    async def everywhere(self, *command: Any) -> list[Any]:
        """Replies of every node that serves to a command without a key: here of the one that there is."""
        return [await self.execute(*command)]

    def listen(self, handlers: Mapping[str, MessageHandler], *, on_resync: Hook) -> Listener:
        """A listener on channels (full names); see Listener."""
        return Listener(lambda: make_client(self._url, self._timeout), handlers, on_resync)

    async def close(self) -> None:
        """End every connection and the watch over an outage."""
        self._is_closing = True
        for task in [self._probe, *self._checks]:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        await self._link.close()
        await self._maker.aclose()

    def _opened(self) -> None:
        self.ever_connected = True

    def _lost(self, error: Exception) -> None:
        """The shared connection ended, used or not: whatever is behind the next one has to be looked at anew."""
        if not self._is_closing:
            self._start_outage(error)

    def _judge(self, error: Exception) -> None:
        """Turn a failure into StorageUnavailable where it is one, and see to what it means for later calls."""
        if isinstance(error, _REFUSED_ONE):
            raise StorageUnavailable from error
        if isinstance(error, _TIMED_OUT):
            self._timed_out_at = mono()
            if not self._checks:
                self._run_later(self._check_after_timeout())
            raise StorageUnavailable from error
        if isinstance(error, _LOST):
            self._start_outage(error)
            raise StorageUnavailable from error

    async def _check_after_timeout(self) -> None:
        """One slow command is no outage: only a PING on another connection that fails too makes one (FLT-148)."""
        if self._down:
            return
        if not await self._answers():
            self._start_outage(None)
            self._link.cut()
            return
        await asyncio.sleep(_LATE_SEC)
        if self._link.is_mute and not self._down:
            # Commands are run in the order they come: this connection was forgotten on the way, as after a switch of
            # addresses, and nobody will ever end it.
            log.warning("valkey_connection_stranded")
            await self._link.renew()
            await self._tell_hooks()

    def _start_outage(self, error: Exception | None) -> None:
        if self._down or self._is_closing:
            return
        self._down = True
        self._trouble = trouble_of(error)
        log.warning("valkey_lost", error=type(error).__name__ if error else "timeout", kind=self._trouble)
        self._probe = asyncio.get_running_loop().create_task(self._watch_outage())

    async def _watch_outage(self) -> None:
        pause = _PROBE_FIRST_SEC
        while True:
            try:
                if await self._answers():
                    break
            except Exception:
                log.exception("valkey_probe_failed")  # and yet it goes on, or the store would stay down for ever
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PROBE_LAST_SEC)
        self._down, self._trouble = False, None
        log.info("valkey_back")
        await self._tell_hooks()

    async def _tell_hooks(self) -> None:
        for hook in self._hooks:
            try:
                await hook()
            except StorageUnavailable:
                return  # lost again: the next return calls them anew
            except Exception:
                log.exception("reconnect_hook_failed", hook=getattr(hook, "__qualname__", repr(hook)))

    async def _answers(self) -> bool:
        """True when a PING on a fresh connection is answered in time."""
        client = make_client(self._url, self._timeout)
        try:
            async with asyncio.timeout(self._timeout):
                return bool(await client.execute_command("PING"))  # type: ignore[no-untyped-call]
        except (*DRIVER_ERRORS, UnicodeError) as error:
            self._trouble = trouble_of(error)
            return False
        finally:
            await _end(client)

    def _run_later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)


async def _end(client: Redis) -> None:
    """Close a client. A close that takes too long is an error of redis-py's, and must not end whoever tries on."""
    with contextlib.suppress(*DRIVER_ERRORS):
        await client.aclose()


def make_client(url: str, timeout_sec: float) -> Redis:
    """A client with one connection of its own, which ends with the client."""
    return Redis.from_pool(_make_pool(url, timeout_sec))


def _make_pool(url: str, timeout_sec: float) -> BlockingConnectionPool:
    return BlockingConnectionPool(
        max_connections=1,
        timeout=timeout_sec,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_sec,
        socket_connect_timeout=timeout_sec,
        protocol=2,
        **parse_url(url),
    )


class Listener:
    """Messages of some channels, for as long as the process lives.

    A lost connection is renewed by itself. Messages sent meanwhile are gone, so after every subscription, the first
    one too, ``on_resync`` is called: it reads afresh whatever the messages keep up to date.
    """

    def __init__(
        self, make_client: Callable[[], Redis], handlers: Mapping[str, MessageHandler], on_resync: Hook
    ) -> None:
        self._make_client = make_client
        self._handlers = {name.encode(): handler for name, handler in handlers.items()}
        self._on_resync = on_resync
        self._task: asyncio.Task[None] | None = None
        self._subscribed = asyncio.Event()

    async def start(self, *, wait_sec: float = 1.0) -> None:
        """Begin; returns when subscribed, or after ``wait_sec`` while Valkey cannot be reached."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._subscribed.wait(), wait_sec)

    async def stop(self) -> None:
        """End listening."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def __aenter__(self) -> Listener:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _run(self) -> None:
        pause = _PROBE_FIRST_SEC
        while True:
            client = self._make_client()
            try:
                await self._listen(client)
            except Exception as error:
                if not isinstance(error, DRIVER_ERRORS):
                    log.exception("listener_failed")  # and yet it listens on: nobody would begin it again
                await asyncio.sleep(pause)
                pause = min(pause * 2, _PROBE_LAST_SEC)
            else:
                pause = _PROBE_FIRST_SEC
            finally:
                await _end(client)

    async def _listen(self, client: Redis) -> None:
        async with client.pubsub() as channels:
            await channels.subscribe(*self._handlers)
            confirmed = 0
            while confirmed < len(self._handlers):
                message = await channels.get_message(timeout=LISTEN_IDLE_SEC)
                if message is None:
                    raise wrong.TimeoutError("the subscription is not confirmed")
                confirmed += message["type"] == "subscribe"
            await self._resync()
            self._subscribed.set()
            is_asked = False
            while True:
                message = await channels.get_message(ignore_subscribe_messages=True, timeout=LISTEN_IDLE_SEC)
                if message is not None:
                    is_asked = False
                    if message["type"] == "message":
                        await self._handle(message["channel"], message["data"])
                elif is_asked:
                    raise wrong.TimeoutError("the connection is mute")
                else:
                    is_asked = True
                    await channels.ping()

    async def _resync(self) -> None:
        try:
            await self._on_resync()
        except StorageUnavailable as error:
            raise wrong.ConnectionError("the store went away during the resync") from error
        except Exception:
            log.exception("resync_failed")

    async def _handle(self, channel: bytes, body: bytes) -> None:
        try:
            done = self._handlers[channel](body)
            if done is not None:
                await done
        except StorageUnavailable:
            log.warning("message_not_handled", channel=channel.decode())
        except Exception:
            log.exception("message_handler_failed", channel=channel.decode())
