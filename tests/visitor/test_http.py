"""Visitor routes through real sockets and two worker processes."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness import Server

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for the tests of this file; each makes a room of its own."""
    ample = dict.fromkeys((f"{group}_LIMIT_PER_MIN" for group in ("JOIN", "CHECK", "STATUS", "WAITING")), "100000")
    with Server({"SSE_PER_IP": "2", **ample}, workers=2) as running:
        yield running


@pytest.fixture
def room(server: Server, request: pytest.FixtureRequest) -> str:
    """A room in which nobody is let in."""
    name = f"r{abs(hash(request.node.name)) % 10**9}"
    create(server, name, rate=0)
    return name


def create(server: Server, room: str, **fields: Any) -> None:
    answer = httpx.post(
        server.url + "/api/admin/rooms",
        headers={"Authorization": f"Bearer {server.admin_key}"},
        json={"id": room, "targetUrl": "https://shop.example/", **fields},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text


@pytest.fixture
def visitor(server: Server) -> Iterator[httpx.Client]:
    """A visitor who keeps cookies."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


def until(condition: Any, sec: float = 30.0) -> None:
    end = time.monotonic() + sec
    while not condition():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.05)


@pytest.mark.req("VIS-163", "VIS-164")
def test_it_streams_the_state_of_a_place(server: Server, visitor: httpx.Client, room: str) -> None:
    ticket = visitor.post("/api/join", json={"roomId": room}).json()["ticket"]

    with visitor.stream("GET", f"/events?room={room}") as stream:
        lines = stream.iter_lines()
        first = [next(lines) for _ in range(5)]
        create(server, room, state="paused")
        second = [next(lines) for _ in range(3)]

    assert stream.status_code == 200
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.headers["cache-control"] == "no-store, no-transform"
    assert stream.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in stream.headers
    names = [cookie.partition("=")[0] for cookie in stream.headers.get_list("set-cookie")]
    assert names == [f"qm_{room}", f"qms_{room}"]
    assert first[:3] == ["retry: 2000", "", "event: state"]
    assert json.loads(first[3].removeprefix("data: "))["ticket"] == ticket
    assert json.loads(second[1].removeprefix("data: "))["state"] == "paused"


def test_it_answers_an_open_stream_and_other_requests_on_every_worker(visitor: httpx.Client, room: str) -> None:
    ticket = visitor.post("/api/join", json={"roomId": room}).json()["ticket"]

    answers = [
        httpx.get(visitor.base_url.join(f"/api/status?room={room}"), cookies=dict(visitor.cookies)).json()
        for _ in range(8)
    ]

    assert {answer["ticket"] for answer in answers} == {ticket}


@pytest.mark.req("VIS-163", "VIS-171")
def test_it_ends_a_stream_without_a_place_after_one_frame(visitor: httpx.Client, room: str) -> None:
    answer = visitor.get(f"/events?room={room}")

    assert answer.status_code == 200
    assert answer.text.count("event: state") == 1
    assert '"state":"gone"' in answer.text
    assert visitor.get("/events").json()["code"] == "missing_room"
    assert visitor.get("/events?room=nowhere").status_code == 404


@pytest.mark.req("VIS-039")
def test_it_answers_head_of_a_stream_without_opening_one(visitor: httpx.Client, room: str) -> None:
    visitor.post("/api/join", json={"roomId": room})

    answers = [visitor.head(f"/events?room={room}") for _ in range(5)]

    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["content-type"] for answer in answers} == {"text/event-stream; charset=utf-8"}
    assert all(answer.content == b"" for answer in answers)


def test_it_frees_the_place_of_a_stream_whose_reader_is_gone(server: Server, visitor: httpx.Client, room: str) -> None:
    token = visitor.post("/api/join", json={"roomId": room}).json()["token"]
    host, _, port = server.url.removeprefix("http://").partition(":")

    def attempt() -> tuple[socket.socket, bytes]:
        link = socket.create_connection((host, int(port)), timeout=30)
        path = f"/events?room={room}&token={token}"
        agent = visitor.headers["user-agent"]
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: {agent}\r\n\r\n".encode())
        return link, link.recv(4096)

    held = [attempt() for _ in range(2)]
    refused, answer = attempt()
    refused.close()
    for link, _ in held:
        link.close()

    assert [first.partition(b"\r\n")[0] for _, first in held] == [b"HTTP/1.1 200 OK"] * 2
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b'"code":"sse_limit"' in answer
    assert b"Retry-After: 30" in answer or b"retry-after: 30" in answer

    def is_free() -> bool:
        link, first = attempt()
        link.close()
        return first.startswith(b"HTTP/1.1 200 ")

    until(is_free)


@pytest.mark.req("VIS-068", "VIS-110")
def test_it_serves_the_tag(visitor: httpx.Client) -> None:
    answer = visitor.get("/qm.js")
    plain = visitor.get("/qm.js", headers={"accept-encoding": "identity"})
    same = visitor.get("/qm.js", headers={"if-none-match": answer.headers["etag"]})
    head = visitor.head("/qm.js", headers={"accept-encoding": "identity"})

    assert answer.status_code == 200
    assert answer.headers.items() >= {
        "content-type": "application/javascript; charset=utf-8", "cache-control": "public, max-age=300",
        "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin", "content-encoding": "gzip",
    }.items()  # fmt: skip
    assert not any(name.startswith("x-ratelimit") for name in answer.headers), "not limited"
    assert answer.content == plain.content
    assert len(plain.content) <= 12_000
    assert plain.text.startswith("/*! Queue Manager browser tag 1.4.0")
    assert "eval(" not in plain.text
    assert (same.status_code, same.content) == (304, b"")
    assert head.headers["content-length"] == str(len(plain.content))


@pytest.mark.req("VIS-106")
@pytest.mark.req("FLT-138")
@pytest.mark.req("PAG-166")
def test_it_answers_404_that_nobody_keeps_to_an_unknown_hash(visitor: httpx.Client) -> None:
    for name in ("waiting-AAAAAAAAAAAAAAAAAAAAAA.css", "waiting-.js", "..%2fwaiting.html"):
        answer = visitor.get(f"/assets/{name}")

        assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")


@pytest.mark.req("VIS-061")
def test_it_sends_no_cors_headers_anywhere_else(visitor: httpx.Client, room: str) -> None:
    origin = {"origin": "https://shop.example"}

    for answer in (
        visitor.get(f"/api/status?room={room}", headers=origin),
        visitor.post("/api/join", json={"roomId": room}, headers=origin),
        visitor.post("/api/leave", json={"roomId": room}, headers=origin),
        visitor.get(f"/events?room={room}", headers=origin),
        visitor.get("/api/admin/rooms", headers=origin),
    ):
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_it_serves_every_route_of_a_visitor(visitor: httpx.Client, room: str) -> None:
    body = {"roomId": room}
    files = re.findall(r'"(/assets/waiting-[\w-]{22}\.(?:css|js))"', visitor.get(f"/w/{room}").text)
    assert len(files) == 2
    reads = (f"/w/{room}", "/qm.js", f"/api/check?room={room}", "/api/version", *files, "/offline.html",
             "/fonts/geist-latin.woff2")  # fmt: skip
    for path in reads:
        assert visitor.get(path).status_code == 200, path
    assert visitor.post(f"/api/check?room={room}", json={}).json()["action"] == "queue"
    assert visitor.get(f"/api/verify?room={room}").json()["code"] == "unauthorized"
    assert visitor.post("/api/join", json=body).json()["state"] == "waiting"
    assert visitor.get(f"/api/status?room={room}").json()["state"] == "waiting"
    with visitor.stream("GET", f"/events?room={room}") as stream:
        assert stream.status_code == 200
    for method in ("POST", "DELETE"):
        answer = visitor.request(method, "/api/notify", json=body)
        assert (answer.status_code, answer.json()["code"]) == (404, "notify_disabled")
    assert visitor.post("/api/leave", json=body).json() == {"ok": True, "left": "waiting"}


@pytest.mark.req("VIS-002")
@pytest.mark.parametrize("prefix", ["/api", "/api/v1"])
def test_it_answers_under_both_prefixes(visitor: httpx.Client, room: str, prefix: str) -> None:
    assert visitor.post(f"{prefix}/join", json={"roomId": room}).status_code == 200
    assert visitor.get(f"{prefix}/status?room={room}").json()["state"] == "waiting"
    assert visitor.get(f"{prefix}/check?room={room}").json()["reason"] == "waiting"
    assert visitor.post(f"{prefix}/leave", json={"roomId": room}).json()["left"] == "waiting"
    wrong = visitor.put(f"{prefix}/status")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")


@pytest.mark.req("VIS-038", "VIS-226")
def test_it_answers_head_of_every_route_like_get_without_a_body(
    server: Server, visitor: httpx.Client, room: str
) -> None:
    visitor.post("/api/join", json={"roomId": room})
    console = re.search(r'"(/assets/console/[^"]+\.js)"', visitor.get("/").text)
    page = re.search(r'"(/assets/waiting-[^"]+)"', visitor.get(f"/w/{room}").text)
    assert console
    assert page
    found = ("/", "/public/admin.html", "/offline.html", f"/w/{room}",
             "/w/nowhere", "/qm.js", "/robots.txt", "/favicon.ico",
             "/fonts/geist-latin.woff2", "/fonts/LICENSE.txt", console[1], page[1], "/healthz", "/api/version",
             f"/api/status?room={room}", f"/api/check?room={room}", "/api/status?room=nowhere", "/nowhere")  # fmt: skip

    for path in (*found, "/api/v1/version", f"/api/v1/status?room={room}", f"/api/v1/check?room={room}"):
        get, head = visitor.get(path), visitor.head(path)

        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert lasting(head) == lasting(get), path


def lasting(answer: httpx.Response) -> dict[str, str]:
    """Headers that a second request must get too; of those that count or are drawn, that they are there."""
    counted = {"date", "x-qm-request-id", "x-ratelimit-remaining", "x-ratelimit-reset"}
    return {name: "" if name in counted else value for name, value in answer.headers.items()}


@pytest.mark.req("VIS-070")
def test_it_tells_the_budget_with_every_answer_of_a_limited_route(visitor: httpx.Client, room: str) -> None:
    reads = (
        f"check?room={room}",
        "check",
        "check?room=nowhere",
        f"status?room={room}",
        "status",
        "status?room=nowhere",
    )
    asked: list[tuple[str, str, dict[str, Any] | None]] = [("GET", f"/api/{path}", None) for path in reads]
    asked += [("GET", path, None) for path in (f"/events?room={room}", f"/w/{room}", "/w/nowhere", "/")]
    for path in ("/api/join", "/api/leave"):
        asked += [("POST", path, body) for body in ({"roomId": room}, {"roomId": "nowhere"}, {}, {"x": 1})]

    for method, path, body in asked:
        answer = visitor.request(method, path, json=body)

        assert "x-ratelimit-limit" in answer.headers, (path, answer.text)
        assert int(answer.headers["x-ratelimit-limit"]) > int(answer.headers["x-ratelimit-remaining"]) >= 0, path
        assert 1 <= int(answer.headers["x-ratelimit-reset"]) <= 60, path


@pytest.mark.req("VIS-089")
def test_it_sends_the_waiting_page_in_every_state_of_the_room(server: Server, visitor: httpx.Client, room: str) -> None:
    for state in ("active", "paused", "bypass"):
        create(server, room, state=state)

        answer = visitor.get(f"/w/{room}")

        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8"), state
        assert "/assets/waiting-" in answer.text, state


@pytest.mark.req("VIS-173")
@pytest.mark.req("FLT-132")
def test_it_closes_streams_when_it_stops() -> None:
    with Server(workers=1) as server:
        create(server, "shop", rate=0)
        with httpx.Client(base_url=server.url, timeout=60) as visitor:
            visitor.post("/api/join", json={"roomId": "shop"})
            with visitor.stream("GET", "/events?room=shop") as stream:
                lines = stream.iter_lines()
                next(lines)
                server.stop()
                rest = list(lines)

    assert [line for line in rest if line.startswith("event")] == ["event: state"]
