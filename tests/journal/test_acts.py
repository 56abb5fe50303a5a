"""What operators and owners did to a line is there again after everything was lost."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from app.infrastructure.engine_results import JoinCode, Reason, Verdict, ViewState
from tests.journal.history import advance, keep_the_time, lose_and_rebuild
from tests.journal.house import House, digest, entry, holder, newcomer

SHOP = RoomId("shop")


async def line(house: House, count: int, **config: object) -> None:
    await house.create("shop", **config)
    for who in range(count):
        await house.join("shop", who)


@pytest.mark.req("ENG-193")
async def test_it_never_lets_an_ejected_ticket_in_again_after_a_loss(house: House) -> None:
    await line(house, 3, rate_per_minute=100_000)
    await advance(house, "shop", 2)
    assert (await house.engine.check(house.rooms["shop"], entry(0, 1))).verdict is Verdict.ADMITTED
    for ticket in (1, 2):
        await house.admin.eject(SHOP, ticket, actor="ann")

    await lose_and_rebuild(house)

    room = house.rooms["shop"]
    for who in (0, 1):
        check = await house.engine.check(room, entry(who, who + 1))
        assert (check.verdict, check.reason) == (Verdict.QUEUE, Reason.EJECTED)
        again = await house.engine.join(room, newcomer(who)._replace(proof=holder(who, who + 1)))
        assert (again.code, again.reason) == (JoinCode.CREATED, Reason.EJECTED)
    assert (await house.engine.check(room, entry(2, 3))).verdict is Verdict.ADMITTED
    assert (await house.admin.figures([SHOP]))[SHOP].active == 1


async def test_it_keeps_a_flush_and_a_purge_whose_records_were_never_written(house: House) -> None:
    await line(house, 5, max_concurrent=2)
    await house.engine.leave(house.rooms["shop"], holder(1, 2))
    await house.admin.flush(SHOP, actor="ann")
    for who in range(5, 8):
        await house.join("shop", who)
    await house.admin.purge(SHOP, actor="ann")
    await house.join("shop", 8)
    before = [await house.engine.status(house.rooms["shop"], holder(who, who + 1), seen=False) for who in range(9)]

    await lose_and_rebuild(house)

    after = [await house.engine.status(house.rooms["shop"], holder(who, who + 1), seen=False) for who in range(9)]
    same = ("state", "reason", "by_purge", "ticket", "ahead", "passed_at")
    for was, now in zip(before, after, strict=True):
        assert [getattr(was, name) for name in same] == [getattr(now, name) for name in same]
        assert abs(was.pass_expires_at - now.pass_expires_at) <= 100, "ends are kept in tenths of a second"
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.waiting, figures.pending_entry, figures.passes_outstanding) == (1, 2, 2)


async def test_it_keeps_a_reclaim_and_where_owners_are(house: House) -> None:
    await line(house, 2, rate_per_minute=100_000)
    await advance(house, "shop", 2)
    room = house.rooms["shop"]
    await house.engine.check(room, entry("other", 1)._replace(proof=holder(0, 1)))
    moved = holder(0, 1)._replace(strict=digest("cafe"), may_bind=True)
    item = newcomer(0)._replace(proof=moved, from_loose=digest("seen"))
    answer = await house.engine.join(room, item)
    assert answer.reason is Reason.RECLAIMED

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    room = house.rooms["shop"]
    from_cafe = holder(0, 1)._replace(strict=digest("cafe"), cookies=b"")
    at_home = holder(0, 1)._replace(cookies=b"", strict=digest("strict", 0))
    figures = (await house.admin.figures([SHOP]))[SHOP]
    assert (figures.active, figures.pending_entry) == (0, 2)
    assert answer.view is not None
    view = await house.engine.status(room, holder(0, 1), seen=False)
    for end in ("passed_at", "pass_expires_at", "claim_until"):
        assert abs(getattr(view, end) - getattr(answer.view, end)) <= 100
    old_key = entry(0, 1)._replace(proof=from_cafe._replace(doors=digest("door", "other")))
    assert (await house.engine.check(room, old_key)).reason is Reason.SESSION_ELSEWHERE
    assert (await house.engine.check(room, entry(0, 1)._replace(proof=at_home))).reason is Reason.BAD_TOKEN
    assert (await house.engine.check(room, entry(0, 1)._replace(proof=from_cafe))).verdict is Verdict.ADMITTED


@pytest.mark.req("ENG-147")
@pytest.mark.req("FLT-113")
async def test_it_treats_an_admission_that_nobody_was_told_of_as_a_session_used_elsewhere(house: House) -> None:
    await line(house, 2, rate_per_minute=100_000, max_concurrent=2, session_ttl_sec=60)
    await advance(house, "shop", 2)
    for who in (0, 1):
        lost = entry("an answer that never came", who + 1)._replace(proof=holder(who, who + 1))
        assert (await house.engine.check(house.rooms["shop"], lost)).verdict is Verdict.ADMITTED

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")
    await advance(house, "shop", 12)

    room = house.rooms["shop"]
    held = (await house.admin.figures([SHOP]))[SHOP]
    checks = [await house.engine.check(room, entry(who, who + 1)) for who in (0, 1)]
    without_cookie = newcomer(0)._replace(proof=holder(0, 1)._replace(cookies=b""))
    queued = await house.engine.join(room, without_cookie)
    by_cookie = await house.engine.join(room, newcomer(1)._replace(proof=holder(1, 2)))
    await advance(house, "shop", 60)

    assert (held.active, held.occupancy) == (2, 2)
    assert {check.reason for check in checks} == {Reason.SESSION_ELSEWHERE}
    assert (queued.code, queued.reason) == (JoinCode.CREATED, Reason.SESSION_ELSEWHERE)
    assert by_cookie.view is not None
    assert (by_cookie.reason, by_cookie.view.state) == (Reason.RECLAIMED, ViewState.PASSED)
    assert (await house.admin.figures([SHOP]))[SHOP].active == 0, "its slot is free with the end of the session"
