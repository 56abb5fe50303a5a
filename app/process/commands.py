"""The commands beside ``serve``: they look at the shared stores and start nothing."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from app.core.errors import StorageUnavailable
from app.core.settings import Loaded, Refused
from app.infrastructure import migrate as migrations
from app.infrastructure.postgres import Postgres
from app.infrastructure.store_checks import StoreRefused, check_postgres, check_valkey
from app.process.start import say, shared_urls, with_ca_file


def check(loaded: Loaded) -> int:
    """Say what a start would say; exit code 0 when it would be healthy, 1 when a store cannot be reached."""
    for line in [item.message for item in loaded.warnings] + list(loaded.hardening):
        say(line)
    settings = loaded.settings
    if settings.store != "valkey":
        say(f"STORE={settings.store}: the settings can be used; this form has no shared stores to look at")
        return 0
    with ExitStack() as held:
        valkey_url, database_url = shared_urls(with_ca_file(settings, held))
        try:
            found = {
                "Valkey": asyncio.run(
                    check_valkey(valkey_url, settings.valkey_timeout_ms / 1000, is_cluster=settings.valkey_cluster)
                ),
                "Postgres": asyncio.run(check_postgres(database_url)),
            }
        except StoreRefused as error:
            raise Refused(str(error)) from error
    for store, said in found.items():
        say(f"{store} answers" if said is None else f"{store} cannot be reached: {said}")
    return 0 if not any(found.values()) else 1


def migrate(loaded: Loaded, *, post: bool) -> int:
    """Bring the schema of the shared Postgres up to this build; private stores do it at every start."""
    if loaded.settings.store != "valkey":
        say(f"STORE={loaded.settings.store}: the private Postgres is brought up at every start; nothing to do")
        return 0
    with ExitStack() as held:
        _, database_url = shared_urls(with_ca_file(loaded.settings, held))
        try:
            applied = asyncio.run(_apply(database_url, post=post))
        except StorageUnavailable:
            say("Postgres cannot be reached")
            return 1
        except migrations.MigrationRefused as error:
            raise Refused(f"the Postgres schema cannot be used: {error}.") from error
    say(f"applied: {', '.join(applied)}" if applied else "the schema is up to date")
    return 0


async def _apply(database_url: str, *, post: bool) -> list[str]:
    postgres = Postgres(database_url, max_size=1)
    try:
        return await migrations.migrate(postgres, post=post)
    finally:
        await postgres.close()
