"""One server with one worker, one odd origin behind it, and rooms that are inline."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Server
from tests.inline.origin import Origin
from tests.inline.raw import Client
from tests.process.tls import make_ca


class Front:
    """The server as the tests of the proxy use it."""

    def __init__(self, server: Server, origin: Origin) -> None:
        self.server = server
        self.origin = origin

    def connect(self, **options: Any) -> Client:
        return Client(self.server.url, **options)

    def admin(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """One call of the admin API by ADMIN_KEY."""
        request = urllib.request.Request(
            self.server.url + "/api/admin/" + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.server.admin_key}", "Content-Type": "application/json", **headers},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def room(self, room_id: str, **fields: Any) -> dict[str, Any]:
        """Save a room, inline in front of the origin unless ``fields`` say otherwise."""
        body = {"id": room_id, "targetUrl": f"http://{room_id}.test/", "proxyOrigin": self.origin.address, **fields}
        status, answer = self.admin("POST", "rooms", body)
        assert status == 200, answer
        return answer


@pytest.fixture(scope="package")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an authority ``ours`` that the server believes."""
    folder = tmp_path_factory.mktemp("authority")
    make_ca(folder, "ours")
    return folder


@pytest.fixture(scope="package")
def server(authority: Path) -> Iterator[Server]:
    believed = {"SSL_CERT_FILE": str(authority / "ours.pem")}
    with Server(env={"PROXY_ALLOW_PRIVATE": "1", "PROXY_TIMEOUT_MS": "1500", **believed}, workers=1) as made:
        yield made


@pytest.fixture(scope="package")
def the_origin() -> Iterator[Origin]:
    with Origin() as made:
        yield made


@pytest.fixture(scope="package")
def the_front(server: Server, the_origin: Origin) -> Front:
    made = Front(server, the_origin)
    made.room("open", state="bypass")
    made.room("shut", rate=0)
    return made


@pytest.fixture
def front(the_front: Front) -> Front:
    """Rooms ``open`` (everybody passes) at open.test and ``shut`` (nobody does) at shut.test."""
    the_front.origin.reset()
    return the_front


@pytest.fixture
def origin(front: Front) -> Origin:
    return front.origin
