"""How long a statement may take, and what a start makes of records that it cannot use."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
import structlog

from app.core.errors import StorageUnavailable
from app.core.settings import Refused
from app.infrastructure.hour_store import HistoryUnreadable, HourStore
from app.infrastructure.postgres import Postgres
from app.process.schema import apply_migrations


@pytest.mark.req("CFG-040")
async def test_a_statement_has_its_time_and_a_report_four_times_as_much(fresh_schema: str) -> None:
    postgres = Postgres(fresh_schema, max_size=1, statement_timeout_ms=120)
    limit = "SELECT current_setting('statement_timeout')"

    assert await postgres.fetchval(limit) == "120ms"
    assert (await postgres.fetch_long(limit))[0][0] == "480ms"
    assert await postgres.fetchval(limit) == "120ms"
    for ask in (postgres.fetch, postgres.fetch_long):
        with pytest.raises(StorageUnavailable):
            await ask("SELECT pg_sleep(60)")
    await postgres.close()


@pytest.mark.req("CFG-040")
async def test_reports_are_read_with_that_patience(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    patient: list[str] = []
    real = Postgres.fetch_long

    async def noted(self: Postgres, sql: str, *args: object) -> list[asyncpg.Record]:
        patient.append(sql)
        return await real(self, sql, *args)

    monkeypatch.setattr(Postgres, "fetch_long", noted)
    store = HourStore(postgres)

    assert await store.read(0, 10) == []
    assert await store.rooms(0, 10) == []
    assert await store.count(0, 10, 1, None, 10) == 0
    assert await store.first_hour() is None
    assert await store.lives([("shop", 1)]) == {}
    assert len(patient) == 5


@pytest.mark.req("CFG-184", "OBS-185")
@pytest.mark.req("FLT-118")
async def test_a_start_refuses_a_record_that_this_build_cannot_use(postgres: Postgres) -> None:
    """Marked for later builds, or with a history that cannot be read; nothing is written then."""
    url = postgres.dsn
    assert await asyncio.to_thread(apply_migrations, url)

    await postgres.execute("INSERT INTO schema_marks VALUES ('needs_level', 99)")
    with pytest.raises(Refused, match=r"level 99.*Nothing was changed by this start"):
        await asyncio.to_thread(apply_migrations, url)
    await postgres.execute("DELETE FROM schema_marks")

    await postgres.execute("ALTER TABLE room_hours RENAME COLUMN waits TO waited")
    with pytest.raises(HistoryUnreadable):
        await HourStore(postgres).prove()
    with structlog.testing.capture_logs() as lines, pytest.raises(Refused, match=r"^\[history\]") as caught:
        await asyncio.to_thread(apply_migrations, url)
    assert "would overwrite it" in caught.value.block()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["[history] cannot be read"]
    await postgres.execute("ALTER TABLE room_hours RENAME COLUMN waited TO waits")
    assert await asyncio.to_thread(apply_migrations, url)
