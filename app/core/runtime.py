"""What a process of this instance is told by the main process that started it.

Built once in ``app.process`` and pickled over the pipe that starts each process: it holds secrets and never goes
through an environment or a command line.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.clock import mono
from app.core.ids import EpochMs
from app.core.settings import ConfigWarning, Settings

SERVER_NAME = "Sanic-Server-"
"""What the names of web worker processes begin with; a number and ``-0`` follow."""


class Flag:
    """One bit that main sets and every process of the instance reads, without a store and without a lock."""

    def __init__(self) -> None:
        self._bit: Any = multiprocessing.get_context("spawn").RawValue("b", 0)

    def set(self) -> None:
        """Set it for all processes; there is no way back."""
        self._bit.value = 1

    def is_set(self) -> bool:
        """True once set."""
        return bool(self._bit.value)


class Switch(Flag):
    """A flag that goes both ways."""

    def put(self, is_on: bool) -> None:
        """Set or clear it for all processes."""
        self._bit.value = int(is_on)


class Moment:
    """A moment of the monotonic clock that one process writes and every process of the instance reads."""

    def __init__(self) -> None:
        self._at: Any = multiprocessing.get_context("spawn").RawValue("d", 0.0)

    def set(self, at: float) -> None:
        """Write it, in seconds of ``clock.mono``."""
        self._at.value = at

    def is_ahead(self) -> bool:
        """True while it lies in the future."""
        return self.left() > 0

    def left(self) -> float:
        """Seconds until it comes; less than 0 when it has passed or was never written."""
        return float(self._at.value) - mono()


INLINE_DRAIN_SEC: Final = 15.0


@dataclass(frozen=True, slots=True, eq=False)
class Runtime:
    """Facts of this run of this instance."""

    settings: Settings
    valkey_url: str
    """``redis://``, ``rediss://`` or ``unix://``; carries a password: never print it."""
    database_url: str
    """``postgresql://…`` as asyncpg takes it; carries a password: never print it."""
    instance_id: str
    rate_table_name: str
    """Name of the shared memory of the rate limiter's tables."""
    started_at: EpochMs
    main_pid: int
    is_private: bool
    """True when the stores are this instance's own children (STORE=embedded or memory)."""
    warnings: tuple[ConfigWarning, ...] = ()
    hardening: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    """Variables whose value in use came from the environment."""
    key_states: dict[str, str] = field(default_factory=dict)
    """``set``, ``unset`` or ``generated`` for SECRET, SECRET_PREVIOUS, ADMIN_KEY and PUBLIC_API_KEY (CFG-143)."""
    stopping: Flag = field(default_factory=Flag)
    """Set at the first step of an orderly stop: the instance is not ready from then on (CFG-192)."""
    is_start_told: Flag = field(default_factory=Flag)
    """Set once the audit trail has ``server.start`` of this run."""
    is_stop_requested: Flag = field(default_factory=Flag)
    """Set when the stop was asked for through the API."""
    leads_until: Moment = field(default_factory=Moment)
    """Until when this instance holds the leader's lease; written by process jobs."""
    background_until: Moment = field(default_factory=Moment)
    """Until when a background process that is not the last may take to end, once a stop has begun; written by main."""
    has_inline: Switch = field(default_factory=Switch)
    """On while some room is inline; written by the web workers."""
    metrics_name: str = ""
    """Name of the shared memory of the instance's metrics; "" = this process keeps its own."""
    heavy_path: str = ""
    """The socket on which process ``heavy`` is asked."""
    pg_share: int = 1
    """Most Postgres connections one web worker may hold; the instance's total is PG_POOL_MAX."""

    @property
    def run_name(self) -> str:
        """Name of this run of the instance: the instance's own name is for people, and may come again."""
        return f"{self.instance_id}.{self.started_at}.{self.main_pid}"

    @property
    def drain_sec(self) -> float:
        """Longest the whole stop may take; with an inline room transfers get more time unless it was set (INL-225)."""
        if self.has_inline.is_set() and "SHUTDOWN_DRAIN_MS" not in self.given:
            return INLINE_DRAIN_SEC
        return self.settings.shutdown_drain_ms / 1000

    @property
    def is_leader(self) -> bool:
        """As health shows it: with stores of its own an instance is always the leader (FLT-022), in a drill never."""
        return not self.settings.drill and (self.is_private or self.leads_until.is_ahead())


def web_worker_index() -> int:
    """Number of this web worker, from 0; the same after it was started again. 0 in any other process."""
    name = multiprocessing.current_process().name
    if not name.startswith(SERVER_NAME):
        return 0
    return int(name.removeprefix(SERVER_NAME).split("-")[0])
