"""What each instance tells the others of itself: its record, the state of its storage, rooms that were rebuilt.

Times are those of the live store, so that clocks of instances need not agree. Not here: counts (counter_board.py), what
a record says (services/instance_watch.py). Source: FLT-044, FLT-045, FLT-091, OBS-148, OBS-149.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ujson

from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.domain.storage_state import StorageReport
from app.infrastructure.counter_board import LIFE_MS
from app.infrastructure.keys import (
    counters_key,
    counting_key,
    fleet_key,
    leader_epoch,
    rebuilt_key,
    storage_reports_key,
)
from app.infrastructure.valkey import Valkey

LOST_MS: Final = 600_000
"""How long the record of an instance that went without a word is kept."""
REBUILT_MS: Final = 3_600_000
_HEAD: Final = "i"


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance as it last told of itself. Times are epoch ms; ``seen_at`` by the live store's clock."""

    run: str
    """Name of this run; the instance's own name is for people and may come again."""
    instance: str
    version: str
    kid: str
    started_at: int
    ready: bool
    storage_ok: bool
    leader: bool
    seen_at: int
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers of the instance, for alerts; see services/instance_watch.py."""

    @property
    def is_stopping(self) -> bool:
        """It has begun to stop."""
        return bool(self.figures.get("stopping"))

    @property
    def role(self) -> str:
        """What it does: ``worker`` answers no visitors."""
        return str(self.figures.get("role", "all"))

    def is_live(self, now: int) -> bool:
        """It told of itself lately (FLT-042)."""
        return now - self.seen_at <= LIFE_MS

    def to_json(self) -> dict[str, Any]:
        """An entry of ``fleet.members``."""
        return {
            "instance": self.instance,
            "version": self.version,
            "kid": self.kid,
            "startedAt": self.started_at,
            "ready": self.ready,
            "storageOk": self.storage_ok,
            "leader": self.leader,
            "seenAt": self.seen_at,
        }

    def to_text(self) -> str:
        """The form in the live store, where other releases read it: members by name."""
        return ujson.dumps({**self.to_json(), "figures": dict(self.figures)}, ensure_ascii=False)

    @classmethod
    def from_text(cls, run: str, text: bytes) -> InstanceRecord | None:
        """The reverse; None for a record without a member that is needed here. Further members are left alone."""
        try:
            raw = ujson.loads(text)
            return cls(
                run=run,
                instance=str(raw["instance"]),
                version=str(raw["version"]),
                kid=str(raw["kid"]),
                started_at=int(raw["startedAt"]),
                ready=bool(raw["ready"]),
                storage_ok=bool(raw["storageOk"]),
                leader=bool(raw["leader"]),
                seen_at=int(raw["seenAt"]),
                figures=dict(raw["figures"]),
            )
        except (LookupError, TypeError, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class Fleet:
    """All instances at ``now``, a moment of the live store's clock."""

    now: int
    records: Sequence[InstanceRecord]

    @property
    def live(self) -> list[InstanceRecord]:
        """Those that are there, by name."""
        return sorted((one for one in self.records if one.is_live(self.now)), key=lambda one: (one.instance, one.run))

    @property
    def lost(self) -> list[InstanceRecord]:
        """Those that fell silent without having stopped, within the last ten minutes, and did not come again under the
        same name (FLT-045)."""
        there = {one.instance for one in self.live}
        return [one for one in self.records if not one.is_live(self.now) and one.instance not in there]


class FleetRecords:
    """One instance's hand on them. Calls raise StorageUnavailable."""

    def __init__(self, valkey: Valkey, prefix: str, run: str) -> None:
        self._valkey = valkey
        self._prefix = prefix
        self._run = run

    async def now_ms(self) -> int:
        """The live store's clock."""
        seconds, micros = await self._valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def put(self, record: InstanceRecord) -> None:
        """Tell of this instance."""
        counters = counters_key(self._prefix, self._run)
        replies = await self._valkey.pipeline(
            [
                ("HSET", fleet_key(self._prefix), self._run, record.to_text()),
                ("HSET", counters, _HEAD, ujson.dumps(record.to_json(), ensure_ascii=False)),
                ("PEXPIRE", counters, LIFE_MS),
            ]
        )
        for reply in replies:
            if isinstance(reply, Exception):  # a full store, for instance: nobody reads that this instance lives
                raise StorageUnavailable from reply

    async def forget_others(self) -> None:
        """Drop what other runs told: of an instance whose stores are its own, which ran alone before this run too."""
        for key in (fleet_key(self._prefix), storage_reports_key(self._prefix)):
            others = [run for run in await self._valkey.execute("HKEYS", key) if run != self._run.encode()]
            if others:
                await self._valkey.execute("HDEL", key, *others)

    async def leave(self) -> None:
        """This instance stops in order: nobody has to look for it."""
        await self._valkey.pipeline(
            [
                ("HDEL", fleet_key(self._prefix), self._run),
                ("HDEL", storage_reports_key(self._prefix), self._run),
                ("ZREM", counting_key(self._prefix), self._run),
                ("UNLINK", counters_key(self._prefix, self._run)),
            ]
        )

    async def read(self) -> Fleet:
        """All instances; records of those that are gone for long are dropped."""
        time, flat = await self._valkey.pipeline([("TIME",), ("HGETALL", fleet_key(self._prefix))])
        now = int(time[0]) * 1000 + int(time[1]) // 1000
        found, old = [], []
        for run, text in zip(flat[::2], flat[1::2], strict=True):
            record = InstanceRecord.from_text(run.decode(), text)
            if record is None:
                continue  # of a release that says less, or something else: it is left to those who read it
            if now - record.seen_at > LOST_MS:
                old.append(run)
            else:
                found.append(record)
        if old:
            await self._valkey.execute("HDEL", fleet_key(self._prefix), *old)
        return Fleet(now, found)

    async def leader_epoch(self) -> int | None:
        """Number of the latest term of a leader; None when there was none."""
        epoch = await self._valkey.execute("GET", leader_epoch(self._prefix))
        return None if epoch is None else int(epoch)

    async def report_storage(self, report: StorageReport) -> None:
        """Tell of this instance's storage (``<prefix>alerts:storage``)."""
        text = ujson.dumps(
            {
                "instance": report.instance,
                "at": report.at,
                "isWell": report.is_well,
                "isRaised": report.is_raised,
                "error": report.error,
            },
            ensure_ascii=False,
        )
        await self._valkey.execute("HSET", storage_reports_key(self._prefix), self._run, text)

    async def storage_reports(self, *, without_own: bool = False) -> list[StorageReport]:
        """What instances told last, however long ago; those of ten minutes ago are dropped."""
        key = storage_reports_key(self._prefix)
        time, flat = await self._valkey.pipeline([("TIME",), ("HGETALL", key)])
        now = int(time[0]) * 1000 + int(time[1]) // 1000
        read = {run: _report_of(text) for run, text in zip(flat[::2], flat[1::2], strict=True)}
        reports = {run: report for run, report in read.items() if report is not None}
        if old := [run for run, report in reports.items() if now - report.at > LOST_MS]:
            await self._valkey.execute("HDEL", key, *old)
        own = self._run.encode() if without_own else None
        return [report for run, report in reports.items() if run not in (own, *old)]

    async def note_rebuilt(self, room_id: RoomId) -> None:
        """A room was rebuilt from its journal just now."""
        await self._valkey.execute("HSET", rebuilt_key(self._prefix), room_id, await self.now_ms())

    async def rebuilt(self) -> dict[str, int]:
        """Rooms that were rebuilt within the last hour, and when."""
        key = rebuilt_key(self._prefix)
        time, flat = await self._valkey.pipeline([("TIME",), ("HGETALL", key)])
        now = int(time[0]) * 1000 + int(time[1]) // 1000
        found = {room.decode(): int(at) for room, at in zip(flat[::2], flat[1::2], strict=True)}
        if old := [room for room, at in found.items() if now - at > REBUILT_MS]:
            await self._valkey.execute("HDEL", key, *old)
        return {room: at for room, at in found.items() if room not in old}


def _report_of(text: bytes) -> StorageReport | None:
    """A report from its text; None for one of a release that writes another form."""
    try:
        raw = ujson.loads(text)
        return StorageReport(
            str(raw["instance"]), int(raw["at"]), bool(raw["isWell"]), bool(raw["isRaised"]), str(raw["error"])
        )
    except (LookupError, TypeError, ValueError):
        return None
