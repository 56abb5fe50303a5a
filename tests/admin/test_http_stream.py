"""The event stream over real HTTP: tickets, frames, revocation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from app.services.live import TICK_SEC
from tests.admin.callers import Caller, Callers, code
from tests.harness import Server


class Events:
    """An open stream, read event by event."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, str] | None:
        """Fields of the next event; None at the end of the stream."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and fields:
                return fields
            name, _, value = line.partition(": ")
            fields[name] = value
        return None

    def frame(self) -> Any:
        """Data of the next stats event."""
        event = self.next()
        assert event is not None
        assert event["event"] == "stats"
        return json.loads(event["data"]) | {"_id": int(event["id"])}


@contextmanager
def stream(caller: Caller, query: str = "", **headers: str) -> Iterator[Events]:
    with caller.http.stream("GET", f"/api/admin/events{query}", headers=headers) as answer:
        yield Events(answer)


def ticket_of(caller: Caller) -> str:
    answer = caller("POST", "/api/admin/sse-ticket")
    assert answer.json()["expiresInSec"] == 30
    return str(answer.json()["ticket"])


@pytest.mark.req("ADM-089", "ADM-091", "ADM-090", "ADM-013")
def test_a_ticket_opens_one_stream_with_the_documented_headers(owner: Caller, stranger: Caller) -> None:
    ticket = ticket_of(owner)
    assert len(ticket) == 43

    with stream(stranger, f"?ticket={ticket}") as events:
        headers = events.answer.headers
        assert events.answer.status_code == 200
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in headers
        assert events.frame()["delta"] is False
    assert code(stranger("GET", f"/api/admin/events?ticket={ticket}")) == (401, "unauthorized")


def test_a_ticket_works_on_every_worker(owner: Caller, callers: Callers) -> None:
    for _ in range(8):
        with stream(callers.with_key(None), f"?ticket={ticket_of(owner)}", Connection="close") as events:
            assert events.frame()["delta"] is False


@pytest.mark.req("ADM-090")
def test_it_opens_with_a_key_or_a_session_too(owner: Caller, browser: Caller, stranger: Caller) -> None:
    for caller in (owner, browser):
        with stream(caller) as events:
            assert events.frame()["delta"] is False
    assert code(stranger("GET", "/api/admin/events")) == (401, "unauthorized")
    assert TICK_SEC == 2


@pytest.mark.req("ADM-092", "ADM-093")
def test_it_sends_two_full_frames_and_then_deltas(owner: Caller, room: str) -> None:
    with stream(owner) as events:
        first, second, third, fourth = (events.frame() for _ in range(4))

    assert [frame["delta"] for frame in (first, second, third, fourth)] == [False, False, True, True]
    assert [frame["_id"] for frame in (first, second, third, fourth)] == [1, 2, 3, 4]
    assert room in [shown["id"] for shown in first["rooms"]]
    assert (third["rooms"], third["removed"]) == ([], [])
    assert set(third["totals"]) == set(first["totals"])
    assert set(third["server"]) == set(first["server"])
    of_rooms = {name: first["server"][name] for name in ("autotune", "protectionMode", "publicUrl")}
    assert of_rooms == {"autotune": False, "protectionMode": "monitor", "publicUrl": None}
    assert third["backend"] == {"ok": True, "recovering": 0}
    assert fourth["ts"] > third["ts"]


@pytest.mark.req("ADM-100")
def test_it_numbers_its_frames_and_heeds_no_number_of_an_earlier_stream(owner: Caller, room: str) -> None:
    with stream(owner, **{"Last-Event-ID": "99"}) as events:
        seen = [events.next() for _ in range(3)]

    assert [event and (event["event"], event["id"]) for event in seen] == [
        ("stats", "1"),
        ("stats", "2"),
        ("stats", "3"),
    ]
    first = json.loads((seen[0] or {})["data"])
    assert first["delta"] is False
    assert room in [shown["id"] for shown in first["rooms"]]


def test_a_change_through_any_worker_is_in_the_next_frames(owner: Caller, callers: Callers, room: str) -> None:
    with stream(owner) as events:
        events.frame()
        events.frame()
        assert callers.with_key(None)("GET", "/healthz").status_code == 200
        other = callers.signed_in()
        other("POST", "/api/admin/rooms", {"id": room, "name": "Renamed", "rate": 17})
        frame = events.frame()
        while not frame["rooms"]:
            frame = events.frame()
        assert frame["delta"] is True
        assert [(shown["id"], shown["name"], shown["rate"]) for shown in frame["rooms"]] == [(room, "Renamed", 17)]
        other("DELETE", f"/api/admin/rooms/{room}")
        while not frame["removed"]:
            frame = events.frame()
        assert frame["removed"] == [room]


def test_a_frame_lists_what_the_list_answers(owner: Caller, room: str) -> None:
    owner("POST", "/api/admin/rooms", {"id": room, "state": "paused", "rules": [{"action": "skip", "pattern": "/a"}]})

    with stream(owner) as events:
        events.frame()
        frame = events.frame()
    answer = owner("GET", "/api/admin/rooms").json()

    assert frame["rooms"] == answer["rooms"]
    assert frame["totals"] == answer["totals"]


def test_signing_out_ends_the_streams_of_that_session_with_revoked(server: Server, callers: Callers) -> None:
    page, bystander = callers.signed_in(), callers.signed_in()
    cookie = page.http.headers["Cookie"].partition("=")[2]

    with (
        stream(page) as by_cookie,
        stream(callers.with_key(None), f"?ticket={ticket_of(page)}") as by_ticket,
        stream(bystander) as other,
    ):
        for events in (by_cookie, by_ticket, other):
            events.frame()
        second = callers.page()
        second.keep_cookie(cookie)
        assert second("DELETE", "/api/admin/session").status_code == 200
        for events in (by_cookie, by_ticket):
            event = events.next()
            while event is not None and event["event"] == "stats":
                event = events.next()
            assert event == {"event": "revoked", "data": '{"error":"unauthorized"}'}
            assert events.next() is None
        assert other.frame()["delta"] is False
        assert other.frame()["server"]["status"] != "shutting_down"


@pytest.mark.req("ADM-109", "ADM-106")
@pytest.mark.req("CFG-159")
def test_a_stop_ends_streams_in_time_and_without_revoked() -> None:
    with Server(env={"SHUTDOWN_GRACE_MS": "2000"}, workers=1) as server:
        script = Caller(server, server.admin_key)
        seen: list[Any] = []
        with stream(script) as events:
            assert script("GET", "/api/admin/health").json()["sse"]["admin"] == 1
            for _ in range(3):
                with stream(script) as further:
                    further.frame()
            deadline = time.monotonic() + 10
            while script("GET", "/api/admin/health").json()["sse"]["admin"] > 1:
                assert time.monotonic() < deadline, "streams that were left are still counted"
            events.frame()
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            try:
                while (event := events.next()) is not None:
                    seen.append(event["event"])
            except httpx.RemoteProtocolError:
                seen.append("cut")
            stopping.join()
        script.http.close()

    assert "revoked" not in seen
    assert "cut" not in seen, "what is still open after SHUTDOWN_GRACE_MS is cut off in the middle"
