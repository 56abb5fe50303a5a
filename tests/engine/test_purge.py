"""Function purge: the whole line is dropped in one step that writes to no ticket."""

from __future__ import annotations

import pytest

from app.domain.facts_of_tickets import Purged
from app.infrastructure.engine_results import JoinCode, Reason, TicketState, Verdict, ViewState
from tests.engine.test_flush import SLOW, crowd
from tests.engine.world import ROOM, Browser, World


@pytest.mark.req("ENG-189", "ENG-270")
async def test_it_drops_the_line_and_leaves_passes_and_sessions(world: World) -> None:
    await world.create(rate_per_minute=6000, max_concurrent=2, presence_sec=3600)
    inside, passed, *line = await crowd(world, 6)
    await world.tick(1)
    await world.check(inside)
    await world.leave(line[0])

    answer = await world.admin.purge(ROOM, actor="Zoë")

    figures = await world.figures()
    (fact,) = await world.facts(Purged)
    assert (answer.waiting, answer.pre_queue, answer.seq) == (3, 0, (1 << 32) + figures.seq)
    assert fact == Purged(line[-1].ticket, 3, 0, "Zoë")
    assert (figures.waiting, figures.active, figures.pending_entry) == (0, 1, 1)
    assert (await world.check(inside)).verdict is Verdict.SESSION
    assert (await world.status(passed)).state is ViewState.PASSED
    assert (await world.check(passed)).verdict is Verdict.ADMITTED
    assert (await world.header())["cfg_ver"] == world.room.cfg_ver, "the room and its settings stay"


@pytest.mark.req("ENG-190")
async def test_it_tells_the_purged_so_and_gives_them_new_places_at_the_end(world: World) -> None:
    await world.create(**SLOW)
    browsers = await crowd(world, 3)
    await world.admin.purge(ROOM, actor="ann")
    (newcomer,) = await world.joined()

    views = [await world.status(browser) for browser in browsers]
    checks = [await world.check(browser) for browser in browsers]
    again = await world.join(browsers[0])
    by_cookie = await world.join(Browser(cookies=browsers[1].cookies))

    assert {(view.state, view.reason, view.by_purge) for view in views} == {(ViewState.GONE, Reason.EJECTED, True)}
    assert {(check.verdict, check.reason) for check in checks} == {(Verdict.QUEUE, Reason.EJECTED)}
    assert again.view is not None
    assert (again.code, again.reason, again.view.ticket, again.view.ahead) == (JoinCode.CREATED, Reason.EJECTED, 5, 1)
    assert (by_cookie.code, by_cookie.reason) == (JoinCode.CREATED, Reason.EJECTED)
    assert (await world.status(newcomer)).ahead == 0
    stranger = await world.status(Browser(ticket=browsers[2].ticket))
    assert (stranger.reason, stranger.by_purge) == (Reason.BAD_TOKEN, False)


@pytest.mark.req("ENG-163")
async def test_it_frees_the_places_of_every_address(world: World) -> None:
    await world.create(rate_per_minute=0, queue_max_per_ip=2)
    await world.joined(2, address="office")

    await world.admin.purge(ROOM, actor="ann")

    assert [(await world.join(Browser(address="office"))).code for _ in range(3)] == [1, 1, 3]


@pytest.mark.req("ENG-192")
async def test_it_is_safe_to_repeat_and_to_purge_nobody(world: World) -> None:
    await world.create(**SLOW)
    empty = await world.admin.purge(ROOM, actor="ann")
    browsers = await crowd(world, 2)
    first = await world.admin.purge(ROOM, actor="ann")

    again = await world.admin.purge(ROOM, actor="ann")
    await world.commit()
    stored = await world.admin.purge(ROOM, actor="ann")
    eject_purged = await world.admin.eject(ROOM, browsers[0].ticket, actor="ann")
    (other,) = await world.joined()
    eject = [await world.admin.eject(ROOM, other.ticket, actor="ann") for _ in range(2)]

    assert (empty.waiting, empty.pre_queue) == (0, 0)
    assert (again.waiting, again.seq) == (0, first.seq), "it finishes the first: its commit is waited for"
    assert (stored.waiting, stored.seq) == (0, 0)
    assert len(await world.facts(Purged)) == 0, "nothing new was recorded"
    assert eject_purged.was == TicketState.EJECTED
    assert [answer.was for answer in eject] == [TicketState.WAITING, TicketState.EJECTED]


async def test_it_counts_on_rightly_after_a_purge_of_a_line_with_holes(world: World) -> None:
    await world.create(**SLOW)
    browsers = await crowd(world, 1100)
    for browser in browsers[1000:1010]:
        await world.leave(browser)

    answer = await world.admin.purge(ROOM, actor="ann")
    line = await crowd(world, 4)
    await world.leave(line[0])
    left = await world.leave(browsers[3])
    withdrawn = await world.admin.undo_join(ROOM, 1, answer.seq, browsers[4].ticket)
    await world.update(rate_per_minute=6000)
    await world.tick(1)

    figures = await world.figures()
    assert answer.waiting == 1090
    assert (left.was, withdrawn) == (TicketState.NONE, False)
    assert (figures.waiting, figures.pending_entry) == (0, 3)
    assert {(await world.status(b)).state for b in line[1:]} == {ViewState.PASSED}
    assert await world.valkey.execute("STRLEN", world.keys.doors(1, 1)) == 1024 * 48


@pytest.mark.req("ENG-274")
async def test_it_remembers_the_purge_when_the_records_have_been_dropped(world: World) -> None:
    await world.create(**SLOW)
    browsers = await crowd(world, 1030)
    await world.leave(browsers[0])
    await world.admin.purge(ROOM, actor="ann")
    (later,) = await world.joined()
    await world.leave(later)
    now = await world.status(browsers[5])

    await world.advance(90_000)
    for _ in range(12):
        await world.tick(1)
    forgotten = await world.valkey.execute("EXISTS", world.keys.tickets(1, 0))
    view, check = await world.status(browsers[5]), await world.check(browsers[5])
    beyond = await world.status(Browser(ticket=5000))

    assert (now.reason, now.by_purge) == (Reason.EJECTED, True)
    assert forgotten == 0
    assert (view.state, view.reason, view.by_purge) == (ViewState.GONE, Reason.EJECTED, True)
    assert check.reason is Reason.EJECTED
    assert (beyond.reason, beyond.by_purge) == (Reason.EXPIRED, False)
