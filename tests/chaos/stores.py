"""Stores of a fleet under test: Valkeys on loopback ports that are killed, frozen, demoted and promoted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from app.core.parent_death import die_with_parent_before_exec
from app.infrastructure.store_binaries import Binaries
from tests.harness import free_port
from tests.process.waiting import until_sync


class ValkeyServer:
    """One valkey-server on a port of its own. ``options``: words of its command line."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.home = Path(tempfile.mkdtemp(prefix="qm-valkey-"))
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    def start(self) -> ValkeyServer:
        """Start it, on what data it has, and wait until it answers."""
        command = [
            str(Binaries.find().valkey),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.home), "--save", ""),
            *("--loglevel", "warning", "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"),
            *("--repl-ping-replica-period", "1"),
            *self.options,
        ]
        with (self.home / "log").open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, preexec_fn=die_with_parent_before_exec(os.getpid())
            )
        until_sync(self.answers)
        return self

    def ask(self, *command: Any) -> Any:
        """Reply to one command."""
        with Redis(port=self.port, socket_timeout=5) as client:
            return client.execute_command(*command)

    def answers(self) -> bool:
        """True when it takes commands."""
        try:
            return bool(self.ask("PING"))
        except (OSError, RedisError):
            return False

    def follow(self, primary: ValkeyServer) -> None:
        """Become a replica of ``primary`` and wait until all of it is here."""
        self.ask("REPLICAOF", "127.0.0.1", primary.port)
        until_sync(lambda: self.ask("INFO", "replication")["master_link_status"] == "up")

    def promote(self) -> None:
        """Become a primary with what is here."""
        self.ask("REPLICAOF", "NO", "ONE")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Kill it and remove its data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> ValkeyServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
