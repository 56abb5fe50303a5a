"""One decision per request: page or call, queued, admitted at the same URL, sent back when it is over."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.errors import NoRoom, QmError
from app.domain.inline.forwarding import Added, answer_head
from app.domain.inline.hosts import index_of
from app.domain.keyring import Keyring
from app.domain.tokens import VisitorTokens
from app.services.check import BackendDown, CommitsFail
from app.services.inline_counts import InlineCounts
from app.services.inline_gate import Closed, Forward, InlineGate
from tests.harness import wait_for
from tests.inline.conftest import Front
from tests.inline.origin import Origin, saying
from tests.inline.people import Visitor
from tests.inline.test_reader import read
from tests.inline.test_saves import room


@pytest.fixture
def visitor(front: Front) -> Iterator[Visitor]:
    """Of room ``fast``, which lets everybody in at once."""
    origins = {"tagOrigins": ["https://tag.test"], "returnOrigins": ["https://back.test"]}
    front.room("fast", rate=6000, queueMaxPerIp=None, **origins)
    made = Visitor(front, "fast")
    yield made
    made.close()


@pytest.mark.req("INL-099", "INL-100", "INL-101", "INL-102", "INL-103", "INL-104", "INL-106")
@pytest.mark.parametrize(("headers", "is_page"), [
    ({"Sec-Fetch-Mode": "navigate"}, True),
    ({"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "empty"}, True),
    ({"Sec-Fetch-Dest": "document"}, True),
    ({"Sec-Fetch-Dest": "iframe", "Accept": "*/*"}, True),
    ({"Sec-Fetch-Dest": "object"}, True),
    ({"Sec-Fetch-Dest": "embed"}, True),
    ({"Sec-Fetch-Dest": "frame"}, True),
    ({"Accept": "text/html"}, True),
    ({"Accept": "application/xhtml+xml, TEXT/HTML;q=0.9"}, True),
    ({"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}, True),
    ({"Accept": "text/html", "Sec-Fetch-Mode": "cors"}, False),
    ({"Accept": "text/html", "Sec-Fetch-Mode": "same-origin"}, False),
    ({"Accept": "text/html", "Sec-Fetch-Mode": "no-cors"}, False),
    ({"Accept": "text/html", "Sec-Fetch-Dest": "image"}, False),
    ({"Accept": "*/*"}, False),
    ({}, False),
])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_it_tells_a_page_from_a_call(front: Front, method: str, headers: dict[str, str], is_page: bool) -> None:
    with front.connect() as client:
        lines = "\n".join(f"{name}: {value}" for name, value in headers.items())
        answer = client.ask(f"{method} /where?i=was HTTP/1.1\nHost: shut.test\n{lines}")

    assert answer.status == 503
    assert answer.header("x-qm-queued") == "1"
    if is_page:
        assert answer.header("content-type") == "text/html; charset=utf-8"
        assert b'data-room="shut"' in answer.body
        assert (b'data-inline="get"' in answer.body) is (method == "GET")
    else:
        assert (answer.header("content-type") or "").startswith("application/json")
        said = json.loads(answer.body)
        assert said.pop("error")
        assert said == {"code": "queued", "roomId": "shut", "reason": "new", "reload": True}


@pytest.mark.req("INL-107", "INL-108", "INL-111", "INL-113", "INL-237")
def test_it_marks_a_queued_answer_so_that_nobody_keeps_it(front: Front) -> None:
    visitor = Visitor(front, "shut")
    conditional = {"If-None-Match": "*", "If-Modified-Since": "Wed, 21 Oct 2099 07:28:00 GMT"}
    page, call = visitor.page(**conditional), visitor.call(**conditional)
    bare = visitor.ask("HEAD", "/", Accept="text/html")

    for answer, retry in ((page, "30"), (call, "5"), (bare, "30")):
        assert (answer.status, answer.header("cache-control"), answer.header("retry-after")) == (503, "no-store", retry)
        assert answer.header("etag") is None
        assert answer.header("access-control-expose-headers") == "X-QM-Queued, X-QM-Origin, Retry-After"
        assert answer.header("strict-transport-security") is None
        assert answer.header("clear-site-data") is None
    assert (bare.body, bare.header("content-length")) == (b"", str(len(page.body)))
    assert "frame-ancestors" in (page.header("content-security-policy") or "")
    assert page.header("x-content-type-options") == "nosniff"
    visitor.close()


@pytest.mark.req("INL-108")
@pytest.mark.parametrize(("origin", "is_allowed"), [
    ("http://fast.test", True), ("https://tag.test", True), ("https://back.test", True), ("https://evil.test", False),
    ("null", False),
])  # fmt: skip
def test_it_lets_pages_of_the_rooms_own_origins_read_the_refusal(
    visitor: Visitor, origin: str, is_allowed: bool
) -> None:
    answer = visitor.call(Origin=origin)

    assert answer.header("access-control-allow-origin") == (origin if is_allowed else None)
    assert answer.header("access-control-allow-credentials") == ("true" if is_allowed else None)
    assert answer.header("vary") == ("Origin" if is_allowed else None)


@pytest.mark.req("INL-077", "INL-080", "INL-082", "INL-083", "INL-211", "INL-213", "INL-214", "INL-057")
@pytest.mark.req("VIS-050", "VIS-052", "VIS-059")
def test_it_lets_a_visitor_in_at_the_url_that_he_asked_for(front: Front, origin: Origin, visitor: Visitor) -> None:
    origin.script = saying(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: app=1\r\nCache-Control: max-age=9\r\nContent-Length: 3\r\n\r\napp"
    )
    refused = visitor.page("/deep?x=1")
    assert (refused.status, visitor.jar, origin.heads) == (503, {}, [])
    joined = visitor.join()
    assert joined["token"]
    assert set(visitor.jar) == {"qm_fast", "qms_fast"}
    state = visitor.wait_for_turn()
    assert joined["token"] not in state["location"]
    assert "qm_token" not in state["location"]

    admitted = visitor.page("/deep?x=1")

    assert (admitted.status, admitted.body) == (200, b"app")
    app_cookie, door = admitted.values("set-cookie")
    assert app_cookie == "app=1"
    assert door.startswith("qm_dk_fast=")
    assert door.endswith("; Path=/; Max-Age=14400; HttpOnly; SameSite=Lax")
    assert admitted.values("cache-control") == ["private, no-cache"]  # INL-140
    again = visitor.call()
    assert (again.status, again.values("set-cookie"), again.values("cache-control")) == (200, ["app=1"], ["max-age=9"])
    cookies = next(line for line in origin.heads[-1].split(b"\r\n") if line.startswith(b"Cookie: "))
    assert b"qm_fast=" in cookies


@pytest.mark.req("VIS-050")
def test_it_signs_a_token_that_grew_old_anew_beside_the_answer_of_the_app(front: Front, visitor: Visitor) -> None:
    ticket = visitor.join()["ticket"]
    visitor.enter()
    generation = front.admin("GET", "rooms/fast")[1]["room"]["generation"]
    tokens = VisitorTokens(Keyring(front.server.env["SECRET"]), max_age_sec=86_400, cookie_max_age_sec=86_400)
    old = visitor.jar["qm_fast"] = tokens.sign("fast", generation, ticket, int(time.time() - 43_300) * 1000)

    answer = visitor.call()

    assert (answer.status, answer.body) == (200, b"ok")
    cookies = {value.partition("=")[0]: value for value in answer.values("set-cookie")}
    assert cookies.keys() == {"qm_fast", "qms_fast"}
    assert all(value.endswith("; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax") for value in cookies.values())
    assert visitor.jar["qm_fast"] != old
    assert visitor.call().status == 200


@pytest.mark.req("INL-140")
@pytest.mark.parametrize(("sent", "kept"), [
    ([b"private, max-age=60"], None), ([b"No-Store"], None), ([b"max-age=60", b"PRIVATE"], None),
    ([], [b"private, no-cache"]), ([b"public, max-age=60", b"s-maxage=9"], [b"private, no-cache"]),
    ([b'private="x-a", max-age=60'], [b"private, no-cache"]), ([b"max-age=9, x-private"], [b"private, no-cache"]),
])  # fmt: skip
@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_it_lets_no_cdn_keep_an_answer_that_brings_a_cookie_of_the_queue(
    sent: list[bytes], kept: list[bytes] | None, status: int
) -> None:
    """Nor be told to by a line that is for CDNs alone; what the app has closed to them stays as it is."""
    cdn = (b"CDN-Cache-Control", b"cloudflare-cdn-cache-control", b"Surrogate-Control", b"Edge-Control",
           b"X-Accel-Expires")  # fmt: skip
    lines = [b"Cache-Control: " + value for value in sent]
    others = [b"ETag: x", b"X-Cache-Control-Of: mine"]
    raw = [b"HTTP/1.1 %d Odd" % status, *lines, *(name + b": max-age=600" for name in cdn), *others]

    def shown(*cookies: bytes) -> list[bytes]:
        heard = read(b"\r\n".join([*raw, b"Content-Length: 0", b"", b""]))
        made = answer_head(heard.heads[0], Added(cookies), is_chunked=False, connection=b"")
        return made.split(b"\r\n")[1:-2]

    ours = [line for line in shown(b"qm_dk_a=b") if not line.startswith((b"Content-", b"X-QM-Origin"))]
    expected = lines if kept is None else [b"Cache-Control: " + value for value in kept]
    assert sorted(ours) == sorted([*expected, *others, b"Set-Cookie: qm_dk_a=b"])
    assert [line for line in shown() if not line.startswith((b"Content-", b"X-QM-Origin"))] == raw[1:]


@pytest.mark.req("INL-076")
def test_it_reads_no_credential_from_the_url(front: Front, origin: Origin, visitor: Visitor) -> None:
    visitor.wait_for_turn()
    token = visitor.jar["qm_fast"]
    stranger = Visitor(front, "fast", agent="Other/1.0")
    assert stranger.page(f"/?qm_token={token}").status == 503
    visitor.page()
    assert visitor.page("/?qm_token=anything").status == 200
    assert origin.heads[-1].startswith(b"GET /?qm_token=anything HTTP/1.1")
    stranger.close()


@pytest.mark.req("INL-105", "INL-109", "INL-173")
def test_it_says_why_somebody_is_back_in_line(front: Front, origin: Origin, visitor: Visitor) -> None:
    visitor.enter()
    ticket = front.admin("POST", "rooms/fast/eject", {"ref": visitor.api("status?room=fast")["ref"]})
    assert ticket[0] == 200, ticket

    call, page = visitor.call(method="POST"), visitor.page()

    assert (call.status, json.loads(call.body)["reason"], call.header("x-qm-queued")) == (503, "ejected", "1")
    assert (page.status, page.header("x-qm-queued")) == (503, "1")
    assert visitor.join()["reason"] == "ejected"


@pytest.mark.req("INL-105")
def test_it_names_the_reason_of_other_browsers_and_forged_tokens(front: Front, visitor: Visitor) -> None:
    visitor.enter()
    thief = Visitor(front, "fast", agent="Thief/1.0")
    thief.jar["qm_fast"] = visitor.jar["qm_fast"]
    assert json.loads(thief.call().body)["reason"] in ("session_elsewhere", "bad_token")
    thief.jar["qm_fast"] = "forged"
    assert json.loads(thief.call().body)["reason"] == "bad_token"
    thief.close()


@pytest.mark.req("INL-077")
def test_it_forwards_sessions_and_passes_of_a_paused_room(front: Front, origin: Origin) -> None:
    front.room("stops", rate=6000, queueMaxPerIp=None)
    inside, passed, late = (Visitor(front, "stops", agent=f"B/{n}") for n in range(3))
    inside.enter()
    passed.wait_for_turn()
    front.room("stops", state="paused")

    assert inside.page().status == 200
    assert passed.page().status == 200
    assert json.loads(late.call().body)["reason"] == "new"
    for each in (inside, passed, late):
        each.close()


@pytest.mark.req("INL-208")
def test_it_admits_by_head_as_by_get(front: Front, origin: Origin, visitor: Visitor) -> None:
    visitor.wait_for_turn()
    answer = visitor.ask("HEAD", "/", Accept="text/html")
    assert answer.status == 200
    assert "qm_dk_fast" in visitor.jar
    assert origin.heads[0].startswith(b"HEAD / ")


@pytest.mark.req("INL-047", "INL-048", "INL-049")
def test_it_chooses_the_room_by_the_rules_of_each(front: Front, origin: Origin) -> None:
    shared = {"targetUrl": "http://many.test/", "rate": 0}
    front.room("whole", **shared, rules=[{"action": "skip", "pattern": "/free*"}])
    front.room("checkout", **shared, rules=[{"action": "protect", "pattern": "/checkout*"}])
    front.room(
        "cart",
        **shared,
        rules=[{"action": "protect", "pattern": "/cart*"}, {"action": "protect", "pattern": "/checkout*"}],
    )
    visitor = Visitor(front, "whole", host="many.test")

    def room_of(target: str) -> str | None:
        answer = visitor.call(target)
        return json.loads(answer.body)["roomId"] if answer.status == 503 else None

    assert [room_of(t) for t in ("/", "/checkout/1", "/cart", "/free", "/free/x?y", "/%63heckout")] == [
        "whole", "checkout", "cart", None, None, "checkout",
    ]  # fmt: skip
    assert len(origin.heads) == 2
    for target in ("/cart", "/free", "/checkout/1"):  # the first room stands for a path that nobody can be sure of
        for _ in range(3):
            odd = visitor.call(target, **{"X-Original-URL": "/free"})
            assert (odd.status, json.loads(odd.body)["roomId"]) == (503, "whole")
    front.room(
        "cart",
        **shared,
        rules=[{"action": "protect", "pattern": "/cart*"}, {"action": "protect", "pattern": "/c/*.js"}],
    )
    assert [visitor.call(target).status for target in ("/c/a.js", "/a.js")] == [503, 200], "by whatever room's rule"
    visitor.close()


@pytest.mark.req("INL-049", "INL-079")
def test_it_slides_a_session_by_pages_that_no_room_covers(front: Front, origin: Origin) -> None:
    shared = {"targetUrl": "http://parts.test/", "rate": 0, "queueMaxPerIp": None}
    front.room("part1", **shared, rules=[{"action": "protect", "pattern": "/one*"}])
    front.room("part2", **{**shared, "rate": 6000}, rules=[{"action": "protect", "pattern": "/two*"}])
    visitor = Visitor(front, "part2", host="parts.test")
    visitor.wait_for_turn()
    assert visitor.page("/two").status == 200

    def ends_at() -> int:
        return int(visitor.api("status?room=part2")["sessionExpiresAt"])

    before, gated = ends_at(), front.admin("GET", "health")[1]["inline"]["gatedTotal"]
    time.sleep(0.25)  # the engine counts in tenths
    for _ in range(3):
        assert visitor.call("/three").status == 200
    assert ends_at() > before
    wait_for(lambda: front.admin("GET", "health")[1]["inline"]["gatedTotal"] == gated + 3)
    assert [visitor.call(target).status for target in ("/one", "/two")] == [503, 200]
    visitor.close()


@pytest.mark.req("INL-187", "INL-188", "INL-189", "INL-191")
@pytest.mark.parametrize(("error", "choice", "code"), [
    (NoRoom(), "closed", "storage_unavailable"), (NoRoom(), "open", "storage_unavailable"),
    (BackendDown(), "closed", "storage_unavailable"), (BackendDown(), "open", None),
    (CommitsFail(), "closed", "storage_unavailable"), (CommitsFail(), "open", "storage_unavailable"),
])  # fmt: skip
async def test_it_answers_for_its_own_host_whatever_became_of_the_room(
    error: QmError, choice: str, code: str | None
) -> None:
    """Deleted a moment ago, so that the index has not followed, it is no reason for a 404 (INL-191)."""
    made = room("shop", origin="http://203.0.114.7")
    made = replace(made, config=replace(made.config, on_backend_down=choice))
    (host,) = index_of([made]).hosts.values()

    async def asked(*_: object, **__: object) -> None:
        raise error

    known = SimpleNamespace(id="shop", room=made)
    gate = InlineGate(
        directory=cast(Any, None), rooms=cast(Any, SimpleNamespace(peek={"shop": known}.get)),
        check=cast(Any, SimpleNamespace(gate=asked)), counts=InlineCounts(Counter(), None), limiter=cast(Any, None),
        undeclared=cast(Any, SimpleNamespace(is_marked=lambda _: False)),
    )  # fmt: skip

    decided = await gate.decide(host, cast(Any, None), "http://shop.test/", cast(Any, lambda _: None))

    if isinstance(decided, Forward):
        assert (decided, code) == (Forward("shop"), None)
    else:
        assert isinstance(decided, Closed)
        assert (decided.room_id, decided.error.status, decided.error.code) == ("shop", 503, code)


@pytest.mark.req("INL-173", "INL-220")
def test_it_costs_nobody_his_place_when_the_site_fails(front: Front, origin: Origin, visitor: Visitor) -> None:
    visitor.wait_for_turn()
    origin.script = saying(b"", close=True)
    failed = visitor.page()
    assert (failed.status, [cookie.partition("=")[0] for cookie in failed.values("set-cookie")]) == (
        502,
        ["qm_dk_fast"],
    )
    assert visitor.page().values("set-cookie") == []
    assert visitor.page("/x.js").values("set-cookie") == []

    origin.script = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert visitor.page().status == 200
