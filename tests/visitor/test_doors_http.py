"""Limits, caps and cookies through real sockets, from addresses of their own (127.0.0.0/8)."""

from __future__ import annotations

import contextlib
import json
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.edge.wire import Answer, Wire
from tests.harness import Server, wait_for

pytestmark = pytest.mark.timeout(180)
PUBLIC = "pk_a-public-key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Two workers with the limits of a default server, but small ones for checks and pages."""
    limits = {
        "JOIN_LIMIT_PER_MIN": "600", "CHECK_LIMIT_PER_MIN": "50", "STATUS_LIMIT_PER_MIN": "6000",
        "WAITING_LIMIT_PER_MIN": "4", "VERIFY_LIMIT_PER_MIN": "60", "ADMIN_AUTH_FAIL_PER_MIN": "5",
        "PUBLIC_API_KEY": PUBLIC, "TRUST_PROXY": "1",
    }  # fmt: skip
    with Server(dict(limits), workers=2) as running:
        for room, fields in {
            "shop": {"rate": 0}, "fair": {"rate": 0, "queueMaxPerIp": 1000}, "open": {"rate": 100_000},
            "guarded": {"rate": 0, "protection": {"mode": "enforce"}},
            "tagged": {"rate": 0, "tagOrigins": ["https://app.brand.example"]},
        }.items():  # fmt: skip
            admin(running, "POST", "rooms", {"id": room, "targetUrl": "https://shop.example/", **fields})
        yield running


def admin(server: Server, method: str, path: str, body: Any = None) -> Any:
    answer = httpx.request(
        method, f"{server.url}/api/admin/{path}", json=body, headers={"Authorization": f"Bearer {server.admin_key}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


class Caller(Wire):
    """One connection from a loopback address of its own, so that no test uses up another's budget."""

    def __init__(self, server: Server, address: str) -> None:
        host, _, port = server.url.removeprefix("http://").partition(":")
        self.sock = socket.create_connection((host, int(port)), 30, source_address=(address, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def join(self, room: str, *headers: str, **fields: Any) -> Answer:
        return self.ask("POST /api/join", *headers, body=json.dumps({"roomId": room, **fields}).encode())


@pytest.mark.req("VIS-013", "VIS-218", "CFG-099")
def test_900_forged_addresses_of_one_machine_get_one_budget_and_one_cap(server: Server) -> None:
    with Caller(server, "127.0.0.10") as one, Caller(server, "127.0.0.10") as other:
        answers = [
            (one, other)[number % 2].join(
                "shop",
                f"X-Forwarded-For: 9.{number // 250}.{number % 250}.1, 8.8.8.8",
                f"X-Real-IP: 7.7.{number // 250}.{number % 250}",
                f"Forwarded: for=6.6.{number // 250}.{number % 250}",
                f"True-Client-IP: 5.5.{number // 250}.{number % 250}",
                f"CF-Connecting-IP: 4.4.{number // 250}.{number % 250}",
            )
            for number in range(900)
        ]

    outcomes = Counter((answer.status, answer.fields.get("code")) for answer in answers)
    assert outcomes == {(200, None): 16, (429, "queue_identity_limit"): 584, (429, "rate_limited"): 300}
    assert [answer.fields["code"] for answer in answers[600:]] == ["rate_limited"] * 300
    assert all(1 <= int(answer.headers["retry-after"]) <= 60 for answer in answers[600:])
    assert not any("set-cookie" in answer.headers for answer in answers[16:])


@pytest.mark.req("VIS-200", "VIS-199")
def test_300_browsers_behind_one_address_all_get_in_line(server: Server) -> None:
    """As different as browsers are, each with its own cookies; a raised cap is all that it takes."""
    agents = [f"Mozilla/5.0 (X11; rv:{number}.0) Gecko/20100101 Firefox/{number}.0" for number in range(300)]

    def browse(number: int) -> tuple[int, int, bool]:
        with Caller(server, "127.0.0.11") as browser:
            common = (f"User-Agent: {agents[number]}", "Accept: */*", "Accept-Language: th", "Accept-Encoding: gzip")
            joined = browser.join("fair", *common)
            jar = "; ".join(value.partition(";")[0] for value in joined.all("set-cookie"))
            again = browser.join("fair", *common, f"Cookie: {jar}")
            state = browser.ask("GET /api/status?room=fair", *common, f"Cookie: {jar}")
            same = joined.fields["ticket"] == again.fields["ticket"] == state.fields["ticket"]
            return joined.status, joined.fields["ticket"], same and not again.fields["created"]

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(browse, range(300)))

    assert {status for status, _, _ in found} == {200}
    assert sorted(ticket for _, ticket, _ in found) == list(range(1, 301))
    assert all(kept for _, _, kept in found)


@pytest.mark.req("VIS-057", "VIS-227")
def test_it_finds_the_place_behind_stale_oversized_and_planted_cookies(server: Server) -> None:
    with Caller(server, "127.0.0.12") as browser:
        joined = browser.join("shop")
        own = {value.split("=")[0]: value.partition(";")[0].partition("=")[2] for value in joined.all("set-cookie")}
        ticket = joined.fields["ticket"]
        doors = "; ".join(f"qm_dk_room{number}={'d' * 43}" for number in range(8))
        stale = "; ".join(f"qm_room{number}={'x' * 60}.{'y' * 43}" for number in range(7))
        for before in (
            doors,
            stale,
            f"{doors}; {stale}",
            "theme=" + "z" * 4000,
            "; ".join(f"a{number}={'v' * 40}" for number in range(200)),
            f"qm_console={'c' * 200}; qm_lang=th; qm_theme=dark",
        ):
            cookie = f"Cookie: {before}; qm_shop={own['qm_shop']}; qms_shop={own['qms_shop']}"
            for path in ("/api/status?room=shop", "/api/status"):
                state = browser.ask(f"GET {path}", cookie)
                assert (state.status, state.fields.get("ticket")) == (200, ticket), (path, before[:40])
            assert browser.ask("GET /api/check?room=shop", cookie).fields["reason"] == "waiting"
        many = "; ".join(f"qm_room{number}=x.y" for number in range(8))
        full = browser.ask("GET /api/status", f"Cookie: {many}; qm_shop={own['qm_shop']}")
        assert (full.status, full.code) == (400, "missing_room"), "eight are tried"


def test_it_answers_cookies_beyond_all_measure_and_goes_on(server: Server) -> None:
    with Caller(server, "127.0.0.13") as browser:
        ticket = browser.join("shop").fields["ticket"]
    for size, statuses in ((16_000, {200}), (30_000, {200}), (40_000, {431}), (200_000, {431})):
        with Caller(server, "127.0.0.13") as caller:
            head = f"GET /api/check?room=shop HTTP/1.1\r\nHost: x\r\nCookie: qm_shop={'A' * size}\r\n\r\n"
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                caller.send(head.encode())
            answer = caller.answer()
            assert answer.status in statuses, size
            assert answer.status == 431 or answer.fields["action"] == "queue"
    with Caller(server, "127.0.0.13") as caller:
        assert caller.join("shop").fields["ticket"] == ticket + 1, "nothing else happened"


@pytest.mark.req("VIS-070", "VIS-077")
def test_a_limited_visitor_is_told_so_and_keeps_his_place(server: Server) -> None:
    origin = "Origin: https://shop.example"
    with Caller(server, "127.0.0.14") as browser:
        joined = browser.join("open")
        jar = "Cookie: " + "; ".join(value.partition(";")[0] for value in joined.all("set-cookie"))
        answers = [browser.ask("GET /api/check?room=shop", origin) for _ in range(52)]
        limited = browser.ask("GET /api/check?room=open", jar, origin)
        unknown = browser.ask("GET /api/check?room=nowhere")
        state = browser.ask("GET /api/status?room=open", jar)
    with Caller(server, "127.0.0.15") as elsewhere:
        other = elsewhere.ask("GET /api/check?room=shop")

    assert [answer.status for answer in answers] == [200] * 50 + [429] * 2
    assert [int(answer.headers["x-ratelimit-remaining"]) for answer in answers] == [*range(49, -1, -1), 0, 0]
    for refused in (limited, unknown):
        assert (refused.status, refused.code) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) >= 1
    assert limited.headers["access-control-allow-origin"] == "https://shop.example"
    assert "set-cookie" not in limited.headers
    assert state.fields["state"] in ("passed", "waiting")
    assert other.status == 200
    wait_for(lambda: admin(server, "GET", "health")["counters"]["rateLimitedChecks"] >= 4)


@pytest.mark.req("VIS-081")
@pytest.mark.req("PAG-103")
def test_a_304_of_the_waiting_page_counts_like_the_page(server: Server) -> None:
    with Caller(server, "127.0.0.16") as browser:
        first = browser.ask("GET /w/shop", "Accept-Encoding: identity")
        rest = [browser.ask("GET /w/shop", f"If-None-Match: {first.headers['etag']}") for _ in range(4)]

    assert (first.status, [answer.status for answer in rest]) == (200, [304, 304, 304, 429])
    assert [answer.headers["x-ratelimit-remaining"] for answer in (first, *rest)] == ["3", "2", "1", "0", "0"]


GUIDES = ("/progress", "/docs", "/docs/operations", "/docs/integration", "/docs/th")
"""Pages that share the budget of the console's."""


@pytest.mark.req("VIS-080", "CFG-071", "PAG-198")
def test_pages_of_operators_have_a_budget_of_their_own(server: Server) -> None:
    with Caller(server, "127.0.0.27") as other:
        answers = [other.ask(f"GET {path}") for path in ("/", *GUIDES)]
        page = other.ask("GET /docs/th/operations", "Sec-Fetch-Mode: navigate")
        waiting = other.ask("GET /w/shop")
        plain = other.ask("GET /w/shop/plain")
        me = other.ask("GET /api/admin/me", f"Authorization: Bearer {server.admin_key}")

    assert [answer.status for answer in answers] == [200] * 4 + [429] * 2
    assert [answers[number].headers["cache-control"] for number in (1, 2)] == ["no-store"] * 2, "made of this Host"
    assert (plain.status, plain.headers["x-ratelimit-remaining"]) == (200, "2")
    assert answers[4].headers["content-type"].startswith("text/plain")
    assert (page.status, len(page.body) <= 1024) == (429, True)
    assert b'http-equiv="refresh"' in page.body
    assert (waiting.status, waiting.headers["x-ratelimit-remaining"]) == (200, "3")
    assert (me.status, "x-ratelimit-limit" in me.headers) == (200, False)


@pytest.mark.req("VIS-066")
def test_no_other_route_answers_another_origin(server: Server) -> None:
    headers = ("Origin: https://shop.example", "Access-Control-Request-Method: POST")
    paths = (
        "/api/join", "/api/status?room=shop", "/api/leave", "/events?room=shop", "/api/verify?room=shop",
        "/w/shop", "/healthz", "/api/version", "/api/admin/rooms", "/api/admin/session", "/nowhere", "/",
    )  # fmt: skip
    with Caller(server, "127.0.0.17") as caller:
        for path in paths:
            for method in ("OPTIONS", "POST"):
                answer = caller.ask(f"{method} {path}", *headers, "Connection: keep-alive", body=b"{}")
                assert not any(name.startswith("access-control") for name in answer.headers), (method, path)
                if method == "OPTIONS":
                    assert answer.status in (403, 404, 405), path


@pytest.mark.req("VIS-063", "ENG-211")
def test_it_names_pages_whose_tag_is_refused(server: Server) -> None:
    with Caller(server, "127.0.0.18") as caller:
        for origin in ("https://old.example", "https://old.example", "null"):
            answer = caller.ask("GET /api/check?room=tagged", f"Origin: {origin}")
            assert (answer.status, answer.code) == (403, "origin_not_allowed")
            assert not any(name.startswith("access-control") for name in answer.headers)

    def named() -> dict[str, int]:
        found = admin(server, "GET", "health")["checks"]["refusedOrigins"]
        return {one["origin"]: one["count"] for one in found if one["roomId"] == "tagged"}

    wait_for(lambda: named() == {"https://old.example": 2, "null": 1})
    wait_for(lambda: len(admin(server, "GET", "rooms/tagged")["room"]["refusedOriginChecks"] or ()) == 2)


@pytest.mark.req("VIS-214", "OBS-037")
def test_health_sums_what_all_workers_refused(server: Server) -> None:
    before = admin(server, "GET", "health")["counters"]
    for number in range(12):  # over new connections, so that both workers are asked
        with Caller(server, f"127.0.1.{number}") as caller:
            caller.ask("GET /api/check?room=chekout")
            caller.ask("GET /api/check?room=shop&token=x.y&url=nonsense")
            caller.join("shop", returnUrl="https://evil.example/")
            caller.ask(f"GET /api/check?room=shop&ip=1.2.3.4&agent=x&key={PUBLIC}")
            caller.ask("GET /api/check?room=shop", "Origin: https://evil.example")
    expected = {
        "unknownRoomChecks": 12, "blockedReturnUrls": 12, "refusedOriginChecks": 12, "refusedKeyChecks": 12,
        "rejectedTokens": 12,
    }  # fmt: skip

    def grew() -> bool:
        now = admin(server, "GET", "health")["counters"]
        return all(now[name] - before[name] == number for name, number in expected.items())

    wait_for(grew)
    health = admin(server, "GET", "health")
    assert health["counters"].keys() == {*expected, "rateLimitedChecks", "checksWithoutUrl"}
    assert {one["roomId"]: one["count"] for one in health["checks"]["unknownRooms"]}["chekout"] == 12
    assert health["tokens"]["rejected"]["malformed"] >= 12
    assert health["tokens"]["rejected"].keys() == {
        "expired", "future", "bad_signature", "unknown_kid", "malformed", "wrong_room",
    }  # fmt: skip


@pytest.mark.req("VIS-136", "VIS-145", "CFG-141")
def test_wrong_keys_lock_their_address_on_every_worker_at_once(server: Server) -> None:
    def ask(path: str, key: str) -> int:
        with Caller(server, "127.0.0.20") as caller:
            return caller.ask(f"GET {path}", f"Authorization: Bearer {key}").status

    vouched, verify = "/api/check?room=shop&ip=203.0.113.9&agent=x", "/api/verify?room=shop"
    assert [ask(vouched, PUBLIC), ask(verify, PUBLIC), ask(vouched, server.admin_key)] == [200] * 3
    assert {ask((vouched, verify)[number % 2], "guess") for number in range(5)} == {401}
    assert {ask((vouched, verify)[number % 2], PUBLIC) for number in range(12)} == {401}
    assert ask("/api/admin/me", server.admin_key) == 429


@pytest.mark.req("VIS-192", "ADM-198")
def test_it_keeps_a_script_out_and_tells_operators_why(server: Server) -> None:
    with Caller(server, "127.0.0.21") as script:
        refused = script.join("guarded", "User-Agent: python-requests/2.31")
        alike = script.join("shop", "User-Agent: python-requests/2.31")
    with Caller(server, "127.0.0.21") as browser:
        person = browser.join("guarded", "User-Agent: Mozilla/5.0 (X11) Firefox/126.0", "Accept: */*")

    assert (refused.status, refused.code) == (403, "blocked_by_protection")
    assert refused.headers["x-qm-protection"].startswith("block score=")
    assert (alike.status, person.status) == (200, 200)

    def told() -> list[str]:
        found = admin(server, "GET", "protection")["recent"]
        return [one["outcome"] for one in found if one["address"] == "127.0.0.21" and "python" in one["userAgent"]]

    wait_for(lambda: sorted(told()) == ["blocked", "wouldBlock"])
    shown = admin(server, "GET", "protection")
    assert shown["rooms"] == [{"roomId": "guarded", "mode": "enforce"}]
    assert shown["totals"]["blocked"] >= 1
    assert {one["signal"] for one in shown["signals"]} >= {"declared_automation"}
    wait_for(lambda: (admin(server, "GET", "rooms/guarded")["room"]["protectionCounts"] or {}).get("blocked") == 1)
