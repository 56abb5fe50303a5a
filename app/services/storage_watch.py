"""Frames in which one instance looks how its journal does, and tells the others (OBS-015 … OBS-025, OBS-148).

Belongs here: the probe, the report, the decision to leave the rotation. Not here: what follows from what (domain/
storage_state.py), commits (infrastructure/drain.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog

from app.core import metrics
from app.core.clock import mono
from app.core.errors import QmError, StorageUnavailable
from app.domain.storage_state import StorageJudge, StorageReport, StorageTimes, any_well
from app.infrastructure.drain import note_commit, note_failure
from app.infrastructure.fleet_records import FleetRecords
from app.infrastructure.metric_book import MetricBook

log = structlog.get_logger(__name__)


class StorageWatch:
    """One instance's frames. ``probe`` raises StorageUnavailable; see Journal.probe."""

    def __init__(
        self,
        *,
        book: MetricBook,
        probe: Callable[[], Awaitable[None]],
        records: FleetRecords,
        instance: str,
        every_ms: int,
        is_private: bool,
    ) -> None:
        self._book = book
        self._probe = probe
        self._records = records
        self._instance = instance
        self._is_private = is_private
        self._failing_since = 0
        """When the frames began to see failures, ms of the live store's clock; 0 = not known yet."""
        self._judge = StorageJudge(every_ms, errors=self._errors())

    async def frame(self) -> None:
        """One frame; it never raises for a store that is away."""
        await self._try()  # also when nothing fails: the word of an idle instance has to be worth something
        times, judge = self._times(), self._judge
        judge.frame(self._errors(), int(mono() * 1000))
        if judge.streak == 1:
            self._failing_since = 0
        others: Sequence[StorageReport] = ()
        now = 0
        try:
            now = await self._records.now_ms()
            if judge.streak and not self._failing_since:
                self._failing_since = now
            await self._records.report_storage(self._report(now, times))  # for alerts also where it is the only one
            if not self._is_private:
                others = await self._records.storage_reports(without_own=True)
        except StorageUnavailable:
            others = ()  # nobody's word can be heard: it stays in rotation (OBS-019)
        # A word given before the trouble began here says nothing of it: the database may be down for all.
        later = [report for report in others if report.at > self._failing_since]
        unready = judge.unready(times, is_private=self._is_private, others_well=any_well(later, now, judge.every_ms))
        if unready != self._book.latest(metrics.UNREADY):
            log.warning("storage_takes_out_of_rotation" if unready else "storage_back", why=unready.text)
        self._book.put(metrics.UNREADY, unready)

    def _errors(self) -> int:
        return self._book.total(metrics.WRITE_ERRORS) + self._book.total(metrics.PROBE_ERRORS)

    def _times(self) -> StorageTimes:
        return StorageTimes(self._book.latest(metrics.LAST_COMMIT_MS), self._book.latest(metrics.LAST_ERROR_MS))

    async def _try(self) -> None:
        try:
            await self._probe()
        except QmError as error:
            note_failure(self._book, error, is_commit=False)
        else:
            note_commit(self._book)

    def _report(self, now: int, times: StorageTimes) -> StorageReport:
        return StorageReport(
            self._instance,
            now,
            is_well=bool(times.good) and not times.is_failing,
            is_raised=self._judge.is_raised,
            error=self._book.text("storage_error") if times.is_failing else "",
        )
