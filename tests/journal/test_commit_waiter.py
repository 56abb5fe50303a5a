"""Waiting for commits: notices, deadlines, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import ujson

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.marks import mark, split_mark
from app.infrastructure.valkey import Valkey
from app.services import commit
from app.services.commit import CommitWaiter, committed_or_undone


class Headers:
    """Headers as the test sets them."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    async def headers(self, room_ids: Sequence[str]) -> list[dict[str, Any] | None]:
        return [self.found.get(room) for room in room_ids]


@pytest.fixture
def headers() -> Headers:
    return Headers()


@pytest.fixture
async def valkey(valkey_url: str) -> AsyncIterator[Valkey]:
    adapter = Valkey(valkey_url)
    yield adapter
    await adapter.close()


@pytest.fixture
async def waiter(valkey: Valkey, fresh_prefix: str, headers: Headers) -> AsyncIterator[CommitWaiter]:
    made = CommitWaiter(valkey=valkey, prefix=fresh_prefix, jobs=headers)
    await made.start()
    yield made
    await made.stop()


def waiting(waiter: CommitWaiter, seq: int, *, room: str = "a", epoch: int = 1) -> asyncio.Task[bool]:
    return asyncio.ensure_future(waiter.wait(room, 1, mark(epoch, seq)))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_it_carries_the_epoch_in_a_mark() -> None:
    assert split_mark(mark(3, 17)) == (3, 17)
    assert mark(3, 0) == 0


@pytest.mark.req("ENG-006")
@pytest.mark.req("FLT-110")
async def test_it_does_not_wait_when_there_is_nothing_to_commit(waiter: CommitWaiter) -> None:
    waiter.hear('{"stored":[["a",1,5,1]],"by":""}')

    for nothing_left in (0, mark(1, 5)):
        with pytest.raises(StopIteration) as answered:  # without a single pause, so without asking anybody
            waiter.wait("a", 1, nothing_left).send(None)
        assert answered.value.value is True


async def test_it_answers_those_up_to_the_watermark(waiter: CommitWaiter, valkey: Valkey, fresh_prefix: str) -> None:
    first, second, third = (waiting(waiter, seq) for seq in (1, 2, 3))
    await settle()

    await valkey.execute("PUBLISH", fresh_prefix + "ack", ujson.dumps({"stored": [["a", 1, 2, 1]], "by": ""}))

    assert await first
    assert await second
    assert not third.done()
    waiter.hear('{"stored":[],"by":""}')
    assert await waiter.wait("a", 1, mark(1, 2)), "known from the last notice"
    third.cancel()


async def test_it_asks_the_live_store_when_a_notice_was_lost(waiter: CommitWaiter, headers: Headers) -> None:
    headers.found["a"] = {"gen": 1, "epoch": 1, "committed": 4}

    assert await waiting(waiter, 4)


async def test_it_gives_up_at_the_deadline_and_refuses_from_then_on(
    waiter: CommitWaiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "DEADLINE_SEC", 0.05)

    assert not await waiting(waiter, 1)
    assert waiter.refusing()

    waiter.hear(ujson.dumps({"stored": [["a", 1, 1, 1]], "by": ""}))
    assert not waiter.refusing()


async def test_it_fails_all_and_refuses_until_the_first_good_commit(waiter: CommitWaiter) -> None:
    tasks = [waiting(waiter, 1), waiting(waiter, 5, room="b")]
    await settle()

    waiter.hear('{"failed":"*","by":""}')

    assert await asyncio.gather(*tasks) == [False, False]
    assert waiter.refusing()
    waiter.hear('{"stored":[],"by":""}')
    assert not waiter.refusing()


async def test_it_fails_only_the_room_that_cannot_be_stored(waiter: CommitWaiter) -> None:
    bad, good = waiting(waiter, 1), waiting(waiter, 1, room="b")
    await settle()

    waiter.hear('{"failed":[["a",1]]}')
    waiter.hear('{"stored":[["b",1,1,1]],"by":""}')

    assert not await bad
    assert await good
    assert not waiter.refusing()


async def test_it_never_takes_a_fact_after_a_rebuild_for_the_lost_one(waiter: CommitWaiter) -> None:
    waiter.hear('{"stored":[["a",1,5,1]],"by":""}')
    lost = waiting(waiter, 6)
    await settle()

    waiter.hear('{"stored":[["a",1,6,2]],"by":""}')

    assert not await lost
    assert not await waiting(waiter, 4, epoch=1)
    assert await waiting(waiter, 6, epoch=2)


async def test_it_fails_the_waiters_of_a_fenced_room(waiter: CommitWaiter) -> None:
    task = waiting(waiter, 6)
    await settle()

    waiter.hear('{"reset":["a"]}')

    assert not await task


async def test_it_survives_visitors_who_went_away(waiter: CommitWaiter) -> None:
    gone, stays = waiting(waiter, 1), waiting(waiter, 1)
    await settle()
    gone.cancel()
    await settle()

    waiter.hear('{"stored":[["a",1,1,1]],"by":""}')

    assert await stays


async def test_it_undoes_what_was_not_committed() -> None:
    async def never() -> bool:
        return False

    async def stands() -> bool:
        return True

    await committed_or_undone(stands(), never)
    await committed_or_undone(never(), stands)
    with pytest.raises(StorageUnavailable):
        await committed_or_undone(never(), never)


async def test_it_heeds_its_own_drainer_alone_and_goes_on_while_another_stores(
    waiter: CommitWaiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One instance that has lost its way to Postgres is no outage of the fleet, nor of itself."""
    monkeypatch.setattr(commit, "OTHERS_SEC", 0.2)
    waiting = asyncio.ensure_future(waiter.wait(RoomId("a"), 1, mark(1, 7)))
    await asyncio.sleep(0)

    waiter.hear('{"failed":"*","by":"the other"}')
    assert (waiter.refusing(), waiting.done()) == (False, False)
    waiter.hear('{"stored":[["b",1,1,1]],"by":"the other"}')
    waiter.hear('{"failed":"*","by":""}')
    assert (waiter.refusing(), waiting.done()) == (False, False)
    await asyncio.sleep(0.25)
    waiter.hear('{"failed":"*","by":""}')

    assert waiter.refusing()
    assert not await waiting
    waiter.hear('{"stored":[],"by":"the other"}')
    assert not waiter.refusing()
