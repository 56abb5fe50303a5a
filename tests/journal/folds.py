"""Folding a test's journal whole, and from checkpoints at random positions of it."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

from app.domain.fold import RoomFold
from app.domain.fold_state import dump_fold, load_fold
from tests.journal.house import House


async def rows_of(house: House, room: str = "shop") -> list[Any]:
    """The journal of a room's first generation as a fold reads it."""
    sql = "SELECT seq, type, lv, at, body FROM events WHERE room = $1 AND gen = 1 ORDER BY seq"
    return await house.postgres.fetch(sql, room)


def folded(rows: list[Any], now_ms: int) -> RoomFold:
    """The fold of rows from the first on."""
    fold = RoomFold(now_ms)
    fold.feed(rows)
    return fold


async def assert_checkpoints_agree(house: House, *, tries: int = 5) -> None:
    """From a checkpoint at any m ≤ n the journal adds up to the same room, field by field, byte by byte (ENG-252)."""
    rows = await rows_of(house)
    now_ms = rows[-1]["at"] + 5000
    whole = folded(rows, now_ms)
    whole.renew()  # as an image does where the clock has moved
    for m in [1, len(rows), *(1 + secrets.randbelow(len(rows)) for _ in range(tries))]:
        fold = load_fold(list(dump_fold(folded(rows[:m], rows[m - 1]["at"]))), now_ms)
        fold.feed(rows[m:])
        fold.renew()
        for field in dataclasses.fields(RoomFold):
            assert getattr(fold, field.name) == getattr(whole, field.name), (m, field.name)
