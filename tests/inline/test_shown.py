"""What operators are shown of an origin that does not answer."""

from __future__ import annotations

import socket

import pytest

from tests.harness import wait_for
from tests.inline.conftest import Front


@pytest.mark.req("ADM-120", "INL-177")
def test_a_dead_origin_is_told_on_the_room(front: Front) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        front.room("dead", state="bypass", proxyOrigin=f"http://127.0.0.1:{taken.getsockname()[1]}")
        with front.connect() as client:
            for _ in range(2):
                assert client.ask("GET / HTTP/1.1\nHost: dead.test").status == 502

    def shown() -> dict[str, object]:
        return dict(front.admin("GET", "rooms/dead")[1]["room"])

    wait_for(lambda: shown()["origin"]["errorPages"] == 2)  # type: ignore[index]
    room = shown()
    assert room["origin"]["classes"] == {"connect": 2}  # type: ignore[index]
    assert room["site"]["status"] == "failing"  # type: ignore[index]
    assert front.admin("GET", "rooms/open")[1]["room"]["origin"]["errorPages"] >= 0


@pytest.mark.req("VIS-092")
def test_the_waiting_page_of_an_inline_room_is_at_the_site_itself(front: Front) -> None:
    with front.connect() as client:
        for room in ("open", "shut"):
            answer = client.ask(f"GET /w/{room} HTTP/1.1\nHost: 127.0.0.1")
            assert (answer.status, answer.header("location")) == (302, f"http://{room}.test/")
