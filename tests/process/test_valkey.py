"""The Valkey adapter: at-most-once commands, outages that answer at once, listeners that resync."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis import Redis
from redis import exceptions as wrong
from redis.asyncio.client import PubSub
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure import valkey as adapter
from app.infrastructure.embedded import PrivateStores
from app.infrastructure.store_trouble import Trouble, trouble_of
from app.infrastructure.valkey import Valkey
from app.infrastructure.valkey_link import Link
from tests.chaos.stores import ValkeyServer
from tests.process.waiting import until


@pytest.fixture
def own_stores(tmp_path: Path) -> Iterator[PrivateStores]:
    """Stores that a test may kill; with a kept Valkey and a Postgres that nobody asks."""
    stores = PrivateStores(data_dir=tmp_path / "data")
    stores.start()
    try:
        yield stores
    finally:
        stores.stop()


@pytest.fixture
async def valkey(own_stores: PrivateStores) -> AsyncIterator[Valkey]:
    adapter = await Valkey.connect(own_stores.valkey_url, timeout_ms=300)
    yield adapter
    await adapter.close()


def pid_of(stores: PrivateStores, name: str) -> int:
    process = stores.children[name].process
    assert process is not None
    return process.pid


async def until_answered(valkey: Valkey) -> None:
    end = mono() + 10
    while mono() < end:
        try:
            assert await valkey.execute("PING") == b"PONG"
        except StorageUnavailable:
            await asyncio.sleep(0.01)
            continue
        return
    pytest.fail("no answer")


async def test_it_runs_commands_and_pipelines(valkey_url: str, fresh_prefix: str) -> None:
    valkey = await Valkey.connect(valkey_url)

    assert await valkey.execute("SET", fresh_prefix + "a", b"\x00\xff") == b"OK"
    assert await valkey.execute("GET", fresh_prefix + "a") == b"\x00\xff"
    replies = await valkey.pipeline(
        [("INCR", fresh_prefix + "n"), ("LPOP", fresh_prefix + "a"), ("INCR", fresh_prefix + "n")]
    )
    assert replies[0::2] == [1, 2]
    assert isinstance(replies[1], ResponseError)
    with pytest.raises(ResponseError):
        await valkey.execute("LPOP", fresh_prefix + "a")
    assert valkey.ever_connected
    assert valkey.shown_state == "up"
    await valkey.close()


@pytest.mark.req("INL-196")
async def test_it_answers_at_once_while_valkey_is_gone_and_comes_back(
    own_stores: PrivateStores, valkey: Valkey
) -> None:
    told = asyncio.Event()

    async def back() -> None:
        told.set()

    valkey.on_reconnect(back)
    await valkey.execute("SET", "a", "1")
    await valkey.execute("INCR", "fsync")
    os.kill(pid_of(own_stores, "valkey"), signal.SIGKILL)
    await until(lambda: own_stores.dead() == ["valkey"])

    with pytest.raises(StorageUnavailable):
        await valkey.execute("GET", "a")
    assert valkey.is_down
    for _ in range(200):
        with pytest.raises(StorageUnavailable):  # without a single pause
            valkey.execute("GET", "a").send(None)

    own_stores.restart("valkey")
    await asyncio.wait_for(told.wait(), 10)
    assert await valkey.execute("EXISTS", "a") in (0, 1)
    assert not valkey.is_down


@pytest.mark.req("FLT-061", "FLT-062")
async def test_an_outage_ends_although_a_connection_could_not_be_closed_in_time(
    valkey_url: str, fresh_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy enough redis-py gives up closing a connection, as an error of the call that closes."""
    closed = 0
    close = adapter.Redis.aclose

    async def slow(self: Any, *args: Any) -> None:
        nonlocal closed
        closed += 1
        await close(self, *args)
        raise wrong.TimeoutError("Timed out closing connection after 1.0")

    monkeypatch.setattr(adapter.Redis, "aclose", slow)
    valkey = await Valkey.connect(valkey_url, timeout_ms=1000)
    heard: list[bytes] = []
    async with valkey.listen({fresh_prefix + "ctl": heard.append}, on_resync=nothing):
        valkey._start_outage(None)
        await until(lambda: not valkey.is_down)
        with Redis.from_url(valkey_url) as other:
            other.client_kill_filter(_type="pubsub")
        await until(lambda: closed >= 2)

        async def is_heard() -> bool:
            await valkey.execute("PUBLISH", fresh_prefix + "ctl", "x")
            return bool(heard)

        for _ in range(500):
            if await is_heard():
                break
            await asyncio.sleep(0.02)
    assert heard
    assert not valkey.is_down
    await valkey.close()


async def nothing() -> None:
    return


@pytest.mark.req("FLT-056")
async def test_it_goes_on_when_valkey_closes_itself_to_it_and_says_why() -> None:
    """The password is changed under a running process: an outage like any other, until it is changed back."""
    with ValkeyServer() as server:
        valkey = await Valkey.connect(server.url, timeout_ms=1000)
        assert (valkey.ever_connected, valkey.trouble) == (True, None)
        server.ask("CONFIG", "SET", "requirepass", "another-one")
        with Redis(port=server.port, password="another-one") as owner:
            owner.client_kill_filter(_type="normal", skipme=True)
            await until(lambda: valkey.trouble is Trouble.CREDENTIALS)
            assert (valkey.is_down, valkey.shown_state) == (True, "down")
            with pytest.raises(StorageUnavailable):
                await valkey.execute("GET", "a")
            owner.config_set("requirepass", "")
        await until(lambda: not valkey.is_down)
        assert valkey.trouble is None
        assert await valkey.execute("GET", "a") is None
        await valkey.close()


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections that close under redis-py as it begins to write: one for each entry, which is taken off."""
    send, wanted = AbstractConnection.send_packed_command, ["closes"] * 3

    async def cut_off(self: Any, *args: Any, **kw: Any) -> None:
        if wanted:
            wanted.pop()
            self._writer.transport.abort()
            await asyncio.sleep(0)
        await send(self, *args, **kw)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", cut_off)
    return wanted


@pytest.mark.req("FLT-061")
def test_an_outage_ends_although_connections_close_under_the_writer(fresh_prefix: str, closing: list[str]) -> None:
    """The servers' event loop answers such a write with an error of its own kind, which ended the watch for ever."""

    async def play(url: str) -> None:
        valkey = Valkey(url, timeout_ms=1000)
        with pytest.raises(StorageUnavailable):
            await valkey.execute("PING")
        assert valkey.is_down
        await until(lambda: not valkey.is_down)
        assert await valkey.execute("PING") == b"PONG"

        closing[:] = ["closes"] * 3
        heard: list[bytes] = []
        async with valkey.listen({fresh_prefix + "c": heard.append}, on_resync=nothing):
            assert not closing
            await until_answered(valkey)
            await valkey.execute("PUBLISH", fresh_prefix + "c", "x")
            await until(lambda: heard == [b"x"])

        writer = valkey._link._writer
        assert writer is not None
        call = asyncio.ensure_future(valkey.execute("PING"))
        await asyncio.sleep(0)
        writer.transport.abort()  # before the command is written
        with pytest.raises(StorageUnavailable):
            await call
        await until_answered(valkey)
        await valkey.close()

    with ValkeyServer() as server:
        uvloop.run(play(server.url))


@pytest.mark.req("FLT-061")
async def test_a_probe_and_a_listener_go_on_whatever_was_wrong(
    valkey_url: str, fresh_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [KeyError("odd"), ValueError("odd"), KeyError("odd")]

    def at_odds(call: Any) -> Any:
        async def instead(*args: Any, **kw: Any) -> Any:
            if odd:
                raise odd.pop()
            return await call(*args, **kw)

        return instead

    monkeypatch.setattr(adapter.Redis, "execute_command", at_odds(adapter.Redis.execute_command))
    monkeypatch.setattr(PubSub, "subscribe", at_odds(PubSub.subscribe))
    valkey = await Valkey.connect(valkey_url, timeout_ms=1000)
    valkey._start_outage(None)
    await until(lambda: not valkey.is_down)
    assert not odd

    odd.append(KeyError("odd"))
    heard: list[bytes] = []
    async with valkey.listen({fresh_prefix + "c": heard.append}, on_resync=nothing):
        assert not odd
        await valkey.execute("PUBLISH", fresh_prefix + "c", "x")
        await until(lambda: heard == [b"x"])
    await valkey.close()


@pytest.mark.req("FLT-061")
@pytest.mark.parametrize("how", ["cut", "renewed"])
async def test_a_connection_is_given_up_in_the_moment_it_was_opened(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its reader has not begun; a link that nobody reads would time out for ever."""
    connect, given_up = Link._connect, []

    async def give_up(self: Link) -> None:
        await connect(self)
        if not given_up:
            given_up.append(how)
            if how == "cut":
                self.cut()
            else:
                await self.renew()

    monkeypatch.setattr(Link, "_connect", give_up)
    valkey = Valkey(valkey_url, timeout_ms=300)
    with pytest.raises(StorageUnavailable):
        await valkey.execute("PING")
    assert given_up
    await until_answered(valkey)
    await until(lambda: not valkey._checks)
    assert await valkey.execute("PING") == b"PONG"
    await valkey.close()


def caused(error: BaseException, by: BaseException) -> BaseException:
    error.__cause__ = by
    return error


@pytest.mark.req("FLT-056", "FLT-052")
@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (wrong.AuthenticationError("WRONGPASS invalid username-password pair"), Trouble.CREDENTIALS),
        (wrong.NoPermissionError("this user has no permissions"), Trouble.CREDENTIALS),
        (wrong.ResponseError("NOAUTH Authentication required."), Trouble.CREDENTIALS),
        (caused(wrong.ConnectionError("Error -2"), socket.gaierror(socket.EAI_NONAME, "no such name")), Trouble.NAME),
        (caused(wrong.ConnectionError("x"), ssl.SSLCertVerificationError("expired")), Trouble.CERTIFICATE),
        (wrong.ConnectionError("Connection refused"), None),
        (caused(wrong.ConnectionError("x"), socket.gaierror(socket.EAI_AGAIN, "try again")), None),
        (wrong.BusyLoadingError("LOADING"), None),
        (wrong.ResponseError("ERR max number of clients reached"), None),
        (None, None),
    ],
)
def test_it_knows_what_somebody_has_to_mend(error: BaseException | None, trouble: Trouble | None) -> None:
    assert trouble_of(error) is trouble


@pytest.mark.req("FLT-148", "INL-196")
async def test_it_calls_a_frozen_valkey_an_outage_and_a_slow_command_not(
    own_stores: PrivateStores, valkey: Valkey
) -> None:
    with pytest.raises(StorageUnavailable):
        await valkey.execute("BLPOP", "nothing", "0.6")  # one command that outlasts the timeout
    await until(lambda: not valkey._checks)
    assert not valkey.is_down
    assert valkey.shown_state == "down"
    await until_answered(valkey)

    os.kill(pid_of(own_stores, "valkey"), signal.SIGSTOP)
    try:
        with pytest.raises(StorageUnavailable):
            await valkey.execute("GET", "a")
        await until(lambda: valkey.is_down)
        for _ in range(200):
            with pytest.raises(StorageUnavailable):  # it is connected still, and yet nobody waits for a timeout
                valkey.execute("GET", "a").send(None)
    finally:
        os.kill(pid_of(own_stores, "valkey"), signal.SIGCONT)
    await until(lambda: not valkey.is_down)


async def test_it_never_runs_a_command_twice_when_its_reply_is_lost(valkey_url: str, fresh_prefix: str) -> None:
    path = valkey_url.removeprefix("unix://")
    lost = 0

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lost
        up_reader, up_writer = await asyncio.open_unix_connection(path)
        while data := await reader.read(65536):
            up_writer.write(data)
            reply = await up_reader.read(65536)
            if b"INCR" in data:
                lost += 1
                break
            writer.write(reply)
        up_writer.close()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    valkey = await Valkey.connect(f"redis://127.0.0.1:{port}")
    with pytest.raises(StorageUnavailable):
        await valkey.execute("INCR", fresh_prefix + "n")
    await valkey.close()
    server.close()
    await server.wait_closed()

    direct = await Valkey.connect(valkey_url)
    assert await direct.execute("GET", fresh_prefix + "n") == b"1"
    assert lost == 1
    await direct.close()


async def test_it_hears_messages_and_resyncs_after_a_lost_connection(own_stores: PrivateStores, valkey: Valkey) -> None:
    heard: list[bytes] = []
    resyncs = 0

    async def resync() -> None:
        nonlocal resyncs
        resyncs += 1

    async with valkey.listen({"qm:a": heard.append, "qm:b": heard.append}, on_resync=resync):
        assert resyncs == 1
        await valkey.execute("PUBLISH", "qm:a", "one")
        await until(lambda: heard == [b"one"])
        await asyncio.sleep(0.4)  # longer than the command timeout: silence is no error for a listener
        assert resyncs == 1

        os.kill(pid_of(own_stores, "valkey"), signal.SIGKILL)
        await until(lambda: own_stores.dead() == ["valkey"])
        own_stores.restart("valkey")
        await until(lambda: resyncs == 2)
        await until(lambda: not valkey.is_down)
        assert await valkey.execute("PUBLISH", "qm:b", "two") == 1
        await until(lambda: heard == [b"one", b"two"])


async def test_it_answers_each_of_many_callers_with_its_own_reply(valkey_url: str, fresh_prefix: str) -> None:
    valkey = await Valkey.connect(valkey_url)

    async def echo(number: int) -> bool:
        if number % 7 == 0:
            task = asyncio.ensure_future(valkey.execute("ECHO", number))
            await asyncio.sleep(0)
            task.cancel()  # its reply has to be thrown away, and nobody else's
            return (await asyncio.gather(task, return_exceptions=True)) != []
        return bool(await valkey.execute("ECHO", number) == str(number).encode())

    for _ in range(5):
        assert all(await asyncio.gather(*[echo(number) for number in range(300)]))
    await valkey.close()


async def test_it_ends_calls_under_way_when_it_is_closed(valkey_url: str) -> None:
    valkey = await Valkey.connect(valkey_url)
    call = asyncio.ensure_future(valkey.execute("BLPOP", "nothing", "5"))
    await asyncio.sleep(0)

    await valkey.close()

    with pytest.raises(StorageUnavailable):
        await call
    assert not valkey.is_down


@pytest.mark.req("FLT-062")
async def test_it_shows_an_outage_for_some_seconds_after_a_timeout(
    own_stores: PrivateStores, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down while the connection is lost, and for 5 s after a time-out on one that stayed."""
    assert adapter.SHOWN_DOWN_SEC == 5.0
    monkeypatch.setattr(adapter, "SHOWN_DOWN_SEC", 0.5)
    assert (await valkey.execute("PING"), valkey.shown_state) == (b"PONG", "up")
    with pytest.raises(StorageUnavailable):
        await valkey.execute("BLPOP", "nothing", "0.6")
    assert (valkey.is_down, valkey.shown_state) == (False, "down")
    await until(lambda: valkey.shown_state == "up")
    await valkey.execute("PING")

    process = own_stores.children["valkey"].process
    assert process is not None
    process.kill()
    process.wait()
    await until(lambda: valkey.is_down)
    assert valkey.shown_state == "down"
    await asyncio.sleep(0.6)
    assert valkey.shown_state == "down"
    own_stores.restart("valkey")
    await until(lambda: valkey.shown_state == "up")
