"""Entries of the audit trail that stand in no transaction of an act: written at once, or kept until they can be."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from app.core.errors import StorageUnavailable
from app.core.runtime import Runtime
from app.core.settings import Settings
from app.domain.actor import Actor
from app.infrastructure.audit_store import AuditStore
from app.infrastructure.notes_store import AuditQuery, NotesStore
from app.infrastructure.postgres import Postgres
from app.services import audit_trail
from app.services.audit_trail import AuditTrail
from app.services.instance_life import InstanceLife
from tests.admin.desk import OWNER, Desk

NOWHERE = "postgresql://127.0.0.1:1/qm"


async def told(desk: Desk, action: str) -> list[tuple[str, str, bool]]:
    """Detail, room and outcome of entries of an action, oldest first."""
    rows = await desk.postgres.fetch("SELECT detail, room, ok FROM audit WHERE action = $1 ORDER BY id", action)
    return [(row["detail"], row["room"], row["ok"]) for row in rows]


async def test_an_entry_is_there_when_its_act_is_answered(desk: Desk) -> None:
    trail = AuditTrail(desk.postgres)

    await trail.note(OWNER, "test.at-once", "shown", room="shop", ok=False)

    assert await told(desk, "test.at-once") == [("shown", "shop", False)]
    assert (trail.kept, trail.write_errors) == (0, 0)
    await trail.stop()


@pytest.mark.req("ADM-253")
async def test_an_entry_that_cannot_be_written_is_kept_and_written_in_its_turn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "AGAIN_SEC", 0.01)
    monkeypatch.setattr(audit_trail, "AGAIN_MAX_SEC", 0.05)
    postgres = Postgres(NOWHERE)
    trail = AuditTrail(postgres)

    for number in range(3):
        await trail.note(Actor("Ann", ident="535dddaa"), "test.kept", f"{number}")
    assert trail.kept == 3
    assert trail.write_errors >= 3
    postgres._dsn = desk.postgres.dsn
    await postgres.close()  # the next connection goes there
    async with asyncio.timeout(10):
        while trail.kept:
            await asyncio.sleep(0.01)

    assert [detail for detail, _, _ in await told(desk, "test.kept")] == ["0", "1", "2"]
    await trail.stop()
    await postgres.close()


async def test_what_is_still_kept_at_the_end_goes_to_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit_trail, "STOP_SEC", 0.05)
    trail = AuditTrail(Postgres(NOWHERE))
    await trail.note(OWNER, "session.create")

    await trail.stop()

    assert "audit_entry_lost" in capfd.readouterr().out


@pytest.mark.req("ADM-265")
async def test_a_trail_that_cannot_be_read_is_not_an_empty_one() -> None:
    with pytest.raises(StorageUnavailable):
        await NotesStore(Postgres(NOWHERE)).audit(AuditQuery())


async def test_an_entry_that_postgres_cannot_hold_keeps_no_other_waiting(desk: Desk) -> None:
    trail = AuditTrail(desk.postgres)

    with capture_logs() as lines:
        await trail.note(OWNER, "test.unholdable", "a NUL: \0")
        await trail.note(OWNER, "test.after", "as ever")

    rows = await desk.postgres.fetch("SELECT action FROM audit WHERE action IN ('test.unholdable', 'test.after')")
    assert [row["action"] for row in rows] == ["test.after"]
    assert [line["action"] for line in lines if line["event"] == "audit_entry_lost"] == ["test.unholdable"]
    assert trail.kept == 0
    await trail.stop()


@pytest.mark.req("ADM-256", "BUD-069")
async def test_a_stop_with_failing_storage_is_not_called_clean(desk: Desk) -> None:
    runtime = Runtime(Settings(workers=1), "", "", "i:stopped", "qm-none", 0, 1, True)
    life = InstanceLife(AuditStore(desk.postgres), runtime, now=desk.now)

    await life.tell_stop(is_clean=False)
    await life.tell_stop(is_clean=True)
    await life.request_stop(Actor("ADMIN_KEY", kind="admin_key", instance="i:stopped"), "forced: 1 of 2 instances")

    rows = await desk.postgres.fetch("SELECT detail, ok FROM audit WHERE instance = 'i:stopped' ORDER BY id")
    assert [(row["detail"], row["ok"]) for row in rows] == [
        ("shutdown (SIGTERM) WITH STORAGE FAILING: changes since the last good commit are not in the events journal",
         False),
        ("shutdown (SIGTERM), clean", True),
        ("forced: 1 of 2 instances", True),
    ]  # fmt: skip
