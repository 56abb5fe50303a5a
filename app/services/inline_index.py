"""From where a process knows its inline hosts, and what the log says of it (INL-193 … INL-195).

Belongs here: telling. Not here: the index itself (inline_gate.py), reading the rooms (room_directory.py).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class IndexFrom(StrEnum):
    """``inline.indexFrom`` of the health answer."""

    VALKEY = "valkey"
    POSTGRES = "postgres"
    NONE = "none"


class Listed(Protocol):
    """The part of RoomDirectory that is used here."""

    is_loaded: bool
    """A list of rooms was read from Postgres."""


class Reached(Protocol):
    """The part of Valkey that is used here."""

    @property
    def ever_connected(self) -> bool: ...


class IndexSource:
    """Knows it, and says each thing once."""

    def __init__(self, directory: Listed, valkey: Reached) -> None:
        self._directory = directory
        self._valkey = valkey
        self._told: set[IndexFrom] = set()

    @property
    def now(self) -> IndexFrom:
        """The source of the present index."""
        if self._valkey.ever_connected:
            return IndexFrom.VALKEY
        return IndexFrom.POSTGRES if self._directory.is_loaded else IndexFrom.NONE

    def tell(self, hosts: int) -> None:
        """Say in the log what this process goes by while it has never reached Valkey; ``hosts``: of its index."""
        source = self.now
        if source in self._told:
            return
        if source is IndexFrom.NONE:
            log.error("Valkey and Postgres are both unreachable")
        elif source is IndexFrom.POSTGRES and hosts:
            log.warning("inline host index built from Postgres", hosts=hosts)
        else:
            return
        self._told.add(source)
