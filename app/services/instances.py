"""The instances of the fleet, as one process last read them (FLT-043, FLT-044). Not here: their records' writing."""

from __future__ import annotations

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.fleet_records import Fleet, FleetRecords
from app.infrastructure.journal_size import JournalSize, JournalSizes


class Instances:
    """One process's reading."""

    def __init__(self, records: FleetRecords, sizes: JournalSizes) -> None:
        self._records = records
        self._sizes = sizes
        self._size = JournalSize()
        self.last: Fleet | None = None
        """As last read; None = never."""
        self.is_partial = False
        """They could not be read when they were last asked for."""
        self._read_at = 0.0
        self.leader_epoch: int | None = None
        """Number of the latest term of a leader, as last read; None = there was none, or it is not known."""

    async def read(self) -> Fleet | None:
        """Read them anew; the last reading while the live store is away, None when there was none."""
        try:
            self.last, self.is_partial = await self._records.read(), False
            self.leader_epoch = await self._records.leader_epoch()
            self._read_at = mono()
        except StorageUnavailable:
            self.is_partial = True
        return self.last

    async def refresh(self, older_sec: float) -> None:
        """Read them anew if the last reading is older than that."""
        if mono() - self._read_at >= older_sec:
            await self.read()

    async def journal_size(self) -> JournalSize:
        """The leader's latest word about the journal; the last that was heard while the live store is away."""
        try:
            self._size = await self._sizes.read()
        except StorageUnavailable:
            return self._size
        return self._size
