"""A Postgres that takes every statement and fails every commit, as one whose disk is full: what is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure.rate_limiter import RateLimiter
from app.services.rooms import NotRecorded
from tests.journal.house import House, ticket_numbers, until
from tests.visitor.site import Answer, Browser, Site
from tests.visitor.test_outage import line_of, operator
from tests.visitor.test_streams import streamed
from tests.visitor.test_vouched import VISITOR, Connector, make

SHOP = RoomId("shop")
NO_SPACE = """
CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE CONSTRAINT TRIGGER no_space AFTER INSERT ON events
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_space();
"""
SPACE = "DROP TRIGGER no_space ON events; DROP FUNCTION no_space();"


@pytest.fixture
async def site(house: House, limiter: RateLimiter) -> AsyncIterator[Site]:
    made = make(house, limiter)
    yield made
    await made.stop()


async def drained(house: House) -> None:
    """Everything in the outbox is stored."""

    async def is_empty() -> bool:
        return not (await house.jobs.drain_next(SHOP, 0, 10)).elements

    await until(is_empty)


def refused(answer: Answer) -> tuple[int, str | None, list[str]]:
    return answer.status, answer.code, answer.cookies


REFUSED = (503, "storage_unavailable", [])


@pytest.mark.req("FLT-106", "FLT-109", "FLT-112", "FLT-114", "FLT-077", "FLT-110")
async def test_it_takes_back_whatever_it_could_not_commit(site: Site, house: House) -> None:
    """A join, the admissions of a browser and of a connector's visitor; whoever only asks is answered as ever."""
    await site.create(queue_max_per_ip=1)
    inside, holder, vouched = (Browser(site, peer=peer) for peer in ("198.51.100.1", "198.51.100.2", VISITOR))
    for browser in (inside, holder, vouched):
        await browser.released()
    assert (await inside.check()).json["reason"] == "admitted"
    connector, token = Connector(site), vouched.jar["qm_shop"]
    await site.update(rate_per_minute=0)
    waiting = Browser(site, peer="198.51.100.3")
    await waiting.join()
    reader, _ = await streamed(waiting)
    await drained(house)
    windows = [(await browser.status()).json["claimUntil"] for browser in (holder, vouched)]
    before = (await house.admin.figures([SHOP]))[SHOP]
    stored = await house.postgres.fetchval("SELECT count(*) FROM events")

    await house.postgres.execute(NO_SPACE)
    newcomer = Browser(site, peer="198.51.100.4")
    tasks = [asyncio.ensure_future(work) for work in (newcomer.join(), holder.check(), connector.check(token=token))]
    asked = [await waiting.status(), await inside.check()]
    answers = await asyncio.gather(*tasks)
    after = [await newcomer.join(), await holder.check()]

    assert [refused(answer) for answer in (*answers, *after)] == [REFUSED] * 5
    assert [answer.status for answer in asked] == [200, 200]
    assert asked[1].json["reason"] == "session"
    assert not reader.is_over
    figures = (await house.admin.figures([SHOP]))[SHOP]
    for name in ("waiting", "active", "occupancy", "passes_outstanding", "pending_entry"):
        assert getattr(figures, name) == getattr(before, name), name
    assert await house.postgres.fetchval("SELECT count(*) FROM events") == stored

    await house.postgres.execute(SPACE)
    await drained(house)
    assert [(await browser.status()).json["claimUntil"] for browser in (holder, vouched)] == windows

    async def is_in() -> bool:
        return (await holder.check()).json.get("reason") in ("admitted", "session")

    await until(is_in)
    entered = await connector.check(token=token)
    assert (entered.json["reason"], bool(entered.json["doorKey"])) == ("admitted", True)
    assert (await holder.check()).json["reason"] == "session", "by the door key of the retry"
    again = await newcomer.join()
    assert (again.json["created"], again.json["ticket"]) == (True, 6), "nobody gets the number that was taken back"
    assert (await waiting.status()).json["position"] == 1
    numbers = ticket_numbers(await house.journaled("shop", FactType.JOINED))
    assert (numbers[:4], numbers[-1]) == ([1, 2, 3, 4], 6)
    await house.lose_everything()
    assert await house.recovery.ensure(SHOP)
    assert (await house.admin.figures([SHOP]))[SHOP].waiting == 2


@pytest.mark.req("FLT-108", "FLT-116")
async def test_no_act_of_an_operator_is_answered_as_done(site: Site, house: House) -> None:
    await site.create(rate_per_minute=0)
    browser = Browser(site)
    await browser.join()
    rooms = operator(house)
    line = line_of(house, rooms)
    await drained(house)
    await house.postgres.execute(NO_SPACE)

    acts: list[Any] = [
        line.eject("shop", {"ticket": 1}, actor="ann"),
        rooms.upsert({"id": "shop", "name": "Other"}, actor="ann"),
        rooms.upsert({"id": "new", "targetUrl": "https://new.example"}, actor="ann"),
        line.purge("shop", actor="ann"),
    ]
    outcomes = await asyncio.gather(*acts, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [NotRecorded] * 4, outcomes
    assert all(isinstance(outcome, StorageUnavailable) for outcome in outcomes)
    await house.postgres.execute(SPACE)

    async def is_done() -> bool:
        try:
            await line.eject("shop", {"ticket": 1}, actor="ann")
            await rooms.upsert({"id": "shop", "name": "Other"}, actor="ann")
        except StorageUnavailable:
            return False
        return True

    await until(is_done)
    assert (await browser.status()).json["reason"] == "ejected"
