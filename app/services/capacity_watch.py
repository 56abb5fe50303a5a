"""What one instance finds out about CPU and capacity: contention, too few instances, too few CPUs.

Part of its watch (instance_watch.py). Not here: measuring the CPU (cpu_watch.py), the alerts (alert_fleet.py).
Source: BUD-058, BUD-063, BUD-065, BUD-067 … BUD-069.
"""

from __future__ import annotations

from typing import Any

import structlog

from app.core import metrics
from app.core.runtime import Runtime
from app.domain.capacity import Declared, counted
from app.domain.incidents import Incident
from app.infrastructure.fleet_records import Fleet
from app.infrastructure.metric_book import MetricBook
from app.services.cpu_watch import CpuWatch

log = structlog.get_logger(__name__)


class CapacityWatch:
    """Of one instance."""

    def __init__(self, *, runtime: Runtime, book: MetricBook, cpu: CpuWatch) -> None:
        self._runtime = runtime
        self._book = book
        self._cpu = cpu
        self._declared = Declared.of(runtime.settings, runtime.given)
        self._fleet: Fleet | None = None

    def saw(self, fleet: Fleet) -> None:
        """The instances, as just read."""
        self._fleet = fleet
        self._book.put(metrics.FLEET_COUNT, counted(fleet.live))

    def incidents(self) -> list[Incident]:
        """What is wrong now."""
        few, small = self._declared.too_few(self._instances()), self._too_small()
        return [
            *([] if few is None else [Incident("fleet_below_min", few)]),
            *([] if (contention := self._cpu.incident()) is None else [contention]),
            *([] if small is None else [Incident("cpus_below_min", small)]),
        ]

    def figures(self) -> dict[str, Any]:
        """What alerts of the fleet go by."""
        return {"cpuContention": self._cpu.sentence, "cpusShort": self._too_small()}

    def tell_stop(self) -> None:
        """This instance ends now, by a signal or by force: say in the log what that leaves (BUD-069)."""
        if self._fleet is None:
            return
        others = [one for one in self._fleet.live if one.run != self._runtime.run_name]
        if (why := self._declared.refusal(others=counted(others))) is not None:
            log.warning("stopped_below_fleet_minimum", what=why)

    def _instances(self) -> int | None:
        return None if self._fleet is None else counted(self._fleet.live)

    def _too_small(self) -> str | None:
        return self._declared.too_small(self._runtime.instance_id, self._cpu.shown.use.usable)
