"""The edge of a real server, two workers: what an operator sees of proxies, caps and the edge secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import ROWS
from app.domain.keyring import kid_of
from tests.edge.wire import Answer, Wire
from tests.harness import Server, wait_for

pytestmark = pytest.mark.timeout(180)

KEY = "a-public-key-of-the-connectors"
EDGE = ("old-value-0123456789", "new-value-0123456789")
SECRETS = {
    "ADMIN_KEY": ("short-admin-key",), "PUBLIC_API_KEY": (KEY,), "EDGE_SECRET": EDGE,
    "SECRET_PREVIOUS": ("the-secret-that-went-before-this-one",), "VALKEY_URL": ("pass-of-valkey", "valkey.inside"),
    "DATABASE_URL": ("pass-of-pg", "pg.inside"), "SMTP_URL": ("pass-of-mail",), "ALERT_WEBHOOK_URL": ("T0-of-alerts",),
}  # fmt: skip
"""What may not be told of each secret of the guarded server."""
CONSOLE = Path(__file__).resolve().parents[2] / "static/console"
NAVIGATION = "Sec-Fetch-Mode: navigate"
SAID_BEFORE_LISTENING: dict[str, str] = {}
ROOM = {"id": "shop", "targetUrl": "https://shop.example/", "rate": 0, "queueMaxPerIp": 1000}


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def ask(server: Server, line: str, *headers: str, body: Any = None, source: str | None = None) -> Answer:
    """One request on a connection of its own."""
    with Wire(port_of(server), timeout=30, source=source) as wire:
        return wire.ask(line, *headers, body=b"" if body is None else json.dumps(body).encode())


def admin(server: Server) -> str:
    return f"Authorization: Bearer {server.admin_key}"


def health(server: Server, *headers: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(server, "GET /api/admin/health", admin(server), *headers).fields
    return found


@pytest.fixture(scope="module")
def half() -> Iterator[Server]:
    """Half-set proxy, small caps: what a first deployment behind a load balancer looks like."""
    env = {
        "TRUST_PROXY": "1", "PUBLIC_API_KEY": KEY, "MAX_CONNECTIONS": "12", "CONNECTION_RESERVE": "6",
        "WAITING_LIMIT_PER_MIN": "5", "JOIN_LIMIT_PER_MIN": "7", "SSE_MAX_TOTAL": "0",
        "RESYNC_MS": "5s", "PG_POOL_MAX": "201", "SECRET": "a-short-secret", "QM_NOVELTY": "1",
    }  # fmt: skip
    with Server(env, workers=2) as server:
        SAID_BEFORE_LISTENING["half"] = server.stderr
        assert ask(server, "POST /api/admin/rooms", admin(server), body=ROOM).status == 200
        yield server


@pytest.mark.req("VIS-026", "VIS-219", "CFG-189", "CFG-115")
def test_it_starts_with_a_half_set_proxy_and_gives_everybody_one_budget(half: Server) -> None:
    joins = [
        ask(half, "POST /api/join", f"X-Forwarded-For: 203.0.113.{n}", body={"roomId": "shop"}).status for n in range(9)
    ]
    found = health(half)

    assert joins == [200] * 7 + [429] * 2
    assert any("TRUST_PROXY=1 is set without TRUST_PROXY_IPS" in sentence for sentence in found["warnings"])
    assert (found["proxy"]["ok"], found["proxy"]["incomplete"], found["proxy"]["trustProxy"]) == (False, True, 1)


@pytest.mark.req("CFG-189", "CFG-007", "CFG-097", "ADM-267", "ADM-270")
def test_it_starts_with_what_is_merely_wrong_and_says_so_once(half: Server) -> None:
    found = health(half)
    by_variable = {warning["variable"]: warning for warning in found["configWarnings"]}

    assert {name: warning["code"] for name, warning in by_variable.items()} == {
        "RESYNC_MS": "bad_value", "PG_POOL_MAX": "out_of_bounds", "SECRET": "short_secret",
        "TRUST_PROXY": "half_set_proxy", "QM_NOVELTY": "unknown_variable",
    }  # fmt: skip
    assert by_variable["RESYNC_MS"] == {
        "code": "bad_value", "variable": "RESYNC_MS", "set": "5s", "using": 5000,
        "message": 'RESYNC_MS="5s" is not a whole number; using 5000',
    }  # fmt: skip
    assert (by_variable["PG_POOL_MAX"]["set"], by_variable["PG_POOL_MAX"]["using"]) == ("201", 200)
    assert by_variable["SECRET"]["set"] is None
    assert "a-short-secret" not in json.dumps(found)
    assert all(isinstance(sentence, str) for sentence in [*found["warnings"], *found["hardening"]])
    for name, warning in by_variable.items():
        assert half.stderr.count(warning["message"]) == 1
        assert warning["message"] in SAID_BEFORE_LISTENING["half"]
        assert (warning["message"] in found["warnings"]) is (name != "QM_NOVELTY")


@pytest.mark.req("CFG-009", "ADM-270")
def test_it_shows_every_value_in_use_and_of_a_secret_whether_it_is_set(half: Server) -> None:
    config = {name: entry["value"] for name, entry in health(half)["config"].items()}

    assert set(config) == {row.name for row in ROWS.values()}
    assert (config["RESYNC_MS"], config["PG_POOL_MAX"], config["MAX_CONNECTIONS"]) == (5000, 200, 12)
    secrets = {name: value for name, value in config.items() if value in ("set", "unset")}
    assert secrets == {
        "SECRET": "set", "SECRET_PREVIOUS": "unset", "ADMIN_KEY": "set", "PUBLIC_API_KEY": "set",
        "EDGE_SECRET": "unset", "VALKEY_URL": "unset", "DATABASE_URL": "unset", "PG_CA_CERT": "unset",
        "SMTP_URL": "unset", "ALERT_WEBHOOK_URL": "unset",
    }  # fmt: skip


@pytest.mark.req("VIS-024", "VIS-025", "CFG-114", "CFG-118")
def test_it_names_a_proxy_nobody_declared_and_goes_on_not_believing_it(half: Server) -> None:
    proxy = "127.0.0.9"
    for number in range(10):
        ask(half, "GET /qm.js", f"X-Real-IP: 203.0.113.{number}", source=proxy)
    wait_for(lambda: proxy in health(half)["proxy"]["undeclaredPeers"], 10)
    found = health(half)
    joins = [
        ask(half, "POST /api/join", f"X-Forwarded-For: 203.0.113.{n}", body={"roomId": "shop"}, source=proxy).status
        for n in range(9)
    ]

    assert found["proxy"]["forwardedFromUndeclaredPeer"] is True
    assert found["proxy"]["suggestion"] == f"TRUST_PROXY_IPS={proxy}"
    assert any(f"set TRUST_PROXY_IPS={proxy}:" in sentence for sentence in found["warnings"])
    assert half.stderr.count("undeclared_proxy_found") == 1
    assert joins == [200] * 7 + [429] * 2


@pytest.mark.req("VIS-221", "VIS-082", "VIS-083", "CFG-123")
def test_it_suspends_the_page_budget_of_an_undeclared_proxy_alone(half: Server) -> None:
    def pages(source: str, *headers: str, count: int = 8) -> list[int]:
        return [ask(half, "GET /w/shop", NAVIGATION, *headers, source=source).status for _ in range(count)]

    alone = pages("127.0.0.21")
    last = ask(half, "GET /w/shop", NAVIGATION, source="127.0.0.21")
    assert alone == [200] * 5 + [429] * 3
    assert b'http-equiv="refresh"' in last.body
    assert ask(half, "GET /api/status?room=shop", source="127.0.0.21").status == 200
    assert pages("127.0.0.21", "X-Forwarded-For: 1.2.3.4", count=1) == [429], "one forged header exempts nobody"

    assert pages("127.0.0.22", "X-Forwarded-For: 203.0.113.5", count=20) == [200] * 20
    assert pages("127.0.0.23") == [200] * 5 + [429] * 3
    block = health(half)["waitingPage"]
    assert (block["enforced"], block["limitPerMin"]) == (False, 5)
    assert block["exemptAddresses"] >= 1


@pytest.mark.req("CFG-175", "CFG-176", "VIS-181", "ADM-272")
@pytest.mark.req("CFG-174")
def test_it_is_full_and_still_answers_probes_operators_and_connectors(half: Server) -> None:
    held: list[Wire] = []

    def fill() -> bool:
        """One more that is inside; connections of earlier tests may still be on their way out."""
        wire = Wire(port_of(half), timeout=30)
        if wire.ask("GET /api/status?room=shop").status == 200:
            held.append(wire)
        else:
            wire.sock.close()
        return len(held) == 12 and health(half)["connections"]["open"] == 13

    try:
        wait_for(fill, 20)
        probe = ask(half, "GET /healthz")
        assert (probe.status, probe.fields["ready"], probe.fields["status"]) == (503, False, "ok")
        assert [reason["code"] for reason in probe.fields["reasons"]] == ["connection_limit"]
        assert probe.headers["connection"] == "close"
        version = ask(half, "GET /api/version")
        assert (version.status, version.fields["ready"]) == (200, False)

        refused = ask(half, "GET /api/status?room=shop")
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "overloaded", "10")
        page = ask(half, "GET /w/shop", NAVIGATION)
        assert (page.status, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
        named = "GET /api/check?room=shop&ip=203.0.113.9&agent=Mozilla"
        key = f"Authorization: Bearer {KEY}"
        assert ask(half, named, key).fields["action"] == "queue"
        assert ask(half, named, "Authorization: Bearer wrong").status == 503
        assert ask(half, named).status == 503
        assert ask(half, "HEAD /healthz").status == 503
        for line in ("HEAD /api/version", "GET /api/v1/version", "GET /api/verify?room=shop"):
            assert ask(half, line, key).status == 200, line
        assert ask(half, "GET /api/verify?room=shop").code == "overloaded"
        assert ask(half, "GET /metrics", admin(half)).status == 200
        signing_in = ("X-QM-CSRF: 1", "Sec-Fetch-Site: same-origin")
        signed_in = ask(half, "POST /api/admin/session", *signing_in, body={"key": half.admin_key})
        assert signed_in.status == 200
        assert ask(half, "POST /metrics", admin(half)).code == "overloaded"
        found = health(half)
        assert (found["ready"], found["connections"]["max"], found["connections"]["surplus"]) == (False, 12, 1)
        assert found["connections"]["open"] == 13
        assert found["connections"]["refusedTotal"] >= 7
        assert [wire.ask("GET /api/status?room=shop").status for wire in held] == [200] * 12
    finally:
        for wire in held:
            wire.sock.close()
    wait_for(lambda: ask(half, "GET /healthz").status == 200, 10)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """Behind a CDN: the edge secret while it is being changed, the console on one host."""
    env = {
        "EDGE_SECRET": ",".join(EDGE), "ADMIN_HOST": "Admin.Test:443,queue.test", "TRUST_PROXY": "1",
        "LOG_LEVEL": "debug", "LOG_FORMAT": "json", "JOIN_LIMIT_PER_MIN": "3", "MAX_CONNECTIONS": "2000",
        "ADMIN_KEY": SECRETS["ADMIN_KEY"][0], "PUBLIC_API_KEY": KEY, "SECRET_PREVIOUS": SECRETS["SECRET_PREVIOUS"][0],
        "VALKEY_URL": "redis://qm:pass-of-valkey@valkey.inside.test/0", "SMTP_URL": "smtps://qm:pass-of-mail@127.0.0.1:1",
        "DATABASE_URL": "postgresql://qm:pass-of-pg@pg.inside.test/qm", "SMTP_FROM": "queue@shop.example",
        "ALERT_WEBHOOK_URL": "http://127.0.0.1:1/services/T0-of-alerts", "EMAIL_NOTIFY": "1",
    }  # fmt: skip
    with Server(env, workers=2) as server:
        server.admin_key = env["ADMIN_KEY"]
        assert ask(server, "POST /api/admin/rooms", admin(server), *through(), body=ROOM).status == 200
        yield server


def through(address: str = "203.0.113.77", value: str = EDGE[0]) -> tuple[str, ...]:
    return (f"X-QM-Edge: {value}", f"CF-Connecting-IP: {address}", "X-Forwarded-Proto: https")


ROUTES = [
    *("GET /w/shop", "GET /qm.js", "GET /api/check?room=shop", "POST /api/check?room=shop", "GET /api/verify"),
    *("POST /api/join", "GET /api/status?room=shop", "GET /events?room=shop", "POST /api/leave", "GET /api/version"),
    *("GET /offline.html", "GET /fonts/geist-latin.woff2", "GET /", "GET /public/admin.html", "GET /api/admin/me"),
    *("POST /api/admin/session", "GET /metrics", "GET /nothing", "OPTIONS /api/check?room=shop", "HEAD /w/shop"),
    *("GET /api/v1/status?room=shop", "GET /api/admin/events", "GET //healthz", "GET /HEALTHZ", "GET /__qm/healthz"),
]


@pytest.mark.req("VIS-225", "VIS-027", "VIS-028", "CFG-124", "CFG-126")
@pytest.mark.parametrize("line", ROUTES)
def test_it_answers_nothing_that_did_not_come_through_the_edge(guarded: Server, line: str) -> None:
    for headers in ((), ("X-QM-Edge: guessed-0123456789",), ("Upgrade: websocket", "Connection: Upgrade")):
        with Wire(port_of(guarded), timeout=30) as wire:
            answer = wire.ask(line, admin(guarded), *headers)
        assert answer.status == 403
        assert line.startswith("HEAD") or answer.fields == {"error": "edge_required", "code": "edge_required"}
    passed = ask(guarded, line.replace("/events", "/events-x"), admin(guarded), *through())
    assert b"edge_required" not in passed.body
    assert ask(guarded, "GET /healthz").status == 200


@pytest.mark.req("VIS-031", "CFG-130")
def test_it_takes_scheme_and_visitor_from_the_edge(guarded: Server) -> None:
    joined = ask(guarded, "POST /api/join", *through("203.0.113.80"), body={"roomId": "shop"})
    cookies = joined.all("set-cookie")
    assert len(cookies) == 2
    assert all("; Secure" in cookie for cookie in cookies)
    plain = ask(guarded, "POST /api/join", *through("203.0.113.81")[:2], body={"roomId": "shop"})
    assert not any("Secure" in cookie for cookie in plain.all("set-cookie"))
    forged = [
        ask(guarded, "POST /api/join", *through("203.0.113.82"), f"X-Forwarded-For: 9.9.9.{n}", body={"roomId": "shop"})
        for n in range(4)
    ]
    assert [answer.status for answer in forged] == [200, 200, 200, 429]
    others = [
        ask(guarded, "POST /api/join", *through(f"203.0.113.{n}", EDGE[n % 2]), body={"roomId": "shop"}).status
        for n in range(90, 100)
    ]
    assert others == [200] * 10
    warnings = health(guarded, *through())["configWarnings"]
    assert [(w["code"], w["variable"]) for w in warnings if w["code"] != "short_secret"] == [
        ("ignored_setting", "TRUST_PROXY")
    ]


@pytest.mark.req("VIS-030", "VIS-033")
@pytest.mark.req("CFG-129", "CFG-132")
def test_it_counts_over_its_workers_what_the_edge_refused(guarded: Server) -> None:
    before = health(guarded, *through())["edge"]
    for _ in range(12):
        assert ask(guarded, "GET /api/status?room=shop").status == 403
    for _ in range(8):
        assert ask(guarded, "GET /api/status?room=shop", *through()[:1]).status == 200
    after = health(guarded, *through())["edge"]

    assert (after["enabled"], after["values"]) == (True, 2)
    assert after["refusedTotal"] - before["refusedTotal"] == 12
    assert after["clientIpFallbackTotal"] - before["clientIpFallbackTotal"] == 8
    text = ask(guarded, "GET /metrics", admin(guarded), *through()).body.decode()
    assert f"\nqm_edge_refused {float(after['refusedTotal'])}\n" in text
    assert f"\nqm_edge_client_ip_fallback_total {float(after['clientIpFallbackTotal'])}\n" in text


@pytest.mark.req("CFG-163", "CFG-165", "CFG-023")
def test_it_serves_the_console_on_its_host_alone(guarded: Server) -> None:
    def on(host: str, line: str) -> Answer:
        with Wire(port_of(guarded), timeout=30) as wire:
            head = [f"{line} HTTP/1.1", f"Host: {host}", admin(guarded), *through(), "", ""]
            return wire.send("\r\n".join(head).encode()).answer()

    for line in ("GET /", "GET /public/admin.html", "GET /api/admin/me", "GET /api/v1/admin/rooms"):
        assert on("admin.test:443", line).status == on("QUEUE.test.", line).status == 200
        for host in ("admin.test", "127.0.0.1", "localhost", "shop.example"):
            answer = on(host, line)
            assert (answer.status, answer.body) == (404, b"")
    for line in ("GET /api/status?room=shop", "GET /healthz", "GET /w/shop", "GET /qm.js"):
        assert on("shop.example", line).status == 200


@pytest.mark.req("CFG-143")
def test_health_says_of_each_key_whether_it_is_set_and_how_the_secrets_are_called(guarded: Server) -> None:
    assert health(guarded, *through())["keys"] == {
        "secret": "set", "secretPrevious": "set", "adminKey": "set", "publicApiKey": "set",
        "kid": kid_of(guarded.env["SECRET"]), "kidPrevious": kid_of(guarded.env["SECRET_PREVIOUS"]),
        "tokenSignV2": False,
    }  # fmt: skip
    scripts = [path.read_text("utf-8") for path in CONSOLE.glob("*.js")]
    assert scripts
    assert not [text for text in scripts if re.search(r"\bkid\b|kidPrevious|\.keys\b(?!\()", text)], "the API alone"


@pytest.mark.req("CFG-008", "CFG-131", "VIS-032")
def test_it_tells_no_secret_anywhere(guarded: Server) -> None:
    for value in EDGE:
        ask(guarded, f"GET /api/status?room=shop&x={value}", *through(value=value))
        ask(guarded, "GET /api/broken", f"X-QM-Edge: {value}x")
        ask(guarded, f"GET /{value}", *through(value=value))
    for key in (guarded.env["PUBLIC_API_KEY"], guarded.env["SECRET"], f"{guarded.admin_key}x"):
        ask(guarded, "GET /api/admin/rooms", f"Authorization: Bearer {key}", *through("203.0.113.201"))
    ask(guarded, "GET /api/check?room=shop&ip=1.2.3.4&agent=x", f"Authorization: Bearer {KEY}", *through())
    reading = ("health", "audit", "rooms", "operators", "monitor-tokens", "alerts", "timeline", "protection", "reports")
    told = [ask(guarded, f"GET /api/admin/{path}", admin(guarded), *through()) for path in reading]
    assert [answer.status for answer in told] == [200] * len(reading)
    told += [ask(guarded, line, admin(guarded), *through()) for line in ("GET /metrics", "GET /api/verify?room=shop")]
    said = guarded.stderr + b"".join(answer.head + answer.body for answer in told).decode()

    assert "ADMIN_KEY has 15 characters, fewer than 16" in said
    for name, hidden in SECRETS.items():
        for part in hidden:
            assert part not in said, name
    assert guarded.env["SECRET"] not in said
    assert {health(guarded, *through())["config"][name]["value"] for name in SECRETS} == {"set"}
