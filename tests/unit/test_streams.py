"""Writing to a peer that has gone."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from app.core.streams import send


def test_a_peer_that_has_gone_is_a_reset_and_no_fault_of_the_program() -> None:
    async def play() -> None:
        heard = asyncio.get_running_loop().create_future()

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.set_result(await reader.read())
            writer.close()

        async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            send(writer, b"one")
            await writer.drain()
            writer.close()
            assert await heard == b"one"
            await writer.wait_closed()

            with pytest.raises(RuntimeError):
                writer.write(b"two")
            with pytest.raises(ConnectionResetError):
                send(writer, b"two")

    uvloop.run(play())
