"""The connection cap: who is let in, who is refused with an answer, and who gives way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from app.core.settings import Settings
from app.infrastructure.rate_limiter import RateLimiter
from app.services.edge_watch import ConnectionCap
from blueprints.edge.crowd import Crowd, Standing
from tests.edge.wire import HOST, DevServer, Wire

KEY = "a-key-of-the-connectors"
AUTHORIZATION = f"Authorization: Bearer {KEY}"
CALM = {"FIRST_BYTE_SEC": 60.0, "IDLE_SEC": 60.0, "HEAD_SEC": 60.0}


class Line:
    """A connection without a socket."""

    def __init__(self, peer: str, since: float | None = 0.0) -> None:
        self.standing = Standing.OUTSIDE
        self.peer_key = peer.encode()
        self.since = since
        self.closed = False

    def quiet_since(self) -> float | None:
        return self.since

    def give_way(self) -> None:
        self.closed = True


@pytest.fixture
def limiters() -> Iterator[list[RateLimiter]]:
    """Two workers of one instance."""
    table = RateLimiter.create("qm-crowd", workers=2, max_keys=4096)
    made = [RateLimiter.attach(table.name, worker) for worker in range(2)]
    yield made
    for each in made:
        each.close()
    table.close()


def caps(limiters: list[RateLimiter], most: int, reserve: int = 2) -> list[ConnectionCap]:
    return [ConnectionCap(each, Settings(max_connections=most, connection_reserve=reserve)) for each in limiters]


def fill(crowd: Crowd, peer: str, count: int, since: Callable[[int], float | None] = float) -> list[Line]:
    lines = [Line(peer, since(number)) for number in range(count)]
    for line in lines:
        crowd.admit(line, 0.0)
    return lines


@pytest.mark.req("CFG-062", "CFG-063")
def test_it_counts_over_all_workers_and_refuses_above_cap_and_reserve(limiters: list[RateLimiter]) -> None:
    first, second = (Crowd(cap) for cap in caps(limiters, 6, 3))
    lines = [Line(f"peer{number}") for number in range(12)]
    for number, line in enumerate(lines):
        (first, second)[number % 2].admit(line, 1.0)

    standings = [line.standing for line in lines]
    assert standings == [Standing.INSIDE] * 6 + [Standing.SURPLUS] * 3 + [Standing.OUTSIDE] * 3
    block = caps(limiters, 6, 3)[1].connections_block()
    assert block == {"open": 9, "max": 6, "reserve": 3, "surplus": 3, "upstream": 0, "refusedTotal": 6}


def test_it_lets_in_again_once_somebody_is_gone(limiters: list[RateLimiter]) -> None:
    cap = caps(limiters, 2)[0]
    crowd = Crowd(cap)
    lines = fill(crowd, "a", 2)
    assert cap.is_full
    crowd.gone(lines[0])
    crowd.gone(lines[0])  # told twice
    assert not cap.is_full
    newcomer = Line("b")
    crowd.admit(newcomer, 1.0)

    assert newcomer.standing is Standing.INSIDE
    assert cap.held_by(b"a") == 1


def test_it_has_no_cap_at_zero_and_no_reserve_at_zero(limiters: list[RateLimiter]) -> None:
    endless, bare = Crowd(caps(limiters, 0)[0]), Crowd(caps(limiters, 1, 0)[1])
    assert {line.standing for line in fill(endless, "a", 500)} == {Standing.INSIDE}
    assert not caps(limiters, 0)[0].is_full
    line = Line("b")
    bare.admit(line, 1.0)
    assert line.standing is Standing.OUTSIDE


@pytest.mark.req("CFG-234")
def test_it_closes_the_longest_quiet_one_of_the_peer_that_crowds(limiters: list[RateLimiter]) -> None:
    crowd = Crowd(caps(limiters, 20)[0])
    hoard = fill(crowd, "hoarder", 12, lambda number: None if number < 2 else 100.0 - number)
    others = [fill(crowd, f"p{number}", 1)[0] for number in range(8)]

    newcomers = [Line(f"new{number}") for number in range(4)]
    for number, line in enumerate(newcomers):
        crowd.admit(line, 1.0 + number)

    assert {line.standing for line in newcomers} == {Standing.INSIDE}
    assert [line.closed for line in hoard] == [False] * 8 + [True] * 4
    assert not any(line.closed for line in others)
    assert {line.standing for line in hoard if line.closed} == {Standing.OUTSIDE}


@pytest.mark.req("CFG-234")
def test_it_touches_no_connection_at_work_nor_a_peer_that_holds_little(limiters: list[RateLimiter]) -> None:
    busy = Crowd(caps(limiters, 10)[0])
    at_work = fill(busy, "hoarder", 10, lambda number: None)
    newcomer = Line("new")
    busy.admit(newcomer, 1.0)
    assert newcomer.standing is Standing.SURPLUS
    assert not any(line.closed for line in at_work)

    for line in (*at_work, newcomer):
        busy.gone(line)
    spread = Crowd(caps(limiters, 20)[0])
    few = [line for number in range(10) for line in fill(spread, f"p{number}", 2)]  # a tenth each, not more
    newcomer = Line("new")
    spread.admit(newcomer, 1.0)
    assert newcomer.standing is Standing.SURPLUS
    assert not any(line.closed for line in few)


@pytest.mark.req("CFG-234")
def test_it_gives_the_hoarder_nothing_and_nobody_more_than_the_hoarder(limiters: list[RateLimiter]) -> None:
    crowd = Crowd(caps(limiters, 10)[0])
    hoard = fill(crowd, "hoarder", 6)
    fill(crowd, "second", 4)
    again = Line("hoarder")
    crowd.admit(again, 1.0)
    assert again.standing is Standing.SURPLUS
    taken = [Line("second") for _ in range(4)]
    for number, line in enumerate(taken):
        crowd.admit(line, 2.0 + number)

    assert [line.standing for line in taken] == [Standing.INSIDE, Standing.SURPLUS, Standing.OUTSIDE, Standing.OUTSIDE]
    assert sum(line.closed for line in hoard) == 1


def test_it_goes_by_what_a_connection_does_now(limiters: list[RateLimiter]) -> None:
    crowd = Crowd(caps(limiters, 10)[0])
    hoard = fill(crowd, "hoarder", 10)
    crowd.admit(Line("first"), 1.0)  # looks at everybody, and closes the first
    hoard[1].since = None
    hoard[2].since = 50.0
    newcomer = Line("second")
    crowd.admit(newcomer, 1.01)

    assert [line.closed for line in hoard[:5]] == [True, False, False, True, False]
    assert newcomer.standing is Standing.INSIDE


@pytest.fixture(scope="module")
def narrow() -> Iterator[DevServer]:
    """An app that takes four connections and three above them."""
    settings = {"max_connections": 4, "connection_reserve": 3, "sse_max_total": 0}
    with DevServer(settings=settings, connector=KEY, deadlines=CALM) as server:
        until_open(server, 0)
        yield server


def blocks(server: DevServer) -> dict[str, dict[str, int]]:
    with Wire(server.port) as wire:
        found: dict[str, dict[str, int]] = wire.ask("GET /api/admin/blocks").fields
    return found


def until_open(server: DevServer, count: int) -> None:
    """Wait until ``count`` connections are open besides the one that asks."""
    deadline = time.monotonic() + 10
    while blocks(server)["connections"]["open"] != count + 1:
        assert time.monotonic() < deadline, blocks(server)
        time.sleep(0.02)


@pytest.fixture
def crowded(narrow: DevServer) -> Iterator[list[Wire]]:
    """Four connections that are open; each has had an answer, so that none is on its way."""
    until_open(narrow, 0)
    wires = [Wire(narrow.port) for _ in range(4)]
    for wire in wires:
        assert wire.ask("GET /api/check").status == 200
    yield wires
    for wire in wires:
        wire.sock.close()
    until_open(narrow, 0)


@pytest.mark.req("CFG-172", "CFG-173")
@pytest.mark.parametrize("path", ["/api/check", "/stock", "/nothing", "/stream"])
def test_it_answers_503_above_the_cap_and_serves_those_inside(
    narrow: DevServer, crowded: list[Wire], path: str
) -> None:
    with Wire(narrow.port) as late:
        answer = late.ask(f"GET {path}")

        assert (answer.status, answer.fields) == (
            503,
            {"error": "This server is at its connection limit.", "code": "overloaded"},
        )
        assert answer.headers["retry-after"] == "10"
        assert answer.headers["connection"] == "close"
        assert answer.headers["cache-control"] == "no-store"
        assert not {"x-qm-queued", "x-qm-origin"} & set(answer.headers)
        assert late.is_closed()
    assert [wire.ask(f"GET {path}").status for wire in crowded] == [404 if path == "/nothing" else 200] * 4


@pytest.mark.req("CFG-173")
def test_it_shows_a_navigation_above_the_cap_a_page_of_its_own(narrow: DevServer, crowded: list[Wire]) -> None:
    with Wire(narrow.port) as late:
        answer = late.ask("GET /w/shop", "Accept: text/html")

    assert (answer.status, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert b"src=" not in answer.body
    assert b"href=" not in answer.body


@pytest.mark.req("CFG-172")
def test_it_closes_unanswered_beyond_the_reserve(narrow: DevServer, crowded: list[Wire]) -> None:
    with Wire(narrow.port) as one, Wire(narrow.port) as two, Wire(narrow.port) as three, Wire(narrow.port) as over:
        assert over.is_closed()
        for wire in (one, two, three):
            assert wire.ask("GET /api/check").status == 503
    assert [wire.ask("GET /api/check").status for wire in crowded] == [200] * 4


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /healthz", (), 200),
        ("HEAD /healthz", (), 200),
        ("GET /healthz?x=1", (), 200),
        ("GET /api/version", (), 200),
        ("GET /api/v1/version", (), 200),
        ("GET /metrics", (), 404),
        ("GET /api/mesh/knock", (), 404),
        ("GET /api/admin/blocks", (), 200),
        ("POST /api/admin/session", (), 404),
        ("GET /api/v1/admin/rooms", (), 404),
        ("GET /api/check", (AUTHORIZATION,), 200),
        ("GET /api/v1/check?ip=1.2.3.4&agent=a", (AUTHORIZATION,), 200),
        ("POST /api/check", (AUTHORIZATION,), 200),
        ("GET /api/verify", (AUTHORIZATION,), 404),
        ("POST /api/enter", (AUTHORIZATION,), 404),
        ("GET /api/check", ("Authorization: Bearer no",), 503),
        ("GET /api/check?key=" + KEY, (), 503),
        ("GET /api/status?sec=0", (AUTHORIZATION,), 503),
        ("POST /api/join", (AUTHORIZATION,), 503),
        ("POST /healthz", (), 503),
        ("GET /HEALTHZ", (), 503),
        ("GET //healthz", (), 503),
        ("GET /api/adminx", (), 503),
        ("GET /api/admin", (), 503),
        ("GET /", (), 503),
    ],
)
def test_it_answers_operators_probes_and_connectors_in_the_reserve(
    narrow: DevServer, crowded: list[Wire], line: str, headers: tuple[str, ...], status: int
) -> None:
    with Wire(narrow.port) as late:
        answer = late.ask(line, *headers)

        assert answer.status == status
        assert answer.headers["connection"] == "close"
        assert late.is_closed()


@pytest.mark.req("CFG-176")
def test_it_tells_how_many_are_open(narrow: DevServer, crowded: list[Wire]) -> None:
    before = blocks(narrow)
    with Wire(narrow.port) as late:
        late.ask("GET /stock")
        late.rest()
    after = blocks(narrow)

    assert before["full"] is True
    numbers = {"open": 5, "max": 4, "reserve": 3, "surplus": 1, "upstream": 0}
    assert {name: before["connections"][name] for name in numbers} == numbers
    assert after["connections"]["refusedTotal"] == before["connections"]["refusedTotal"] + 2


def test_it_gives_a_head_in_the_reserve_two_seconds_in_all(narrow: DevServer, crowded: list[Wire]) -> None:
    with Wire(narrow.port) as silent, Wire(narrow.port) as dripping:
        dripping.send(b"GET /api/check HTTP/1.1\r\n" + HOST + b"X: ")
        began = time.monotonic()
        dripping.sock.settimeout(0.1)
        while True:
            assert time.monotonic() - began < 20
            try:
                dripping.buffer += dripping.sock.recv(65536)
                break
            except TimeoutError:
                dripping.sock.send(b"x")
        dripping.sock.settimeout(10)
        assert dripping.answer().status == 408
        assert silent.is_closed()


@pytest.mark.req("CFG-234")
def test_it_shuts_the_door_of_a_machine_that_only_holds_connections() -> None:
    """Idle and half-sent connections of 127.0.0.1; somebody else comes from 127.0.0.2."""
    settings = {"max_connections": 60, "connection_reserve": 4, "sse_max_total": 0}
    with DevServer(settings=settings, deadlines=CALM) as server:
        hoard = [Wire(server.port) for _ in range(56)]
        try:
            for number, wire in enumerate(hoard):
                if number % 2:
                    wire.send(b"GET /api/check HTTP/1.1\r\nHost: half")
            with Wire(server.port) as working, Wire(server.port) as streaming:
                working.send(b"GET /api/status?sec=1.5&name=w HTTP/1.1\r\n" + HOST + b"\r\n")
                streaming.send(b"GET /stream?n=100 HTTP/1.1\r\n" + HOST + b"\r\n")
                deadline = time.monotonic() + 10
                others: list[Wire] = []
                while len(others) < 30:
                    assert time.monotonic() < deadline
                    others.append(Wire(server.port, source="127.0.0.2"))
                    assert others[-1].ask("GET /api/check").status == 200
                assert working.answer().fields == {"slow": "w"}
                assert streaming.answer().body.count(b"\n") == 100
            for wire in others:
                assert wire.ask("GET /api/check").status == 200
                wire.sock.close()
        finally:
            for wire in hoard:
                wire.sock.close()
