"""The schema at start: brought up before any process writes, or as soon as Postgres answers (FLT-057, FLT-140)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from setproctitle import setproctitle

from app.core import log as logging_setup
from app.core.errors import StorageUnavailable
from app.core.parent_death import die_with
from app.core.runtime import Runtime
from app.core.settings import Refused
from app.infrastructure.hour_store import HistoryUnreadable, HourStore
from app.infrastructure.migrate import MigrationRefused, migrate
from app.infrastructure.postgres import Postgres
from app.process.birth import Births

log = structlog.get_logger(__name__)

_FIRST_PAUSE_SEC: Final = 1.0
_LAST_PAUSE_SEC: Final = 30.0


@contextmanager
def bring_up_schema(runtime: Runtime, births: Births) -> Iterator[None]:
    """Migrate now; while Postgres cannot be reached, go on trying for as long as the block lasts.

    By a process, not a thread: main forks its processes, which a second thread would make unsafe.

    Raises:
        Refused: the schema cannot be brought to this build (CFG-184).
    """
    if apply_migrations(runtime.database_url):
        yield
        return
    if runtime.is_private:
        raise Refused("the private Postgres went away during the start. See the log lines above.")
    late = births.Process(name="late-migration", target=_try_on, kwargs={"runtime": runtime}, daemon=True)
    late.start()
    try:
        yield
    finally:
        late.kill()  # a migration is one transaction
        late.join(2)


def apply_migrations(database_url: str) -> bool:
    """Apply what is missing; False when Postgres cannot be reached. Refused: see ``bring_up_schema``."""
    try:
        applied = asyncio.run(_migrate(database_url))
    except StorageUnavailable:
        return False
    except MigrationRefused as error:
        raise Refused(f"the Postgres schema cannot be used: {error}. Nothing was changed by this start.") from error
    except HistoryUnreadable as error:
        log.error("[history] cannot be read", why=str(error))  # noqa: TRY400 - the sentence says it all
        raise Refused(
            f"[history] what rooms did in past hours cannot be read: {error}. Starting without it would overwrite it. "
            "Give the role of DATABASE_URL the right to read table room_hours, or restore that table."
        ) from error
    if applied:
        log.info("schema_migrated", files=applied)
    return True


async def _migrate(database_url: str) -> list[str]:
    postgres = Postgres(database_url, max_size=1)
    try:
        applied = await migrate(postgres)
        await HourStore(postgres).prove()
        return applied
    finally:
        await postgres.close()


def _try_on(runtime: Runtime) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # main ends this process
        signal.signal(number, signal.SIG_IGN)
    die_with(runtime.main_pid)
    setproctitle("qm-late-migration")
    logging_setup.configure_for(runtime)
    pause, never = _FIRST_PAUSE_SEC, threading.Event()
    while True:
        never.wait(pause)
        try:
            if apply_migrations(runtime.database_url):
                return
        except Refused as error:
            log.error("schema_not_usable", why=str(error))  # noqa: TRY400 - the sentence says it all
        pause = min(pause * 2, _LAST_PAUSE_SEC)
