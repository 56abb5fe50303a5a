"""Drainers of several instances share the rooms out among them."""

from __future__ import annotations

import pytest

from app.core.ids import RoomId
from app.infrastructure import leases
from app.infrastructure.leases import DrainLeases
from tests.journal.house import House, until

ROOMS = [RoomId("a"), RoomId("b")]


async def test_it_gives_a_room_to_one_instance(house: House) -> None:
    first = DrainLeases(house.valkey, house.prefix, "one")
    second = DrainLeases(house.valkey, house.prefix, "two")

    assert await first.hold(ROOMS[:1]) == {"a"}
    assert await second.hold(ROOMS) == {"b"}
    assert await first.hold(ROOMS) == {"a"}


async def test_it_goes_on_at_once_where_a_killed_drainer_of_the_instance_stopped(house: House) -> None:
    await DrainLeases(house.valkey, house.prefix, "one").hold(ROOMS)

    assert await DrainLeases(house.valkey, house.prefix, "one").hold(ROOMS) == {"a", "b"}


async def test_it_takes_over_from_an_instance_that_is_gone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_SEC", 1.0)
    await DrainLeases(house.valkey, house.prefix, "one").hold(ROOMS)
    second = DrainLeases(house.valkey, house.prefix, "two")
    assert await second.hold(ROOMS) == set()

    async def taken() -> bool:
        return await second.hold(ROOMS) == {"a", "b"}

    await until(taken)
