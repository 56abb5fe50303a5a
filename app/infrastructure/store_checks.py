"""The first look at the shared stores: what refuses a start for good, and what may pass by itself.

Source: docs/spec/01 CFG-185 and CFG-186, docs/spec/07 FLT-047, FLT-052 to FLT-057.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import asyncpg
import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.infrastructure.store_trouble import Trouble, trouble_of
from app.infrastructure.valkey_link import DRIVER_ERRORS

log = structlog.get_logger(__name__)

_POSTGRES_TIMEOUT_SEC: Final = 5.0


class StoreRefused(Exception):
    """A store that will not let this server work, however long it waits; names the kind and never the address."""


async def check_valkey(url: str, timeout_sec: float, *, is_cluster: bool = False) -> str | None:
    """Reach Valkey once. ``is_cluster``: VALKEY_CLUSTER.

    Returns:
        None when it answers, else the first words of an error that may pass by itself.

    Raises:
        StoreRefused: credentials, host name, certificate, or a cluster that was not announced.
    """
    client = Redis.from_url(
        url, retry=Retry(NoBackoff(), 0), socket_timeout=timeout_sec, socket_connect_timeout=timeout_sec, protocol=2
    )
    try:
        memory: dict[str, Any] = await client.info("memory")
        cluster: dict[str, Any] = await client.info("cluster")
    except (*DRIVER_ERRORS, UnicodeError) as error:
        return judge(error, "VALKEY_URL", "Valkey")
    finally:
        with contextlib.suppress(*DRIVER_ERRORS):
            await client.aclose()
    if cluster.get("cluster_enabled") == 1 and not is_cluster:
        raise StoreRefused("the server behind VALKEY_URL is a cluster. Set VALKEY_CLUSTER=1.")
    if (policy := memory.get("maxmemory_policy")) != "noeviction":
        log.warning(
            "valkey_may_evict", maxmemory_policy=policy, wanted="noeviction", risk="parts of a room could vanish"
        )
    return None


async def check_postgres(url: str) -> str | None:
    """Reach Postgres once; as ``check_valkey``, with StoreRefused also for a database that does not exist."""
    try:
        link = await asyncpg.connect(url, timeout=_POSTGRES_TIMEOUT_SEC)
    except asyncpg.InvalidCatalogNameError as error:
        raise StoreRefused(
            "the database that DATABASE_URL names does not exist. Create it, or correct DATABASE_URL."
        ) from error
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, UnicodeError) as error:
        return judge(error, "DATABASE_URL", "Postgres")
    await link.close()
    return None


_SENTENCES: Final = {
    Trouble.CREDENTIALS: "{store} refuses the credentials of {variable}. Correct user and password in {variable}.",
    Trouble.NAME: "the host name in {variable} does not resolve. Correct {variable}.",
    Trouble.CERTIFICATE: (
        "the TLS certificate of {store} does not verify. Set the CA that signed it, or correct {variable}."
    ),
}


def judge(error: BaseException, variable: str, store: str) -> str:
    """First words of an error that may pass by itself; StoreRefused for one that no waiting mends."""
    trouble = trouble_of(error)
    if trouble is not None:
        raise StoreRefused(_SENTENCES[trouble].format(store=store, variable=variable)) from error
    return _first_words(error)


def _first_words(error: BaseException) -> str:
    """Kind and beginning of an error; addresses of libraries' texts are cut off by the length."""
    return f"{type(error).__name__}: {str(error)[:60]}"
