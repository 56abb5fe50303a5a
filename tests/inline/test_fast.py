"""A request that arrives whole is served without a task; nobody can tell.

A line end before a request takes it to the connection's task, deterministically: so each case is sent both ways.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Script, Talk, plain, saying
from tests.inline.people import Visitor
from tests.inline.raw import Answer, Client

PAGE = b"Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n"
SLOW_WAY = b"\r\n"


def request(line: bytes, host: bytes = b"open.test", fields: bytes = b"", body: bytes = b"") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%b HTTP/1.1\r\nHost: %b\r\n%b%b\r\n%b" % (line, host, fields, length, body)


def seen(answer: Answer) -> object:
    """What does not differ from one answer to the next."""
    lines = [line for line in answer.lines if line[0].lower() not in (b"x-qm-request-id", b"date")]
    return answer.status, answer.reason, lines, answer.body, answer.is_whole


@pytest.mark.parametrize("sent", [
    request(b"GET /a//b;c?d=%zz&e"),
    request(b"GET /\xc3\xa4?\xff"),
    request(b"HEAD /a.css"),
    request(b"OPTIONS *"),
    request(b"PROPFIND /x", fields=b"Connection: keep-alive, x-gone\r\nX-Gone: 1\r\nX-Kept: 2\r\nx-Kept: 3\r\n"),
    request(b"POST /form", body=b"a=b" * 1000),
    request(b"POST /form", fields=b"Connection: close\r\n", body=b"a=b"),
    request(b"GET /x", b"OPEN.test:80", b"Cookie: a=1; qm_console=2; b=3\r\nX-Forwarded-For: 9.9.9.9\r\n"),
    request(b"GET /x", fields=b"X_Forwarded_For: 1\r\nTE: trailers\r\nX-QM-Hop: made-up\r\n"),
    request(b"GET /x", fields=b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: A\r\n"),
    request(b"GET /shut?x=1", b"shut.test", PAGE),
    request(b"HEAD /shut", b"shut.test", PAGE),
    request(b"POST /shut", b"shut.test", b"Origin: http://shut.test\r\n", b"a=b"),
    request(b"GET /x.js", b"shut.test"),
    request(b"GET /x.js", b"shut.test", b"X-Original-URL: /checkout\r\n"),
    request(b"GET /%78.js", b"shut.test"),
    request(b"GET /x.js", b"shut.test", PAGE + b"Sec-Fetch-Dest: iframe\r\n"),
    request(b"GET /__qm/healthz", b"shut.test", b"Accept: nothing\r\n"),
    request(b"GET /__qmx", b"shut.test"),
    request(b"TRACE /x"),
    request(b"GET http://open.test/x"),
    request(b"GET /x", b"open.test, shut.test"),
])  # fmt: skip
@pytest.mark.req("INL-075", "INL-117")
def test_it_answers_and_forwards_alike_whichever_way_a_request_comes(front: Front, origin: Origin, sent: bytes) -> None:
    async def telling(talk: Talk) -> None:
        body = await talk.body()
        origin.bodies.append(body)
        head = (
            b"HTTP/1.1 203 So so\r\nX-QM-Queued: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: qm_console=2\r\nContent-Length: 3"
        )
        await talk.say(head + b"\r\n\r\n" + (b"" if talk.method == b"HEAD" else b"abc"))

    origin.script = telling
    found = []
    for before in (b"", SLOW_WAY, b""):  # the last time over a connection to the origin that is there
        origin.heads.clear()
        origin.bodies.clear()
        with front.connect() as client:
            client.send(before + sent)
            answer = client.answer(method=sent.split(b" ")[0].decode())
            if b"close" not in [value for name, value in answer.lines if name.lower() == b"connection"]:
                assert client.ask("GET /next.css HTTP/1.1\nHost: open.test").body == b"abc"
        if b"/healthz" in sent:
            answer.body = b""
        found.append((seen(answer), list(origin.heads), list(origin.bodies)))

    assert found[0] == found[1] == found[2]


FAILURES: list[tuple[Script, bool]] = [
    (saying(close=True), False),
    (saying(b"nonsense\r\n\r\n", close=True), False),
    (saying(b"HTTP/1.1 101 Odd\r\nUpgrade: x\r\n\r\n"), False),
    (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", close=True), True),
    (saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", close=True), True),
    (saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nno size\r\n"), False),
    (saying(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\noh"), False),
    (saying(b"HTTP/1.1 200 OK\r\n\r\nto the end", close=True), False),
]


@pytest.mark.parametrize(("script", "is_cut"), FAILURES)
@pytest.mark.parametrize("line", [b"GET /page", b"GET /file.css", b"POST /form"])
@pytest.mark.req("INL-142", "INL-169", "INL-174")
def test_it_fails_alike_whichever_way_a_request_comes(
    front: Front, origin: Origin, script: Script, is_cut: bool, line: bytes
) -> None:
    sent = request(line, fields=PAGE, body=b"a=b" if line.startswith(b"POST") else b"")
    found = []
    for before in (b"", SLOW_WAY):
        origin.script = script
        with front.connect() as client:
            client.send(before + sent)
            answer = client.answer()
            origin.script = plain
            assert answer.is_whole is not is_cut
            if not is_cut:
                assert client.ask("GET /next HTTP/1.1\nHost: open.test").body == b"ok"
            else:
                assert client.rest() == b""
        found.append(seen(answer))

    assert found[0] == found[1]


@pytest.fixture
def visitor(front: Front) -> Iterator[Visitor]:
    front.room("brisk", rate=6000, queueMaxPerIp=None)
    made = Visitor(front, "brisk")
    yield made
    made.close()


@pytest.mark.req("INL-077", "INL-082")
def test_it_lets_a_session_through_either_way(front: Front, origin: Origin, visitor: Visitor) -> None:
    assert "qm_dk_brisk" in visitor.enter().header("set-cookie")  # type: ignore[operator]
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.jar.items()).encode()
    fields = b"User-Agent: Browser/1.0\r\nCookie: " + cookie + b"\r\n"
    sent = request(b"POST /cart", b"brisk.test", fields, b"item=1")
    before = front.admin("GET", "health")[1]["inline"]["gatedTotal"]
    with front.connect() as client:
        for first in (b"", SLOW_WAY, b"", SLOW_WAY):
            client.send(first + sent)
            assert client.answer().body == b"ok"
    wait_for(lambda: front.admin("GET", "health")[1]["inline"]["gatedTotal"] == before + 4)


@pytest.mark.req("INL-080", "INL-082")
def test_it_admits_a_visitor_who_has_asked_while_he_waited(front: Front, origin: Origin) -> None:
    front.room("turn", rate=0, queueMaxPerIp=None)
    visitor = Visitor(front, "turn")
    visitor.join()
    for _ in range(4):
        assert visitor.page("/in").status == 503
    assert not origin.heads

    front.room("turn", rate=6000)
    admitted: list[Answer] = []

    def is_in() -> bool:
        answer = visitor.page("/in")
        admitted.append(answer)
        return answer.status == 200

    wait_for(is_in)
    assert "qm_dk_turn=" in (admitted[-1].header("set-cookie") or "")
    assert not any("qm_dk_turn=" in value for answer in admitted[:-1] for value in answer.values("set-cookie"))
    for _ in range(4):
        again = visitor.page("/in")
        assert (again.status, again.header("set-cookie")) == (200, None)
    ref = visitor.api("status?room=turn")["ref"]
    assert front.admin("POST", "rooms/turn/eject", {"ref": ref})[0] == 200
    answer = visitor.page("/in")
    assert (answer.status, answer.header("x-qm-queued")) == (503, "1")
    visitor.close()


def test_it_keeps_requests_in_order_that_come_while_one_is_under_way(front: Front, origin: Origin) -> None:
    async def echo(talk: Talk) -> None:
        body = await talk.body()
        said = talk.target + body
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))

    origin.script = echo
    with front.connect() as client:
        for number in range(30):
            body = b"x" * (number * 1000)
            client.send(request(b"POST /%d" % number, body=body), SLOW_WAY if number % 3 else b"")
        for number in range(30):
            assert client.answer().body == b"/%d" % number + b"x" * (number * 1000)


def test_it_survives_visitors_who_leave_at_any_moment(front: Front, origin: Origin) -> None:
    """Connections of the origin that were left are not given to the next visitor with an answer on them."""

    async def late(talk: Talk) -> None:
        said = talk.target
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said))
        await talk.say(said)

    origin.script = late
    stays: Client = front.connect()
    for number in range(60):
        leaver = front.connect()
        leaver.send(request(b"GET /left-%d.css" % number if number % 2 else b"GET /left-%d" % number))
        stays.send(request(b"GET /stay-%d.css" % number))
        leaver.close()
        assert stays.answer().body == b"/stay-%d.css" % number
    stays.close()
