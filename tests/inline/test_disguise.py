"""The gate is not passed by spelling: whatever reaches an app ungated is a media file to that app too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from app.domain.inline.requests import MEDIA, is_media_pattern, names_media
from tests.inline.conftest import Front
from tests.inline.origin import Origin
from tests.inline.people import Visitor
from tests.inline.readers import nginx, node, site, wsgi

SPEC = Path(__file__).parents[2] / "docs/spec/04-inline-proxy.md"
PLAIN = [
    "/x.js", "/X.JS", "/a/b/c.CsS", "/x.js?a=/checkout", "/a-b_c~d.woff2", "/x.min.js", "/a.php.js", "/v1.2/x.mjs",
    "/@scope/x.css", "/a=b/x.png", "/a,b/x.svg", "/(x)/x.ico", "/a:b/x.mp4", "/x.map", "/a!/x.avif",
]  # fmt: skip
GATED = [
    # other extensions, and none
    "/", "/x", "/x.json", "/x.txt", "/x.xml", "/x.wasm", "/x.pdf", "/x.html", "/x.m3u8", "/x.jsx", "/x.js/", "/x.js.",
    "/x.js~", "/js", "/.", "/x.", "/x.js/y", "/x.jpgx",
    # parameters
    "/checkout;.js", "/checkout;x.js", "/;/x.js", "/a;b/x.js", "/x.js;a=b", "/checkout;a/x.js", "/checkout;/x.js",
    # escapes
    "/checkout%3b.js", "/checkout%3B.js", "/checkout%2f..%2fx.js", "/x%2ejs", "/%2e%2e/x.js", "/%2e/x.js", "/x%20y.js",
    "/checkout%00.js", "/checkout%0a.js", "/checkout%23.js", "/checkout%3f.js", "/checkout%5c..%5cx.js",
    "/%63heckout/x.js%", "/checkout%252f.js", "/x.j%73", "/%zz.js", "/x.js%00", "/checkout%2f.js",
    "/checkout%c0%af.js", "/%c0%ae%c0%ae/x.js", "/checkout%e0%80%af.js", "/checkout%u002f.js",
    # dot segments and slashes
    "/../x.js", "/a/../x.js", "/./x.js", "/a/./x.js", "/a/..", "//x.js", "/a//x.js", "///x.js", "/checkout/.././x.js",
    "/checkout//x.js", "/.../x.js/..", "/a./x.js", "/a../x.js", "/..;/x.js", "/a/..;/x.js",
    # backslashes
    "/checkout\\x.js", "/\\x.js", "/checkout\\..\\x.js", "/checkout/..\\x.js", "\\x.js".join(("/", "")),
    # what readers of URLs rewrite
    '/checkout".js', "/checkout<.js", "/checkout>.js", "/checkout`.js", "/checkout{.js", "/checkout}.js",
    "/checkout|.js", "/checkout^.js", "/caf\xe9.js", "/\xe0\xb8\x81.js", "/checkout[.js", "/checkout].js",
    # scripts before the end
    "/index.php/checkout/x.js", "/INDEX.PHP/x.js", "/a.phtml/x.js", "/a.asp/x.js", "/a.aspx/x.js", "/a.ashx/x.js",
    "/a.jsp/x.js", "/a.jspx/x.js", "/a.do/x.js", "/a.cgi/x.js", "/a.pl/x.js", "/a.cfm/x.js", "/x/a.php/b/c.css",
    # too long to be true, and case
    "/checkout/" + "a" * 3000 + "/..%2f.js", "/checkout.JS%20", "/CHECKOUT;.JS",
]  # fmt: skip
DEVIATIONS = [
    {"Sec-Fetch-Dest": "document"}, {"Sec-Fetch-Dest": "iframe"}, {"Sec-Fetch-Dest": "object"},
    {"Sec-Fetch-Dest": "embed"}, {"Sec-Fetch-Dest": "frame"}, {"Upgrade": "websocket", "Connection": "Upgrade"},
    {"X-Original-URL": "/checkout"}, {"X-Rewrite-URL": "/checkout"}, {"X-Original-URI": "/checkout"},
    {"X-Forwarded-URI": "/checkout"}, {"X-Forwarded-Path": "/checkout"}, {"X-Request-URI": "/checkout"},
    {"X-Envoy-Original-Path": "/checkout"}, {"X-HTTP-Method-Override": "POST"}, {"X-HTTP-Method": "POST"},
    {"X-Method-Override": "POST"}, {"X_Original_URL": "/checkout"}, {"x_http_method_override": "POST"},
]  # fmt: skip


BOTH_WAYS = (b"", b"\r\n")
"""Without a task and, after a line end, by the connection's task."""
METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS", "PROPFIND")
FETCHES = (
    {}, {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none", "Accept": "text/html"},
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"},
)  # fmt: skip
WAYS = tuple(itertools.product(METHODS[:3], FETCHES))
CHECKOUTS = [
    "/checkout", "/checkout/", "/checkout?x", "/%63heckout", "/checkou%74/x", "//checkout", "/./checkout",
    "/a/../checkout", "/a/%2e%2e/checkout", "/a/..%2fcheckout", "/checkout;a=b", "/checkout%3bx", "/\\checkout",
    "/a\\..\\checkout", "/%2fcheckout", "/CHECKOUT", "/checkout.", "/checkout%20", "/checkout%00", "/.//checkout",
    "/a;/../checkout", "/%2563heckout", "/checkout#x", "/checkout%09", "/%c0%ae%c0%ae/checkout",
    "/a/..%c0%afcheckout", "/%e0%80%afcheckout", "/check%00out", "/%252563heckout", "/checkout/..;/checkout",
    "/%5c../checkout", "/Checkout%2F",
]  # fmt: skip


@pytest.fixture(scope="module")
def doors(the_front: Front, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Visitor]]:
    """A visitor without a ticket in front of each app, whose rooms let nobody in."""
    with (
        node() as bare,
        site("express") as express,
        wsgi() as python,
        nginx(tmp_path_factory.mktemp("nginx")) as engine,
    ):
        made = []
        for room, origin in (("noded", bare), ("expressed", express), ("wsgied", python), ("nginxed", engine)):
            the_front.room(room, rate=0, proxyOrigin=origin)
            made.append(Visitor(the_front, room))
        yield made
        for visitor in made:
            visitor.close()


def took(answer) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """Path and method as the app took them."""
    raw = answer.header("x-took-raw")
    if raw is not None:
        path, _, method = raw.rpartition(" ")
        return path, method
    path, _, method = (answer.header("x-took") or "").partition(" ")
    return unquote(path, "latin-1"), method


def is_a_file(path: str) -> bool:
    """A media file to every reader, below nothing that runs."""
    is_media = path.rpartition(".")[2].lower().encode() in MEDIA
    return is_media and ";" not in path and re.search(r"\.(php|jsp|asp|cgi)/|checkout", path, re.IGNORECASE) is None


@pytest.mark.req("INL-091")
def test_it_knows_the_media_files_that_the_contract_names_and_no_others() -> None:
    text = SPEC.read_text("utf-8").partition("- **INL-091**")[2].partition("Case does not matter")[0]
    assert set(" ".join(re.findall(r"`([^`]+)`", text)).encode().split()) == MEDIA
    assert len(MEDIA) == 33
    for ending in (b"json", b"txt", b"xml", b"wasm", b"pdf", b"html", b"m3u8", b"js2", b"", b"webmanifest"):
        assert not names_media("GET", b"/x." + ending)
    for ending in MEDIA:
        for method in ("GET", "HEAD"):
            assert names_media(method, b"/x." + ending)
            assert names_media(method, b"/x." + ending.upper())
        assert not names_media("POST", b"/x." + ending)


@pytest.mark.req("INL-239")
def test_it_knows_a_rule_that_names_media_files_by_its_ending() -> None:
    named = ("/api/*.js", "/reports/*.CSS", "/api/*.js?v=*", "/x.map")
    unnamed = ("/checkout*", "/api/*.json", "/api/js", "/x?file=a.js", "*")
    assert [is_media_pattern(each) for each in (*named, *unnamed)] == [True] * len(named) + [False] * len(unnamed)


@pytest.mark.req("INL-088", "INL-089", "INL-090", "INL-091", "INL-092", "INL-094", "INL-098")
def test_it_lets_plain_media_files_pass_and_nothing_that_only_looks_like_one(doors: list[Visitor]) -> None:
    assert len(PLAIN) + len(GATED) > 100
    for visitor, way in zip(doors, itertools.cycle(BOTH_WAYS), strict=False):
        visitor.before = way
        for target in PLAIN:
            answer = visitor.ask("GET", target)
            assert answer.status == 200, (visitor.room, target)
            assert is_a_file(took(answer)[0]), (visitor.room, target, took(answer))
            assert visitor.ask("HEAD", target).status == 200
        for target in GATED:
            for method in ("GET", "HEAD"):
                answer = visitor.ask(method, target)
                assert (answer.status, answer.header("x-qm-queued")) == (503, "1"), (visitor.room, method, target)


@pytest.mark.req("INL-090", "INL-095", "INL-054")
def test_it_gates_every_other_method_and_path(doors: list[Visitor]) -> None:
    for visitor in doors:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get", "PROPFIND"):
            assert visitor.ask(method, "/x.js").status == 503, method
        for target in (
            "/api/checkout",
            "/api/stock",
            "/feed.json",
            "/healthz",
            "/__QM/api/join",
            "/__qmx",
            "/%5F%5Fqm/",
        ):
            assert visitor.ask("GET", target).status == 503, target
        assert visitor.ask("OPTIONS", "*").status == 503


@pytest.mark.req("INL-093", "INL-148", "INL-233")
def test_it_gates_a_media_file_that_is_shown_as_a_page_or_taken_for_another(doors: list[Visitor]) -> None:
    for visitor, way in zip(doors, itertools.cycle(BOTH_WAYS), strict=False):
        visitor.before = way
        for headers in DEVIATIONS:
            answer = visitor.ask("GET", "/x.js", **headers)
            assert (answer.status, answer.header("x-qm-queued")) == (503, "1"), headers
        for dest in ("script", "image", "empty", ""):
            assert visitor.ask("GET", "/x.js", **{"Sec-Fetch-Dest": dest}).status == 200


@pytest.mark.req("INL-233")
def test_it_lets_no_override_out_of_the_rules(front: Front, origin: Origin) -> None:
    front.room("ruled", rate=0, rules=[{"action": "protect", "pattern": "/checkout*"}])
    visitor, waiting = Visitor(front, "ruled"), Visitor(front, "ruled", agent="W/1")
    waiting.join()
    for each in (visitor, waiting):
        assert each.ask("GET", "/free").status == 200
        for headers in DEVIATIONS[6:]:
            for way in (*BOTH_WAYS, b"", b""):  # whose token was read before is asked about by a shorter way
                each.before = way
                answer = each.ask("GET", "/free", **headers)
                assert (answer.status, answer.header("x-qm-queued")) == (503, "1"), headers
    waiting.close()
    front.room("ruled", state="bypass")
    assert visitor.ask("GET", "/free", **{"X-Original-URL": "/checkout", "X_Original_URL": "/x"}).status == 200
    lines = origin.heads[-1].split(b"\r\n")
    assert b"X-Original-URL: /checkout" in lines
    assert not any(line.startswith(b"X_Original") for line in lines)
    visitor.close()


@pytest.mark.req("INL-089", "INL-090", "INL-093", "INL-094")
@pytest.mark.parametrize("apps", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_it_decides_by_path_method_and_destination_what_the_app_will_take(doors: list[Visitor], apps: int) -> None:
    """Every path by every method from everywhere; ``apps``: of how many apps each of these is asked."""
    asked = itertools.product(PLAIN + GATED, METHODS, FETCHES)
    for number, (target, method, fetch) in enumerate(asked):
        is_free = target in PLAIN and method in ("GET", "HEAD") and fetch.get("Sec-Fetch-Mode") != "navigate"
        for door in range(number, number + apps):
            visitor = doors[door % len(doors)]
            visitor.before = BOTH_WAYS[number // len(doors) % 2]
            answer = visitor.ask(method, target, **fetch)
            if is_free:
                assert (answer.status, *took(answer)) == (200, target.partition("?")[0], method), visitor.room
            else:
                decided = (answer.status, answer.header("x-qm-queued"))
                assert decided == (503, "1"), (visitor.room, method, target, fetch)


@pytest.mark.req("INL-092", "INL-047")
@pytest.mark.parametrize("combinations", [1, pytest.param(len(WAYS), marks=pytest.mark.slow)])
def test_it_covers_a_protected_page_however_it_is_spelled(
    front: Front, doors: list[Visitor], combinations: int
) -> None:
    """Where only /checkout is protected, no spelling of it reaches an app that takes it for /checkout.

    ``combinations``: of how many methods and destinations each spelling comes at each app.
    """
    ways = itertools.cycle(WAYS)
    for visitor in doors:
        front.admin("POST", "rooms", {"id": visitor.room, "rules": [{"action": "protect", "pattern": "/checkout*"}]})
        assert visitor.ask("GET", "/else").status == 200
        assert visitor.ask("GET", "/checkout").status == 503
        reached = 0
        for target in CHECKOUTS + GATED:
            for method, fetch in itertools.islice(ways, combinations):
                visitor.before = BOTH_WAYS[reached % 2]
                answer = visitor.ask(method, target, **fetch)
                reached += answer.status == 200
                path = took(answer)[0].lower() if answer.status == 200 else ""
                assert not path.startswith(("/checkout", "//checkout")), (visitor.room, method, target, path)
        assert reached > 20, "it is not shut for everything"
        front.admin("POST", "rooms", {"id": visitor.room, "rules": []})
