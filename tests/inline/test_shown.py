"""What operators are shown of an origin that does not answer."""

from __future__ import annotations

import base64
import hashlib
import re
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


@pytest.mark.req("VIS-105")
def test_the_files_of_the_page_bear_their_hash_below_the_prefix_too(front: Front) -> None:
    with front.connect() as client:
        page = client.ask("GET / HTTP/1.1\nHost: shut.test\nAccept: text/html").body
        files = re.findall(rb'"(/__qm/assets/waiting-([\w-]{22})\.(css|js))"', page)
        assert [kind for _, _, kind in files] == [b"css", b"js"]
        for path, digest, _ in files:
            answer = client.ask(f"GET {path.decode()} HTTP/1.1\nHost: shut.test\nAccept-Encoding: identity")
            assert (answer.status, answer.header("cache-control")) == (200, "public, max-age=31536000, immutable")
            assert base64.urlsafe_b64encode(hashlib.sha256(answer.body).digest())[:22] == digest
