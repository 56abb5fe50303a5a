"""A way to a store that a test can cut and mend, for one instance and not for the others."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
from pathlib import Path
from types import TracebackType


class Cut:
    """A unix socket ``path`` in front of the socket ``target``; open until ``cut``."""

    def __init__(self, target: str, name: str) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="qm-cut-")
        self.folder = self._folder.name
        self.path = str(Path(self.folder) / name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Cut:
        self._thread.start()
        self.mend()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.cleanup()

    def cut(self) -> None:
        """End every connection and take no further one."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)

    def mend(self) -> None:
        """Take connections again."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    async def _open(self) -> None:
        if self._server is None:
            Path(self.path).unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def _close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        Path(self.path).unlink(missing_ok=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._server is None:  # taken in the moment of the cut
            writer.close()
            return
        store_reader, store_writer = await asyncio.open_unix_connection(self._target)
        ways = [asyncio.ensure_future(_copy(*pair)) for pair in ((reader, store_writer), (store_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            return  # cut
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, store_writer):
                end.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
