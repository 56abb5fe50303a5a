"""Answers as clients see them: framing, bodies, errors, common headers."""

from __future__ import annotations

import time

import pytest

from tests.edge.wire import HOST, DevServer, Wire

NAVIGATION = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


def test_it_gives_every_answer_its_common_headers(wire: Wire) -> None:
    seen = set()
    for line in ("GET /api/check", "GET /stock", "GET /nope", "GET /api/refused", "DELETE /stock", "GET /api/broken"):
        answer = wire.ask(line)
        seen.add(answer.headers["x-qm-request-id"])

        assert len(answer.headers["x-qm-request-id"]) == 26
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"

    assert len(seen) == 6


@pytest.mark.parametrize("path", ["/api/check?n=1", "/stock", "/healthz", "/api/version", "/api/v1/check"])
def test_it_answers_head_like_get_without_a_body(wire: Wire, path: str) -> None:
    got = wire.ask(f"GET {path}")
    head = wire.ask(f"HEAD {path}")

    assert head.status == got.status
    # The word HEAD is one letter longer than GET where a route tells the method.
    assert abs(int(head.headers["content-length"]) - len(got.body)) <= 1
    assert {*head.headers} == {*got.headers}
    assert wire.ask("GET /stock").status == 200  # no byte of a body is in the way


def test_it_passes_head_to_the_handler_as_head(dev: DevServer) -> None:
    with Wire(dev.port) as wire:
        plain = len(wire.ask("GET /api/check").body)

        assert int(wire.ask("HEAD /api/check").headers["content-length"]) == plain + 1


def test_it_serves_hot_routes_under_their_alias(wire: Wire) -> None:
    assert wire.ask("GET /api/v1/check?a=1").fields["query"] == {"a": "1"}
    assert wire.ask("POST /api/v1/join", body=b'{"a":1}').fields == {"fields": {"a": 1}}


@pytest.mark.req("VIS-040")
@pytest.mark.parametrize(
    ("line", "allow"),
    [
        ("DELETE /api/check", "GET, HEAD, OPTIONS, POST"),
        ("GET /api/join", "POST"),
        ("HEAD /api/join", "POST"),
        ("PROPFIND /api/check", "GET, HEAD, OPTIONS, POST"),
        ("PUT /stock", "GET, HEAD, POST"),
        ("PROPFIND /stock", "GET, HEAD, POST"),
        ("GET /ignores", "POST"),
        ("HEAD /ignores", "POST"),
    ],
)
def test_it_names_the_methods_of_a_path_that_takes_others(wire: Wire, line: str, allow: str) -> None:
    answer = wire.ask(line)

    assert answer.status == 405
    assert answer.headers["allow"] == allow
    assert line.startswith("HEAD") or answer.code == "method_not_allowed"
    assert wire.ask("GET /stock").status == 200


@pytest.mark.req("VIS-040")
@pytest.mark.parametrize(
    "path", ["/nope", "/api/nope", "/api/CHECK", "/api/check/", "//api/check", "/api/%63heck", "/"]
)
def test_it_answers_404_for_an_unknown_path(wire: Wire, path: str) -> None:
    answer = wire.ask(f"GET {path}")

    assert answer.status == 404
    assert answer.fields == {"error": "There is nothing at this address.", "code": "not_found"}
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.req("VIS-036", "VIS-037")
@pytest.mark.parametrize(
    ("headers", "is_page"),
    [
        (("Sec-Fetch-Mode: navigate",), True),
        (("Sec-Fetch-Dest: document",), True),
        (("Sec-Fetch-Dest: iframe",), True),
        (("Sec-Fetch-Dest: frame",), True),
        (("Sec-Fetch-Dest: embed",), True),
        (("Sec-Fetch-Dest: object",), True),
        (("Accept: text/html,*/*",), True),
        (("Accept: TEXT/HTML",), True),
        (("Sec-Fetch-Mode: cors", "Accept: text/html"), False),
        (("Sec-Fetch-Dest: empty", "Accept: text/html"), False),
        (("Sec-Fetch-Site: none", "Accept: text/html"), False),
        (("Accept: */*",), False),
        ((), False),
    ],
)
@pytest.mark.parametrize("path", ["/nope", "/api/join", "/api/refused", "/api/broken", "/stock-broken"])
def test_it_gives_a_page_to_a_navigation(wire: Wire, headers: tuple[str, ...], is_page: bool, path: str) -> None:
    answer = wire.ask(f"GET {path}", *headers)

    assert answer.headers["content-type"].startswith("text/html" if is_page else "application/json")
    if is_page:
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert b"http" not in answer.body


def test_it_lets_the_hook_make_the_page(wire: Wire) -> None:
    assert wire.ask("GET /api/refused", *NAVIGATION).body == b"<p>hooked"


@pytest.mark.parametrize("path", ["/api/broken", "/stock-broken", "/api/no-reply", "/api/odd-reply"])
@pytest.mark.parametrize("headers", [(), NAVIGATION])
def test_it_tells_nothing_of_its_own_failures(wire: Wire, path: str, headers: tuple[str, ...]) -> None:
    answer = wire.ask(f"GET {path}", *headers)

    assert answer.status == 500
    assert b"inside" not in answer.body
    assert b"Zero" not in answer.body
    assert b"Traceback" not in answer.body
    assert headers or answer.code == "internal_error"
    assert wire.ask("GET /stock").status == 200


def test_it_runs_timeouts_and_task_groups_inside_hot_handlers(wire: Wire) -> None:
    assert wire.ask("GET /api/timeout").fields == {"timeout": True}
    assert wire.ask("GET /api/group").fields == {"parts": [0, 1, 2]}


def test_it_sends_no_body_where_none_may_be(wire: Wire) -> None:
    answer = wire.ask("OPTIONS /api/check")

    assert answer.status == 204
    assert "content-length" not in answer.headers
    assert wire.ask("GET /stock").status == 200


@pytest.mark.req("VIS-042")
def test_it_reads_the_first_of_repeated_parameters(wire: Wire) -> None:
    answer = wire.ask("GET /api/check?room=a&room=b&x=%41+b&y&%zz=1&u=%ff&=v")

    assert answer.fields["query"] == {"room": "a", "x": "A b", "y": "", "%zz": "1", "u": "\ufffd"}


def test_it_reads_at_most_four_cookies_of_a_name(wire: Wire) -> None:
    answer = wire.ask(
        "GET /api/check",
        "Cookie: a=1; qm_shop=1; QM_shop=x;qm_shop=2",
        'Cookie: qm_shop="3"; qm_shop=4;qm_shop=5; junk',
    )

    assert answer.fields["cookies"] == ["1", "2", "3", "4"]


def test_it_sets_cookies(wire: Wire) -> None:
    assert wire.ask("GET /api/check?cookie=1").all("set-cookie") == ["qm_shop=abc; Path=/"]


# Bodies


@pytest.mark.req("VIS-041")
@pytest.mark.parametrize("path", ["/api/join", "/stock"])
def test_it_refuses_a_body_over_16_kib_and_stays_readable(dev: DevServer, path: str) -> None:
    with Wire(dev.port) as wire:
        body = b'{"a":"' + b"x" * (16 * 1024 - 8) + b'"}'
        assert wire.ask(f"POST {path}", body=body).status == 200

    for size in (16 * 1024 + 1, 200_000, 5_000_000):
        with Wire(dev.port) as wire:
            wire.send(b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + b"Content-Length: %d\r\n\r\n" % size)
            try:
                for _ in range(0, size, 50_000):
                    wire.send(b"x" * min(50_000, size))
            except OSError:
                pass  # the server stops listening after a while

            answer = wire.answer()

            assert answer.status == 413
            assert answer.code == "body_too_large"
            assert answer.headers["connection"] == "close"


@pytest.mark.req("VIS-041")
@pytest.mark.parametrize("path", ["/api/join", "/stock"])
def test_it_refuses_chunks_that_sum_up_to_too_much(dev: DevServer, path: str) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        wire.send((b"400\r\n" + b"x" * 1024 + b"\r\n") * 17)

        assert wire.answer().code == "body_too_large"
        assert wire.is_closed()


@pytest.mark.parametrize("path", ["/api/join", "/stock", "/ignores"])
@pytest.mark.parametrize(
    "chunks",
    [
        b"x\r\na\r\n0\r\n\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"+1\r\na\r\n0\r\n\r\n",
        b"-1\r\na\r\n0\r\n\r\n",
        b" 1\r\na\r\n0\r\n\r\n",
        b"1 \r\na\r\n0\r\n\r\n",
        b"1\na\r\n0\r\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"1\r\na\n0\r\n\r\n",
        b"1;a\nb\r\na\r\n0\r\n\r\n",
        b"1;\0\r\na\r\n0\r\n\r\n",
        b"\r\na\r\n0\r\n\r\n",
        b"000000001\r\na\r\n0\r\n\r\n",
        b"1;" + b"e" * 300 + b"\r\na\r\n0\r\n\r\n",
        b"1\r\na\r\n0\r\nX: trailer\r\n\r\n",
        "１\r\na\r\n0\r\n\r\n".encode(),
    ],
)
def test_it_refuses_chunks_that_can_be_read_in_two_ways(dev: DevServer, path: str, chunks: bytes) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)

        answer = wire.answer()

        # A route that leaves its body unread has answered before anybody looked at the chunks.
        assert answer.status == (200 if path == "/ignores" else 400)
        assert path == "/ignores" or (answer.code == "bad_request" and answer.headers["connection"] == "close")
        assert wire.is_closed()


@pytest.mark.parametrize("path", ["/api/join", "/stock"])
def test_it_asks_a_waiting_client_for_the_body(wire: Wire, path: str) -> None:
    for _ in range(2):
        wire.send(b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + b"Content-Length: 7\r\nExpect: 100-continue\r\n\r\n")
        assert wire.answer().status == 100
        wire.send(b'{"a":1}')

        answer = wire.answer()

        assert answer.status == 200
        assert answer.headers["connection"] == "keep-alive"


@pytest.mark.parametrize("path", ["/ignores", "/nope", "/api/nope"])
def test_it_ends_the_connection_when_it_did_not_ask_for_the_body(dev: DevServer, path: str) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + b"Content-Length: 7\r\nExpect: 100-continue\r\n\r\n")

        assert wire.answer().headers["connection"] == "close"
        assert wire.is_closed()


def test_it_refuses_an_expected_body_that_is_too_large_before_it_is_sent(wire: Wire) -> None:
    wire.send(b"POST /api/join HTTP/1.1\r\n" + HOST + b"Content-Length: 99999\r\nExpect: 100-continue\r\n\r\n")

    assert wire.answer().code == "body_too_large"


@pytest.mark.parametrize("path", ["/api/check", "/stock"])
def test_it_speaks_http_1_0(dev: DevServer, path: str) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"GET %b HTTP/1.0\r\n\r\n" % path.encode())
        assert wire.answer().headers["connection"] == "close"
        assert wire.is_closed()
    with Wire(dev.port) as wire:
        for _ in range(2):
            wire.send(b"GET %b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" % path.encode())
            assert wire.answer().headers["connection"] == "keep-alive"


def test_it_answers_a_client_that_has_closed_its_sending_side(dev: DevServer) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"GET /api/status?sec=0.1&name=half HTTP/1.1\r\n" + HOST + b"\r\n")
        wire.sock.shutdown(1)

        answer = wire.answer()

        assert answer.fields == {"slow": "half"}
        assert wire.is_closed()


@pytest.mark.parametrize("extra", [b"", b"GET /stock HTTP/1.1\r\n" + HOST + b"\r\n"], ids=["fast", "task"])
def test_it_lets_a_handler_end_when_the_client_goes_away(dev: DevServer, extra: bytes) -> None:
    name = b"gone-%d" % len(extra)
    with Wire(dev.port) as wire:
        wire.send(extra + b"GET /api/status?sec=0.1&name=%b HTTP/1.1\r\n" % name + HOST + b"\r\n")
        if extra:
            wire.answer()

    deadline = time.monotonic() + 10
    with Wire(dev.port) as wire:
        while name.decode() not in wire.ask("GET /finished").fields["finished"]:
            assert time.monotonic() < deadline


def test_it_breaks_off_a_stream_whose_handler_failed(dev: DevServer) -> None:
    with Wire(dev.port) as wire:
        wire.send(b"GET /stream?n=2&break=1 HTTP/1.1\r\n" + HOST + b"\r\n")

        with pytest.raises((ConnectionResetError, ConnectionError)):
            wire.answer()


def test_it_streams_and_goes_on(wire: Wire) -> None:
    assert wire.ask("GET /stream?n=3").body == b"0\n1\n2\n"
    assert wire.ask("GET /api/check").status == 200


def test_it_makes_no_route_of_the_framework_s_extension(wire: Wire) -> None:
    answers = [wire.ask(f"GET {path}") for path in ("/docs", "/docs/redoc", "/docs/swagger", "/docs/openapi.json")]

    assert [answer.status for answer in answers] == [404] * 4
    assert not any(name.startswith("access-control") for answer in answers for name in answer.headers)
