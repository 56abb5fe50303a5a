"""Instances that sign with secrets which others cannot verify are named, and no part of a secret is (CFG-014)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from app.infrastructure.counter_board import LIFE_MS
from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from app.infrastructure.seal_store import SealState
from tests.admin.conftest import House, Process
from tests.admin.test_live import Desk


@pytest.fixture
async def here(house: House, process: Process) -> AsyncIterator[Desk]:
    made = Desk(process, house.valkey, house)
    yield made
    await made.close()


async def told(here: Desk, house: House, kid: str, kids: Sequence[str], *, age_ms: int = 0) -> list[str]:
    """Warnings of this instance beside another one that signs and verifies so."""
    records = FleetRecords(house.valkey, house.prefix, "run of the other")
    now = await records.now_ms()
    figures = {"kids": list(kids)}
    await records.put(
        InstanceRecord("", "i:other", "1.0.0", kid, now, True, True, False, seen_at=now - age_ms, figures=figures)
    )
    await here.watch.tell()
    report = await here.health.report()
    assert here.health.server_block()["insecureConfig"] == len(report["warnings"])
    return [text for text in report["warnings"] if "SECRET" in text]


@pytest.mark.req("CFG-014")
async def test_both_are_named_when_one_cannot_verify_what_the_other_signs(here: Desk, house: House) -> None:
    own = (await here.health.report())["keys"]["kid"]
    sentence = f"instances sign with different SECRETs: i:test ({own}) and i:other (0a1b2c3d)"

    assert await told(here, house, own, [own]) == []
    assert await told(here, house, "0a1b2c3d", ["0a1b2c3d"]) == [sentence]
    assert await told(here, house, "0a1b2c3d", ["0a1b2c3d", own]) == [sentence], "it verifies ours, and we not its own"
    assert await told(here, house, own, [own, "0a1b2c3d"]) == []
    assert await told(here, house, "0a1b2c3d", ["0a1b2c3d"], age_ms=LIFE_MS + 1) == [], "it is gone"
    assert "s" * 8 not in sentence


@pytest.mark.req("CFG-116")
async def test_the_badge_counts_every_warning_of_health(here: Desk) -> None:
    before = here.health.server_block()["insecureConfig"]
    here.health._stores.last_seals = SealState(7, 1, b"seal", 1, 3)  # found by a look at the trail

    assert here.health.server_block()["insecureConfig"] == before + 1
    assert len((await here.health.report())["warnings"]) == before + 1
