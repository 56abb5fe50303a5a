"""Variables do on a running server what their rows say."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from app.services.connector_files import ConnectorFiles
from tests.harness import Server

PLACE = {"roomId": "shop"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    env = {
        "QUEUE_COOKIE_MAX_AGE_SEC": "1234",
        "MONITOR_TOKEN_TTL_SEC": "4321",
        "STATUS_LIMIT_PER_MIN": "13",
        "NOTIFY_LIMIT_PER_MIN": "5",
        "JOIN_LIMIT_PER_MIN": "many",
        "SMTP_URL": "smtp://127.0.0.1:1",
        "SMTP_FROM": "queue@shop.example",
        "PUBLIC_URL": "http://queue.example",
        "LOG_LEVEL": "error",
        "QM_DRILL": "1",
    }
    with Server(env=env, workers=1) as made:
        yield made


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=20) as client:
        key = {"Authorization": f"Bearer {server.admin_key}"}
        body = {"id": "shop", "targetUrl": "https://shop.example", "state": "paused"}
        assert client.post("/api/admin/rooms", json=body, headers=key).status_code == 200
        yield client


@pytest.mark.req("PAG-047")
def test_a_connector_is_asked_about_again_and_has_the_same_bytes_everywhere(http: httpx.Client) -> None:
    made, again = ConnectorFiles(), ConnectorFiles()
    for name, media in (("latest.js", "text/javascript"), ("latest.tgz", "application/gzip")):
        answer = http.get(f"/connectors/cloudflare/{name}")
        known = http.get(f"/connectors/cloudflare/{name}", headers={"if-none-match": answer.headers["etag"]})
        file = made.get("cloudflare", name)
        assert file is not None
        assert answer.content == file.body
        assert file == again.get("cloudflare", name)
        assert answer.headers["cache-control"] == known.headers["cache-control"] == "no-cache"
        assert answer.headers["content-type"].partition(";")[0] == media
        assert answer.headers["content-disposition"] == f'attachment; filename="{file.name}"'
        assert (known.status_code, known.content) == (304, b"")


@pytest.mark.req("CFG-053")
def test_the_ticket_cookie_lives_as_long_as_the_variable_says(http: httpx.Client) -> None:
    answer = http.post("/api/join", json=PLACE)
    (cookie,) = [value for value in answer.headers.get_list("set-cookie") if value.startswith("qm_shop=")]
    assert "; Max-Age=1234;" in cookie + ";"


@pytest.mark.req("CFG-054")
def test_a_monitor_link_lives_as_long_as_the_variable_says(server: Server, http: httpx.Client) -> None:
    key = {"Authorization": f"Bearer {server.admin_key}"}
    link = http.post("/api/admin/monitor-tokens", json={}, headers=key).json()["link"]
    assert link["expiresAt"] - link["createdAt"] == 4_321_000


@pytest.mark.req("CFG-070", "VIS-069")
def test_status_and_the_opening_of_streams_share_their_limit(http: httpx.Client) -> None:
    seen = [http.get("/api/status?room=shop") for _ in range(12)]
    assert {answer.headers["x-ratelimit-limit"] for answer in seen} == {"13"}
    assert [answer.status_code for answer in seen] == [200] * 12
    with http.stream("GET", "/events?room=shop") as opened:
        assert opened.status_code == 200
    with http.stream("GET", "/events?room=shop") as refused:
        assert refused.status_code == 429
    assert http.get("/api/status?room=shop").status_code == 429
    assert http.get("/api/check?room=shop").status_code == 200, "each group has a table of its own"


@pytest.mark.req("CFG-072")
def test_leaving_and_taking_back_an_address_share_their_limit(http: httpx.Client) -> None:
    answers = [
        http.request(method, "/api/notify", json={**PLACE, **({"email": "x"} if method == "POST" else {})})
        for method in ("POST", "DELETE", "POST", "DELETE", "POST", "DELETE")
    ]
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"5"}
    assert [answer.status_code == 429 for answer in answers] == [False] * 5 + [True]


@pytest.mark.req("CFG-026")
def test_health_says_that_it_is_a_drill_and_that_nobody_leads(server: Server, http: httpx.Client) -> None:
    health = http.get("/api/admin/health", headers={"Authorization": f"Bearer {server.admin_key}"}).json()
    assert (health["drill"], health["leader"], http.get("/healthz").json()["leader"]) == (True, False, False)


@pytest.mark.req("CFG-027")
def test_the_log_has_lines_of_the_asked_level_and_the_warnings_about_variables(server: Server) -> None:
    assert 'JOIN_LIMIT_PER_MIN="many" is not a whole number; using 600' in server.stderr
    assert not re.search(r"Z (debug|info|warning) ", server.stderr)
