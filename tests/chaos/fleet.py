"""A fleet under test: instances on one Valkey (with a replica) and one Postgres, each behind a wire that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import psutil

from app.infrastructure.embedded import PrivateStores
from app.infrastructure.store_probe import PG_USER
from tests.chaos.relay import Relay
from tests.chaos.stores import ValkeyServer
from tests.harness import Server
from tests.process.waiting import until_sync

LEASE_MS = 2000


class Fleet:
    """``with Fleet(2) as fleet:``. Every part can be killed and comes back by its own method."""

    def __init__(self, count: int = 2, *, workers: int = 1, **env: str) -> None:
        self._count, self._workers, self._env = count, workers, env
        self._stack = contextlib.ExitStack()
        self.secret, self.admin_key = secrets.token_hex(32), secrets.token_hex(16)
        # A process started from a thread dies with that thread (app/core/parent_death.py), so it has to stay.
        self._hands = ThreadPoolExecutor(1)
        self._stack.callback(self._hands.shutdown)
        self.instances: list[Server] = []
        self.wires: list[Relay] = []
        self.pg_wires: list[Relay] = []

    def __enter__(self) -> Fleet:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _start(self) -> None:
        base = Path(tempfile.mkdtemp(prefix="qm-fleet-"))
        self._stack.callback(shutil.rmtree, base, ignore_errors=True)
        self.stores = PrivateStores(data_dir=base)
        self.stores.start()
        self._stack.callback(self.stores.stop)
        self.primary = self._stack.enter_context(ValkeyServer("--appendonly", "yes"))
        self.replica = self._stack.enter_context(ValkeyServer("--appendonly", "yes"))
        self.replication = self._stack.enter_context(Relay(self.primary.port))
        self._follow()
        for number in range(self._count):
            self.add(number)

    def add(self, number: int, *, is_cut: bool = False) -> Server:
        """One more instance, ``i<number>``; with ``is_cut`` its Valkey cannot be reached."""
        wire = self._stack.enter_context(Relay(self.primary.port))
        if is_cut:
            wire.cut()
        pg_wire = self._stack.enter_context(Relay(f"{self.stores.run_dir}/pg/.s.PGSQL.5432"))
        server = Server(
            env={
                "STORE": "valkey",
                "VALKEY_URL": f"redis://127.0.0.1:{wire.port}",
                "DATABASE_URL": f"postgresql://{PG_USER}@127.0.0.1:{pg_wire.port}/postgres?sslmode=disable",
                "SECRET": self.secret,
                "ADMIN_KEY": self.admin_key,
                "QM_INSTANCE_ID": f"i{number}",
                "LEADER_LEASE_MS": str(LEASE_MS),
                "RESYNC_MS": "1000",
                **self._env,
            },
            workers=self._workers,
        )
        server.admin_key = self.admin_key
        self._stack.enter_context(server)
        self.wires.append(wire)
        self.pg_wires.append(pg_wire)
        self.instances.append(server)
        return server

    def start_build(self, number: int, root: Path) -> Server:
        """Put another build into the place of an instance that has stopped."""
        old = self.instances[number]
        new = Server(env=dict(old.env), workers=self._workers, root=root)
        new.admin_key = self.admin_key
        self.instances[number] = self._stack.enter_context(new)
        return new

    async def do(self, *acts: Callable[[], Any]) -> None:
        """Act in order, while visitors go on."""
        for act in acts:
            await asyncio.get_running_loop().run_in_executor(self._hands, act)

    @property
    def urls(self) -> list[str]:
        """Addresses of the instances that run."""
        return [one.url for one in self.instances if one.process is not None and one.process.poll() is None]

    def kill_instance(self, number: int) -> None:
        """kill -9 of a whole instance."""
        self.instances[number].kill()
        self.instances[number].wait()

    def start_instance(self, number: int) -> None:
        """Start a killed instance again; it listens on another port."""
        self.instances[number].start()

    def processes(self, number: int, role: str) -> list[psutil.Process]:
        """Processes of one role of an instance: ``web``, ``drainer``, ``ticker`` or ``jobs``."""
        found = []
        for child in psutil.Process(self.instances[number].pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name() == f"qm-{role}" and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
        return found

    def leaders(self) -> list[int]:
        """Numbers of the instances that say they lead."""
        found = []
        for number, one in enumerate(self.instances):
            with contextlib.suppress(httpx.HTTPError):
                if health(one.url)["leader"]:
                    found.append(number)
        return found

    def tell(self) -> str:
        """How each instance is and what it said last, for the report of a test that failed."""
        lines = []
        for one in self.instances:
            try:
                state: object = health(one.url)
            except (httpx.HTTPError, ValueError) as error:
                state = repr(error)
            lines.append(f"{one.url} {state}\n{one.stderr[-3000:]}")
        return "\n".join(lines)

    def lose_the_primary(self) -> None:
        """kill -9 of the primary; the replica takes over with what it has, and a new replica follows it."""
        self.primary.signal(signal.SIGKILL)
        self.replica.promote()
        self.primary, self.replica = self.replica, self.primary
        for wire in self.wires:
            wire.point(self.primary.port)

    def replace_the_replica(self) -> None:
        """Start the killed primary again, empty, as a replica of the present one."""
        self.replica.stop()
        self.replica.home.mkdir()
        self.replica.start()
        self.replication.mend()
        self.replication.point(self.primary.port)
        self._follow()

    def _follow(self) -> None:
        self.replica.ask("REPLICAOF", "127.0.0.1", self.replication.port)
        until_sync(lambda: self.replica.ask("INFO", "replication")["master_link_status"] == "up")

    def kill_postgres(self) -> None:
        """kill -9 of Postgres with all its children."""
        process = self.stores.children["postgres"].process
        assert process is not None
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        process.kill()
        process.wait()

    def start_postgres(self) -> None:
        """Start it again on its data."""
        self.stores.restart("postgres")

    def room(self, room: str, **fields: Any) -> dict[str, Any]:
        """Create or change a room, trying again while a store is away."""
        body = {"id": room, "targetUrl": "https://shop.example/", "queueMaxPerIp": None, **fields}
        headers = {"Authorization": f"Bearer {self.admin_key}"}
        answers: list[httpx.Response] = []

        def is_made() -> bool:
            answers.append(httpx.post(f"{self.urls[0]}/api/admin/rooms", headers=headers, json=body, timeout=30))
            return answers[-1].status_code != 503

        until_sync(is_made)
        assert answers[-1].status_code == 200, answers[-1].text
        return dict(answers[-1].json()["room"])


def health(url: str) -> dict[str, Any]:
    """``GET /healthz``."""
    found: dict[str, Any] = httpx.get(f"{url}/healthz", timeout=10).json()
    return found
