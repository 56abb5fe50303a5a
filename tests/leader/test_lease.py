"""The leader's lease: one holder at a time, and numbers that never go back."""

from __future__ import annotations

import pytest

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.keys import leader_epoch, leader_lease
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from tests.journal.house import House, until
from tests.leader.conftest import LEASE_MS, lease_of

NOWHERE = "postgresql:///qm?host=/nonexistent"


async def test_it_has_one_holder_at_a_time(house: House) -> None:
    one, two = lease_of(house, "one"), lease_of(house, "two")

    assert await one.take()
    assert not await two.take()
    assert await one.renew()
    assert (one.is_held, two.is_held) == (True, False)


async def test_it_goes_on_at_once_in_a_process_of_the_same_run_that_was_started_again(house: House) -> None:
    one, again = lease_of(house, "one"), lease_of(house, "one")
    await one.take()

    assert await again.take()
    assert again.epoch == one.epoch + 1


@pytest.mark.req("FLT-023", "CFG-201")
async def test_it_passes_to_another_within_the_lease_when_its_holder_died(house: House) -> None:
    one, two = lease_of(house, "one"), lease_of(house, "two")
    await one.take()
    began = mono()

    await until(two.take, sec=LEASE_MS / 1000 + 2)

    assert not one.is_held
    assert mono() - began >= LEASE_MS / 1000 / 2
    assert not await one.renew()


@pytest.mark.req("FLT-023")
async def test_it_passes_to_another_at_once_when_it_is_given_back(house: House) -> None:
    one, two = lease_of(house, "one", ms=60_000), lease_of(house, "two")
    await one.take()

    await one.give()

    assert not one.is_held
    assert await two.take()
    await one.give()
    assert await two.renew(), "who is late gives nothing away that is another's"


async def test_it_raises_the_number_with_every_term(house: House) -> None:
    numbers = []
    for holder in ("one", "two", "one"):
        lease = lease_of(house, holder)
        assert await lease.take()
        numbers.append(lease.epoch)
        await lease.give()

    assert numbers == [1, 2, 3]
    assert await house.valkey.execute("GET", leader_epoch(house.prefix)) == b"3"
    assert await house.postgres.fetchval("SELECT epoch FROM leader_epoch") == 3


@pytest.mark.req("FLT-149")
async def test_it_never_takes_a_lower_number_than_postgres_has_seen(house: House) -> None:
    one = lease_of(house, "one")
    await house.valkey.execute("SET", leader_epoch(house.prefix), 41)
    await one.take()
    assert one.epoch == 42

    await house.valkey.execute("DEL", leader_epoch(house.prefix), leader_lease(house.prefix))
    two = lease_of(house, "two")
    assert await two.take()

    assert two.epoch == 43


@pytest.mark.req("FLT-149")
async def test_it_goes_by_valkey_alone_while_postgres_is_away(house: House) -> None:
    lost = Postgres(NOWHERE)
    lease = lease_of(house, "one", postgres=lost)
    await house.valkey.execute("SET", leader_epoch(house.prefix), 7)

    assert await lease.take()
    assert await lease.renew()

    assert lease.epoch == 8
    await lost.close()


@pytest.mark.req("FLT-149")
async def test_it_ends_a_term_whose_number_postgres_has_seen_before(house: House) -> None:
    before = lease_of(house, "zero")
    for _ in range(3):
        await before.take()
        await before.give()
    await house.valkey.execute("DEL", leader_epoch(house.prefix))
    lost = Postgres(NOWHERE)
    lease = lease_of(house, "one", postgres=lost)
    assert await lease.take()
    assert lease.epoch == 1
    lease._postgres = house.postgres

    assert not await lease.renew()
    assert not lease.is_held
    assert await lease.take()
    assert lease.epoch == 4
    await lost.close()


@pytest.mark.req("FLT-024")
async def test_it_is_over_for_a_process_that_was_frozen_for_longer(house: House) -> None:
    lease = lease_of(house, "one")
    await lease.take()
    lease.until = mono() - 0.001

    assert not lease.is_held
    assert not await lease.renew()


async def test_it_cannot_be_had_without_valkey(house: House, valkey_url: str) -> None:
    away = Valkey("unix:///nonexistent.sock")
    lease = lease_of(house, "one", valkey=away)

    with pytest.raises(StorageUnavailable):
        await lease.take()
    assert not lease.is_held
    await away.close()
