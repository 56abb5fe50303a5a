"""An owner takes his session back from another browser (ENG-156 … ENG-158), and sessions shared by many (ENG-298)."""

from __future__ import annotations

import asyncio

import pytest

from app.domain.facts_of_passes import Admitted, Lapsed, Reclaimed
from app.domain.layout import Flag
from app.infrastructure.engine_results import (
    JoinCode,
    Reason,
    TicketState,
    Verdict,
    ViewState,
)
from tests.engine.world import Browser, World


async def stolen(world: World, **fields: object) -> tuple[Browser, Browser]:
    """An owner, and a browser on his network that was admitted with his token."""
    await world.create(**{"rate_per_minute": 60, "max_concurrent": 1, **fields})
    (owner,) = await world.joined()
    other = Browser(ticket=1, network=owner.name, address=owner.name)
    assert (await world.check(other)).verdict is Verdict.ADMITTED
    return owner, other


@pytest.mark.req("ENG-156", "ENG-266")
async def test_it_gives_the_owner_by_cookie_a_fresh_pass_with_the_sessions_slot(world: World) -> None:
    owner, other = await stolen(world)
    await world.tick(100)

    answer = await world.join(owner)
    figures = await world.figures()
    used = [await world.check(other), await world.status(other)]
    admitted = await world.check(owner)

    (fact,) = await world.facts(Reclaimed)
    view = answer.view
    assert view is not None
    assert (answer.code, answer.reason, view.ticket, view.state) == (
        JoinCode.EXISTING, Reason.RECLAIMED, 1, ViewState.PASSED,
    )  # fmt: skip
    assert view.pass_expires_at - view.now == pytest.approx(600_000, abs=200)
    assert view.claim_until - view.now == pytest.approx(120_000, abs=200)
    assert (fact.ticket, fact.pass_end, fact.claim_end) == (1, view.pass_expires_at, view.claim_until)
    assert (figures.active, figures.pending_entry, figures.occupancy) == (0, 1, 1)
    assert {answer.reason for answer in used} == {Reason.SESSION_ELSEWHERE}, "its key is void, on his network too"
    assert admitted.verdict is Verdict.ADMITTED
    assert (await world.check(other)).reason is Reason.SESSION_ELSEWHERE
    assert (await world.check(owner)).verdict is Verdict.SESSION
    rejoined = await world.join(other)
    assert rejoined.view is not None
    assert (rejoined.code, rejoined.reason, rejoined.view.ticket) == (JoinCode.CREATED, Reason.SESSION_ELSEWHERE, 2)


@pytest.mark.req("ENG-156")
async def test_it_gives_the_other_browser_a_new_ticket_before_the_owner_is_in_again(world: World) -> None:
    owner, other = await stolen(world)
    await world.join(owner)

    left = await world.leave(other)
    rejoined = await world.join(other)

    assert left.was is TicketState.NONE
    assert rejoined.view is not None
    assert (rejoined.code, rejoined.reason, rejoined.view.ticket) == (JoinCode.CREATED, Reason.SESSION_ELSEWHERE, 2)
    assert (await world.check(owner)).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-156")
async def test_it_takes_nothing_back_by_a_fingerprint_or_with_the_right_key(world: World) -> None:
    owner, other = await stolen(world)
    twin = Browser(ticket=1, network=owner.name, address=owner.name)
    keyed = Browser(ticket=1, cookies=owner.cookies, doors=other.doors, network=owner.name)

    by_print = await world.join(twin)
    with_key = await world.join(keyed)
    by_cookie_alone = await world.join(Browser(cookies=owner.cookies))

    assert (by_print.code, by_print.reason) == (JoinCode.CREATED, Reason.SESSION_ELSEWHERE)
    assert with_key.view is not None
    assert (with_key.code, with_key.view.state) == (JoinCode.EXISTING, ViewState.ACTIVE)
    assert (by_cookie_alone.code, by_cookie_alone.reason) == (JoinCode.EXISTING, Reason.RECLAIMED)
    assert len(await world.facts(Reclaimed)) == 1


@pytest.mark.req("ENG-157", "ENG-035")
async def test_it_needs_neither_credit_nor_slots_and_changes_no_time(world: World) -> None:
    owner, other = await stolen(world, rate_per_minute=60, session_max_sec=1000, session_ttl_sec=900)
    before = await world.door(1)
    await world.update(rate_per_minute=0, state=1)
    await world.tick(300)

    answer = await world.join(owner)
    during = await world.door(1)
    admitted = await world.check(owner)
    after = await world.door(1)
    await world.tick(690)
    kept = await world.check(owner)
    await world.tick(15)

    assert answer.view is not None
    assert answer.view.passed_at == before.passed_at
    assert (during.passed_at, after.passed_at) == (before.passed_at, before.passed_at)
    assert (await world.header())["credit"] < 1
    assert after.first_admitted == during.first_admitted == before.first_admitted
    firsts = [fact.first_admitted_at for fact in await world.facts(Admitted)]
    assert max(firsts) - min(firsts) < 2000
    assert admitted.session_expires_at - admitted.now == pytest.approx(700_000, abs=2_000)
    assert kept.verdict is Verdict.SESSION
    assert Lapsed(3, (1,)) in await world.facts(Lapsed), "the longest life counts from the first admission"
    assert other.doors


@pytest.mark.req("ENG-158")
async def test_it_is_answered_after_its_commit(world: World) -> None:
    owner, _ = await stolen(world)
    await world.commit()

    first = await world.join(owner)
    again = await world.join(owner)
    await world.commit()
    stored = await world.join(owner)

    mark = (1 << 32) + (await world.header())["seq"]
    assert first.seq == again.seq == mark
    assert again.reason is Reason.NONE
    assert stored.seq == 0


async def test_it_lets_a_reclaimed_pass_give_its_slot_up_and_lapse_like_any_other(world: World) -> None:
    owner, _ = await stolen(world, presence_sec=20)
    await world.join(owner)
    untold = await world.ticket(1)

    await world.tick(25)
    given_up = await world.figures()
    await world.tick(600)

    assert not untold.flags & Flag.TOLD
    assert (given_up.pending_entry, given_up.passes_outstanding) == (0, 1)
    assert (await world.figures()).passes_outstanding == 0
    assert (await world.join(owner)).reason is Reason.EXPIRED


@pytest.mark.req("ENG-286")
async def test_it_refuses_a_second_browser_and_gives_the_place_back_to_the_owner_on_a_new_network(world: World) -> None:
    await world.create(rate_per_minute=60, max_concurrent=1)
    (owner,) = await world.joined()
    await world.check(owner)
    passed_at = (await world.door(1)).passed_at
    second = Browser(ticket=1, network=owner.name, address=owner.name)

    refused = await world.check(second)
    owner.network, owner.doors = "mobile", []
    await world.advance(60)
    elsewhere = await world.check(owner)
    answer = await world.join(owner)

    assert refused.reason is Reason.SESSION_ELSEWHERE
    assert elsewhere.reason is Reason.SESSION_ELSEWHERE
    assert answer.view is not None
    assert (answer.view.state, answer.view.ticket, answer.view.passed_at) == (ViewState.PASSED, 1, passed_at)
    assert (await world.check(owner)).verdict is Verdict.ADMITTED
    assert (await world.check(second)).verdict is Verdict.QUEUE


def friend(owner: Browser, address: str) -> Browser:
    return Browser(ticket=1, doors=owner.doors, address=address, network=address)


@pytest.mark.req("ENG-153", "ENG-298")
async def test_it_lets_sixteen_addresses_use_one_session_and_no_more(world: World) -> None:
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)

    first = [await world.check(friend(owner, f"friend-{i}")) for i in range(15)]
    more = [await world.check(friend(owner, f"late-{i}")) for i in range(3)]
    known = [await world.check(friend(owner, f"friend-{i}")) for i in range(15)] + [await world.check(owner)]

    assert {check.verdict for check in first} == {Verdict.SESSION}
    assert {(check.verdict, check.reason, check.is_shared) for check in more} == {
        (Verdict.QUEUE, Reason.SESSION_ELSEWHERE, True)
    }
    assert {(check.verdict, check.is_shared) for check in known} == {(Verdict.SESSION, False)}
    assert (await world.figures()).active == 1


@pytest.mark.req("ENG-298")
async def test_it_forgets_an_address_that_has_not_been_used_for_ten_minutes(world: World) -> None:
    await world.create(rate_per_minute=60, session_ttl_sec=86400)
    (owner,) = await world.joined()
    await world.check(owner)
    for i in range(15):
        await world.check(friend(owner, f"friend-{i}"))
    await world.advance(500)
    for i in range(14):
        await world.check(friend(owner, f"friend-{i}"))

    full = await world.check(friend(owner, "late"))
    await world.advance(101)
    two = [await world.check(friend(owner, f"late-{i}")) for i in range(3)]

    assert full.is_shared
    assert [check.verdict for check in two] == [Verdict.SESSION, Verdict.SESSION, Verdict.QUEUE]


@pytest.mark.req("ENG-298")
async def test_it_rests_while_visitors_cannot_be_told_apart_and_slides_for_nobody_it_refuses(world: World) -> None:
    await world.create(rate_per_minute=60, session_ttl_sec=3600)
    (owner,) = await world.joined()
    await world.check(owner)
    for i in range(15):
        await world.check(friend(owner, f"friend-{i}"))
    nobody = friend(owner, "late")
    nobody.alike = True
    await world.advance(20)

    uncovered = await world.check(friend(owner, "late"), covered=False)
    used_at = (await world.door(1)).used_at
    resting = await world.check(nobody)

    assert uncovered.verdict is Verdict.NOT_TARGETED
    assert used_at < (await world.door(1)).used_at
    assert resting.verdict is Verdict.SESSION


@pytest.mark.req("ENG-298")
async def test_it_leaves_the_owner_the_reclaim_which_voids_every_copy_of_the_key(world: World) -> None:
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)
    copies = [friend(owner, f"friend-{i}") for i in range(15)]
    for copy in copies:
        await world.check(copy)
    owner.doors, owner.address, owner.network = [], "hotel", "hotel"

    reclaimed = await world.join(owner)
    entered = await world.check(owner)
    again = [await world.check(friend(owner, f"new-{i}")) for i in range(16)]

    assert reclaimed.reason is Reason.RECLAIMED
    assert entered.verdict is Verdict.ADMITTED
    assert {(await world.check(copy)).verdict for copy in copies} == {Verdict.QUEUE}
    assert [check.verdict for check in again] == [Verdict.SESSION] * 15 + [Verdict.QUEUE], "the count begins anew"
    await world.leave(owner)
    assert await world.valkey.execute("EXISTS", world.keys.shared(1)) == 0


@pytest.mark.req("ENG-298", "ENG-156")
async def test_it_gives_an_owner_who_moved_too_often_his_session_back_though_he_has_its_key(world: World) -> None:
    """His own browser never loses the key; from an address too many it counts for nothing."""
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)
    key, home = list(owner.doors), owner.address
    for i in range(14):
        await world.check(friend(owner, f"train-{i}"))
    owner.address = owner.network = "station"
    seated = await world.join(owner)
    await world.check(owner)
    owner.address = owner.network = "hotel"
    refused = await world.check(owner)

    reclaimed = await world.join(owner)
    entered = await world.check(owner)
    first = await world.check(friend(Browser(doors=key), home or owner.name))

    assert seated.view is not None
    assert seated.view.state is ViewState.ACTIVE, "one address was left"
    assert refused.is_shared
    assert reclaimed.reason is Reason.RECLAIMED
    assert entered.verdict is Verdict.ADMITTED
    assert (first.verdict, first.reason) == (Verdict.QUEUE, Reason.BAD_TOKEN), "every copy of the key is void"
    assert (await world.figures()).active == 1


@pytest.mark.req("ENG-298", "ENG-156")
async def test_it_gives_a_stranger_with_too_many_copies_of_a_key_a_place_at_the_end(world: World) -> None:
    """Without the owner's cookie there is nothing to take back: a view of the session would send him in circles."""
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)
    for i in range(15):
        await world.check(friend(owner, f"friend-{i}"))
    known, late = friend(owner, "friend-3"), friend(owner, "late")

    inside = await world.join(known)
    outside = await world.join(late)

    assert inside.view is not None
    assert inside.view.state is ViewState.ACTIVE
    assert outside.code is JoinCode.CREATED
    assert (await world.check(owner)).verdict is Verdict.SESSION


async def test_it_counts_no_address_twice_in_one_batch(world: World) -> None:
    await world.create(rate_per_minute=60)
    (owner,) = await world.joined()
    await world.check(owner)

    checks = await asyncio.gather(*(world.check(friend(owner, f"friend-{i % 15}")) for i in range(60)))

    assert {check.verdict for check in checks} == {Verdict.SESSION}
