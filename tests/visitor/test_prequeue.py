"""A scheduled room from a visitor's side: join, status, check, stream and leave with a handle, and at the opening."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.tokens import VisitorTokens
from app.infrastructure.rate_limiter import RateLimiter
from app.services.draws import draw_room
from tests.journal.house import House, until
from tests.visitor.site import Browser, Site
from tests.visitor.test_streams import opened, streamed

DROP = RoomId("drop")
HOUR_MS = 3_600_000


async def scheduled(site: Site, **config: Any) -> int:
    """A room whose doors open in an hour."""
    opens_at = wall_ms() + HOUR_MS
    await site.create("drop", opens_at=opens_at, **config)
    return opens_at


async def begin(site: Site) -> None:
    """The doors open; the order is not drawn yet."""
    await site.advance(HOUR_MS / 1000, "drop")
    await site.house.jobs.tick(DROP, wall_ms() + HOUR_MS)


async def open_doors(site: Site) -> None:
    """The doors open, and the whole order is journaled."""
    await begin(site)
    assert await draw_room(site.house.jobs, DROP) is not None
    await until(lambda: is_revealed(site))


async def is_revealed(site: Site) -> bool:
    return not (await site.house.admin.figures([DROP]))[DROP].phase


def claims(site: Site, token: str) -> Any:
    tokens = VisitorTokens(site.keyring, max_age_sec=86_400, cookie_max_age_sec=86_400)
    return tokens.verify(token, "drop", wall_ms())


@pytest.mark.req("VIS-152", "VIS-184", "ENG-088", "ENG-245", "ENG-167")
async def test_it_tells_a_place_without_any_number(site: Site, browser: Browser) -> None:
    opens_at = await scheduled(site)
    first = (await browser.join("drop")).json
    other = (await browser.twin().join("drop")).json

    assert {k: first[k] for k in ("state", "roomState", "created", "reason", "preQueued", "preCount", "opensAt")} == {
        "state": "scheduled", "roomState": "scheduled", "created": True, "reason": "new", "preQueued": True,
        "preCount": 1, "opensAt": opens_at,
    }  # fmt: skip
    assert (first["position"], first["ahead"]) == (None, None)
    assert "ticket" not in first
    assert "estWaitSec" not in first
    assert first["joinedAt"] <= first["now"] < opens_at
    assert (other["preCount"], len(other["ref"])) == (2, 6)
    assert other["ref"] != first["ref"]
    mine, his = claims(site, first["token"]), claims(site, other["token"])
    assert (mine.room, mine.generation, mine.ticket, len(mine.handle)) == ("drop", 1, 0, 22)
    assert mine.handle != his.handle
    assert browser.jar["qm_drop"] == first["token"]


@pytest.mark.req("ENG-181", "VIS-158")
async def test_it_tells_the_holder_again_by_token_and_by_cookie(site: Site, browser: Browser) -> None:
    await scheduled(site)
    first = (await browser.join("drop")).json

    status = (await browser.status("drop")).json
    again = (await browser.join("drop")).json
    del browser.jar["qm_drop"]
    by_cookie = (await browser.join("drop")).json

    for state in (status, again, by_cookie):
        assert {k: state[k] for k in ("state", "ref", "joinedAt", "preCount")} == {
            k: first[k] for k in ("state", "ref", "joinedAt", "preCount")
        }
    assert "token" not in status
    assert (again["created"], by_cookie["created"]) == (False, False)
    assert claims(site, by_cookie["token"]).handle == claims(site, first["token"]).handle


async def test_it_shows_a_foreign_handle_nothing(site: Site, browser: Browser) -> None:
    await scheduled(site)
    token = (await browser.join("drop")).json["token"]
    thief = Browser(site, peer="203.0.113.9", agent="Other/1.0")

    state = (await thief.status("drop", token=token)).json
    joined = (await thief.join("drop", token=token)).json

    assert (state["state"], state["reason"]) == ("gone", "bad_token")
    assert "ref" not in state
    assert (joined["created"], joined["reason"], joined["preQueued"]) == (True, "bad_token", True)


@pytest.mark.req("VIS-150", "ENG-160", "ENG-161", "ENG-039")
async def test_it_refuses_more_places_than_an_address_may_hold(site: Site, browser: Browser) -> None:
    await scheduled(site, pre_queue_max_per_ip=2, queue_max_per_ip=1)
    await browser.join("drop")
    await browser.twin().join("drop")

    refused = await browser.twin().join("drop")

    assert (refused.status, refused.code) == (429, "prequeue_identity_limit")
    assert refused.headers["retry-after"] == "30"
    assert (refused.cookies, set(refused.json)) == ([], {"error", "code"})
    assert (await browser.join("drop")).status == 200
    assert (await browser.twin(peer="203.0.113.9").join("drop")).status == 200


@pytest.mark.req("ENG-172")
async def test_it_gives_each_a_handle_of_his_own_after_the_schedule_was_called_off(
    site: Site, browser: Browser
) -> None:
    await scheduled(site)
    browsers = [browser, browser.twin(), browser.twin()]
    await browser.join("drop")
    await site.update("drop", opens_at=None)

    places = [(await each.join("drop")).json for each in browsers]

    handles = {claims(site, place["token"]).handle for place in places}
    assert [place["preCount"] for place in places] == [1, 2, 3]
    assert len(handles) == 3
    await site.house.jobs.tick(DROP)
    assert await draw_room(site.house.jobs, DROP) is not None
    await until(lambda: is_revealed(site))
    assert sorted([(await each.status("drop")).json["ticket"] for each in browsers]) == [1, 2, 3]


@pytest.mark.req("ENG-144")
async def test_it_queues_every_page_before_the_doors_open(site: Site, browser: Browser) -> None:
    await scheduled(site)
    newcomer = (await browser.check("drop")).json
    token = (await browser.join("drop")).json["token"]

    mine = (await browser.tag_check("drop", token=token, url="https://shop.example/")).json
    stolen = (await Browser(site, agent="Other/1.0").check("drop", token=token)).json

    assert (newcomer["action"], newcomer["reason"], newcomer["roomState"]) == ("queue", "new", "scheduled")
    assert (mine["action"], mine["reason"], mine["roomState"]) == ("queue", "scheduled", "scheduled")
    assert stolen["reason"] == "scheduled", "before ownership is asked for"


@pytest.mark.req("VIS-175")
async def test_it_lets_a_holder_leave(site: Site, browser: Browser) -> None:
    await scheduled(site)
    await browser.join("drop")

    left = await browser.send("POST", "/api/leave", {"roomId": "drop"})

    assert left.json == {"ok": True, "left": "prequeued"}
    assert "qm_drop" not in browser.jar
    again = (await browser.join("drop")).json
    assert (again["created"], again["preCount"]) == (True, 1)


@pytest.mark.req("ENG-181", "ENG-180")
async def test_it_turns_a_handle_into_a_ticket_after_the_draw(site: Site, browser: Browser) -> None:
    await scheduled(site, rate_per_minute=0)
    joined = (await browser.join("drop")).json
    others = [browser.twin() for _ in range(3)]
    for other in others:
        await other.join("drop")
    await begin(site)
    between = (await browser.status("drop")).json
    assert (between["state"], between["preQueued"]) == ("scheduled", True)
    late = (await browser.twin().join("drop")).json
    assert (late["state"], late["preQueued"], late["ticket"], late["position"]) == ("scheduled", False, 5, 5)

    await open_doors(site)

    by_handle = (await browser.tag_check("drop", token=joined["token"], url="https://shop.example/")).json
    assert (by_handle["reason"], by_handle["roomState"]) == ("waiting", "active")
    state = (await browser.status("drop")).json
    assert (state["state"], state["joinedAt"]) == ("waiting", joined["joinedAt"])
    assert claims(site, state["token"]).ticket == state["ticket"]
    assert browser.jar["qm_drop"] == state["token"]
    assert "token" not in (await browser.status("drop")).json
    answers = [(await other.join("drop")).json for other in others]
    assert sorted([state["ticket"], *(a["ticket"] for a in answers)]) == [1, 2, 3, 4]
    assert all(a["created"] is False and claims(site, a["token"]).ticket == a["ticket"] for a in answers)
    assert (await browser.status("drop", token=joined["token"])).json["ticket"] == state["ticket"]


@pytest.mark.req("ENG-180", "VIS-160", "FLT-107")
async def test_it_answers_503_while_the_draw_cannot_be_recorded(idle_house: House, limiter: RateLimiter) -> None:
    site = Site(idle_house, limiter)
    await site.create("drop", opens_at=wall_ms() + HOUR_MS)
    await idle_house.drain("drop")
    visitor = Browser(site)
    joining = visitor.join("drop")
    await _answered(idle_house, joining)
    await begin(site)
    assert await draw_room(idle_house.jobs, DROP) is not None
    assert (await visitor.status("drop")).json["state"] == "scheduled"

    idle_house.commits.hear('{"failed":"*","by":""}')

    refused = await visitor.status("drop")
    assert (refused.status, refused.code) == (503, "storage_unavailable")
    await idle_house.drain("drop")
    idle_house.commits.hear('{"stored":[],"by":""}')
    assert (await visitor.status("drop")).json["ticket"] == 1
    await site.stop()


async def _answered(house: House, joining: Any) -> None:
    """Let a join be answered where nothing is drained by itself."""
    task = asyncio.ensure_future(joining)

    async def is_done() -> bool:
        await house.drain("drop")
        return task.done()

    await until(is_done)
    assert (await task).status == 200


@pytest.mark.req("ENG-180", "ENG-181", "VIS-169", "FLT-107")
async def test_it_holds_the_frame_back_until_the_draw_is_told_and_brings_the_ticket(
    site: Site, browser: Browser
) -> None:
    await scheduled(site, rate_per_minute=0)
    joined = (await browser.join("drop")).json
    reader, stream = await streamed(browser, "drop")
    assert reader.states[0]["preQueued"] is True
    assert claims(site, reader.states[0]["token"]).handle == claims(site, joined["token"]).handle
    await begin(site)
    stream.due = stream.frame_at = 0.0
    assert all("ticket" not in state for state in reader.states)

    await open_doors(site)

    async def is_told() -> bool:
        stream.due = stream.frame_at = 0.0
        return reader.states[-1]["state"] == "waiting"

    await until(is_told)
    told = reader.states[-1]
    assert (told["ticket"], told["position"]) == (1, 1)
    assert claims(site, told["token"]).ticket == 1
    assert told["token"] in stream.location
    assert sum("token" in state for state in reader.states) == 2, "once for the handle, once for the ticket"


async def test_it_keeps_streams_of_different_handles_apart(site: Site, browser: Browser) -> None:
    await scheduled(site, pre_queue_max_per_ip=None)
    readers = []
    for _ in range(8):
        visitor = browser.twin()
        await visitor.join("drop")
        readers.append((await streamed(visitor, "drop"))[0])

    assert not any(reader.is_over for reader in readers)
    assert len({json.dumps(reader.states[0]["ref"]) for reader in readers}) == 8


async def test_it_lets_a_stream_begin_with_a_handle_after_the_draw(site: Site, browser: Browser) -> None:
    await scheduled(site, rate_per_minute=0)
    await browser.join("drop")
    await open_doors(site)

    opening = await opened(browser, "drop")

    state = json.loads(opening.first.partition(b"data: ")[2])
    assert (state["ticket"], claims(site, state["token"]).ticket) == (1, 1)


@pytest.mark.req("ENG-075", "FLT-106")
async def test_it_leaves_no_place_behind_when_the_commit_fails(
    idle_house: House, limiter: RateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.3)
    site = Site(idle_house, limiter)
    await site.create("drop", opens_at=wall_ms() + HOUR_MS)

    refused = await Browser(site).join("drop")

    assert (refused.status, refused.code, refused.cookies) == (503, "storage_unavailable", [])
    assert (await idle_house.admin.figures([DROP]))[DROP].pre_queue == 0
    await site.stop()


@pytest.mark.req("ENG-172")
async def test_it_lets_everybody_in_line_when_the_schedule_is_cancelled(site: Site, browser: Browser) -> None:
    await scheduled(site, rate_per_minute=0)
    await browser.join("drop")
    await site.update("drop", opens_at=None)
    shown = (await browser.status("drop")).json
    assert (shown["state"], shown["preQueued"]) == ("scheduled", True)

    await site.house.jobs.tick(DROP)
    assert await draw_room(site.house.jobs, DROP) is not None

    async def is_waiting() -> bool:
        return (await browser.status("drop")).json["state"] == "waiting"

    await until(is_waiting)


@pytest.mark.req("ENG-066")
async def test_it_never_calls_an_outage_paused(site: Site, browser: Browser) -> None:
    await site.create("drop", rate_per_minute=0)
    joined = (await browser.join("drop")).json
    assert await site.house.jobs.fence(DROP, 1, 1)

    answers = [
        await browser.status("drop"),
        await browser.check("drop", token=joined["token"]),
        await browser.join("drop"),
    ]
    assert {(answer.status, answer.code) for answer in answers} == {(503, "storage_unavailable")}
    assert await site.house.recovery.ensure(DROP)

    again = (await browser.status("drop")).json
    assert (again["state"], again["roomState"]) == ("waiting", "active")
    assert "paused" not in json.dumps([again, *(answer.json for answer in answers)])
