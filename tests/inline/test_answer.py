"""What the visitor receives: heads, framing, cookies, and answers that cannot be believed."""

from __future__ import annotations

import contextlib
import json

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, Talk, saying

GET = "GET /page HTTP/1.1\nHost: open.test"


@pytest.mark.req("INL-133", "INL-134", "INL-135", "INL-138", "INL-139", "VIS-060")
def test_it_passes_an_answer_as_it_is(front: Front, origin: Origin) -> None:
    origin.script = saying(
        b"HTTP/1.1 299 Very Odd\r\nSERVER: x\r\nSet-Cookie: a=1; Path=/\r\nX-Odd:  \xff b \r\nSet-Cookie: b=2\r\n"
        b"set-cookie: qm_console=evil; Path=/\r\nSet-Cookie: Qm_Console=kept\r\nSet-Cookie: qm_shop=kept\r\n"
        b"Set-Cookie: qms_shop=kept; Path=/; HttpOnly\r\nSet-Cookie: qm_dk_shop=kept\r\n"
        b"Set-Cookie:\tqm_console =evil\r\nX-QM-Queued: 1\r\nX-QM-Origin: connect\r\n"
        b"Connection: close, X-Hop, Content-Length, Set-Cookie, Location\r\nX-Hop: gone\r\n"
        b"Keep-Alive: timeout=5\r\n"
        b'Location: http://inner:3000/x\r\nETag: "a"\r\nContent-Length: 5\r\n\r\nhello',
    )
    with front.connect() as client:
        answer = client.ask(GET)

    assert (answer.status, answer.reason, answer.body) == (299, b"Very Odd", b"hello")
    assert [(name, value) for name, value in answer.lines] == [
        (b"SERVER", b"x"), (b"Set-Cookie", b"a=1; Path=/"), (b"X-Odd", b"\xff b"), (b"Set-Cookie", b"b=2"),
        (b"Set-Cookie", b"Qm_Console=kept"), (b"Set-Cookie", b"qm_shop=kept"),
        (b"Set-Cookie", b"qms_shop=kept; Path=/; HttpOnly"), (b"Set-Cookie", b"qm_dk_shop=kept"),
        (b"Location", b"http://inner:3000/x"), (b"ETag", b'"a"'), (b"Content-Length", b"5"),
    ]  # fmt: skip


@pytest.mark.req("INL-133", "INL-141", "INL-208")
def test_it_keeps_the_connection_in_step_over_answers_without_a_body(front: Front, origin: Origin) -> None:
    async def script(talk: Talk) -> None:
        await talk.body()
        if talk.method == b"HEAD":
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/9\r\n\r\n")
        elif talk.target in (b"/204", b"/304"):
            await talk.say(b"HTTP/1.1 " + talk.target[1:] + b' X\r\nETag: "a"\r\n\r\n')
        elif talk.target == b"/early":
            await talk.say(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 P\r\n\r\n")
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ne")
        elif talk.target == b"/chunked":
            await talk.say(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n", b"0\r\nT: 1\r\n\r\n"
            )
        elif talk.target == b"/until-close":
            await talk.say(b"HTTP/1.1 200 OK\r\n\r\nabc")
            talk.writer.close()
        else:
            await talk.say(b"HTTP/1.1 206 Partial\r\nContent-Length: 1\r\n\r\nx")

    origin.script = script
    expected = [
        ("HEAD", "/", 200, b""), ("GET", "/204", 204, b""), ("GET", "/304", 304, b""), ("GET", "/early", 200, b"e"),
        ("GET", "/chunked", 200, b"abc"), ("GET", "/until-close", 200, b"abc"), ("GET", "/plain", 206, b"x"),
    ]  # fmt: skip
    with front.connect() as client:
        for method, target, status, body in expected:
            answer = client.ask(f"{method} {target} HTTP/1.1\nHost: open.test")
            assert (answer.status, answer.body, answer.is_whole) == (status, body, True), target
            if method == "HEAD":
                assert answer.header("content-length") == "5"


@pytest.mark.req("INL-141", "INL-236")
@pytest.mark.parametrize("framing", [b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b""])
@pytest.mark.parametrize("in_one", [True, False])
def test_it_drops_the_body_that_an_app_sends_after_the_answer_to_head(
    front: Front, origin: Origin, framing: bytes, in_one: bool
) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-A: 1\r\n" + framing + b"\r\n"
    body = b"4\r\nbody\r\n0\r\n\r\n" if b"chunked" in framing else b"body"

    async def script(talk: Talk) -> None:
        if talk.method == b"HEAD":
            await talk.say(*((head + body,) if in_one else (head, body)))
        else:
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nget")

    origin.script = script
    with front.connect() as client:
        for _ in range(3):
            answer = client.ask("HEAD / HTTP/1.1\nHost: open.test")
            assert (answer.status, answer.header("x-a"), answer.header("x-qm-origin")) == (200, "1", None)
            assert client.ask("GET / HTTP/1.1\nHost: open.test").body == b"get"


@pytest.mark.req("INL-133")
def test_it_takes_chunks_apart_for_a_visitor_of_http_1_0(front: Front, origin: Origin) -> None:
    origin.script = saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    for connection in (b"", b"Connection: keep-alive\r\n"):  # only its end can end such a body
        with front.connect() as client:
            client.send(b"GET / HTTP/1.0\r\nHost: open.test\r\n" + connection + b"\r\n")
            head, _, body = client.rest().partition(b"\r\n\r\n")
        assert body == b"abcde"
        assert b"transfer-encoding" not in head.lower()
        assert b"connection: close" in head.lower()


BROKEN = [
    (b"", "reset"),
    (b"HTTP/1.1 200 OK\r\nContent-Le", "reset"),
    (b"garbage\r\n\r\n", "bad_response"),
    (b"\x16\x03\x01\x02\x00", "bad_response"),
    (b"HTTP/2 200 OK\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 2000 OK\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "bad_response"),
    (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nX: a\x00\r\nContent-Length: 0\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", "bad_response"),
    (b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nok", "bad_response"),
    (b"HTTP/1.1 204 No\r\n\r\nok", "bad_response"),
    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", "bad_response"),
    (b"HTTP/1.1 100 Continue\r\n\r\n" * 40, "bad_response"),
]


@pytest.mark.req("INL-169", "INL-170", "INL-171", "INL-172", "INL-236")
def test_it_answers_in_the_place_of_an_origin_that_cannot_be_believed(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        for raw, failure in BROKEN:
            origin.script = saying(raw, close=True)
            answer = client.ask(GET.replace("GET", "DELETE"))
            code = "origin_bad_response" if failure == "bad_response" else "origin_unreachable"
            said = json.loads(answer.body)
            assert (answer.status, said["code"], said["origin"], said["roomId"]) == (502, code, failure, "open"), raw
            assert answer.header("x-qm-origin") == failure
            assert answer.header("x-qm-queued") is None
            assert answer.header("retry-after") == "15"
            assert answer.header("cache-control") == "no-store"
            assert answer.header("access-control-expose-headers") == "X-QM-Queued, X-QM-Origin, Retry-After"
            assert str(origin.port) not in answer.body.decode()


@pytest.mark.req("INL-142")
@pytest.mark.parametrize("raw", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\npart",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\nbad",
])  # fmt: skip
def test_it_cuts_an_answer_that_the_origin_broke_off(front: Front, origin: Origin, raw: bytes) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(raw)
        talk.writer.close()

    origin.script = script
    with front.connect() as client:
        answer = client.ask(GET)
        assert (answer.status, answer.is_whole) == (200, False)
        assert b"part" in answer.body


@pytest.mark.req("INL-142")
def test_it_resets_a_broken_answer_that_only_the_end_of_the_connection_would_end(front: Front, origin: Origin) -> None:
    """HTTP/1.0 has no other sign by which such an answer could be told from a whole one."""

    async def script(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n")
        await talk.reader.read(1)  # PROXY_TIMEOUT_MS ends it, so the visitor has read what there was
        talk.writer.close()

    origin.script = script
    before = front.admin("GET", "health")[1]["inline"]["originErrors"].get("open", {}).get("reset", 0)
    with front.connect() as client:
        client.send(b"GET / HTTP/1.0\r\nHost: open.test\r\n\r\n")
        client.until(b"part")
        with pytest.raises(ConnectionResetError):
            client.rest()
    assert front.admin("GET", "health")[1]["inline"]["originErrors"]["open"]["reset"] == before + 1


@pytest.mark.req("INL-136")
def test_it_marks_a_failure_of_the_app_itself(front: Front, origin: Origin) -> None:
    origin.script = saying(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nX-QM-Origin: forged\r\n\r\nbusy")
    with front.connect() as client:
        answer = client.ask(GET)
    assert (answer.status, answer.body, answer.values("x-qm-origin")) == (503, b"busy", ["http-503"])
    assert answer.header("x-qm-queued") is None


@pytest.mark.req("INL-236", "INL-132")
def test_it_believes_nothing_that_comes_on_an_idle_connection(front: Front, origin: Origin) -> None:
    refused: list[bytes] = []

    async def script(talk: Talk) -> None:
        await talk.body()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
        if talk.target == b"/poison":
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
            with contextlib.suppress(ConnectionError):
                await talk.reader.read()
            refused.append(talk.target)

    origin.script = script
    with front.connect() as client:
        for number in range(1, 21):
            assert client.ask("GET /poison HTTP/1.1\nHost: open.test").status in (200, 502)
            wait_for(lambda number=number: len(refused) == number)  # what came is seen: the connection is broken off
            answer = client.ask("GET /clean HTTP/1.1\nHost: open.test")
            assert (answer.status, answer.body) == (200, b"1")
