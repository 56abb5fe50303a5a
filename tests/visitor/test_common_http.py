"""What all visitor routes have in common, on a real server and without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.edge.wire import Wire
from tests.harness import Server
from tests.visitor.site import Browser, Site

ROOT = Path(__file__).resolve().parents[2]
SANIC = {
    "SANIC_REQUEST_MAX_SIZE": "5", "SANIC_KEEP_ALIVE": "0", "SANIC_REAL_IP_HEADER": "X-Real-IP", "SANIC_MOTD": "1",
    "SANIC_RESPONSE_TIMEOUT": "0", "SANIC_SERVER_NAME": "evil.example", "SANIC_ACCESS_LOG": "1", "SANIC_TOUCHUP": "0",
    "SANIC_FALLBACK_ERROR_FORMAT": "html", "SANIC_AUTO_EXTEND": "1", "SANIC_PROXIES_COUNT": "1",
}  # fmt: skip
"""Variables of the framework underneath; none may change anything (CFG-011)."""
NAVIGATION = {"sec-fetch-mode": "navigate"}

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(dict(SANIC), workers=1) as running:
        room = {"id": "shop", "targetUrl": "https://shop.example/", "rate": 0}
        made = httpx.post(running.url + "/api/admin/rooms", json=room, headers=key(running), timeout=30)
        assert made.status_code == 200, made.text
        yield running


def key(server: Server) -> dict[str, str]:
    return {"Authorization": f"Bearer {server.admin_key}"}


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.mark.req("CFG-011")
def test_it_takes_nothing_from_variables_of_the_framework(server: Server, http: httpx.Client) -> None:
    kept = http.post("/api/join", json={"roomId": "shop"}, headers={"x-real-ip": "9.9.9.9"})
    assert (kept.status_code, kept.headers["connection"]) == (200, "keep-alive")
    assert http.get("/healthz").headers["connection"] == "keep-alive"
    for page in ("swagger", "redoc", "openapi.json"):  # of the framework; the guides have the folder
        assert http.get(f"/docs/{page}").status_code == 404
    health = http.get("/api/admin/health", headers=key(server)).json()
    assert [warning for warning in health["configWarnings"] if "SANIC" in warning["message"]] == []
    assert "evil.example" not in json.dumps(health)
    assert server.line.startswith("listening on http://127.0.0.1:")


CALLS: list[tuple[str, str, Any, int]] = [
    ("GET", "/api/check?room=shop", None, 200),
    ("GET", "/api/check", None, 400),
    ("GET", "/api/check?room=nowhere", None, 404),
    ("GET", "/api/check?room=shop&ip=1.2.3.4&agent=a", None, 401),
    ("PUT", "/api/check", None, 405),
    ("GET", "/api/status?room=shop", None, 200),
    ("POST", "/api/join", {"roomId": "shop"}, 200),
    ("POST", "/api/join", {"roomId": "shop", "x": 1}, 400),
    ("POST", "/api/join", {"roomId": 7}, 400),
    ("POST", "/api/join", [], 400),
    ("POST", "/api/leave", {"roomId": "shop"}, 200),
    ("GET", "/api/verify", None, 401),
    ("GET", "/api/version", None, 200),
    ("GET", "/healthz", None, 200),
    ("GET", "/api/admin/me", None, 401),
    ("GET", "/nothing", None, 404),
    ("DELETE", "/healthz", None, 405),
    ("GET", "/events", None, 400),
    ("GET", "/__qm/api/join", None, 404),
]


@pytest.mark.req("VIS-036", "VIS-045")
@pytest.mark.parametrize(("method", "path", "body", "status"), CALLS)
def test_it_answers_json_that_is_neither_kept_nor_guessed(
    http: httpx.Client, method: str, path: str, body: Any, status: int
) -> None:
    answer = http.request(method, path, json=body)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", answer.headers["x-qm-request-id"])
    if status >= 400:
        assert {"error", "code"} <= set(answer.json())
        assert re.fullmatch(r"[a-z_]+", answer.json()["code"])


PAGES = ["/w/shop", "/w/nowhere", "/", "/nothing", "/api/status?room=nowhere", "/__qm/x", "/offline.html"]


PAGE_ROUTES = {
    "/": 200, "/public/admin.html": 200, "/w/shop": 200, "/w/shop/plain": 200, "/w/nowhere": 404, "/docs": 200,
    "/docs/operations": 200, "/docs/th": 200, "/docs/th/operations": 200, "/docs/files/prometheus.yml": 200,
    "/docs/nothing": 404, "/progress": 200, "/offline.html": 200, "/origin-down.html": 200,
}  # fmt: skip


@pytest.mark.req("PAG-204")
def test_every_page_has_one_address_and_leads_there_from_the_one_with_a_slash(http: httpx.Client) -> None:
    for path, status in PAGE_ROUTES.items():
        assert http.get(path, headers=NAVIGATION).status_code == status, path
        for spelled in (f"{path}/", f"{path}//"):
            answer = http.request("HEAD", "/", extensions={"target": f"{spelled}?a=%2F&b=c/".encode()})
            moved = answer.status_code, answer.headers.get("location"), answer.headers.get("cache-control")
            assert moved == (308, f"{path}?a=%2F&b=c/", "no-store"), spelled


def sources_of(policy: str) -> set[str]:
    """Everything that a page may load, ask, run or send a form to; who may frame it is not of these."""
    found = [directive.split() for directive in policy.split(";")]
    return {source for name, *sources in found if name != "frame-ancestors" for source in sources}


@pytest.mark.req("VIS-045", "VIS-046")
@pytest.mark.parametrize("path", PAGES)
def test_it_sends_pages_that_may_ask_no_other_origin(http: httpx.Client, path: str) -> None:
    answer = http.get(path, headers=NAVIGATION)

    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-qm-request-id"]
    assert answer.headers["referrer-policy"] in {"no-referrer", "same-origin"}
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    strict = {"'none'", "'self'", "'script'", "data:"}
    assert {s for s in sources_of(policy) if not s.startswith("'sha256-")} <= strict
    assert ("frame-ancestors 'none'" in policy) is (path != "/w/shop")
    if answer.status_code >= 400:
        assert (answer.headers["referrer-policy"], answer.headers["x-frame-options"]) == ("no-referrer", "DENY")


@pytest.mark.req("VIS-046")
def test_its_pages_and_scripts_name_no_other_origin() -> None:
    """Anything that a browser would fetch: attributes, style urls, imports, calls."""
    fetched = re.compile(
        r"(?:src|href|action)\s*=\s*[\"'](?:https?:)?//|url\(\s*[\"']?(?:https?:)?//|@import"
        r"|(?:from|import)\s*\(?[\"']https?:|fetch\(\s*[\"'`]https?:|sendBeacon|WebSocket\("
    )
    found = {
        str(path.relative_to(ROOT)): hits
        for path in (ROOT / "static").rglob("*")
        if path.suffix in {".html", ".css", ".js", ".mjs", ".svg"}
        and (hits := fetched.findall(path.read_text(encoding="utf-8")))
    }

    assert found == {}


@pytest.mark.req("VIS-045")
def test_every_answer_has_a_request_id_of_its_own(http: httpx.Client) -> None:
    page = http.get("/w/shop").text
    script = re.search(r'"(/assets/waiting-[^"]+\.js)"', page)
    assert script
    paths = ["/qm.js", script[1], "/fonts/geist-latin.woff2", "/w/shop", "/healthz", "/nothing", "/api/admin/me"]
    ids = [http.get(path).headers["x-qm-request-id"] for path in paths for _ in range(2)]
    tag = http.get("/qm.js")
    same = http.get("/qm.js", headers={"if-none-match": tag.headers["etag"]})

    assert same.status_code == 304
    assert same.headers["x-qm-request-id"]
    assert len(set(ids)) == len(ids)


@pytest.mark.req("VIS-037")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_it_gives_a_navigation_of_any_method_a_page(http: httpx.Client, method: str) -> None:
    for headers, is_page in ((NAVIGATION, True), ({"sec-fetch-dest": "iframe"}, True), ({"accept": "*/*"}, False)):
        answer = http.request(method, "/nothing", headers=headers)
        assert answer.headers["content-type"].startswith("text/html" if is_page else "application/json")


@pytest.mark.req("VIS-041")
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream", "image/png", "", "x"])
def test_it_reads_json_whatever_the_content_type_says(http: httpx.Client, kind: str) -> None:
    sent = http.post("/api/join", content=b'{"roomId":"shop"}', headers={"content-type": kind})
    assert sent.status_code == 200


@pytest.mark.req("VIS-041")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"[]", 400, "bad_json"),
        (b'{"roomId":"shop","roomId":"shop"}', 400, "bad_json"),
        (b'{"roomId":"\\ud800"}', 400, "bad_json"),
        (b'{"roomId":' + b"[" * 40 + b"]" * 40 + b"}", 400, "bad_json"),
        (b'{"roomId":' + b"9" * 65 + b"}", 400, "bad_json"),
        (b'{"roomId":7}', 400, "invalid_room_id"),
        (b'{"roomId":"shop","token":7}', 400, "invalid_token"),
        (b'{"room":"shop"}', 400, "unknown_field"),
        (b'{"roomId":"shop","token":"' + b"x" * 17000 + b'"}', 413, "body_too_large"),
    ],
)
def test_it_refuses_bodies_by_name(http: httpx.Client, body: bytes, status: int, code: str) -> None:
    answer = http.post("/api/join", content=body)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    if code == "unknown_field":
        assert "room" in json.dumps(answer.json()["fields"])


@pytest.mark.req("VIS-042")
def test_it_ignores_what_it_does_not_know_in_a_query_and_bounds_the_head(http: httpx.Client) -> None:
    assert http.get("/api/check?x=1&room=shop&room=nowhere&&=&%zz&room").status_code == 200
    assert http.get("/api/status?utm_source=a&room=shop").status_code == 200
    for host in ("queue.example", "shop.example", "127.0.0.1"):
        headers = {"host": host}
        assert http.get("/api/check?room=shop&x=" + "a" * 17000, headers=headers).status_code == 414
        assert http.get("/w/shop", headers={**headers, "x-long": "a" * 33000}).status_code == 431
        assert http.get("/api/check?room=shop&x=" + "a" * 15000, headers=headers).status_code == 200
        assert http.get("/api/check?room=shop", headers={**headers, "x-long": "a" * 30000}).status_code == 200


@pytest.mark.req("VIS-022")
def test_it_needs_a_host_that_can_be_read(server: Server) -> None:
    for line in (
        b"",
        b"Host:\r\n",
        b"Host: a b\r\n",
        b"Host: a\r\nHost: a\r\n",
        b"Host: a:99999\r\n",
        b"Host: a/b\r\n",
    ):
        for path in (b"/healthz", b"/api/check?room=shop", b"/w/shop"):
            with Wire(int(server.url.rpartition(":")[2])) as wire:
                answer = wire.send(b"GET %b HTTP/1.1\r\n%b\r\n" % (path, line)).answer()
                assert (answer.status, answer.code) == (400, "bad_host")


@pytest.mark.req("VIS-043")
async def test_it_takes_both_names_of_a_room_in_a_query_and_one_in_a_body(site: Site, browser: Browser) -> None:
    await site.create()

    for name in ("room", "roomId"):
        assert (await browser.send("GET", f"/api/check?{name}=shop")).json["roomId"] == "shop"
        assert (await browser.send("GET", f"/api/status?{name}=shop")).json["roomId"] == "shop"
    for route in ("join", "leave"):
        refused = await browser.send("POST", f"/api/{route}", {"room": "shop"})
        assert (refused.status, refused.code) == (400, "unknown_field")
        assert (await browser.send("POST", f"/api/{route}", {"roomId": "shop"})).status == 200
