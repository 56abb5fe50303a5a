"""A wire that can be cut: a TCP relay in a thread of its own between an instance and a store."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType


class Relay:
    """Forwards to ``target``: a loopback port or the path of a unix socket.

    ``with Relay(port) as relay:`` - then connect to ``relay.port``.
    """

    def __init__(self, target: int | str) -> None:
        self.target = target
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._is_cut = False

    def point(self, target: int | str) -> None:
        """Forward new connections to another port, and end the present ones."""
        self.target = target
        self._call(self._end_links())

    def cut(self) -> None:
        """End every connection, and each new one at once."""
        self._is_cut = True
        self._call(self._end_links())

    def mute(self) -> None:
        """Keep connections and take new ones, and forward nothing more."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def strand(self) -> None:
        """Forward nothing more on the present connections, for ever; new ones work."""

        def swap() -> None:
            self._flowing.clear()
            self._flowing = asyncio.Event()
            self._flowing.set()

        self._loop.call_soon_threadsafe(swap)

    def mend(self) -> None:
        """Forward again, also what has been held back."""
        self._is_cut = False
        self._loop.call_soon_threadsafe(self._flowing.set)

    def __enter__(self) -> Relay:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work) -> None:  # type: ignore[no-untyped-def]
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._flowing.set()
        await self._end_links()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _end_links(self) -> None:
        for writer in list(self._links):
            writer.transport.abort()
        self._links.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._links |= ends
        try:
            flowing = self._flowing
            await asyncio.gather(self._pump(reader, far_writer, flowing), self._pump(far_reader, writer, flowing))
        except (OSError, asyncio.CancelledError):
            pass  # at the end of the relay too: a connection's task that was cancelled is complained of
        finally:
            for end in ends:
                end.transport.abort()
            self._links -= ends

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection("127.0.0.1", self.target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            await flowing.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()
