"""What answers while a store is away. Source: 03, chapter 19; VIS-093."""

from __future__ import annotations

import re
import time

import httpx
import pytest

from app.domain.room import RoomState
from app.infrastructure.rate_limiter import RateLimiter
from tests.admin.test_http_outage import child_of, halted
from tests.harness import Server
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site
from tests.visitor.test_check import PAGE, admitted
from tests.visitor.test_http import create
from tests.visitor.test_streams import streamed

NAVIGATION = {"sec-fetch-mode": "navigate", "accept": "text/html"}


@pytest.mark.req("VIS-210", "FLT-077")
async def test_it_refuses_places_and_admissions_alone_while_the_journal_is_away(
    house: House, limiter: RateLimiter
) -> None:
    site = Site(house, limiter)
    await site.create()
    inside, holder, waiting = (Browser(site, peer=f"198.51.100.{n}") for n in range(3))
    await admitted(inside)
    await holder.released()
    await site.update(rate_per_minute=0)
    await waiting.join()
    reader, _ = await streamed(waiting)
    house.commits.hear(b'{"failed":"*","by":""}')

    refused = [await Browser(site, peer="198.51.100.9").join(), await holder.check(url=PAGE)]
    went_on = [await inside.check(url=PAGE), await waiting.status(), await holder.status()]
    await site.update(state=RoomState.PAUSED)

    async def is_told() -> bool:
        return reader.states[-1]["state"] == "paused"

    await until(is_told)
    for answer in refused:
        assert (answer.status, answer.code, answer.cookies) == (503, "storage_unavailable", [])
    assert [answer.status for answer in went_on] == [200] * 3
    assert went_on[0].json["reason"] == "session"
    assert [answer.json["state"] for answer in went_on[1:]] == ["waiting", "passed"]
    await site.stop()


@pytest.mark.req("VIS-093", "VIS-209", "VIS-211", "VIS-208")
@pytest.mark.req("PAG-099")
@pytest.mark.req("PAG-101")
def test_it_serves_pages_and_files_from_memory_and_refuses_the_rest_at_once_while_the_stores_hang() -> None:
    with Server(env={"VALKEY_TIMEOUT_MS": "1000"}, workers=1) as server:
        create(server, "shop", rate=0)
        with httpx.Client(base_url=server.url, timeout=30) as visitor:
            visitor.post("/api/join", json={"roomId": "shop"})
            page = visitor.get("/w/shop")
            files = re.findall(r'"(/assets/waiting-[^"]+)"', page.text)
            from_memory = ["/qm.js", "/w/shop", "/offline.html", "/api/version", "/fonts/geist-latin.woff2", *files]
            before = {path: visitor.get(path) for path in from_memory}
            with halted(child_of(server.pid, "valkey-server")), halted(child_of(server.pid, "postgres")):
                until_refused(visitor)

                for path in from_memory:
                    answer = visitor.get(path)
                    assert answer.status_code == 200, path
                    assert path == "/api/version" or answer.content == before[path].content, path
                unknown = visitor.get("/w/elsewhere", headers=NAVIGATION)
                call = visitor.get("/w/elsewhere")
                began = time.monotonic()
                asked = [
                    *(visitor.get(f"/api/{name}?room=shop") for name in ("status", "check") * 5),
                    *(visitor.post("/api/join", json={"roomId": "shop"}) for _ in range(5)),
                    *(visitor.post("/api/leave", json={"roomId": "shop"}) for _ in range(5)),
                    *(visitor.get("/events?room=shop") for _ in range(5)),
                ]
                took = time.monotonic() - began

            assert (unknown.status_code, unknown.headers["content-type"]) == (503, "text/html; charset=utf-8")
            assert unknown.headers["retry-after"] == "5"
            assert '<meta http-equiv="refresh" content="5">' in unknown.text
            assert (call.status_code, call.json()["code"]) == (503, "storage_unavailable")
            assert {(answer.status_code, answer.json()["code"]) for answer in asked} == {(503, "storage_unavailable")}
            assert {answer.headers["retry-after"] for answer in asked} == {"5"}
            assert took < 25, "no question waited for a time-out of its own"
            assert visitor.get("/w/elsewhere", headers=NAVIGATION).status_code in (404, 503)


def until_refused(visitor: httpx.Client) -> None:
    """Wait until the server has noticed that Valkey hangs."""
    end = time.monotonic() + 60
    while True:
        answer = visitor.get("/api/version").json()
        visitor.get("/api/status?room=shop")
        if answer["backend"]["valkey"] == "down" if "backend" in answer else "valkey_down" in answer["degraded"]:
            return
        assert time.monotonic() < end
