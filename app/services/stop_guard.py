"""Keeps an instance from being shut down through the API while too few others would be left (BUD-069).

Not here: the stop itself (blueprints/admin/server.py), a signal, which is obeyed and logged (capacity_watch.py).
"""

from __future__ import annotations

from app.core.errors import QmError
from app.core.runtime import Runtime
from app.domain.capacity import Declared, counted, counts
from app.services.instances import Instances


class BelowFleetMinimum(QmError):
    """409: fewer instances than FLEET_MIN_INSTANCES would be left."""

    status = 409
    code = "below_fleet_minimum"


class StopGuard:
    """Of one web worker."""

    def __init__(self, runtime: Runtime, instances: Instances) -> None:
        self._runtime = runtime
        self._instances = instances
        self._declared = Declared.of(runtime.settings, runtime.given)

    async def refusal(self) -> str | None:
        """Why this instance must not be stopped; None: it may be.

        While the live store is away those count that were there when it was last read; where it never was, none.
        """
        fleet = await self._instances.read()
        if fleet is None:
            return self._declared.refusal(others=None)
        others = [one for one in fleet.live if one.run != self._runtime.run_name]
        if any(not counts(one) for one in fleet.live if one not in others):
            return None  # an instance that does not count is missed by nobody
        return self._declared.refusal(others=counted(others))
