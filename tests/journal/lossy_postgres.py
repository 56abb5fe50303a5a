"""A way to Postgres that loses answers: the statement was carried out, and nobody learns of it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"


class LossyPostgres:
    """A unix socket in ``folder`` in front of a database. Of the answers after a connection's greeting one in
    ``one_in`` is swallowed, and the connection cut. ``lost`` counts them."""

    def __init__(self, database_url: str, folder: Path, *, one_in: int) -> None:
        self._target = parse_qs(urlsplit(database_url).query)["host"][0] + "/" + SOCKET
        self._folder = folder
        self._one_in = one_in
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        self.url = database_url.replace(parse_qs(urlsplit(database_url).query)["host"][0], str(folder))

    async def __aenter__(self) -> LossyPostgres:
        self._server = await asyncio.start_unix_server(self._serve, self._folder / SOCKET)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        server, ask = await asyncio.open_unix_connection(self._target)
        up = asyncio.ensure_future(_copy(client, ask))
        try:
            await self._down(server, answer)
        finally:
            up.cancel()
            for writer in (ask, answer):
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _down(self, server: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        greeted = False
        while data := await server.read(65536):
            # An answer that ends a command tag of an append; connections that are only being opened are left alone.
            if greeted and b"SELECT " in data and secrets.randbelow(self._one_in) == 0:
                self.lost += 1
                return
            greeted = True
            answer.write(data)
            await answer.drain()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
