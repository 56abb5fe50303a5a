"""Inline rooms through the admin API, and smaller promises of the gate and its answers."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from app.core.ids import reserved_reason
from app.domain.client_address import TrustPolicy, resolve_client
from app.domain.cookies import ticket_candidates
from app.domain.hosts import Console, HostPolicy
from app.domain.inline.forwarding import Hop, request_fields
from app.domain.net_ranges import parse_ranges
from app.domain.room_fields import parse_patch
from app.services.assets import Assets
from app.services.waiting_page import WaitingPage
from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, saying
from tests.inline.people import Visitor
from tests.inline.test_saves import room


@pytest.mark.req("INL-006", "INL-013", "INL-014", "INL-005", "INL-024", "ENG-026", "ENG-027", "ENG-047")
@pytest.mark.parametrize(("fields", "code"), [
    ({"id": "fresh", "proxyOrigin": "http://203.0.114.7"}, "target_url_required"),
    ({"id": "fresh", "targetUrl": "http://fresh.test", "proxyOrgin": "http://203.0.114.7"}, "unknown_field"),
    ({"id": "open", "proxyOrigin": "http://203.0.114.7/path"}, "invalid_proxy_origin"),
    ({"id": "open", "onBackendDown": "half"}, "invalid_on_backend_down"),
    ({"id": "open", "onBackendDown": None}, "invalid_on_backend_down"),
    ({"id": "fresh"}, "target_url_required"),
    *(({"id": "open", "targetUrl": url}, "invalid_target_url") for url in (
        "", "shop.test", "/x", "ftp://shop.test/", "http://", "http://u@shop.test/", "http://u:p@shop.test/",
        "http://shop.test/#top", "http://shop.test/" + "a" * 2048, "javascript:alert(1)", 5,
    )),
    ({"id": "open", "rate": 5, "ratePerMinute": 6}, "conflicting_field"),
])  # fmt: skip
@pytest.mark.req("FLT-066")
def test_it_refuses_a_body_that_is_not_whole(front: Front, fields: dict[str, Any], code: str) -> None:
    status, answer = front.admin("POST", "rooms", fields)
    assert (status, answer["code"]) == (400, code)


@pytest.mark.req("INL-012", "INL-011", "INL-014")
def test_it_changes_nothing_by_a_refused_save(front: Front, origin: Origin) -> None:
    front.room("first", targetUrl="http://pair.test/", state="bypass")
    before = front.admin("GET", "rooms/first")[1]["room"]
    assert front.admin("POST", "rooms", before)[0] == 200  # as it was read, unchanged
    refused = front.admin("POST", "rooms", {"id": "first", "rate": 7, "proxyOrigin": "http://pair.test"})
    assert (refused[0], refused[1]["code"]) == (400, "proxy_origin_loop")
    second = {"id": "second", "targetUrl": "http://pair.test/b", "proxyOrigin": "http://203.0.114.7"}
    conflict = front.admin("POST", "rooms", second)
    assert (conflict[0], conflict[1]["code"], "first" in conflict[1]["error"]) == (409, "proxy_origin_conflict", True)
    after = front.admin("GET", "rooms/first")[1]["room"]
    assert {name: after[name] for name in ("rate", "proxyOrigin", "etag", "updatedAt")} == {
        name: before[name] for name in ("rate", "proxyOrigin", "etag", "updatedAt")
    }
    assert front.admin("GET", "rooms/second")[0] == 404
    visitor = Visitor(front, "first", host="pair.test")
    assert visitor.call().status == 200
    visitor.close()


@pytest.mark.req("INL-015", "INL-016", "INL-018", "INL-019")
def test_it_writes_down_who_moved_a_room_and_who_may_not(front: Front, origin: Origin) -> None:
    made = front.admin("POST", "operators", {"name": "Bob", "role": "operator"})[1]
    key = {"Authorization": f"Bearer {made['key']}"}
    new = {"id": "moved", "targetUrl": "http://moved.test/", "proxyOrigin": origin.address}
    assert front.admin("POST", "rooms", new, **key)[1]["code"] == "inline_requires_owner"
    front.room("moved", rate=3)
    whole = front.admin("GET", "rooms/moved")[1]["room"]
    assert front.admin("POST", "rooms", {**whole, "rate": 4}, **key)[0] == 200
    refused = front.admin("POST", "rooms", {"id": "moved", "proxyOrigin": None}, **key)
    assert (refused[0], refused[1]["code"]) == (403, "inline_requires_owner")
    front.admin("POST", "rooms", {"id": "moved", "proxyOrigin": None})

    def entries() -> list[tuple[str, bool, str]]:
        found = front.admin("GET", "audit?roomId=moved")[1]["entries"]
        return [(one["action"], one["ok"], one["detail"]) for one in found]

    wait_for(lambda: len([one for one in entries() if one[0] == "room.inline"]) >= 1)
    assert ("room.create", False, "inline_requires_owner: targetUrl, proxyOrigin") in entries()
    assert ("room.update", False, "inline_requires_owner: proxyOrigin") in entries()
    assert ("room.inline", True, f"proxyOrigin: {origin.address} → none") in entries()


@pytest.mark.req("INL-121", "INL-123", "INL-122", "INL-119", "INL-120", "CFG-113", "CFG-107", "CFG-131")
def test_it_keeps_what_a_declared_proxy_says_and_appends_whom_it_established() -> None:
    """Example E4, and the same from somebody else."""
    policy = TrustPolicy.of(1, parse_ranges("10.0.0.7"))
    sent = {
        b"host": b"shop.example", b"x-forwarded-for": b"198.51.100.7", b"x-forwarded-proto": b"https",
        b"forwarded": b"for=198.51.100.7", b"x-real-ip": b"198.51.100.7", b"cf-connecting-ip": b"198.51.100.7",
        b"true-client-ip": b"198.51.100.7", b"x-forwarded-ssl": b"on", b"cookie": b"a=1; qm_console=x; qm_shop=y",
        b"x-qm-edge": b"of-another",
    }  # fmt: skip
    block = b"\r\n".join(b"%b: %b" % (name.title(), value) for name, value in sent.items())

    def lines(peer: str) -> list[bytes]:
        client = resolve_client(peer, sent.get, policy)
        return request_fields(block, sent, client, Hop(b"m")).split(b"\r\n")

    assert lines("10.0.0.7") == [
        b"Host: shop.example", b"Forwarded: for=198.51.100.7",
        b"X-Real-Ip: 198.51.100.7", b"Cf-Connecting-Ip: 198.51.100.7", b"True-Client-Ip: 198.51.100.7",
        b"X-Forwarded-Ssl: on", b"Cookie: a=1; qm_shop=y", b"X-Forwarded-Host: shop.example",
        b"X-Forwarded-Proto: https", b"X-Forwarded-Port: 443", b"X-Forwarded-For: 198.51.100.7, 198.51.100.7",
        b"X-QM-Hop: m", b"", b"",
    ]  # fmt: skip
    assert lines("192.0.2.9") == [
        b"Host: shop.example", b"Cookie: a=1; qm_shop=y",
        b"X-Forwarded-Host: shop.example", b"X-Forwarded-Proto: http", b"X-Forwarded-Port: 80",
        b"X-Forwarded-For: 192.0.2.9", b"X-QM-Hop: m", b"", b"",
    ]  # fmt: skip


@pytest.mark.req("INL-120")
@pytest.mark.parametrize(("host", "tls", "port"), [
    (b"shop.example", False, b"80"), (b"shop.example", True, b"443"), (b"shop.example:99", True, b"99"),
    (b"[2001:db8::1]", False, b"80"), (b"[2001:db8::1]", True, b"443"), (b"[2001:db8::1]:99", False, b"99"),
])  # fmt: skip
def test_it_names_the_port_of_the_visitors_host(host: bytes, tls: bool, port: bytes) -> None:
    sent = {b"host": host}
    client = resolve_client("192.0.2.9", sent.get, TrustPolicy.of(0, ()), tls=tls)
    lines = request_fields(b"Host: " + host, sent, client, Hop(b"m")).split(b"\r\n")
    assert lines[1:4] == [
        b"X-Forwarded-Host: " + host, b"X-Forwarded-Proto: " + (b"https" if tls else b"http"),
        b"X-Forwarded-Port: " + port,
    ]  # fmt: skip


@pytest.mark.req("INL-062")
def test_it_shows_the_console_on_every_host_while_no_room_is_inline() -> None:
    for host in ("any.test", "127.0.0.1", "shop.example:8080"):
        for path in (b"/", b"/api/admin/me", b"/public/admin.html", b"/progress"):
            assert HostPolicy().judge(host, path) is Console.SERVED


@pytest.mark.req("INL-112")
def test_it_renders_the_page_of_a_room_once() -> None:
    pages, made = WaitingPage(assets=Assets()), room("shop", origin="http://203.0.114.7")
    for kind in ("get", "form"):
        assert pages.render(made, inline=kind) is pages.render(made, inline=kind)
    assert pages.render(made, inline="get").body != pages.render(made, inline="form").body


@pytest.mark.req("INL-215", "INL-216")
def test_it_takes_no_cookie_of_its_own_for_a_ticket() -> None:
    pairs = [("qm_console", "session"), *((f"qm_dk_room{n}", "door") for n in range(9)), ("qm_shop", "ticket")]
    assert ticket_candidates(pairs)[0] == ("shop", "ticket")
    assert not [value for _, value in ticket_candidates(pairs) if value == "session"]
    prefixes = [prefix + "x" for prefix in ("dk_", "meta_", "notify_", "email_")]
    names = """console theme lang admin_key autotune autotune_cfg wait_samples hidden_series selected_room alerts
        offline_attempts origin_down_attempts"""
    assert all(reserved_reason(name) for name in (*prefixes, *names.split()))
    assert not any(reserved_reason(name) for name in ("Console", "DK_x", "themes", "shop"))
    for name in (*prefixes, "theme"):  # from before the rule
        assert parse_patch({"id": name, "rate": 5}, creating=False).id == name


@pytest.mark.req("INL-174", "INL-175", "INL-176", "INL-183", "INL-227", "INL-228", "INL-231")
def test_it_tells_of_a_failing_site_without_telling_what_nobody_should_know(front: Front, origin: Origin) -> None:
    visitor, earlier = Visitor(front, "open"), front.server.stderr
    secrets = {"Authorization": "Basic c2VjcmV0LWtleQ", "Cookie": "qm_open=secret-cookie", "X-Mine": "secret-header"}
    origin.script = saying(b"", close=True)
    file = visitor.ask("GET", "/x.js?secret-query", **{**secrets, "Accept": "text/html"})
    page = visitor.page("/p?secret-query", **secrets)
    form = visitor.page("/p?secret-query", method="POST", **secrets)
    call = visitor.call("/p?secret-query&qm_token=secret-token", body=b"secret-body", method="POST", **secrets)

    assert [answer.status for answer in (file, page, form, call)] == [502] * 4
    for answer in (file, call):
        assert json.loads(answer.body)["code"] == "origin_unreachable"
    assert b"data-form" not in page.body.partition(b"<body>")[0]
    assert b'<html lang="en" data-form>' in form.body
    assert b'http-equiv="refresh"' not in form.body
    port = origin.address.rpartition(":")[2].encode()
    for answer in (file, page, form, call):
        text = answer.body.lower()
        assert b"paused" not in text
        assert port not in text
        assert b"127.0.0.1" not in text
        assert b"sanic" not in text
        assert b"traceback" not in text
        assert answer.header("server") is None
    log = front.server.stderr
    assert "secret-" not in log
    told = [line for line in log[len(earlier) :].splitlines() if "origin_failed" in line and "kind=reset" in line]
    assert len(told) <= 2, "four failures, one line a minute"
    visitor.close()


@pytest.mark.req("INL-079")
def test_it_slides_a_session_with_each_request(front: Front, origin: Origin) -> None:
    front.room("slides", rate=6000, queueMaxPerIp=None, sessionTtlSec=60)
    visitor = Visitor(front, "slides")
    visitor.enter()

    def ends_at() -> int:
        return int(visitor.api("status?room=slides")["sessionExpiresAt"])

    for _ in range(3):
        before = ends_at()
        time.sleep(0.25)  # the engine counts in tenths
        assert visitor.call().status == 200
        state = visitor.api("status?room=slides")
        assert before < state["sessionExpiresAt"] <= state["now"] + 60_000
    front.room("slides", sessionTtlSec=1)
    assert visitor.call().status == 200
    time.sleep(1.2)  # with nothing that would slide it
    over = visitor.call()
    assert (over.status, json.loads(over.body)["reason"]) == (503, "expired")
    visitor.close()
