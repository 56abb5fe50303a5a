"""Functions undo_join, undo_admission, committed, drain_next, and the poke of the drainer."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from app.domain.facts_of_passes import AdmissionWithdrawn
from app.domain.facts_of_tickets import JoinWithdrawn
from app.domain.marks import mark, split_mark
from app.infrastructure.engine_errors import RoomFenced, RoomGone, StaleRoom
from app.infrastructure.engine_jobs import Pulled
from app.infrastructure.engine_results import JoinCode, Reason, Verdict, ViewState
from tests.engine.world import ROOM, Browser, World


async def test_it_withdraws_a_join_that_is_not_committed(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=1)
    browser = Browser(address="home")
    answer = await world.join(browser)
    (behind,) = await world.joined()

    stands = await world.admin.undo_join(ROOM, 1, answer.seq, 1)
    again = await world.admin.undo_join(ROOM, 1, answer.seq, 1)

    assert (stands, again) == (False, False)
    assert (await world.status(behind)).ahead == 0
    assert await world.facts(JoinWithdrawn) == [JoinWithdrawn(1, split_mark(answer.seq)[1])]
    assert (await world.join(Browser(address="home"))).code is JoinCode.CREATED
    assert (await world.join(browser)).code is JoinCode.IDENTITY_LIMIT


async def test_it_keeps_a_join_that_was_committed_after_all(world: World) -> None:
    await world.create(rate_per_minute=0)
    browser = Browser()
    answer = await world.join(browser)
    await world.commit()

    assert await world.admin.undo_join(ROOM, 1, answer.seq, 1)
    assert (await world.status(browser)).state is ViewState.WAITING


async def test_it_withdraws_a_join_that_has_got_a_pass_meanwhile(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    answer = await world.join(Browser())

    await world.admin.undo_join(ROOM, 1, answer.seq, 1)

    figures = await world.figures()
    assert (figures.occupancy, figures.passes_outstanding, figures.waiting) == (0, 0, 0)


@pytest.mark.req("ENG-146")
async def test_it_withdraws_an_admission_and_leaves_the_pass_as_it_was(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (browser,) = await world.joined()
    before = await world.status(browser)
    admitted = await world.check(browser)

    stands = await world.admin.undo_admission(ROOM, 1, admitted.seq, 1)
    after = await world.status(browser)
    figures = await world.figures()
    retry = await world.check(browser)

    assert stands is False
    assert (after.state, after.pass_expires_at, after.claim_until, after.passed_at) == pytest.approx(
        (ViewState.PASSED, before.pass_expires_at, before.claim_until, before.passed_at), abs=1
    )
    assert (figures.active, figures.pending_entry) == (0, 1)
    assert retry.verdict is Verdict.ADMITTED
    (fact,) = await world.facts(AdmissionWithdrawn)
    assert (fact.ticket, fact.admitted_seq, fact.flags) == (1, split_mark(admitted.seq)[1], 3)
    assert fact.passed_at == before.passed_at


@pytest.mark.req("ENG-133")
async def test_it_returns_credit_and_place_at_the_door_with_a_withdrawn_admission(world: World) -> None:
    await world.create(rate_per_minute=60, state=1)
    (ghost,) = await world.joined()
    await world.advance(40)
    await world.joined()
    await world.update(state=0)
    await world.tick(0)
    await world.tick(2)
    credit = (await world.header())["credit"]
    admitted = await world.check(ghost)
    paid = (await world.header())["credit"]

    await world.admin.undo_admission(ROOM, 1, admitted.seq, 1)

    header = await world.header()
    assert admitted.verdict is Verdict.ADMITTED
    assert (credit - paid, header["credit"]) == (1, credit)
    assert (header["active"], header["passes_out"]) == (0, 1)


async def test_it_keeps_an_admission_that_was_committed_after_all(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()
    admitted = await world.check(browser)
    await world.commit()

    assert await world.admin.undo_admission(ROOM, 1, admitted.seq, 1)
    assert (await world.check(browser)).verdict is Verdict.SESSION


async def test_it_withdraws_nothing_of_another_epoch_or_generation(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()

    with pytest.raises(RoomFenced):
        await world.admin.undo_join(ROOM, 1, mark(2, 2), 1)
    with pytest.raises(StaleRoom):
        await world.admin.undo_join(ROOM, 2, mark(1, 2), 1)
    assert (await world.status(browser)).state is ViewState.WAITING


async def test_it_hands_out_facts_in_order_and_forgets_acknowledged_ones(world: World) -> None:
    await world.create(rate_per_minute=0)
    await world.joined(5)

    first = await world.jobs.drain_next(ROOM, 0, 3)
    same = await world.jobs.drain_next(ROOM, 0, 3)
    rest = await world.jobs.drain_next(ROOM, 3, 100)
    done = await world.jobs.drain_next(ROOM, 6, 100)

    assert (first.gen, first.epoch, first.base, len(first.elements)) == (1, 1, 0, 3)
    assert same == first
    assert (rest.base, len(rest.elements)) == (3, 3)
    assert done == Pulled(1, 1, 6, [])
    assert await world.admin.committed(ROOM) == (1, 6, 6)


async def test_it_ignores_acknowledgements_outside_what_it_has(world: World) -> None:
    await world.create(rate_per_minute=0)
    await world.jobs.drain_next(ROOM, 1, 0)

    pulled = [await world.jobs.drain_next(ROOM, seq, 10) for seq in (0, 1, 99)]

    assert {(p.base, len(p.elements)) for p in pulled} == {(1, 0)}


async def test_it_hands_out_the_facts_of_a_deleted_room(world: World) -> None:
    await world.create()
    await world.admin.delete(ROOM, actor="op")

    assert len((await world.jobs.drain_next(ROOM, 0, 10)).elements) == 2


async def test_it_drains_many_rooms_with_an_error_in_the_place_of_one(world: World) -> None:
    await world.create()

    pulled = await world.jobs.drain_many([(ROOM, 0), (ROOM, 1), (type(ROOM)("none"), 0)], 10)

    assert isinstance(pulled[0], Pulled)
    assert isinstance(pulled[2], RoomFenced)


async def test_it_tells_when_there_is_no_header_at_all(world: World) -> None:
    with pytest.raises(RoomGone):
        await world.admin.committed(ROOM)


async def test_it_pokes_the_drainer_when_the_outbox_was_empty(world: World, valkey_url: str) -> None:
    await world.create(rate_per_minute=0)
    await world.commit()
    client = Redis.from_url(valkey_url)
    async with client, client.pubsub() as channel:
        await channel.subscribe(world.prefix + "poke")
        assert (await channel.get_message(timeout=5))["type"] == "subscribe"

        await world.joined(3)
        await world.commit()
        await world.joined(1)
        heard = []
        async with asyncio.timeout(5):
            while len(heard) < 2:
                message = await channel.get_message(timeout=5)
                heard.append((message["channel"], message["data"]))
        silence = await channel.get_message(timeout=0.05)

    assert heard == [((world.prefix + "poke").encode(), b"shop")] * 2
    assert silence is None


async def test_it_names_the_cause_of_a_withdrawn_ticket_as_expired(world: World) -> None:
    await world.create(rate_per_minute=0)
    browser = Browser()
    answer = await world.join(browser)
    await world.admin.undo_join(ROOM, 1, answer.seq, 1)

    assert (await world.status(browser)).reason is Reason.EXPIRED
