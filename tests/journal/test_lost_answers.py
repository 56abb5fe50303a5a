"""Commits whose answer is lost: nothing is stored twice, nothing acknowledged is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.core.ids import RoomId
from app.domain.facts import FactType
from app.infrastructure import drain
from app.infrastructure.journal import Journal
from app.infrastructure.postgres import Postgres
from tests.journal.house import House, ticket_numbers, until
from tests.journal.lossy_postgres import LossyPostgres

ROOMS = ("a", "b", "c")


@pytest.mark.req("FLT-112")
async def test_it_keeps_journal_and_acknowledgements_equal_when_answers_are_lost(
    house: House, fresh_schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "GRACE_SEC", 0.0)
    for room in ROOMS:
        await house.create(room)
    acknowledged: set[tuple[str, int]] = set()
    withdrawn: set[tuple[str, int]] = set()

    async def visitor(room: str, who: int) -> None:
        answer = await house.join(room, who)
        assert answer.view is not None
        place = (room, answer.view.ticket)
        stored = await house.commits.wait(RoomId(room), 1, answer.seq)
        if stored or await house.admin.undo_join(RoomId(room), 1, answer.seq, answer.view.ticket):
            acknowledged.add(place)
        else:
            withdrawn.add(place)

    async with LossyPostgres(fresh_schema, tmp_path, one_in=8) as lossy:
        pools = [Postgres(lossy.url), Postgres(lossy.url)]
        for pool in pools:
            await house.start_drainer(Journal(pool))
        wave = 0
        while wave < 40 or lossy.lost < 5:
            wave += 1
            assert wave < 400
            await asyncio.gather(*(visitor(room, wave * 10 + i) for room in ROOMS for i in range(5)))

        async def all_stored() -> bool:
            positions = [await house.admin.committed(RoomId(room)) for room in ROOMS]
            return all(committed == seq for _, seq, committed in positions)

        await until(all_stored, sec=20)
        for pool in pools:
            await pool.close()

    for room in ROOMS:
        joined = ticket_numbers(await house.journaled(room, FactType.JOINED))
        taken_back = ticket_numbers(await house.journaled(room, FactType.JOIN_WITHDRAWN))
        assert joined == list(range(1, 5 * wave + 1))
        assert {n for r, n in acknowledged if r == room} | {n for r, n in withdrawn if r == room} == set(joined)
        assert {n for r, n in withdrawn if r == room} == set(taken_back)
