"""Who gets which answer in which state (INL-230): rows that one server can be brought into.

The rows that need a server of their own are compared where that server stands: budgets, the secret and the ceiling in
test_hosts.py, stores that are away in test_backend_down.py and tests/ops/test_fleet.py, a silent app in
test_streaming.py, a stop in test_stop.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.harness import wait_for
from tests.inline import surge
from tests.inline.conftest import Front
from tests.inline.origin import Origin, saying
from tests.inline.people import Visitor


@pytest.fixture
def visitors(front: Front) -> Iterator[list[Visitor]]:
    """Ends their connections."""
    made: list[Visitor] = []
    yield made
    for each in made:
        each.close()


@pytest.mark.req("INL-230", "INL-231", "INL-103", "INL-104", "INL-105")
def test_it_answers_for_a_room_that_queues(front: Front, origin: Origin, visitors: list[Visitor]) -> None:
    late, first, second = (Visitor(front, "rows", agent=f"R/{n}") for n in range(3))
    visitors += [late, first, second]
    front.room("rows", rate=0, queueMaxPerIp=None)
    late.join()
    for state, reason in (("active", "waiting"), ("paused", "paused")):
        front.room("rows", state=state)
        assert surge.rows(front, "rows.test") == surge.waiting("new")
        assert surge.rows_of(late) == surge.waiting(reason)
    late.api("leave", {"roomId": "rows"})
    front.room("rows", state="active", rate=6000, maxConcurrent=1)
    first.wait_for_turn()
    assert first.page().status == 200
    second.join()
    assert front.admin("POST", "rooms/rows/flush", {})[0] == 200  # passes without a place
    wait_for(lambda: surge.rows_of(second) == surge.waiting("at_capacity"))
    front.room("doors", rate=0, opensAt=int(time.time() * 1000) + 3_600_000)
    early = Visitor(front, "doors")
    visitors.append(early)
    assert surge.rows(front, "doors.test") == surge.waiting("new")
    early.join()
    assert surge.rows_of(early) == surge.waiting("scheduled")
    assert not any(row.cdn_acts for row in surge.rows_of(early))
    assert all(b"/cart" not in head.split(b"\r\n")[0] for head in origin.heads)


@pytest.mark.req("INL-230", "INL-231", "INL-077")
def test_it_answers_for_whom_is_let_through(front: Front, origin: Origin, visitors: list[Visitor]) -> None:
    assert surge.rows(front, "open.test") == surge.app()
    front.room("rows2", rate=6000, queueMaxPerIp=None)
    inside = Visitor(front, "rows2")
    visitors.append(inside)
    inside.enter()
    assert surge.rows_of(inside) == surge.app()
    origin.script = saying(b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nfail")
    failed = surge.rows_of(inside)
    assert failed == surge.app(500, "http-500")
    assert not any(row.cdn_acts for row in failed)


@pytest.mark.req("INL-230", "INL-169", "INL-170", "INL-172", "PAG-178")
def test_it_answers_for_an_app_that_fails(front: Front, origin: Origin) -> None:
    front.room("gone", state="bypass", proxyOrigin="http://127.0.0.1:1")
    assert surge.rows(front, "gone.test") == surge.down(502, "origin_unreachable", "connect")
    origin.script = saying(b"no http\r\n\r\n", close=True)
    odd = surge.rows(front, "open.test")
    assert odd == surge.down(502, "origin_bad_response", "bad_response")
    assert not any(row.cdn_acts for row in odd)


@pytest.mark.req("INL-230")
def test_it_answers_a_join_beyond_the_places_of_an_address(front: Front, visitors: list[Visitor]) -> None:
    front.room("few", rate=0, queueMaxPerIp=1)
    first, second = (Visitor(front, "few", agent=f"F/{n}") for n in range(2))
    visitors += [first, second]
    first.join()
    kind = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    refused = second.call("/__qm/api/join", "POST", json.dumps({"roomId": "few"}).encode(), **kind)
    assert surge.read(refused, is_page=False) == surge.Row(429, "queue_identity_limit", None, None, "30")
    assert surge.rows_of(first) == surge.waiting("waiting"), "nobody else is touched"
