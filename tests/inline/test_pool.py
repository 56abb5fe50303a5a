"""Connections to origins: the address that is connected to is the one that was judged, each time anew."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.inline.failures import Failure, OriginFailed
from app.domain.inline.hosts import HostIndex, InlineHost
from app.domain.origins import Origin
from app.infrastructure import address_guard
from app.infrastructure.address_guard import AddressGuard, is_internal_text, own_ports
from app.infrastructure.origin_pool import OriginLink, OriginPool
from app.services.inline import Inline, guard_of
from blueprints.edge.inline.task_exchange import TaskExchange
from tests.inline.test_saves import room
from tests.process.tls import make_ca, make_certificate

INTERNAL = [
    "127.0.0.1", "10.0.0.5", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "::1", "::",
    "fe80::1", "fe80::1%lo", "fd00:ec2::254", "::ffff:127.0.0.1", "192.0.0.8", "224.0.0.1", "ff02::1",
    "255.255.255.255",
    "192.88.99.1", "168.63.129.16", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "::127.0.0.1",
    "fec0::1", "198.18.0.1", "not an address",
]  # fmt: skip


RANGES = """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.88.99.0/24
    192.168.0.0/16 198.18.0.0/15 168.63.129.16/32 ::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 2001::/32 2002::/16
    fc00::/7"""
"""What INL-029 and INL-030 name, apart from the ranges that touch each other."""
TOUCHING = (("224.0.0.0", "255.255.255.255", "223.255.255.255"), ("fe80::", "ffff" + ":ffff" * 7, "fe7f::"))


@pytest.mark.req("INL-029", "INL-030")
def test_it_knows_where_each_range_begins_and_ends() -> None:
    for text in RANGES.split():
        network = ip_network(text)
        first, last = network[0], network[-1]
        assert is_internal_text(str(first)), text
        assert is_internal_text(str(last)), text
        around = [str(first - 1)] if int(first) else []
        around += [str(last + 1)] if text != "::/96" else ["::1:0:0:0"]
        assert not any(map(is_internal_text, around)), (text, around)
        if network.version == 4:
            assert is_internal_text(f"::ffff:{last}")
            assert is_internal_text(f"64:ff9b::{last}")
    for inner in ("239.255.255.255", "240.0.0.0", "254.1.1.1", "febf:ffff::1", "fec0::", "feff:ffff::1", "ff00::"):
        assert is_internal_text(inner), inner
    for first, last, before in TOUCHING:
        assert [is_internal_text(address) for address in (first, last, before)] == [True, True, False]


@pytest.mark.req("INL-232")
def test_it_knows_the_places_of_its_own_stores() -> None:
    """Of all three, with the port that each scheme has where none is said."""
    runtime = SimpleNamespace(valkey_url="rediss://:secret@v.test", database_url="postgresql://u:p@d.test/qm?x=1")
    made = Settings(secret=Secret("s" * 32), smtp_url=Secret("smtp://u:p@m.test:2525"))
    assert set(guard_of(cast(Any, runtime), made)._own) == {("v.test", 6379), ("d.test", 5432), ("m.test", 2525)}
    assert own_ports("unix:///run/valkey.sock", "redis://v.test:7000/1", "smtps://m.test", "smtp://m.test") == [
        ("v.test", 7000), ("m.test", 465), ("m.test", 25),
    ]  # fmt: skip


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server on loopback that says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What the resolver says, one answer after the other; the last one stays."""
    said: list[list[str]] = [["203.0.114.7"]]

    def look(_host: str, at: int, **_: Any) -> list[Any]:
        found = said.pop(0) if len(said) > 1 else said[0]
        if not found:
            raise socket.gaierror
        return [(0, 0, 0, "", (address, at)) for address in found]

    monkeypatch.setattr(address_guard.socket, "getaddrinfo", look)
    return said


async def failure(pool: OriginPool, origin: Origin) -> Failure:
    with pytest.raises(OriginFailed) as caught:
        await pool.connect(origin)
    return caught.value.failure


@pytest.mark.req("INL-029", "INL-030", "INL-034", "INL-035", "INL-037")
@pytest.mark.parametrize("address", INTERNAL)
async def test_it_never_connects_to_an_internal_address(answers: list[list[str]], port: int, address: str) -> None:
    pool = OriginPool(AddressGuard(allow_private=False), timeout_sec=5)
    for answer in ([address], ["203.0.114.7", address], [address, "203.0.114.7"]):
        answers[:] = [answer]
        assert await failure(pool, Origin("http", "site.test", port)) is Failure.BLOCKED_ADDRESS


@pytest.mark.req("INL-029", "INL-031", "INL-034")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_it_judges_an_address_that_stands_in_the_setting(port: int, host: str) -> None:
    pool = OriginPool(AddressGuard(allow_private=False), timeout_sec=5)
    assert await failure(pool, Origin("http", host, port)) is Failure.BLOCKED_ADDRESS


@pytest.mark.req("INL-034", "INL-036")
async def test_it_judges_a_name_anew_for_each_connection(
    answers: list[list[str]], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is connected to without asking again; the second, for the next connection, is refused."""
    dialled: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.create_connection

    async def dial(factory: Any, address: str, at: int, **options: Any) -> Any:
        dialled.append(address)
        return await real(factory, "127.0.0.1", at, **options)

    monkeypatch.setattr(loop, "create_connection", dial)
    answers[:] = [["203.0.114.7"], ["127.0.0.1"]]
    pool = OriginPool(AddressGuard(allow_private=False), timeout_sec=5)

    link = await pool.connect(Origin("http", "site.test", port))
    assert await failure(pool, Origin("http", "site.test", port)) is Failure.BLOCKED_ADDRESS

    assert dialled == ["203.0.114.7"]
    link.abort()


async def test_it_asks_a_resolver_that_hangs_only_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    said = threading.Event()

    def look(host: str, at: int, **_: Any) -> list[Any]:
        asked.append(host)
        assert said.wait(20)
        return [(0, 0, 0, "", ("203.0.114.7", at))]

    monkeypatch.setattr(address_guard.socket, "getaddrinfo", look)
    guard = AddressGuard(allow_private=False)
    waiting = [asyncio.create_task(guard.addresses("site.test", 80)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # whoever gives up takes the answer from nobody else
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    said.set()
    assert await asyncio.gather(*waiting[1:]) == [["203.0.114.7"]] * 49
    assert asked == ["site.test"]
    await guard.addresses("site.test", 80)
    assert asked == ["site.test"] * 2  # an answer is kept for nobody who asks later


@pytest.mark.req("INL-232")
async def test_it_never_connects_to_the_servers_own_stores(answers: list[list[str]], port: int) -> None:
    answers[:] = [["127.0.0.1"]]
    pool = OriginPool(AddressGuard(allow_private=True, own=[("store.test", port)]), timeout_sec=5)
    for host in ("store.test", "site.test", "127.0.0.1"):
        assert await failure(pool, Origin("http", host, port)) is Failure.BLOCKED_ADDRESS


@pytest.mark.req("INL-039", "INL-170", "INL-159", "INL-041")
async def test_it_names_the_way_in_which_a_connection_fails(answers: list[list[str]], port: int) -> None:
    pool = OriginPool(AddressGuard(allow_private=True), timeout_sec=0.5)
    answers[:] = [[]]
    assert await failure(pool, Origin("http", "site.test", port)) is Failure.DNS
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert await failure(pool, Origin("http", "127.0.0.1", closed.getsockname()[1])) is Failure.CONNECT
    assert await failure(pool, Origin("https", "127.0.0.1", port)) is Failure.TIMEOUT  # it never shakes hands
    link = await pool.connect(Origin("http", "127.0.0.1", port))
    assert pool.open_links == 1
    link.abort()


@pytest.mark.req("INL-041")
async def test_it_believes_no_certificate_that_cannot_be_verified(tmp_path: Any) -> None:
    import subprocess

    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days",
         "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        pool = OriginPool(AddressGuard(allow_private=True), timeout_sec=5)
        at = server.sockets[0].getsockname()[1]
        assert await failure(pool, Origin("https", "127.0.0.1", at)) is Failure.TLS
        pool._tls.load_verify_locations(tmp_path / "cert.pem")
        link = await pool.connect(Origin("https", "127.0.0.1", at))
        link.abort()


class Taker:
    """An owner that keeps what it is told."""

    def __init__(self, link: OriginLink, *, enough: int = 0) -> None:
        """``enough``: gives the connection up once it has so many bytes, as after a whole answer."""
        self.link, self.enough = link, enough
        self.told: list[bytes | str] = []
        self.lost = asyncio.Event()

    def on_data(self, data: bytes) -> None:
        self.told.append(data)
        if self.enough and sum(len(part) for part in self.told) >= self.enough:
            self.link.abort()
            self.lost.set()

    def on_eof(self) -> bool:
        return False

    def on_lost(self, *, is_reset: bool) -> None:
        self.told.append("reset" if is_reset else "lost")
        self.lost.set()

    def on_writable(self, is_writable: bool) -> None:
        pass


async def test_it_knows_whether_something_of_the_origin_was_not_told_of_yet() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = OriginPool(AddressGuard(allow_private=True), timeout_sec=5)
        link = await pool.connect(Origin("http", "127.0.0.1", listener.getsockname()[1]))
        taker = link.owner = Taker(link)
        site, _ = listener.accept()
        assert not link.has_unread()
        with site:
            site.sendall(REFUSAL)
            assert link.has_unread()
            while not taker.told:
                await asyncio.sleep(0)
            assert (taker.told, link.has_unread()) == ([REFUSAL], False)
        assert link.has_unread(), "its end"
        await asyncio.wait_for(taker.lost.wait(), 20)
        assert not link.has_unread()


REFUSAL = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig"


async def _broken_off(said: bytes, *, enough: int = 0) -> list[bytes | str]:
    """What the owner is told when the origin says this and breaks off before the next part of the upload is written."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pool = OriginPool(AddressGuard(allow_private=True), timeout_sec=5)
        link = await pool.connect(Origin("http", "127.0.0.1", listener.getsockname()[1]))
        taker = link.owner = Taker(link, enough=enough)
        site, _ = listener.accept()
        with site:
            site.sendall(said)
            site.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.transport.write(b"the next part")  # before the loop has looked at what came
        await asyncio.wait_for(taker.lost.wait(), 20)
        assert pool.open_links == 0
        return taker.told


@pytest.mark.req("INL-146", "INL-142")
@pytest.mark.parametrize("new_loop", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_it_hands_over_an_answer_whose_origin_broke_off_the_upload(new_loop: Callable[[], Any]) -> None:
    """A site that refuses an upload answers and closes; its reset may be noticed first, by the next write."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(_broken_off(REFUSAL)) == [REFUSAL, "reset"]
        assert runner.run(_broken_off(REFUSAL, enough=len(REFUSAL))) == [REFUSAL]
        assert runner.run(_broken_off(b"")) == ["reset"]
        *long, end = runner.run(_broken_off(b"x" * 100_000))
        assert (b"".join(part for part in long if isinstance(part, bytes)), end) == (b"x" * 100_000, "reset")


@pytest.mark.req("INL-041")
async def test_it_names_the_host_of_the_origin_and_believes_no_other_name(
    answers: list[list[str]], tmp_path: Path
) -> None:
    make_ca(tmp_path, "ours")
    context = make_certificate(tmp_path, "ours", "site", "DNS:site.test")
    named: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: named.append(name)
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        answers[:] = [["127.0.0.1"]]
        pool = OriginPool(AddressGuard(allow_private=True), timeout_sec=20)
        pool._tls.load_verify_locations(tmp_path / "ours.pem")
        at = server.sockets[0].getsockname()[1]
        (await pool.connect(Origin("https", "site.test", at))).abort()
        for other in ("other.test", "127.0.0.1"):
            assert await failure(pool, Origin("https", other, at)) is Failure.TLS
    assert named == ["site.test", "other.test", None]


@pytest.mark.req("INL-040", "INL-027", "CFG-168")
@pytest.mark.parametrize(("settings", "codes"), [
    ({}, ["console_host_withheld", "private_origin"]),
    ({"public_url": "https://q.test"}, ["private_origin"]),
    ({"admin_host": ("q.test",), "proxy_allow_private": True}, []),
])  # fmt: skip
def test_it_warns_of_settings_that_do_not_fit_the_rooms(settings: dict[str, Any], codes: list[str]) -> None:
    made = room("shop", origin="http://10.0.0.5:3000")
    host = InlineHost("shop.test", Origin("http", "10.0.0.5", 3000), (made,), frozenset({"shop"}))
    gate = SimpleNamespace(index=HostIndex({"shop.test": host}))
    inline = Inline(
        gate=cast(Any, gate), choice=cast(Any, None), counts=cast(Any, None), hop=cast(Any, None),
        pool=cast(Any, None), settings=Settings(secret=Secret("s" * 32), **settings), source=cast(Any, None),
        lasting=cast(Any, None),
    )  # fmt: skip
    found = {warning.code: warning.message for warning in inline.warnings()}
    assert list(found) == codes
    if "console_host_withheld" in found:
        for part in ("neither ADMIN_HOST nor PUBLIC_URL is set", "Set one of them to the console's name and restart"):
            assert part in found["console_host_withheld"]


async def test_it_hears_an_origin_behind_tls_before_it_writes_more_of_an_upload() -> None:
    """What came over TLS and was not read is lost when a write fails: the answer would be a 502 instead."""
    loop, written = asyncio.get_running_loop(), list[bytes]()
    exchange = TaskExchange.__new__(TaskExchange)
    exchange.is_over = False
    parts = iter([b"one", b"two", b"three", None])

    async def read() -> bytes | None:
        return next(parts)

    def has_unread() -> bool:
        if written:
            loop.call_soon(setattr, exchange, "is_over", True)  # what the loop does once it looks at the socket
        return bool(written)

    exchange._http = cast(Any, SimpleNamespace(read=read))
    exchange._head = cast(Any, SimpleNamespace(chunked=False))
    transport = SimpleNamespace(write=written.append)
    link = SimpleNamespace(is_tls=True, is_paused=False, is_lost=False, has_unread=has_unread, transport=transport)

    assert not await exchange._upload(cast(Any, link))
    assert written == [b"one"]
