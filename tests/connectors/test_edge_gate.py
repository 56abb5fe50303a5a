"""What the Cloudflare edge gate does with each answer of the queue."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from app.services.connector_files import ConnectorFiles
from blueprints.edge.inline.answers import SENTENCES
from tests.connectors.edge import CALL, KEY, PASS, QUEUE, WEBSOCKET, Edge, cookies_of
from tests.harness import wait_for

MARK = "x-qm-failover"


def query_of(check: dict[str, Any]) -> dict[str, str]:
    """Parameters of a check, each of which came once."""
    named = parse_qs(urlsplit(check["url"]).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in named.values())
    return {name: values[0] for name, values in named.items()}


@pytest.mark.req("PAG-050", "PAG-051", "PAG-067", "PAG-068")
def test_it_asks_for_the_visitor_and_never_by_a_cache(edge: Edge) -> None:
    edge.ask(
        "/checkout?a=1&b=%20", ip="2001:db8::7", cookies={"x": "1", "qm_shop": "to.ken-_~", "qm_dk_shop": "k" * 43}
    )

    (check,) = edge.take()["checks"]
    assert (check["method"], urlsplit(check["url"]).path) == ("GET", "/api/check")
    assert query_of(check) == {
        "room": "shop", "ip": "2001:db8::7", "agent": "Browser/1.0", "url": "https://shop.example/checkout?a=1&b=%20",
        "token": "to.ken-_~",
    }  # fmt: skip
    assert check["headers"]["authorization"] == f"Bearer {KEY}"
    assert KEY not in check["url"]
    assert check["headers"]["x-qm-door-key"] == "k" * 43
    assert "cookie" not in check["headers"]
    source = edge_source()
    assert 'cacheTtlByStatus: { "100-599": -1 }' in source
    assert "cf: never" in source


def edge_source() -> str:
    found = ConnectorFiles().get("cloudflare", "latest.js")
    assert found is not None
    return found.body.decode()


@pytest.mark.req("PAG-055", "PAG-054")
@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/checkout?x=%2F&y=a+b", "GET", None, 200),
        ("/missing", "GET", CALL, 404),
        ("/moved", "GET", None, 302),
        ("/same", "GET", {**CALL, "if-none-match": '"x"'}, 304),
        ("/style.css", "GET", CALL, 200),
        ("/order", "POST", {**CALL, "content-type": "application/json", "x-own": "1"}, 200),
        ("/checkout", "HEAD", None, 200),
        ("/checkout", "OPTIONS", CALL, 200),
    ],
)
def test_a_pass_leaves_request_and_answer_as_they_are(
    edge: Edge, path: str, method: str, headers: dict[str, str] | None, status: int
) -> None:
    content = b'{"n":1}' * 10_000 if method == "POST" else None
    answer = edge.ask(path, method, headers=headers, content=content, cookies={"a": "b", "qm_shop": "t.t"})

    seen = edge.take()
    (came,) = seen["site"]
    assert (came["method"], came["url"], came["body"]) == (method, path, (content or b"").decode())
    assert came["headers"]["cookie"] == "a=b; qm_shop=t.t"
    assert {name: came["headers"].get(name) for name in headers or {}} == (headers or {})
    assert len(seen["checks"]) == 1, "the queue is asked about every request that the route matches"
    assert answer.status_code == status
    assert MARK not in answer.headers
    if status in (200, 404):
        assert answer.headers["x-site"] == "yes"
        assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
        assert answer.text == ("" if method == "HEAD" else "the site")
    if status == 302:
        assert answer.headers["location"] == "/elsewhere"


@pytest.mark.req("PAG-056", "PAG-054")
@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", None),
        ("POST", None),
        ("GET", {"accept": "text/html,*/*"}),
        ("GET", {"sec-fetch-dest": "iframe", "sec-fetch-mode": "no-cors"}),
    ],
)
def test_a_page_request_is_sent_to_the_waiting_page(edge: Edge, method: str, headers: dict[str, str] | None) -> None:
    edge.says(QUEUE)

    answer = edge.ask(method=method, headers=headers, content=b"x" if method == "POST" else None)

    assert (answer.status_code, answer.headers["location"]) == (302, QUEUE["location"])
    assert answer.headers["cache-control"] == "no-store"
    assert MARK not in answer.headers
    assert edge.take()["site"] == []


@pytest.mark.req("PAG-056")
@pytest.mark.parametrize("reason", [*SENTENCES, "something_new"])
def test_a_call_is_told_what_the_inline_gate_tells(edge: Edge, reason: str) -> None:
    edge.says({**QUEUE, "reason": reason})

    answer = edge.ask("/api/cart", headers=CALL)

    assert answer.status_code == 503
    assert answer.headers["x-qm-queued"] == "1"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "error": SENTENCES.get(reason, SENTENCES["waiting"]), "code": "queued", "roomId": "shop", "reason": reason,
        "reload": True,
    }  # fmt: skip
    assert MARK not in answer.headers
    assert edge.take()["site"] == []


@pytest.mark.req("PAG-068")
def test_an_upgrade_is_asked_about_and_refused_when_queued(edge: Edge) -> None:
    through = edge.ask("/socket", headers=WEBSOCKET)
    edge.says(QUEUE)
    refused = edge.ask("/socket", headers=WEBSOCKET)

    assert (through.status_code, refused.status_code) == (426, 503), "the site's own word, and the gate's"
    seen = edge.take()
    assert [came["headers"]["upgrade"] for came in seen["site"]] == ["websocket"]
    assert len(seen["checks"]) == 2


@pytest.mark.req("PAG-068")
def test_a_body_is_on_its_way_to_the_site_before_it_has_all_come(edge: Edge) -> None:
    def slowly() -> Iterator[bytes]:
        yield b"a" * 1000
        wait_for(lambda: edge.peek()["site"])
        yield b"b" * 1000

    answer = edge.ask("/stream", "POST", content=slowly(), headers=CALL)

    assert answer.status_code == 200
    assert [came["body"] for came in edge.take()["site"]] == ["begun", "a" * 1000 + "b" * 1000]


def test_what_a_visitor_sends_is_bounded_before_it_is_passed_on(edge: Edge) -> None:
    fits = "https://shop.example/?" + "a" * (8000 - len(quote("https://shop.example/?", safe="")))
    edge.ask(fits.removeprefix("https://shop.example"))
    edge.ask(fits.removeprefix("https://shop.example") + "a")
    edge.ask(headers={**CALL, "user-agent": "x" * 5000})
    edge.ask(cookies={"qm_shop": "t" * 1024, "qm_dk_shop": "k" * 128})
    edge.ask(cookies={"qm_shop": "t" * 1025, "qm_dk_shop": "k" * 129})
    edge.ask(cookies={"qm_shop": "%", "qm_dk_shop": '"a b"'})
    edge.ask("/?qm_token=" + "t" * 1025)
    edge.ask(headers={**CALL, "user-agent": ""})

    asked = [query_of(check) for check in edge.take()["checks"]]
    assert [one.get("url") for one in asked[:2]] == [fits, None], "never shortened"
    assert asked[2]["agent"] == "x" * 512
    assert [len(one.get("token", "")) for one in asked[3:7]] == [1024, 0, 0, 0]
    assert asked[6]["url"] == "https://shop.example/"
    assert asked[7]["agent"] == ""

    for status in (400, 413, 414, 431):
        edge.reset()
        edge.says(status=status)
        assert edge.ask().headers[MARK] == f"http-{status}"
        assert any(f"a mistake of this connector: the queue answers {status}" in line for line in edge.take()["log"])


FAILURES: dict[str, dict[str, Any]] = {
    "http-503": {"status": 503, "body": {"code": "storage_unavailable"}},
    "http-500": {"status": 500},
    "http-401": {"status": 401, "body": {"code": "unauthorized"}},
    "http-404": {"status": 404},
    "http-403": {"status": 403},
    "http-400": {"status": 400},
    "http-302": {"status": 302, "headers": {"location": "https://elsewhere.example/"}},
    "timeout": {"silent": True},
    "timeout ": {"trickle": True, "body": PASS},
    "unreachable": {"hangUp": True},
    "invalid-response": {"body": "<html>"},
    "invalid-response ": {"body": {"action": "queue", "location": "javascript:alert(1)"}},
    "invalid-response  ": {"body": {"action": "dance"}},
    "invalid-response   ": {"body": "null"},
}
"""Reasons, told apart by spaces, and what the queue does."""


@pytest.mark.req("PAG-057", "PAG-058", "PAG-062", "PAG-053", "PAG-003")
@pytest.mark.parametrize("why", FAILURES)
def test_it_fails_open_and_says_why(edge: Edge, why: str) -> None:
    edge.says(**{"body": "", **FAILURES[why]})

    patience = {"QM_TIMEOUT_MS": "300"} if why.strip() == "timeout" else {}

    answer = edge.ask("/order?qm_token=t", "POST", content=b"kept", headers=CALL, QM_ANALYTICS="on", **patience)

    assert (answer.status_code, answer.text, answer.headers["x-site"]) == (200, "the site", "yes")
    assert answer.headers[MARK] == why.strip()
    seen = edge.take()
    assert [(came["method"], came["body"]) for came in seen["site"]] == [("POST", "kept")]
    assert seen["points"] == [{"blobs": ["shop", why.strip()], "doubles": [1], "indexes": ["shop"]}]


@pytest.mark.req("PAG-053", "PAG-057")
def test_it_waits_two_seconds_unless_it_is_told_otherwise(edge: Edge) -> None:
    edge.says(silent=True)
    began = time.monotonic()

    answer = edge.ask(QM_TIMEOUT_MS=None)

    assert answer.headers[MARK] == "timeout"
    assert time.monotonic() - began >= 1.99


@pytest.mark.req("PAG-057")
def test_a_queue_that_nobody_finds_is_unreachable(edge: Edge) -> None:
    for url in ("http://127.0.0.1:1", "https://no-such-name.invalid", edge.queue_url.replace("http:", "https:")):
        assert edge.ask(QM_URL=url).headers[MARK] == "unreachable"


@pytest.mark.req("PAG-062")
@pytest.mark.parametrize("dataset", [None, "broken"])
def test_what_is_not_counted_breaks_nothing(edge: Edge, dataset: str | None) -> None:
    edge.says(status=500)

    answer = edge.ask(**({"QM_ANALYTICS": dataset} if dataset else {}))

    assert (answer.status_code, answer.headers[MARK]) == (200, "http-500")
    assert edge.take()["points"] == []


@pytest.mark.req("PAG-060")
def test_a_queue_that_sheds_load_keeps_its_visitors(edge: Edge) -> None:
    edge.says(status=429)

    page = edge.ask("/checkout?a=1&qm_token=t.t&b=2", QM_ANALYTICS="on")
    long = edge.ask("/checkout?" + "a" * 3000, QM_ANALYTICS="on")
    call = edge.ask("/api/cart", headers=CALL, QM_ANALYTICS="on")

    back = quote("https://shop.example/checkout?a=1&b=2", safe="")
    assert (page.status_code, page.headers["location"]) == (302, f"{edge.queue_url}/w/shop?qm_return={back}")
    assert long.headers["location"].endswith("?qm_return=" + quote("https://shop.example/checkout", safe=""))
    assert call.status_code == 503
    assert call.json()["code"] == "queued"
    assert call.json()["reason"] == "waiting"
    assert not any(MARK in answer.headers for answer in (page, long, call))
    seen = edge.take()
    assert (seen["site"], seen["points"]) == ([], [])
    assert len([line for line in seen["log"] if "429" in line]) == 1, "one line an isolate"


@pytest.mark.req("PAG-061")
@pytest.mark.parametrize(
    "missing",
    [{"QM_URL": ""}, {"QM_ROOM": None}, {"QM_API_KEY": ""}, {"QM_URL": "queue.example"}, {"QM_ROOM": "no room"}],
)
def test_a_worker_that_is_not_set_up_sends_on_unmarked(edge: Edge, missing: dict[str, Any]) -> None:
    answer = edge.ask(**missing, FAIL_MODE="closed")

    seen = edge.take()
    assert (answer.status_code, MARK in answer.headers) == (200, False)
    assert len(seen["site"]) == 1
    assert seen["checks"] == []
    assert any("missing" in line for line in seen["log"])


def test_closed_shows_a_page_that_reloads_itself_instead(edge: Edge) -> None:
    edge.says(status=503)
    closed = {"FAIL_MODE": "closed", "QM_ANALYTICS": "on"}

    page, call = edge.ask(**closed), edge.ask("/api", headers=CALL, **closed)
    socket = edge.ask("/socket", headers=WEBSOCKET, **closed)
    edge.says(PASS)
    after = edge.ask(**closed)

    for answer in (page, call, socket):
        assert answer.status_code == 503
        assert answer.headers[MARK] == "http-503"
        assert answer.headers["retry-after"] == "15"
        assert answer.headers["cache-control"] == "no-store"
    assert '<meta http-equiv="refresh" content="15">' in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert call.json()["code"] == "queue_unreachable"
    assert after.text == "the site"
    seen = edge.take()
    assert (len(seen["site"]), seen["points"]) == (1, []), "nobody was sent on unqueued"


@pytest.mark.req("PAG-052")
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_token_that_comes_back_is_kept_in_a_cookie_and_leaves_the_address(edge: Edge, scheme: str) -> None:
    edge.says({"action": "pass", "reason": "admitted", "doorKey": "d" * 43, "recheckSec": 30})

    answer = edge.ask("/checkout?a=%C3%A9&qm_token=new.token&qm_token=x&b=+1", scheme=scheme)

    seen = edge.take()
    assert query_of(seen["checks"][0])["token"] == "new.token"
    assert query_of(seen["checks"][0])["url"] == f"{scheme}://shop.example/checkout?a=%C3%A9&b=+1"
    assert (answer.status_code, answer.headers["location"]) == (302, f"{scheme}://shop.example/checkout?a=%C3%A9&b=+1")
    assert seen["site"] == []
    lines = cookies_of(answer)
    end = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if scheme == "https" else "")
    assert lines == {"qm_shop": "qm_shop=new.token" + end, "qm_dk_shop": f"qm_dk_shop={'d' * 43}{end}"}


@pytest.mark.req("PAG-052")
def test_what_a_check_hands_out_is_set_beside_the_cookies_of_the_site(edge: Edge) -> None:
    edge.says({**PASS, "token": "re.signed", "doorKey": "d" * 43})

    page = edge.ask(cookies={"qm_shop": "old.one"})
    call = edge.ask("/api?qm_token=old.one&x=1", headers=CALL)
    form = edge.ask("/order?qm_token=old.one", "POST", content=b"n=1")

    for answer in (page, call, form):
        assert answer.status_code == 200
        assert {name: line.split(";")[0] for name, line in cookies_of(answer).items()} == {
            "qm_shop": "qm_shop=re.signed", "qm_dk_shop": f"qm_dk_shop={'d' * 43}",
        }  # fmt: skip
        assert answer.headers.get_list("set-cookie")[:2] == ["a=1", "b=2"]
    assert [(came["url"], came["body"]) for came in edge.take()["site"]] == [
        ("/checkout", ""), ("/api?x=1", ""), ("/order", "n=1"),
    ]  # fmt: skip


@pytest.mark.req("PAG-054")
def test_media_files_are_not_asked_about_where_that_is_wanted(edge: Edge) -> None:
    skips = {"QM_SKIP_STATIC": "1"}
    media = ["/a.js", "/img/b.PNG?v=2", "/f.woff2", "/v.mp4"]
    gated = ["/index.php/x.js", "/a%20b.js", "/x;.js", "//a.js", "/feed.json", "/checkout", "/x.js/"]
    for path in media:
        edge.ask(path, headers=CALL, **skips)
    assert edge.take()["checks"] == []
    for path in gated:
        edge.ask(path, headers=CALL, **skips)
    edge.ask("/a.js", "POST", headers=CALL, content=b"", **skips)
    edge.ask("/a.js", headers={**CALL, "x-original-url": "/checkout"}, **skips)
    edge.ask("/a.js", headers={**CALL, "x_original_url": "/checkout"}, **skips)
    edge.ask("/a.js", headers={"sec-fetch-dest": "document"}, **skips)
    edge.ask("/a.js", headers=CALL)
    assert len(edge.take()["checks"]) == len(gated) + 5


@pytest.mark.req("PAG-069", "PAG-053")
def test_a_fault_of_its_own_sends_the_visitor_on(edge: Edge) -> None:
    edge.says({**QUEUE, "location": "https://queue.example/\n\u20ac"})  # no header can say that

    answer = edge.ask()

    assert (answer.status_code, answer.text, answer.headers[MARK]) == (200, "the site", "unreachable")
    assert any("failed" in line for line in edge.take()["log"])


@pytest.mark.req("PAG-069")
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_request_of_a_stranger_reaches_the_site(edge: Edge, count: int) -> None:
    found = edge.fuzz(count)

    assert (found["reached"], found["refused"]) == (0, {}), found
    assert found["largest"] < 12_000
    assert set(found["statuses"]) == {"302", "503"}, "sent to the waiting page, or told to wait"


def test_its_version_is_in_its_first_line() -> None:
    assert re.match(r"/\*! Queue Manager edge gate 1\.2\.0 \*/\n", edge_source())
