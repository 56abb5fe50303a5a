"""The private Valkey and Postgres of ``STORE=embedded`` and ``STORE=memory``.

Two children of the main process that open no TCP port: their sockets lie in a run directory with mode 0700 and a short
name, because the path of a unix socket has at most 107 bytes and ``DATA_DIR`` may be deep. Everything else of the
server uses the same adapters as with shared stores; only this module knows that the stores are private.

Sources: initdb(1), postgres(1), valkey.conf, unix(7); ``docs/adr`` for why ``pg_ctl`` is not used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from app.core.clock import mono
from app.core.parent_death import die_with_parent_before_exec
from app.infrastructure.store_binaries import Binaries, Identity
from app.infrastructure.store_leftovers import end_leftovers, make_run_dir, sweep_run_dirs
from app.infrastructure.store_probe import PG_USER, postgres_answers, valkey_answers

START_DEADLINE_SEC: Final = 30.0
"""Longest wait for a child that answers; a large AOF is read before Valkey does."""
SHORT_LIFE_SEC: Final = 2.0
MAX_SHORT_LIVES: Final = 10
_POLL_SEC: Final = 0.01


log = structlog.get_logger(__name__)


class EmbeddedError(Exception):
    """A private store cannot be started; the text is a sentence for the operator."""


@dataclass
class Child:
    """One private store: how it is started and whether it lives."""

    name: str
    command: list[str]
    log: Path
    identity: Identity
    home: Path
    """Its data directory, which is also its working directory."""
    process: subprocess.Popen[bytes] | None = None
    next_start: float | None = None
    """When to start it again; None while it runs."""
    _born: float = 0.0
    _short_lives: int = 0

    def spawn(self) -> None:
        """Start the process in a group of its own, bound to the calling thread's life."""
        self._born, self.next_start = mono(), None
        if end_leftovers(self.home) is not None:
            # Nothing runs here any more, so a lock that names a dead process, or one that was dead and not yet
            # collected by init, must not keep Postgres from starting.
            (self.home / "postmaster.pid").unlink(missing_ok=True)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,  # a signal to the server's group must reach main alone, which then stops in order
                preexec_fn=die_with_parent_before_exec(os.getpid()),
                user=self.identity.uid,
                group=self.identity.gid,
                extra_groups=None if self.identity.uid is None else [],
            )

    def is_running(self) -> bool:
        """True while the process has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self.process is None else self.process.returncode

    @property
    def is_hopeless(self) -> bool:
        """True when it ended right after its start too often."""
        return self._short_lives >= MAX_SHORT_LIVES

    def note_death(self) -> None:
        """Fix when it is started again: at once, later after each short life."""
        now = mono()
        self._short_lives = self._short_lives + 1 if now - self._born < SHORT_LIFE_SEC else 0
        self.next_start = now + (0.0 if self._short_lives < 2 else min(0.1 * 2**self._short_lives, 2.0))

    def log_tail(self) -> str:
        """Last lines it wrote, for an error message."""
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-1500:].strip()
        return ""

    def end(self, sig: signal.Signals, deadline_sec: float) -> None:
        """Ask it to end by ``sig``, then make it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(sig)
        try:
            self.process.wait(deadline_sec)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class PrivateStores:
    """A private Valkey and Postgres on ``data_dir`` (kept), or on throw-away data when it is None.

    ``valkey_url`` and ``database_url`` are valid from ``start()`` to ``stop()`` and do not change when a child is
    started again.
    """

    data_dir: Path | None
    pg_connections: int = 100
    run_dir: Path = field(init=False)
    children: dict[str, Child] = field(init=False, default_factory=dict)

    @property
    def valkey_url(self) -> str:
        """``unix://`` address of the private Valkey."""
        return f"unix://{self.run_dir}/valkey.sock"

    @property
    def database_url(self) -> str:
        """libpq address of the private Postgres."""
        return f"postgresql://{PG_USER}@/postgres?host={self.run_dir}/pg"

    def start(self) -> None:
        """End leftovers, make what is missing and wait until both stores answer.

        Raises:
            EmbeddedError: this platform has no binaries, or a store does not come up; nothing is left running.
        """
        binaries = Binaries.find()
        sweep_run_dirs()
        self.run_dir = make_run_dir()
        base = self.data_dir or self.run_dir / "data"
        try:
            _prepare(base, self.run_dir, binaries.identity)
            for home in (base / "valkey", base / "postgres"):
                end_leftovers(home)
            self.children = {
                "valkey": self._valkey(binaries, base / "valkey"),
                "postgres": self._postgres(binaries, base / "postgres"),
            }
            for child in self.children.values():
                child.spawn()
            for name in self.children:
                self._await(name)
        except BaseException:
            self.stop()
            raise

    def dead(self) -> list[str]:
        """Names of the children that have ended."""
        return [name for name, child in self.children.items() if not child.is_running()]

    def watch(self) -> bool:
        """Start dead children again, without waiting for them; False when one of them does not stay alive."""
        for name in self.dead():
            child = self.children[name]
            if child.next_start is None:
                child.note_death()
                log.error("private_store_died", store=name, exit_code=child.exit_code, said=child.log_tail())
            if child.is_hopeless:
                return False
            if child.next_start is not None and mono() >= child.next_start:
                child.spawn()
                log.info("private_store_started_again", store=name)
        return True

    def restart(self, name: str) -> None:
        """Start the dead child ``name`` again on its data and wait until it answers; EmbeddedError if it does not."""
        self.children[name].spawn()
        self._await(name)

    def stop(self) -> None:
        """End both children, Postgres by a fast shutdown, and remove the run directory."""
        waits = [
            threading.Thread(target=child.end, args=(sig, 10))
            for name, sig in (("postgres", signal.SIGINT), ("valkey", signal.SIGTERM))
            if (child := self.children.get(name)) is not None
        ]
        for wait in waits:
            wait.start()
        for wait in waits:
            wait.join()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def _valkey(self, binaries: Binaries, data: Path) -> Child:
        data.mkdir(mode=0o700, exist_ok=True)
        command = [
            str(binaries.valkey),
            *("--port", "0", "--unixsocket", str(self.run_dir / "valkey.sock"), "--unixsocketperm", "700"),
            *("--dir", str(data), "--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "warning"),
            *("--appendonly", "yes" if self.data_dir else "no", "--appendfsync", "everysec"),
            *("--daemonize", "no", "--supervised", "no", "--databases", "1"),
        ]
        return Child("valkey", command, data / "valkey.log", Identity(), data)

    def _postgres(self, binaries: Binaries, data: Path) -> Child:
        identity = binaries.identity
        if not (data / "PG_VERSION").exists():
            _initdb(binaries, data)
        log = data.parent / "postgres.log"
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.run_dir / "pg"),
            "unix_socket_permissions": "0700",
            "max_connections": str(self.pg_connections),
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "log_min_messages": "fatal",
            "jit": "off",
        }
        if self.data_dir is None:  # throw-away data waits for no disk (FLT-007)
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        switches = [f"-c{key}={value}" for key, value in options.items()]
        return Child(
            "postgres", [*identity.wrap, str(binaries.postgres), "-D", str(data), *switches], log, identity, data
        )

    def _await(self, name: str) -> None:
        child = self.children[name]
        probe = valkey_answers if name == "valkey" else postgres_answers
        path = self.run_dir / ("valkey.sock" if name == "valkey" else "pg/.s.PGSQL.5432")
        end = mono() + START_DEADLINE_SEC
        pause = threading.Event()
        while not probe(path):
            if not child.is_running():
                raise EmbeddedError(f"the private {name} ended at its start: {child.log_tail()}")
            if mono() > end:
                raise EmbeddedError(f"the private {name} did not answer in {START_DEADLINE_SEC:.0f} s")
            pause.wait(_POLL_SEC)


def _prepare(base: Path, run_dir: Path, identity: Identity) -> None:
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    (run_dir / "pg").mkdir(mode=0o700)
    if identity.uid is not None:  # root that may not make a user namespace: Postgres runs as another user
        for path in {run_dir, run_dir / "pg", base}:
            os.chown(path, identity.uid, identity.gid or 0)


def _initdb(binaries: Binaries, data: Path) -> None:
    identity = binaries.identity
    shutil.rmtree(data, ignore_errors=True)  # half-made by a start that was killed
    making = data.with_name(data.name + ".new")
    shutil.rmtree(making, ignore_errors=True)
    done = subprocess.run(
        [
            *identity.wrap,
            str(binaries.initdb),
            *("-D", str(making), "-U", PG_USER, "-A", "trust", "-E", "UTF8", "--locale=C"),
            *("--no-sync", "--no-instructions", "--set=dynamic_shared_memory_type=posix"),
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        process_group=0,
        user=identity.uid,
        group=identity.gid,
        extra_groups=None if identity.uid is None else [],
        preexec_fn=die_with_parent_before_exec(os.getpid()),
    )
    if done.returncode != 0:
        raise EmbeddedError(f"initdb failed: {done.stderr.strip()[-1000:]}")
    making.rename(data)
