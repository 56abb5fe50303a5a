"""An app of Express and the `ws` package behind the gate: sockets, parts of files, pages that come in pieces."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterator

import aiohttp
import pytest

from tests.inline.conftest import Front
from tests.inline.raw import Answer
from tests.inline.readers import site

FILM = (hashlib.sha512(b"film").hexdigest() * 2048).encode()


@pytest.fixture(scope="module")
def store(the_front: Front) -> Iterator[Front]:
    """Room ``node`` in front of the shop; everybody is let through."""
    with site("shop") as address:
        the_front.room("node", state="bypass", proxyOrigin=address)
        yield the_front
        the_front.admin("DELETE", "rooms/node")


def film(front: Front, fields: str = "") -> Answer:
    with front.connect() as client:
        return client.ask(f"GET /film HTTP/1.1\nHost: node.test{fields}")


@pytest.mark.req("INL-148", "INL-151", "INL-153")
@pytest.mark.parametrize("compress", [0, 15])
async def test_it_carries_the_frames_of_a_web_socket_library(store: Front, compress: int) -> None:
    """Both sides are libraries: what they agree on in the handshake, they speak over the joined connection."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(store.server.url + "/socket", headers={"Host": "node.test"}, compress=compress) as socket,
    ):
        assert bool(socket.compress) is bool(compress)
        for text in ("", "ที่นั่ง", "x" * 200_000):
            await socket.send_str(text)
            assert await socket.receive_str() == text
        large = secrets.token_bytes(3_000_000)
        await asyncio.gather(socket.send_bytes(large), _same(socket, large))
        await socket.ping(b"there?")
        await socket.send_str("after")
        assert await socket.receive_str() == "after"
        await socket.close(code=4001, message=b"enough")
        assert socket.close_code == 4001, "the app has answered the closing frame with its code"


async def _same(socket: aiohttp.ClientWebSocketResponse, expected: bytes) -> None:
    assert await socket.receive_bytes() == expected


@pytest.mark.req("INL-118", "INL-133")
def test_it_passes_parts_of_a_file(store: Front) -> None:
    whole = film(store)
    assert (whole.status, whole.body, whole.header("accept-ranges")) == (200, FILM, "bytes")
    etag = whole.header("etag")

    parts = [film(store, f"\nRange: bytes={at}-{at + 99_999}") for at in range(0, len(FILM), 100_000)]
    last = film(store, "\nRange: bytes=-7")
    unsatisfied = film(store, f"\nRange: bytes={len(FILM)}-")
    unchanged, changed = (film(store, f"\nRange: bytes=5-9\nIf-Range: {tag}") for tag in (etag, '"other"'))
    known = film(store, f"\nIf-None-Match: {etag}")

    assert {part.status for part in parts} == {206}
    assert b"".join(part.body for part in parts) == FILM
    assert parts[1].header("content-range") == f"bytes 100000-199999/{len(FILM)}"
    assert (last.status, last.body) == (206, FILM[-7:])
    assert (unsatisfied.status, unsatisfied.header("content-range")) == (416, f"bytes */{len(FILM)}")
    assert (unchanged.status, unchanged.body) == (206, FILM[5:10])
    assert (changed.status, changed.body) == (200, FILM)
    assert (known.status, known.header("etag"), known.body) == (304, etag, b"")


@pytest.mark.req("INL-143")
def test_it_shows_the_shell_of_a_page_before_the_app_has_its_data(store: Front) -> None:
    with store.connect() as page, store.connect() as other:
        page.send(b"GET /streamed HTTP/1.1\r\nHost: node.test\r\n\r\n")
        page.until(b"<p>Loading</p>")  # the app waits until this is told to it
        other.send(b"POST /seen HTTP/1.1\r\nHost: node.test\r\nContent-Length: 0\r\n\r\n")
        assert other.answer().status == 200
        page.until(b"<template>3 left</template>")
