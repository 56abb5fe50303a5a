"""What the leader does, once per fleet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.core.runtime import Runtime
from app.core.secret import Secret
from app.core.settings import Settings
from app.infrastructure.metric_book import MetricBook
from app.services.heavy_pauses import never
from tests.journal.house import House
from workers.directory import directory_of
from workers.leader import _leadership
from workers.runner import Background


@pytest.mark.req("FLT-012")
async def test_it_probes_tunes_switches_tells_counts_and_tidies_up(house: House) -> None:
    settings = Settings(
        valkey_prefix=house.prefix, email_notify=True, smtp_url=Secret("smtps://mail.example"), smtp_from="a@b.example",
        address_retain_days=30, secret=Secret("s" * 32), public_url="https://queue.example",
    )  # fmt: skip
    runtime = Runtime(settings, "unix:///a", "postgresql:///b", "i:one", "table", 1, 1, False)  # type: ignore[arg-type]
    background = Background(runtime, house.valkey, house.postgres, asyncio.Event(), lambda: None, MetricBook.alone())

    leadership: Any = _leadership(background, directory_of(background), never)

    assert {duty.name for duty in leadership._duties} >= {
        "prober", "autotune", "activation", "alerts", "hours", "old_hours", "old_marks", "old_addresses", "turn_mails",
    }  # fmt: skip
