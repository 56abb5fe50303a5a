"""Readable addresses leave the journal, and nothing else does."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest

from app.core.ids import RoomId
from app.infrastructure.address_store import AddressStore
from app.services.leadership import Term, TermOver
from app.services.old_addresses import DAY_MS, OldAddresses
from tests.journal.house import House, newcomer
from tests.journal.snapshot import assert_alike, snapshot, without_fresh
from tests.leader.conftest import lease_of

SHOP = RoomId("shop")
GUIDE = Path(__file__).resolve().parents[2] / "docs/operations-fleet.md"


async def filled(house: House, count: int) -> None:
    """A room with ``count`` joins from one address, half of them more than a week old."""
    await house.create("shop")
    for who in range(count):
        await house.engine.join(house.rooms["shop"], newcomer(who))
    await house.drain("shop")
    await house.tamper("UPDATE events SET at = at - $1 WHERE seq <= $2", 7 * DAY_MS + 60_000, 1 + count // 2)


async def readable(house: House) -> list[int]:
    """Positions of facts with a readable address."""
    return [
        row["seq"] for row in await house.postgres.fetch("SELECT seq FROM events WHERE ip IS NOT NULL ORDER BY seq")
    ]


async def everything(house: House) -> list[Any]:
    rows = await house.postgres.fetch("SELECT room, gen, seq, type, lv, at, body FROM events ORDER BY seq")
    return [tuple(row) for row in rows]


@pytest.mark.req("FLT-150", "CFG-227")
async def test_it_blanks_what_is_too_old_in_steps_and_leaves_the_rest_as_it_was(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(house, 2600)
    before = await everything(house)
    lease = lease_of(house, "one", ms=600_000)
    await lease.take()
    store = AddressStore(house.postgres, house.valkey, house.prefix)
    steps = []
    blank = store.blank

    async def counted(*args: Any) -> bool:
        had = len(await readable(house))
        more = await blank(*args)
        steps.append(had - len(await readable(house)))
        return more

    monkeypatch.setattr(store, "blank", counted)
    await OldAddresses(store, days=7).round(Term(lease))

    assert await readable(house) == list(range(1302, 2602))
    assert max(steps) <= 1000
    assert sum(steps) == 1300
    assert await everything(house) == before
    await OldAddresses(store, days=7).round(Term(lease))
    assert sum(steps) == 1300
    await house.tamper("UPDATE events SET at = at - $1", 30 * DAY_MS)
    await OldAddresses(store, days=7).round(Term(lease))
    assert await readable(house) == []


@pytest.mark.req("FLT-150")
async def test_a_room_whose_addresses_are_all_blanked_is_rebuilt_the_same(house: House) -> None:
    await filled(house, 20)
    rebuilt = []
    for statement in ("SELECT 1", "UPDATE events SET ip = NULL"):
        await house.postgres.execute(statement)
        await house.lose_everything()
        assert await house.recovery.ensure(SHOP)
        rebuilt.append(without_fresh(await snapshot(house.valkey, house.prefix, SHOP)))

    assert_alike(*rebuilt)
    assert len(await house.tickets("shop")) == 20


async def test_it_ends_with_the_term(house: House) -> None:
    await filled(house, 4)
    lease = lease_of(house, "one", ms=600_000)
    await lease.take()
    term = Term(lease)
    await lease.give()

    with pytest.raises(TermOver):
        await OldAddresses(AddressStore(house.postgres, house.valkey, house.prefix), days=7).round(term)
    assert len(await readable(house)) == 4


@pytest.mark.req("FLT-150")
@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8::1"])
async def test_the_guides_statement_blanks_one_address(house: House, address: str) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    await house.create("shop")
    for who, mapped in enumerate(("::ffff:198.51.100.7", "2001:db8::1", "::ffff:198.51.100.8")):
        item = newcomer(who)._replace(ip=packed(mapped))
        await house.engine.join(house.rooms["shop"], item)
    await house.drain("shop")

    done = await house.postgres.execute(statement.replace("198.51.100.7", address))

    assert done == "UPDATE 1"
    left = await house.postgres.fetch("SELECT ip FROM events WHERE ip IS NOT NULL")
    gone = packed(address if ":" in address else f"::ffff:{address}")
    assert gone not in {row["ip"] for row in left}
    assert len(left) == 2


def packed(address: str) -> bytes:
    """The 16 bytes of an address."""
    return IPv6Address(address).packed
