"""What ``GET /api/admin/health`` tells of CPU, of spare capacity, and of the knocks at sites.

Not here: finding it out (cpu_watch.py, capacity_watch.py, prober.py), the alerts (alert_fleet.py). Source: BUD-067,
BUD-102, MSH-100.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.core.runtime import Runtime
from app.domain.capacity import Declared, counted
from app.infrastructure.fleet_records import Fleet
from app.infrastructure.metric_book import MetricBook
from app.services.contention import is_contended
from app.services.cpu_watch import CpuShown
from app.services.prober import site_of
from app.services.room_object import RoomView


class HealthOfCapacity:
    """Blocks and sentences about what this deployment runs on."""

    def __init__(self, *, runtime: Runtime, book: MetricBook) -> None:
        self._runtime = runtime
        self._book = book
        self._declared = Declared.of(runtime.settings, runtime.given)

    def cpu_block(self) -> dict[str, Any]:
        """``cpu``: this instance's use of it, and what keeps it from more."""
        return CpuShown.of(self._book).block(is_contended=is_contended(self._book))

    def capacity_block(self, fleet: Fleet | None) -> dict[str, Any]:
        """``capacity``: what was declared beside what there is. ``fleet`` None: nobody has counted yet."""
        instances = None if fleet is None else counted(fleet.live)
        return self._declared.block(instances=instances, usable=CpuShown.of(self._book).use.usable)

    def mesh_block(self, views: Sequence[RoomView] | None) -> dict[str, Any] | None:
        """``mesh``: the leader alone knocks at the sites of rooms. Nobody else does, so there are no verdicts.

        ``views`` None: the rooms are not known.
        """
        if views is None:
            return None
        sites: dict[Any, bool] = {}
        for view in views:
            if (site := site_of(view.room)) is not None:
                sites[site] = view.site is not None and view.site.is_up is not None
        return {
            "enabled": False,
            "instances": int(not self._runtime.settings.drill),
            "targets": len(sites),
            "unavailable": 0,
            "unreachable": 0,
            "noData": sum(not is_known for is_known in sites.values()),
            "pairs": 0,
            "droppedWitnesses": 0,
            "checkers": 0,
        }

    def sentences(self, fleet: Fleet | None) -> list[str]:
        """What belongs into ``warnings``."""
        instances = None if fleet is None else counted(fleet.live)
        usable = CpuShown.of(self._book).use.usable
        found = (self._declared.too_few(instances), self._declared.too_small(self._runtime.instance_id, usable))
        return [one for one in found if one is not None]
