"""What a room's ``proxyOrigin`` may be, who may set it, and what a save brings with it."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from app.core.errors import QmError
from app.core.ids import EpochMs, Generation, RoomId
from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.actor import Actor
from app.domain.inline.proxy_origin import proxy_origin
from app.domain.room import Room, RoomConfig
from app.infrastructure import address_guard
from app.infrastructure.address_guard import AddressGuard
from app.services import inline_saves
from app.services.inline_saves import InlineSaves

PUBLIC = "203.0.114.7"
OWNER = Actor("Ann", role="owner")
OPERATOR = Actor("Bob", role="operator")


def room(room_id: str, target: str = "", origin: str | None = None, at: int = 0) -> Room:
    config = RoomConfig(RoomId(room_id), room_id, target or f"https://{room_id}.test/", proxy_origin=origin)
    return Room(config, Generation(1), b"s" * 16, 1, EpochMs(at), EpochMs(at))


def saves(*rooms: Room, **settings: Any) -> InlineSaves:
    made = Settings(**{"secret": Secret("s" * 32), **settings})
    guard = AddressGuard(allow_private=made.proxy_allow_private, own=[("valkey.test", 6379), (PUBLIC, 6379)])
    return InlineSaves(settings=made, guard=guard, rooms=lambda: rooms)


async def refusal(
    judge: InlineSaves, before: Room | None, after: Room, actor: Actor = OWNER
) -> tuple[int, str, list[str]]:
    with pytest.raises(QmError) as caught:
        await judge.judge(before and before.config, after.config, actor=actor, host="queue.test", confirmed=True)
    return caught.value.status, caught.value.code, caught.value.members["fields"]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What names resolve to."""
    table = {"site.test": [PUBLIC], "mixed.test": [PUBLIC, "10.0.0.5"], "local.test": ["127.0.0.1"]}

    def look(host: str, port: int, **_: Any) -> list[Any]:
        if host not in table:
            raise socket.gaierror(host)
        return [(0, 0, 0, "", (address, port)) for address in table[host]]

    monkeypatch.setattr(address_guard.socket, "getaddrinfo", look)
    return table


@pytest.mark.req("INL-004", "INL-005", "INL-007", "INL-031", "ENG-027")
@pytest.mark.parametrize(("sent", "stored"), [
    (None, None), ("", None), ("http://site.test", "http://site.test"), ("HTTP://Site.TEST:80/", "http://site.test"),
    ("https://site.test:8443", "https://site.test:8443"), ("http://site.test.", "http://site.test"),
    ("http://127.1:3000", "http://127.0.0.1:3000"), ("http://2130706433", "http://127.0.0.1"),
    ("http://0x7f.0.0.1", "http://127.0.0.1"), ("http://0177.0.0.1", "http://127.0.0.1"),
    ("http://[0:0:0:0:0:0:0:1]:80", "http://[::1]"), ("http://[::ffff:10.0.0.5]", "http://10.0.0.5"),
])  # fmt: skip
def test_it_stores_an_origin_in_its_one_spelling(sent: Any, stored: str | None) -> None:
    assert proxy_origin(sent) == stored


@pytest.mark.req("INL-005", "INL-031", "ENG-027")
@pytest.mark.parametrize("sent", [
    1, True, [], {}, "site.test", "ftp://site.test", "http://", "http:///x", "http://:80", "http://site.test:0",
    "http://site.test:65536", "http://site.test:", "http://site.test:x", "http://u@site.test", "http://u:p@site.test",
    "http://site.test/a", "http://site.test//", "http://site.test?a", "http://site.test#a", " http://site.test",
    "http://site.test ", "http://si te.test", "http://site.test\n", "http://site.test\x00", "http://" + "a" * 512,
    "http://256.1.1.1", "http://1.2.3.4.5", "http://0x100000000", "http://[::1", "http://[fe80::1%25eth0]",
    "http://site.test\\@evil", "http://\u0e01.test", "javascript:alert(1)",
])  # fmt: skip
def test_it_refuses_what_is_more_or_less_than_an_origin(sent: Any) -> None:
    with pytest.raises(ValueError):
        proxy_origin(sent)


@pytest.mark.req("INL-029", "INL-030", "INL-032", "INL-033", "INL-035", "INL-232", "ENG-027")
@pytest.mark.req("CFG-059")
@pytest.mark.parametrize("origin", [
    "http://10.0.0.5:3000", "http://127.0.0.1", "http://localhost:3000", "http://a.localhost", "http://169.254.169.254",
    "http://[::1]", "http://[fd00:ec2::254]", "http://100.64.0.1", "http://0.0.0.0", "http://192.0.0.8",
    "http://198.18.0.1", "http://224.0.0.1", "http://255.255.255.255", "http://168.63.129.16", "http://[fe80::1]",
    "http://[64:ff9b::7f00:1]", "http://[2002:7f00:1::]", "http://[2001::1]", "http://[::7f00:1]", "http://[fec0::1]",
    "http://[::ffff:0:7f00:1]", "http://[64:ff9b:1::1]", "http://[ff02::1]", "http://mixed.test", "http://local.test",
    f"http://{PUBLIC}:6379", "http://valkey.test:6379",
])  # fmt: skip
async def test_it_refuses_an_internal_address(names: dict[str, list[str]], origin: str) -> None:
    names["valkey.test"] = ["198.51.100.9"]
    after = room("shop", origin=proxy_origin(origin))

    assert await refusal(saves(), None, after) == (400, "proxy_origin_private", ["proxyOrigin"])
    if ":6379" in origin:  # the server's own stores, whatever is allowed
        assert (await refusal(saves(proxy_allow_private=True), None, after))[1] == "proxy_origin_private"
    else:
        await saves(proxy_allow_private=True).judge(
            None, after.config, actor=OWNER, host="queue.test", confirmed=True
        )  # INL-039


@pytest.mark.req("INL-033", "ADM-144")
async def test_it_saves_a_name_that_does_not_resolve_and_says_so(names: dict[str, list[str]]) -> None:
    warnings = await saves(public_url="https://q.test").judge(
        None, room("shop", origin="http://nowhere.test").config, actor=OWNER, host="q.test", confirmed=True
    )
    assert [warning["code"] for warning in warnings] == ["proxy_origin_unresolved"]
    assert await saves(public_url="https://q.test").judge(
        None, room("shop", origin="http://site.test").config, actor=OWNER, host="q.test", confirmed=True
    ) == []  # fmt: skip


@pytest.mark.req("INL-033")
async def test_it_waits_for_no_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()
    monkeypatch.setattr(address_guard.socket, "getaddrinfo", lambda *_, **__: said.wait(20) and [])
    assert inline_saves.RESOLVE_SEC == 2.0
    monkeypatch.setattr(inline_saves, "RESOLVE_SEC", 0.05)
    warnings = await saves(public_url="https://q.test").judge(
        None, room("shop", origin="http://slow.test").config, actor=OWNER, host="q.test", confirmed=True
    )
    said.set()
    assert [warning["code"] for warning in warnings] == ["proxy_origin_unresolved"]


OTHER = room("other", "https://other.test/", "http://site.test")


@pytest.mark.req("INL-008", "INL-009", "INL-039", "ENG-027")
@pytest.mark.parametrize(("target", "origin", "loops"), [
    ("https://shop.test/", "http://shop.test:3000", True), ("https://SHOP.test/", "http://shop.test", True),
    ("https://shop.test/", "http://other.test", True), ("https://shop.test/", "http://queue.test", True),
    ("https://shop.test/", "http://console.test:99", True), ("http://localhost:8080/", "http://localhost:3000", False),
    ("http://localhost:8080/", "http://localhost:8080", True), ("http://203.0.114.7:81/", "http://203.0.114.7", False),
    ("http://203.0.114.7/", "http://203.0.114.7", True), ("https://shop.test/", "http://127.0.0.1:8099", True),
    ("https://shop.test/", "http://localhost:8099", True), ("https://shop.test/", "http://127.0.0.1:8098", False),
    ("https://shop.test./", "http://shop.test", True), ("https://shop.test./", "https://other.test", True),
    ("https://shop.test/", "http://plain.test", False),  # a snippet room's traffic does not come here
])  # fmt: skip
async def test_it_refuses_an_origin_that_leads_back(
    names: dict[str, list[str]], target: str, origin: str, loops: bool
) -> None:
    judge = saves(
        OTHER,
        room("plain"),
        proxy_allow_private=True,
        public_url="https://queue.test",
        admin_host=("console.test",),
        port=8099,
    )
    after = room("shop", target, origin)
    if loops:
        assert await refusal(judge, None, after) == (400, "proxy_origin_loop", ["proxyOrigin"])
    else:
        await judge.judge(None, after.config, actor=OWNER, host="queue.test", confirmed=True)


@pytest.mark.req("INL-010")
async def test_it_refuses_a_target_that_some_origin_leads_back_to(names: dict[str, list[str]]) -> None:
    before = room("shop", "https://shop.test/", "http://inner.test")
    after = room("shop", "https://site.test/", "http://inner.test")
    assert await refusal(saves(OTHER, before), before, after) == (400, "proxy_origin_loop", ["targetUrl"])
    own = room("shop", "https://inner.test/", "http://inner.test")
    assert (await refusal(saves(before), before, own))[1] == "proxy_origin_loop"


@pytest.mark.req("INL-011", "INL-046")
async def test_it_refuses_two_origins_on_one_host(names: dict[str, list[str]]) -> None:
    judge = saves(OTHER)
    for origin in ("http://inner.test", "http://site.test:81", "https://site.test"):
        for target in ("http://OTHER.test:8443/x", "https://other.test./"):
            assert await refusal(judge, None, room("two", target, origin)) == (
                409, "proxy_origin_conflict", ["proxyOrigin"],
            )  # fmt: skip
    await judge.judge(
        None, room("two", "http://other.test/x", "http://site.test").config, actor=OWNER, host="q.test", confirmed=True
    )


INLINE = room("shop", "https://shop.test/", "http://site.test")
SNIPPET = room("shop", "https://shop.test/")


@pytest.mark.req("INL-015", "INL-016", "INL-017", "ENG-028")
@pytest.mark.parametrize(("before", "after", "is_change"), [
    (None, INLINE, True), (SNIPPET, INLINE, True), (INLINE, SNIPPET, True), (None, SNIPPET, False),
    (INLINE, room("shop", "https://new.test/", "http://site.test"), True),
    (INLINE, room("shop", "https://shop.test/", "http://203.0.114.8"), True),
    (INLINE, room("shop", "https://shop.test/other", "http://site.test"), True),
    (INLINE, INLINE, False), (INLINE, room("shop", "HTTPS://Shop.test:443/", "http://site.test"), False),
    (SNIPPET, room("shop", "https://new.test/"), False),
])  # fmt: skip
async def test_it_leaves_where_traffic_goes_to_owners(
    names: dict[str, list[str]], before: Room | None, after: Room, is_change: bool
) -> None:
    judge = saves(public_url="https://q.test")
    await judge.judge(before and before.config, after.config, actor=OWNER, host="q.test", confirmed=True)
    if is_change:
        for actor in (OPERATOR, Actor("Vi", role="viewer")):
            status, code, _ = await refusal(judge, before, after, actor)
            assert (status, code) == (403, "inline_requires_owner")
    else:
        await judge.judge(before and before.config, after.config, actor=OPERATOR, host="q.test", confirmed=True)


@pytest.mark.req("INL-017")
@pytest.mark.parametrize(("before", "says"), [(None, "snippet room"), (INLINE, "other settings")])
async def test_it_says_what_an_operator_can_still_do(names: Any, before: Room | None, says: str) -> None:
    after = room("shop", "https://shop.test/", "http://203.0.114.8")
    with pytest.raises(QmError) as caught:
        await saves().judge(before and before.config, after.config, actor=OPERATOR, host="", confirmed=True)
    assert says in caught.value.sentence


@pytest.mark.req("INL-026", "INL-028", "INL-023", "ADM-144")
@pytest.mark.req("CFG-167")
@pytest.mark.parametrize(("before", "after", "host", "settings", "codes"), [
    (None, INLINE, "qm.test", {}, ["console_host_withheld"]),
    (SNIPPET, INLINE, "QM.test:8080", {}, ["console_host_withheld"]),
    (None, INLINE, "qm.test", {"public_url": "https://qm.test"}, []),
    (None, INLINE, "qm.test", {"admin_host": ("qm.test",)}, []),
    (None, INLINE, "127.0.0.1:8080", {}, []), (None, INLINE, "localhost", {}, []), (None, INLINE, "[::1]:80", {}, []),
    (INLINE, SNIPPET, "shop.test", {}, ["inline_host_left"]), (INLINE, SNIPPET, "qm.test", {}, []),
    (INLINE, room("shop", "https://new.test/", "http://site.test"), "shop.test", {}, ["inline_host_left"]),
])  # fmt: skip
@pytest.mark.req("CON-187")
async def test_it_warns_of_what_becomes_of_the_console(
    names: Any, before: Room | None, after: Room, host: str, settings: dict[str, Any], codes: list[str]
) -> None:
    warnings = await saves(**settings).judge(
        before and before.config, after.config, actor=OWNER, host=host, confirmed=True
    )
    assert [warning["code"] for warning in warnings] == codes
    for warning in warnings:
        assert warning["message"]
        assert warning.get("host", "qm.test") == "qm.test"
        if warning["code"] == "console_host_withheld":
            told = ("qm.test", "next request", "console", "monitor link", "404", "ADMIN_HOST", "PUBLIC_URL", "restart")
            assert all(word in warning["message"] for word in told)
        else:
            assert "PUBLIC_URL is unset" in warning["message"]
        assert warning.get("console") is None


@pytest.mark.req("INL-026", "CFG-167")
async def test_it_warns_only_of_the_first_inline_room(names: Any) -> None:
    assert await saves(OTHER).judge(None, INLINE.config, actor=OWNER, host="qm.test", confirmed=True) == []
    left = await saves(OTHER, public_url="https://qm.test/").judge(
        INLINE.config, SNIPPET.config, actor=OWNER, host="shop.test", confirmed=True
    )
    assert [(warning["code"], warning["console"]) for warning in left] == [("inline_host_left", "https://qm.test/")]
