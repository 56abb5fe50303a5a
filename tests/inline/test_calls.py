"""What the gate costs the live store: one call of the engine for a gated request at most, none for a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from redis import Redis

from tests.inline.conftest import Front
from tests.inline.origin import Origin
from tests.inline.people import Visitor

PAGES, FILES = 30, 60


@pytest.fixture
def socket_path(front: Front) -> str:
    """Where the live store of the server listens."""
    words = " ".join(front.server.descendants().values())
    path = re.search(r"unixsocket:(\S*/valkey\.sock)", words)
    assert path is not None, words
    return path[1]


def calls(socket_path: str, act: Callable[[], None]) -> Counter[str]:
    """Commands that name the room ``counted`` while ``act`` goes on: those of functions by the functions' names."""
    found: Counter[str] = Counter()
    with Redis(unix_socket_path=socket_path) as valkey, valkey.monitor() as monitor:
        act()
        valkey.echo("that was all")
        for heard in monitor.listen():
            if heard["command"] == "ECHO that was all":
                return found
            if heard["client_type"] != "lua" and "{counted}" in heard["command"]:
                command, name, *_ = heard["command"].split(" ")
                found[name.split("_", 2)[2] if command == "FCALL" else command] += 1
    raise AssertionError("the store fell silent")


@pytest.mark.req("INL-089", "INL-094", "INL-077")
def test_it_asks_the_store_once_for_a_gated_request_and_never_for_a_file(
    front: Front, origin: Origin, socket_path: str
) -> None:
    front.room("counted", rate=6000, queueMaxPerIp=None)
    inside, outside = Visitor(front, "counted"), Visitor(front, "counted", agent="B/2")
    inside.enter()

    def pages() -> None:
        for _ in range(PAGES):
            assert (inside.page().status, inside.call().status, outside.page().status) == (200, 200, 503)

    def files() -> None:
        for number in range(FILES):
            assert inside.call(f"/static/{number}.css").status == outside.call(f"/static/{number}.js").status == 200

    gated, bypassed = calls(socket_path, pages), calls(socket_path, files)

    # Background processes name the room too, some times a second.
    assert {name: times for name, times in gated.items() if times >= PAGES} == {"check": 3 * PAGES}
    assert max(bypassed.values(), default=0) < FILES
    assert not {"check", "status", "join", "leave"} & bypassed.keys()
    front.admin("DELETE", "rooms/counted")
    for visitor in (inside, outside):
        visitor.close()
