"""One knock: what counts as an answer, and what nobody connects to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from app.domain.origins import Origin
from app.infrastructure import address_guard
from app.infrastructure.address_guard import own_ports
from app.infrastructure.knock import Knocker, KnockFailed, Refused

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Site:
    """A web server on loopback. ``answer``: bytes by the request's head; None: it says nothing."""

    port: int = 0
    answer: Callable[[bytes], bytes | None] = lambda head: OK
    heads: list[bytes] = field(default_factory=list)

    @property
    def origin(self) -> Origin:
        return Origin("http", "127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            said = self.answer(head)
            if said is None:
                await reader.read()
            else:
                writer.write(said)
                await writer.drain()
        writer.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


def knocker(timeout_ms: int = 5000, **more: object) -> Knocker:
    return Knocker(timeout_ms=timeout_ms, allow_private=True, **more)  # type: ignore[arg-type]


async def failure(site: Origin, timeout_ms: int = 5000) -> str:
    with pytest.raises(KnockFailed) as caught:
        await knocker(timeout_ms).knock(site)
    return caught.value.kind


@pytest.mark.req("MSH-034", "INL-038")
async def test_it_asks_for_the_head_of_the_first_page_under_a_name_of_its_own(site: Site) -> None:
    answer = await knocker().knock(site.origin)

    (head,) = site.heads
    lines = head.decode().split("\r\n")
    assert lines[0] == "HEAD / HTTP/1.1"
    assert f"Host: 127.0.0.1:{site.port}" in lines
    assert "User-Agent: Mozilla/5.0 (compatible; QueueManager-Knock/1)" in lines
    assert not any(line.lower().startswith(("cookie", "authorization", "x-qm")) for line in lines)
    assert answer.status == 200
    assert 0 <= answer.ms < 5000


@pytest.mark.req("MSH-026")
@pytest.mark.parametrize("status", [200, 204, 301, 403, 404, 429, 500, 503])
async def test_it_takes_any_answer_as_one(site: Site, status: int) -> None:
    site.answer = lambda head: f"HTTP/1.1 {status} Word\r\n\r\n".encode()

    assert (await knocker().knock(site.origin)).status == status


@pytest.mark.parametrize("status", [405, 501])
async def test_it_repeats_by_get_where_head_is_not_known(site: Site, status: int) -> None:
    site.answer = lambda head: OK if head.startswith(b"GET") else f"HTTP/1.0 {status} No\r\n\r\n".encode()

    assert (await knocker().knock(site.origin)).status == 200
    assert [head.split()[0] for head in site.heads] == [b"HEAD", b"GET"]


@pytest.mark.req("INL-038")
async def test_it_follows_a_redirect_inside_the_host_only_and_not_for_ever(site: Site) -> None:
    moves = {
        b"/": b"/shop?x=1#top", b"/shop?x=1": f"http://127.0.0.1:{site.port}/deep".encode(),
        b"/deep": b"http://elsewhere.invalid/",
    }  # fmt: skip

    def move(head: bytes) -> bytes:
        return b"HTTP/1.1 302 Found\r\nLocation: " + moves[head.split()[1]] + b"\r\n\r\n"

    site.answer = move
    assert (await knocker().knock(site.origin)).status == 302
    assert [head.split()[1] for head in site.heads] == [b"/", b"/shop?x=1", b"/deep"]

    site.heads.clear()
    site.answer = lambda head: b"HTTP/1.1 302 Found\r\nlocation:/\r\n\r\n"
    assert (await knocker().knock(site.origin)).status == 302
    assert len(site.heads) == 4


async def test_it_passes_over_interim_answers_and_reads_little_of_a_long_one(site: Site) -> None:
    site.answer = lambda head: b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK
    assert (await knocker().knock(site.origin)).status == 200

    site.answer = lambda head: b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 200_000 + b"\r\n\r\n"
    assert (await knocker().knock(site.origin)).status == 200


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 999 X\r\n\r\n", b"<html>"]
)
async def test_it_takes_no_other_protocol_for_an_answer(site: Site, said: bytes) -> None:
    site.answer = lambda head: said

    assert await failure(site.origin) == "bad_response"


async def _speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.shop.example ESMTP\r\n")
    writer.close()


async def test_it_names_the_class_of_a_failure(site: Site) -> None:
    site.answer = lambda head: b""
    assert await failure(site.origin) == "reset"
    site.answer = lambda head: None
    assert await failure(site.origin, timeout_ms=50) == "timeout"
    async with await asyncio.start_server(_speak_plainly, "127.0.0.1", 0) as plain:
        assert await failure(Origin("https", "127.0.0.1", plain.sockets[0].getsockname()[1])) == "tls"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert await failure(Origin("http", "127.0.0.1", free.getsockname()[1])) == "connect"
    assert await failure(Origin("http", "no-such-name.invalid", 80)) == "dns"


@pytest.mark.req("INL-038")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "10.0.0.5", "169.254.169.254"])
async def test_it_connects_to_no_internal_address_unless_that_is_allowed(site: Site, host: str) -> None:
    with pytest.raises(Refused):
        await Knocker(timeout_ms=2000, allow_private=False).knock(Origin("http", host, site.port))

    assert site.heads == []


@pytest.mark.req("INL-038")
async def test_it_refuses_a_name_with_one_internal_address_among_its_own(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver is the outside here: which addresses a name has is its word."""

    def getaddrinfo(host: str, port: int, **_: object) -> list[object]:
        return [(0, 0, 0, "", ("203.0.113.7", port)), (0, 0, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr(address_guard.socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(Refused):
        await Knocker(timeout_ms=2000, allow_private=False).knock(Origin("http", "shop.example", site.port))


@pytest.mark.req("INL-038", "INL-232")
async def test_it_never_connects_to_the_servers_own_stores(site: Site) -> None:
    own = own_ports(f"redis://:secret@localhost:{site.port}/0", "postgresql://u:p@db.invalid/qm", "unix:///tmp/x")
    assert own == [("localhost", site.port), ("db.invalid", 5432)]

    for host in ("localhost", "127.0.0.1"):
        with pytest.raises(Refused):
            await knocker(own=own).knock(Origin("http", host, site.port))
    assert site.heads == []
