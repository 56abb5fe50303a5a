"""On which hosts the console answers: the rule as a table, and through real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.domain.hosts import Console, HostPolicy, is_console
from tests.edge.wire import DevServer, Wire

SERVED, WITHHELD, NO_PREFIX = Console.SERVED, Console.WITHHELD, Console.NO_PREFIX
OPEN = HostPolicy()
ADMIN = HostPolicy(["admin.test", "10.0.0.9", "[2001:db8::1]", "ops.test:8443"])
CONSOLE = [
    *("/", "/public/admin.html", "/progress", "/api/admin", "/api/admin/", "/api/admin/rooms", "/api/v1/admin/health"),
    *("/assets/console/abc/main.js", "//", "//api//admin/rooms", "/%61pi/admin/rooms", "/API/admin/rooms"),
    *("/progress/", "/Public/Admin.html", "/api%2fadmin/rooms", "/public//admin.html"),
]
OTHERS = [
    *("/api/check", "/w/shop", "/qm.js", "/healthz", "/events", "/api/version", "/api/administrator", "/progressive"),
    *("/fonts/a.woff2", "/assets/waiting-1.js", "/public/other.html", "/x/api/admin/rooms", "/metrics", "/docs"),
]


@pytest.mark.req("CFG-161")
@pytest.mark.parametrize("path", CONSOLE + OTHERS)
@pytest.mark.parametrize("host", ["a.test", "127.0.0.1:8080", "localhost", "[::1]", ""])
def test_it_serves_everything_on_every_host_while_none_is_named(host: str, path: str) -> None:
    assert OPEN.judge(host, path.encode()) is SERVED


@pytest.mark.req("CFG-163", "CFG-171")
@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("admin.test", SERVED),
        ("admin.test.", SERVED),
        ("admin.test:8080", SERVED),
        ("admin.test.:8080", SERVED),
        ("10.0.0.9", SERVED),
        ("10.0.0.9:1", SERVED),
        ("[2001:db8::1]", SERVED),
        ("[2001:db8::1]:8080", SERVED),
        ("ops.test:8443", SERVED),
        ("ops.test.:8443", SERVED),
        ("ops.test", WITHHELD),
        ("ops.test:8444", WITHHELD),
        ("a.admin.test", WITHHELD),
        ("xadmin.test", WITHHELD),
        ("localhost", WITHHELD),
        ("127.0.0.1:8080", WITHHELD),
        ("public.test", WITHHELD),
        ("shop.test", WITHHELD),
        ("", WITHHELD),
    ],
)
def test_it_serves_the_console_on_the_named_hosts_only(host: str, said: Console) -> None:
    policy = HostPolicy(["admin.test", "10.0.0.9", "[2001:db8::1]", "ops.test:8443"], "https://public.test")

    assert [policy.judge(host, path.encode()) for path in CONSOLE] == [said] * len(CONSOLE)
    assert {policy.judge(host, path.encode()) for path in OTHERS} == {SERVED}


@pytest.mark.parametrize("path", CONSOLE)
@pytest.mark.req("CFG-160")
def test_it_knows_the_console_in_every_spelling(path: str) -> None:
    assert is_console(path.encode())


@pytest.mark.req("VIS-004")
@pytest.mark.parametrize(
    ("path", "is_prefix"),
    [
        ("/__qm", True),
        ("/__qm/", True),
        ("/__qm/api/join", True),
        ("/__qm//", True),
        ("/__QM/api/join", False),
        ("/__qmx", False),
        ("/%5f_qm/api/join", False),
        ("//__qm/api/join", False),
        ("/a/__qm/", False),
        ("/__qm%2fapi", False),
    ],
)
def test_it_matches_the_prefix_byte_for_byte(path: str, is_prefix: bool) -> None:
    assert OPEN.judge("a.test", path.encode()) is (NO_PREFIX if is_prefix else SERVED)
    assert ADMIN.judge("a.test", path.encode()) is (WITHHELD if is_prefix else SERVED)
    assert ADMIN.judge("admin.test", path.encode()) is (WITHHELD if is_prefix else SERVED)


@pytest.fixture(scope="module")
def named() -> Iterator[DevServer]:
    """An app whose console is on one host only."""
    with DevServer(settings={"admin_host": ["admin.test"], "public_url": "https://qm.test"}) as server:
        yield server


def ask(server: DevServer, path: str, host: str, *headers: str, method: str = "GET"):  # type: ignore[no-untyped-def]
    with Wire(server.port) as wire:
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n" + "".join(f"{each}\r\n" for each in headers)
        return wire.send(head.encode() + b"\r\n").answer(head_only=method == "HEAD")


@pytest.mark.req("CFG-160", "CFG-163", "CFG-170")
@pytest.mark.parametrize("path", ["/", "/progress", "/api/admin/blocks", "/api/admin/nothing", "/public/admin.html"])
@pytest.mark.parametrize("headers", [(), ("Sec-Fetch-Mode: navigate",), ("Accept: text/html",)])
def test_it_says_nothing_where_the_console_is_withheld(named: DevServer, path: str, headers: tuple[str, ...]) -> None:
    for host in ("qm.test", "127.0.0.1", "localhost", "shop.test"):
        answer = ask(named, path, host, *headers)

        assert (answer.status, answer.body, answer.headers["content-length"]) == (404, b"", "0")
        assert b"queue" not in answer.head.lower()
        assert b"admin" not in answer.head.lower()
    for method in ("POST", "DELETE", "HEAD", "OPTIONS"):
        assert ask(named, path, "qm.test", method=method).headers["content-length"] == "0"
    served = path not in ("/api/admin/nothing", "/public/admin.html")
    assert ask(named, path, "ADMIN.test.:8080").status == (200 if served else 404)


@pytest.mark.req("CFG-165", "VIS-009")
@pytest.mark.parametrize("path", ["/api/check", "/healthz", "/api/version", "/stock"])
def test_it_lacks_only_the_console_elsewhere(named: DevServer, dev: DevServer, path: str) -> None:
    assert ask(named, path, "qm.test").status == 200
    assert ask(dev, path, "any.test").status == 200


@pytest.mark.req("VIS-009")
@pytest.mark.parametrize("any_inline", [False, True])
def test_it_serves_tag_and_waiting_page_on_every_host(any_inline: bool) -> None:
    for path in (
        *("/qm.js", "/w/shop", "/w/shop/plain", "/healthz", "/events", "/api/version", "/api/v1/check"),
        *(f"/api/{name}" for name in ("join", "status", "check", "leave", "notify", "verify")),
    ):
        for policy in (OPEN, ADMIN):
            for host in ("customers.test", "127.0.0.1:8080"):
                assert policy.judge(host, path.encode(), any_inline=any_inline) is SERVED, path


@pytest.mark.req("VIS-008")
def test_it_tells_that_no_room_is_proxied_here(named: DevServer, dev: DevServer) -> None:
    for path in ("/__qm/api/join", "/__qm", "/__qm/", "/__qm/healthz"):
        answer = ask(dev, path, "shop.test")
        assert (answer.status, answer.code) == (404, "not_inline_host")
        assert "http" not in answer.fields["error"]
        assert ask(named, path, "admin.test").body == b""
    with DevServer(settings={"public_url": "https://qm.test"}) as told:
        assert "https://qm.test/" in ask(told, "/__qm/", "shop.test").fields["error"]
