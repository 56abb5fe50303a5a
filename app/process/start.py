"""From settings to a served port, step by step, and back.

Order: everything that can be refused without changing anything, then stores, keys, schema, processes. Whatever was
opened is closed in the opposite order, also when a step fails or a signal comes in between.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import shutil
import socket
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Final

import structlog

from app.core import log as logging_setup
from app.core.clock import wall_ms
from app.core.runtime import Runtime
from app.core.secret import Secret
from app.core.settings import ConfigWarning, Loaded, Refused, Settings
from app.core.version import VERSION
from app.infrastructure.embedded import EmbeddedError, PrivateStores
from app.infrastructure.heavy_link import SOCKET_NAME, bind_socket
from app.infrastructure.metric_book import MetricMemory
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.store_binaries import NoBinaries
from app.infrastructure.store_checks import StoreRefused, check_postgres, check_valkey
from app.infrastructure.store_leftovers import make_run_dir, sweep_run_dirs
from app.infrastructure.valkey import client_url
from app.process.birth import SPAWN, Births
from app.process.data_dir import DataDir
from app.process.manager import ON_DEMAND_PROCESS, Manager, Plan, print_line
from app.process.schema import bring_up_schema
from app.process.state_table import StateTable, TableMaker
from app.process.stop import StopEarly, StopWish
from app.process.web import build_app, worker_app
from workers.runner import BACKGROUND, PG_BESIDE, PG_CONNECTIONS

log = structlog.get_logger(__name__)

BACKLOG: Final = 1024
"""Connections that wait to be accepted; a surge opens many at once."""
_PRIVATE_PG_RESERVE: Final = 10
PG_IN_BACKGROUND: Final = sum(PG_CONNECTIONS.values()) + PG_BESIDE
SPARE_FILES: Final = 256
"""Files besides those of clients and origins: stores, logs, pipes."""


def serve(loaded: Loaded, wish: StopWish) -> int:
    """Run the server until it is stopped; the exit code (0 orderly, 1 failed, 78 refused)."""
    for line in [item.message for item in loaded.warnings] + list(loaded.hardening):
        say(line)
    with ExitStack() as held:
        held.callback(wish.close)
        try:
            wish.check()
            return _serve(loaded, wish, held)
        except StopEarly:
            return 0
        except (NoBinaries, StoreRefused) as error:
            raise Refused(str(error)) from error
        except EmbeddedError as error:
            say(f"cannot start: {error}")
            return 1


def say(line: str) -> None:
    """A plain line for the operator, on stderr; written at any LOG_LEVEL (CFG-027)."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _serve(loaded: Loaded, wish: StopWish, held: ExitStack) -> int:
    settings = loaded.settings
    _log_for_main(settings)
    sock = held.enter_context(bind(settings.host, settings.port))
    data_dir = None
    if settings.store == "embedded":
        data_dir = DataDir.open(settings.data_dir)
        held.callback(data_dir.close)
    file_warnings = raise_file_limit(settings)
    stores = None
    if settings.store == "valkey":
        valkey_url, database_url = shared_urls(with_ca_file(settings, held))
        sweep_run_dirs()
        run_dir = make_run_dir()
        held.callback(shutil.rmtree, run_dir, ignore_errors=True)
        asyncio.run(_check_shared(valkey_url, database_url, settings))
    else:
        stores = PrivateStores(data_dir.path if data_dir else None, settings.pg_pool_max + _PRIVATE_PG_RESERVE)
        stores.start()
        held.callback(stores.stop)
        valkey_url, database_url, run_dir = stores.valkey_url, stores.database_url, stores.run_dir
    wish.check()
    settings, states, key_warnings = with_keys(settings, data_dir)
    settings, pool_warnings = with_pool(settings, is_set="PG_POOL_MAX" in loaded.given)
    table = RateLimiter.create(workers=settings.workers, max_keys=settings.rate_limit_max_keys)
    held.callback(table.close)
    metrics = MetricMemory.create(settings.workers + len(BACKGROUND))
    held.callback(metrics.close)
    runtime = Runtime(
        settings=settings,
        valkey_url=valkey_url,
        database_url=database_url,
        instance_id=settings.instance_id,
        rate_table_name=table.name,
        metrics_name=metrics.name,
        started_at=wall_ms(),
        main_pid=os.getpid(),
        is_private=stores is not None,
        warnings=(*loaded.warnings, *file_warnings, *key_warnings, *pool_warnings),
        hardening=loaded.hardening,
        given=loaded.given,
        key_states=states,
        heavy_path=str(run_dir / SOCKET_NAME),
        pg_share=(settings.pg_pool_max - PG_IN_BACKGROUND) // settings.workers,
    )
    logging_setup.configure_for(runtime)
    births = Births(sock.close)
    births.withhold(wish.close_pipe)
    if data_dir is not None:
        births.withhold(data_dir.let_go)
    held.enter_context(bring_up_schema(runtime, births))
    wish.check()
    inbox = held.enter_context(bind_socket(run_dir))
    births.lend(inbox.close, ON_DEMAND_PROCESS)
    return run_manager(runtime, sock, wish, stores, births, inbox)


def run_manager(
    runtime: Runtime,
    sock: socket.socket,
    wish: StopWish,
    stores: PrivateStores | None,
    births: Births,
    inbox: socket.socket,
) -> int:
    """Hand over to Sanic's manager, with our own parts in place of three of its own. ``inbox``: see ``Plan``."""
    from sanic import Sanic
    from sanic.mixins import startup
    from sanic.worker.loader import AppLoader

    settings = runtime.settings
    address = sock.getsockname()
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    line = f"listening on http://{host}:{address[1]} store={settings.store} instance={runtime.instance_id}"
    line += f" version={VERSION}"
    table = StateTable()
    plan = Plan(runtime, table, wish, stores, births, inbox, partial(print_line, line), sock.close)
    Sanic.start_method = SPAWN  # what Sanic checks; its processes are born by our own hand
    parts: Any = startup
    parts.Manager = partial(TableMaker, table)
    parts.WorkerManager = partial(Manager, plan)
    app = build_app(runtime)
    app.prepare(
        sock=sock,
        workers=settings.workers,
        protocol=getattr(app.ctx, "protocol", None),
        backlog=BACKLOG,
        motd=False,
        access_log=False,
    )
    try:
        Sanic.serve(primary=app, app_loader=AppLoader(factory=partial(worker_app, runtime)))
    finally:
        end_resource_tracker()
    return plan.exit_code


def end_resource_tracker() -> None:
    """End the helper process of ``multiprocessing`` now; by itself it ends a moment after main."""
    tracker: Any = resource_tracker._resource_tracker
    tracker._stop()


def bind(host: str, port: int) -> socket.socket:
    """The listening socket, bound and not yet listening; Refused when the address cannot be had (CFG-016)."""
    name = host.removeprefix("[").removesuffix("]")
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise Refused(f'HOST="{host}" is not an address of this machine ({error.strerror}). Correct HOST.') from error
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise Refused(
            f'PORT="{port}" on HOST="{host}" cannot be listened on ({error.strerror}). '
            "Stop what uses it, or set another PORT or HOST."
        ) from error
    return sock


def shared_urls(settings: Settings) -> tuple[str, str]:
    """Addresses of the shared stores as the clients read them."""
    if settings.valkey_url is None or settings.database_url is None:
        raise Refused("STORE=valkey needs VALKEY_URL and DATABASE_URL.")
    valkey = client_url(settings.valkey_url.reveal(), str(settings.valkey_ca_file or "") or None)
    database = settings.database_url.reveal()
    if settings.pg_ca_file is not None:
        joint = "&" if "?" in database else "?"
        database += f"{joint}sslmode=verify-full&sslrootcert={settings.pg_ca_file.absolute()}"
    return valkey, database


def with_ca_file(settings: Settings, held: ExitStack) -> Settings:
    """Settings in which PG_CA_CERT has become a file, since a connection is told a path (CFG-038)."""
    if settings.pg_ca_cert is None or settings.pg_ca_file is not None:
        return settings
    if hasattr(os, "memfd_create"):  # needs no folder, and ends with main however that ends
        descriptor = os.memfd_create("qm-pg-ca")
        path = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    else:
        descriptor, name = tempfile.mkstemp(prefix="qm-pg-ca-")
        path = Path(name)
        held.callback(path.unlink)
    held.callback(os.close, descriptor)
    os.write(descriptor, settings.pg_ca_cert.encode())
    return replace(settings, pg_ca_file=path)


def with_keys(settings: Settings, data_dir: DataDir | None) -> tuple[Settings, dict[str, str], list[ConfigWarning]]:
    """Settings with SECRET and ADMIN_KEY, made where none was set, and what is said of them (CFG-047, CFG-050)."""
    states = {
        name: "set" if value else "unset"
        for name, value in (
            ("SECRET", settings.secret),
            ("SECRET_PREVIOUS", settings.secret_previous),
            ("ADMIN_KEY", settings.admin_key),
            ("PUBLIC_API_KEY", settings.public_api_key),
        )
    }
    if not settings.secret:
        states["SECRET"] = "generated"  # noqa: S105
        made = data_dir.generated_secret() if data_dir else Secret(secrets.token_urlsafe(32))
        settings = replace(settings, secret=made)
    if not settings.admin_key:
        states["ADMIN_KEY"] = "generated"
        if data_dir:
            settings = replace(settings, admin_key=data_dir.generated_admin_key())
            say(f"ADMIN_KEY is not set: the key in use is in {data_dir.admin_key_path.absolute()}")
        else:
            settings = replace(settings, admin_key=Secret(secrets.token_urlsafe(24)))
            say(f"ADMIN_KEY is not set: using {settings.admin_key.reveal()} until the server stops")
    warnings = data_dir.open_key_warnings() if data_dir else []
    for warning in warnings:
        say(warning.message)
    return settings, states, warnings


def with_pool(settings: Settings, *, is_set: bool) -> tuple[Settings, list[ConfigWarning]]:
    """Settings whose PG_POOL_MAX is enough for a connection of each web worker beside those of the background.

    All processes together hold no more than that (CFG-039). A value that was set and is too small gives a warning.
    """
    least = PG_IN_BACKGROUND + settings.workers
    if settings.pg_pool_max >= least:
        return settings, []
    message = (
        f"PG_POOL_MAX={settings.pg_pool_max} is fewer than this instance needs with QM_WORKERS={settings.workers}; "
        f"using {least}"
    )
    warning = ConfigWarning("out_of_bounds", "PG_POOL_MAX", str(settings.pg_pool_max), least, message)
    if is_set:
        say(message)
    return replace(settings, pg_pool_max=least), [warning] if is_set else []


def raise_file_limit(settings: Settings) -> list[ConfigWarning]:
    """Raise the soft limit of open files to the hard one, since every connection is a file; say when that is too few.

    A proxied request holds two of them (CFG-177).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = 2 * settings.max_connections + settings.connection_reserve + SPARE_FILES
    if not settings.max_connections or hard >= wanted:
        return []
    message = (
        f"the limit of open files is {hard}, and MAX_CONNECTIONS={settings.max_connections} wants {wanted}: "
        "raise it (ulimit -n, LimitNOFILE), or lower MAX_CONNECTIONS"
    )
    say(message)
    return [ConfigWarning("out_of_bounds", "MAX_CONNECTIONS", None, settings.max_connections, message)]


async def _check_shared(valkey_url: str, database_url: str, settings: Settings) -> None:
    timeout = settings.valkey_timeout_ms / 1000
    looking = check_valkey(valkey_url, timeout, is_cluster=settings.valkey_cluster)
    valkey, postgres = await asyncio.gather(looking, check_postgres(database_url))
    if valkey is not None:
        log.warning("valkey: unreachable at boot", said=valkey)
    if postgres is not None:
        log.warning("postgres: unreachable at boot", said=postgres)


def _log_for_main(settings: Settings) -> None:
    logging_setup.configure(
        level=settings.log_level,
        form=settings.log_format,
        instance=settings.instance_id,
        secrets=settings.secrets(),
    )
