"""The edge secret through real sockets: whatever comes without it is refused, and nothing about it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.domain.edge_secret import EDGE_EXEMPT, EdgeSecret
from tests.edge.wire import DevServer, Wire

OLD, NEW = "old-value-of-the-edge", "new-value-of-the-edge"
REFUSED = {"error": "edge_required", "code": "edge_required"}
NAVIGATION = "Sec-Fetch-Mode: navigate"


@pytest.fixture(scope="module")
def guarded() -> Iterator[DevServer]:
    """A dev app that demands one of two values."""
    with DevServer(edge=[OLD, NEW], settings={}, limit=3) as server:
        yield server


@pytest.fixture
def wire(guarded: DevServer) -> Iterator[Wire]:
    with Wire(guarded.port) as connection:
        yield connection


def edge_block(server: DevServer) -> dict[str, int]:
    with Wire(server.port) as wire:
        found: dict[str, int] = wire.ask("GET /blocks", f"X-QM-Edge: {NEW}", "CF-Connecting-IP: 1.1.1.1").fields["edge"]
    return found


ROUTES = ["/api/check", "/api/status", "/stock", "/", "/nothing/here", "/api/admin/blocks", "/stream", "/api/version"]


@pytest.mark.req("VIS-027", "VIS-028", "CFG-124", "CFG-125", "CFG-126")
@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    "headers",
    [
        (),
        ("X-QM-Edge: wrong-value-of-the-edge",),
        ("X-QM-Edge:",),
        (f"X-QM-Edge: {OLD}", f"X-QM-Edge: {NEW}"),
        (f"X-QM-Edge: {OLD}", f"X-QM-Edge: {OLD}"),
        (f"X_QM_Edge: {OLD}",),
        ("Upgrade: websocket", "Connection: Upgrade"),
    ],
)
def test_it_refuses_every_route_without_the_one_header(wire: Wire, path: str, headers: tuple[str, ...]) -> None:
    answer = wire.ask(f"GET {path}", *headers, "CF-Connecting-IP: 1.2.3.4")

    assert (answer.status, answer.fields) == (403, REFUSED)
    assert b"edge" not in answer.head.lower()
    assert "x-ratelimit-limit" not in answer.headers


@pytest.mark.req("VIS-028", "CFG-125")
@pytest.mark.parametrize("path", ["/api/check", "/stock", "/nothing"])
def test_it_shows_a_navigation_a_plain_page_that_names_nothing(wire: Wire, path: str) -> None:
    answer = wire.ask(f"GET {path}", NAVIGATION)

    assert answer.status == 403
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b"edge" not in answer.body.lower()


@pytest.mark.req("VIS-225", "VIS-029")
@pytest.mark.req("CFG-127")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /healthz", 200),
        ("HEAD /healthz", 200),
        ("GET /healthz?deep=1", 200),
        ("POST /healthz", 403),
        ("OPTIONS /healthz", 403),
        ("GET /HEALTHZ", 403),
        ("GET //healthz", 403),
        ("GET /healthz/", 403),
        ("GET /%68ealthz", 403),
        ("GET /healthz;x", 403),
        ("GET /healthz%3Fx", 403),
        ("GET /x/../healthz", 403),
        ("GET /./healthz", 403),
        ("GET /__qm/healthz", 403),
    ],
)
def test_it_exempts_health_alone_and_only_in_one_spelling(wire: Wire, line: str, status: int) -> None:
    assert wire.ask(line).status == status
    assert EDGE_EXEMPT == (("GET", b"/healthz"), ("HEAD", b"/healthz"))


@pytest.mark.req("VIS-035", "CFG-134")
@pytest.mark.parametrize("value", [OLD, NEW])
@pytest.mark.parametrize("path", ["/api/check", "/stock"])
def test_it_takes_both_values_while_they_are_being_changed(wire: Wire, value: str, path: str) -> None:
    assert wire.ask(f"GET {path}", f"X-QM-Edge: {value}", "CF-Connecting-IP: 1.2.3.4").status == 200


@pytest.mark.req("CFG-128", "VIS-030")
def test_it_budgets_visitors_by_what_the_edge_says_and_by_nothing_else(wire: Wire) -> None:
    def ask(address: str, *more: str) -> int:
        return wire.ask("GET /api/limited", f"X-QM-Edge: {NEW}", f"CF-Connecting-IP: {address}", *more).status

    forged = [ask("203.0.113.1", f"X-Forwarded-For: 9.9.9.{number}", "True-Client-IP: 8.8.8.8") for number in range(5)]

    assert forged == [200, 200, 200, 429, 429]
    assert [ask(f"203.0.113.{number}") for number in range(2, 30)] == [200] * 28


@pytest.mark.req("VIS-030", "VIS-033")
def test_it_counts_refusals_and_requests_without_an_address(guarded: DevServer) -> None:
    before = edge_block(guarded)
    with Wire(guarded.port) as wire:
        for path in ("/api/check", "/stock"):
            for headers in ((), ("X-QM-Edge: no",)):
                with Wire(guarded.port) as stranger:
                    assert stranger.ask(f"GET {path}", *headers).status == 403
            for _ in range(3):  # lines that come again are read once, and counted each time
                assert wire.ask(f"GET {path}", f"X-QM-Edge: {NEW}").status == 200
                assert wire.ask(f"GET {path}", f"X-QM-Edge: {NEW}", "CF-Connecting-IP: 1.2.3.4").status == 200
        assert wire.ask("GET /api/check", f"X-QM-Edge: {NEW}", "CF-Connecting-IP: x").fields["address"] == "127.0.0.1"
        assert wire.ask("GET /healthz").status == 200
    after = edge_block(guarded)

    assert after["refusedTotal"] - before["refusedTotal"] == 4
    assert after["clientIpFallbackTotal"] - before["clientIpFallbackTotal"] == 7
    assert (after["enabled"], after["values"]) == (True, 2)


@pytest.mark.req("CFG-126")
def test_it_compares_every_value_whatever_came(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr("app.domain.edge_secret.hmac.compare_digest", compare)
    secret = EdgeSecret([OLD, NEW])

    assert [secret.opens(sent) for sent in (OLD.encode(), NEW.encode(), b"x", b"", None)] == [True, True] + [False] * 3
    assert len(compared) == 2 * 5
    assert {len(side) for pair in compared for side in pair} == {32}
