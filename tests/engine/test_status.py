"""Function status: what a holder is told, and what the question itself does."""

from __future__ import annotations

import pytest

from app.domain.layout import Flag, pack_header
from app.infrastructure.engine_results import Reason, ViewState
from tests.engine.world import ROOM, Browser, World


async def test_it_tells_a_stranger_nothing_about_the_ticket(world: World) -> None:
    await world.create(rate_per_minute=0)
    await world.joined()
    thief = Browser(ticket=1)

    view = await world.status(thief)
    check = await world.check(thief)
    join = await world.join(thief)

    assert (view.state, view.reason, view.ticket, view.joined_at) == (ViewState.GONE, Reason.BAD_TOKEN, 0, 0)
    assert (check.verdict.word, check.reason, check.ticket) == ("queue", Reason.BAD_TOKEN, 0)
    assert join.view is not None
    assert (join.view.ticket, join.reason) == (2, Reason.BAD_TOKEN)


@pytest.mark.req("ENG-107")
async def test_it_accepts_cookie_then_strict_then_loose_proof(world: World) -> None:
    await world.create(rate_per_minute=0)
    (owner,) = await world.joined()
    cookie = Browser(ticket=1, cookies=owner.cookies)
    strict = Browser(ticket=1, network=owner.name, cookies=["wrong"])
    wrong = Browser(ticket=1, cookies=["wrong"])

    views = [await world.status(b, seen=False) for b in (cookie, strict, wrong)]

    assert [view.state for view in views] == [ViewState.WAITING, ViewState.WAITING, ViewState.GONE]
    assert [view.owner_by_cookie for view in views] == [True, False, False]


@pytest.mark.req("ENG-107")
async def test_it_accepts_the_loose_proof_only_when_it_is_given(world: World) -> None:
    await world.create(rate_per_minute=0)
    (owner,) = await world.joined()
    proof = Browser(ticket=1, network=owner.name, loose=True).proof()
    edge = Browser(ticket=1).proof()

    with_loose = await world.engine.status(world.room, proof._replace(strict=edge.strict))
    without = await world.engine.status(world.room, edge)

    assert (with_loose.state, without.state) == (ViewState.WAITING, ViewState.GONE)


async def test_it_answers_gone_by_cause(world: World) -> None:
    await world.create(rate_per_minute=0)
    ejected, left = await world.joined(2)
    await world.admin.eject(ROOM, ejected.ticket, actor="op")
    await world.leave(left)
    none, refused, old, beyond = Browser(), Browser(refused=True), Browser(ticket=1, gen=3), Browser(ticket=9)

    views = [await world.status(b) for b in (none, refused, old, beyond, ejected, left)]

    assert {view.state for view in views} == {ViewState.GONE}
    assert [view.reason for view in views] == [
        Reason.NEW, Reason.BAD_TOKEN, Reason.STALE_GENERATION, Reason.EXPIRED, Reason.EJECTED, Reason.EXPIRED,
    ]  # fmt: skip


@pytest.mark.req("ENG-186")
async def test_it_shows_paused_and_bypass(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()

    await world.update(state=1)
    paused = await world.status(browser)
    await world.update(state=2)
    bypassed = await world.status(browser)
    await world.update(state=0)
    active = await world.status(browser)

    assert [v.state for v in (paused, bypassed, active)] == [ViewState.PAUSED, ViewState.BYPASS, ViewState.WAITING]
    assert active.ticket == 1


async def test_it_marks_the_owner_as_seen_at_most_once_a_second(world: World) -> None:
    await world.create(rate_per_minute=0)
    (browser,) = await world.joined()
    before = (await world.ticket(1)).seen

    await world.advance(0.5)
    await world.status(browser)
    soon = (await world.ticket(1)).seen
    await world.advance(3)
    await world.status(browser, seen=False)
    unseen = (await world.ticket(1)).seen
    await world.status(browser)

    assert (soon, unseen) == (before, before)
    assert (await world.ticket(1)).seen >= before + 30


async def test_it_marks_nobody_for_a_stranger(world: World) -> None:
    await world.create(rate_per_minute=60)
    await world.joined()
    before = await world.ticket(1)

    await world.advance(5)
    await world.status(Browser(ticket=1))

    assert await world.ticket(1) == before


async def test_it_notes_a_pass_as_told_only_when_the_answer_delivers_it(world: World) -> None:
    await world.create(rate_per_minute=60)
    (browser,) = await world.joined()

    await world.status(browser, told=False)
    untold = (await world.ticket(1)).flags
    await world.status(browser)

    assert not untold & Flag.TOLD
    assert (await world.ticket(1)).flags & Flag.TOLD


async def test_it_tells_a_session_only_to_the_cookie_owner_and_the_door_key(world: World) -> None:
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)
    by_print = Browser(ticket=1, network=owner.name)
    by_key = Browser(ticket=1, doors=owner.doors)

    owner.doors = []
    views = [await world.status(b) for b in (owner, by_print, by_key)]

    assert [v.state for v in views] == [ViewState.ACTIVE, ViewState.GONE, ViewState.ACTIVE]
    assert views[1].reason is Reason.SESSION_ELSEWHERE
    assert views[0].session_expires_at - views[0].now == pytest.approx(1_800_000, abs=200)


async def test_it_tells_the_release_rate(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=None, presence_sec=3600)
    (last,) = (await world.joined(100))[-1:]
    standing = await world.status(last)
    await world.update(rate_per_minute=30)
    configured = await world.status(last)
    await world.tick(59)
    before = await world.status(last)
    await world.tick(10)
    measured = await world.status(last)
    await world.update(state=1)
    paused = await world.status(last)

    assert (standing.release_per_min, configured.release_per_min, paused.release_per_min) == (0, 30, 0)
    assert before.release_per_min == 30
    assert 29 <= measured.release_per_min <= 30


async def test_it_marks_the_estimate_as_a_floor_when_no_slot_was_freed_for_a_minute(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=1, presence_sec=3600)
    first, second = await world.joined(2)
    await world.check(first)

    await world.tick(50)
    early = await world.status(second)
    await world.tick(15)
    late = await world.status(second)

    assert not early.est_is_floor
    assert (late.est_is_floor, late.release_per_min) == (True, 6000)


async def test_it_counts_removed_tickets_over_blocks_of_the_bitmap(world: World) -> None:
    await world.create(rate_per_minute=0)
    (owner,) = await world.joined()
    bits, g = world.keys.removed(1), 200_000
    chunk, at = world.keys.tickets(1, (g - 1) // 1024), (g - 1) % 1024 * 72
    await world.valkey.execute("SETRANGE", chunk, at, (await world.ticket(1)).pack())
    for n in (2, 65_535, 65_536, 65_537, 131_072, 199_999, 200_000, 200_001):
        await world.valkey.execute("SETBIT", bits, n, 1)
    header = await world.header()
    header |= {"last_ticket": 200_010, "removed": 8}
    header.pop("verified")
    await world.valkey.execute("SET", world.keys.header, pack_header(header))
    owner.ticket = g

    assert (await world.status(owner)).ahead == g - 1 - 6
