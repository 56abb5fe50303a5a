"""What the origin receives: targets, header lines, cookies, the visitor's leg."""

from __future__ import annotations

import pytest

from app.domain.inline.forwarding import Hop
from app.domain.inline.names import HOP_MARK
from app.domain.keyring import hkdf
from tests.inline.conftest import Front
from tests.inline.origin import Origin

TARGETS = [
    b"/", b"//", b"/a//b", b"/a/../b", b"/a/./b", b"/..", b"/a;b=c", b"/a?", b"/a?b?c", b"/?", b"/%zz", b"/%2e%2e/a",
    b"/a%2Fb", b"/a\\b", b"/\xe0\xb8\x81", b"/a?q=\xff", b"/a|b", b"/a{b}", b"/a\"b<c>",
    b"/__qmx", b"/__QM/", b"/_%5Fqm/",
    b"/a?x=http://b/c", b"/api/check", b"/healthz", b"/events", b"/metrics", b"/w/open", b"/qm.js", b"/api/admin/rooms",
    b"/" + b"a" * 15_000,
]  # fmt: skip
METHODS = [b"GET", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"PROPFIND", b"QUERY", b"M-SEARCH", b"get"]


@pytest.mark.req("INL-117", "INL-053", "INL-054")
def test_it_passes_every_target_byte_for_byte(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        for target in TARGETS:
            client.send(b"GET " + target + b" HTTP/1.1\r\nHost: open.test\r\n\r\n")
            assert client.answer().status == 200, target
        assert [head.split(b" ", 2)[1] for head in origin.heads] == TARGETS


@pytest.mark.req("INL-117", "INL-130")
def test_it_passes_every_method_but_two(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        for method in METHODS:
            client.send(method + b" /x HTTP/1.1\r\nHost: open.test\r\n\r\n")
            assert client.answer().status == 200, method
        client.send(b"OPTIONS * HTTP/1.1\r\nHost: open.test\r\n\r\n")
        assert client.answer().status == 200
        assert [head.split(b" ", 2)[:2] for head in origin.heads] == [
            *([method, b"/x"] for method in METHODS), [b"OPTIONS", b"*"],
        ]  # fmt: skip
    for method in ("TRACE", "CONNECT"):
        with front.connect() as client:
            answer = client.ask(f"{method} /x HTTP/1.1\nHost: open.test")
            assert (answer.status, b'"method_not_allowed"' in answer.body) == (405, True)
    assert len(origin.heads) == len(METHODS) + 1


@pytest.mark.req("INL-118", "INL-128")
def test_it_passes_header_lines_in_their_order_and_spelling(front: Front, origin: Origin) -> None:
    lines = (
        b"aCCept: a", b"HOST: Open.TEST:8123", b"X-a:  two  blanks ", b"Authorization: Basic eA==", b"Range: bytes=0-1",
        b"X-Dup: 1", b"If-None-Match: \"a\"", b"X-Dup: 2", b"X-Empty:", b"Accept-Encoding: br;q=1.0", b"X-Dup: 1",
        b"Sec-Fetch-Mode: navigate", b"Origin: http://x.test", b"Referer: http://x.test/?a", b"X-Bytes: \xff\xe0",
    )  # fmt: skip
    with front.connect() as client:
        client.send(b"GET / HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n")
        assert client.answer().status == 200
    assert tuple(origin.heads[0].split(b"\r\n")[1:-5]) == lines


@pytest.mark.req("INL-119", "INL-120", "INL-122", "INL-124", "INL-234", "INL-126", "INL-042")
def test_it_tells_of_the_visitors_leg_and_of_nothing_he_made_up(front: Front, origin: Origin) -> None:
    forged = [
        "X-Forwarded-Host: evil", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X-Forwarded-For: 6.6.6.6",
        "Forwarded: for=6.6.6.6", "X-Real-IP: 6.6.6.6", "CF-Connecting-IP: 6.6.6.6", "True-Client-IP: 6.6.6.6",
        "CF-Connecting-IPv6: ::6", "CF-Pseudo-IPv4: 6.6.6.6", "X-Client-IP: 6.6.6.6", "X-Cluster-Client-IP: 6.6.6.6",
        "Fastly-Client-IP: 6.6.6.6", "X-Forwarded-Scheme: https", "X-Forwarded-Ssl: on", "X-Forwarded-Server: evil",
        "X-Forwarded-Prefix: /evil", "X-Original-Host: evil", "X-Host: evil", "Proxy-Client-IP: 6.6.6.6",
        "WL-Proxy-Client-IP: 6.6.6.6", "X_Forwarded_For: 6.6.6.6", "X-Forwarded_For: 6.6.6.6", "X_Real_IP: 6.6.6.6",
        "x_original_url: /evil", "X_QM_Edge: evil", "X_QM_Request_Id: evil", "X_Forwarded_Anything: evil",
        "X-QM-Edge: evil", "X-QM-Hop: evil", "X-Plain_Name: kept",
    ]  # fmt: skip
    with front.connect() as client:
        assert client.ask("GET / HTTP/1.1\nHost: open.test:8123\n" + "\n".join(forged)).status == 200
        assert client.ask("GET / HTTP/1.1\nHost: open.test").status == 200
    first, second = (head.split(b"\r\n")[1:] for head in origin.heads)
    assert first[:-1] == [
        b"Host: open.test:8123", b"X-Plain_Name: kept", b"X-Forwarded-Host: open.test:8123", b"X-Forwarded-Proto: http",
        b"X-Forwarded-Port: 8123", b"X-Forwarded-For: 127.0.0.1",
    ]  # fmt: skip
    assert first[-1].startswith(b"X-QM-Hop: ")
    assert b"evil" not in first[-1]
    assert b"X-Forwarded-Port: 80" in second


@pytest.mark.req("INL-127")
def test_it_keeps_hop_by_hop_headers_to_itself(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        answer = client.ask(
            "GET / HTTP/1.1\nHost: open.test\nConnection: keep-alive, X-Mine, cookie, Host\nX-Mine: 1\nCookie: a=1\n"
            "Keep-Alive: 5\nProxy-Connection: x\nProxy-Authenticate: x\nProxy-Authorization: x\nTE: gzip, trailers\n"
            "Trailer: X-T\nUpgrade: h2c\nHTTP2-Settings: x\nX-Kept: 1"
        )
        assert answer.status == 200
        named = "POST / HTTP/1.1\nHost: open.test\nConnection: Content-Length, X-Mine\nContent-Length: 2\nX-Mine: 1"
        assert client.ask(named, b"ab").status == 200
        assert client.ask("GET / HTTP/1.1\nHost: open.test\nTE: gzip").status == 200
    assert origin.heads[0].split(b"\r\n")[1:-5] == [b"Host: open.test", b"Cookie: a=1", b"X-Kept: 1", b"TE: trailers"]
    assert origin.heads[1].split(b"\r\n")[1:-5] == [b"Host: open.test", b"Content-Length: 2"]
    assert origin.heads[2].split(b"\r\n")[1:-5] == [b"Host: open.test"]


@pytest.mark.req("INL-137", "INL-139", "VIS-060")
def test_it_keeps_the_consoles_cookie_and_no_other(front: Front, origin: Origin) -> None:
    sent_and_kept = [
        ("a=1; qm_console=x; qm_shop=y", b"a=1; qm_shop=y"),
        ("qm_console=x", None),
        ("qm_console=x; qm_console=y", None),
        ("Qm_Console=x; xqm_console=1; qm_console2=2", b"Qm_Console=x; xqm_console=1; qm_console2=2"),
        ("qm_console =x;b=2", b"b=2"),
        ("a=1;qm_console=x", b"a=1"),
        ("qm_console=x;  a=1;b=2", b"a=1;b=2"),
        ("a=qm_console=x", b"a=qm_console=x"),
        ("qm_shop=t; qms_shop=s; qm_dk_shop=k", b"qm_shop=t; qms_shop=s; qm_dk_shop=k"),
    ]
    with front.connect() as client:
        for sent, kept in sent_and_kept:
            assert client.ask(f"GET / HTTP/1.1\nHost: open.test\nCookie: {sent}").status == 200
            lines = [line for line in origin.heads[-1].split(b"\r\n") if line.lower().startswith(b"cookie:")]
            assert lines == ([] if kept is None else [b"Cookie: " + kept]), sent
        several = "GET / HTTP/1.1\nHost: open.test\ncookie: qm_console=x\nCookie: b=2; qm_console=y\nCOOKIE: c=3"
        assert client.ask(several).status == 200
    assert [line for line in origin.heads[-1].split(b"\r\n") if line.lower().startswith(b"cookie")] == [
        b"Cookie: b=2", b"COOKIE: c=3",
    ]  # fmt: skip


@pytest.mark.req("INL-042", "CFG-146")
def test_it_knows_its_own_mark_while_the_secret_is_changed() -> None:
    assert Hop.of(["new" * 11], is_behind_edge=False).mark == hkdf(b"new" * 11, b"qm:hop", 32)[:16].hex().encode()
    hop = Hop.of(["new" * 11, "old" * 11], is_behind_edge=False)
    before, foreign = (Hop.of([secret * 11], is_behind_edge=False).mark for secret in ("old", "abc"))
    assert [hop.is_own({HOP_MARK: mark}) for mark in (hop.mark, before, foreign)] == [True, True, False]


@pytest.mark.req("INL-042")
def test_it_stops_a_request_that_comes_out_of_its_own_proxy(front: Front, origin: Origin) -> None:
    with front.connect() as client:
        assert client.ask("GET / HTTP/1.1\nHost: open.test").status == 200
        mark = origin.heads[0].rpartition(b": ")[2].decode()
        answer = client.ask(f"GET / HTTP/1.1\nHost: open.test\nX-QM-Hop: {mark}")
        assert (answer.status, b'"proxy_loop"' in answer.body) == (508, True)
    assert len(origin.heads) == 1
