"""Advice of ``hardening`` that depends on what runs: the rooms there are and the instances that live.

Source: CFG-220, CFG-235. Not here: advice from the settings alone (core/settings_hardening.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.core.runtime import Runtime
from app.domain.room_hardening import room_advice
from app.infrastructure.fleet_records import Fleet
from app.services.room_object import RoomView

ALONE: Final = (
    "only one instance is live: one instance is one deploy, one crash, one busy CPU away from a closed door. Run two "
    "or more"
)


def running_advice(runtime: Runtime, views: Sequence[RoomView] | None, fleet: Fleet | None) -> list[str]:
    """Sentences about a production deployment. ``views`` or ``fleet`` None: not known now, nothing is said of them."""
    settings = runtime.settings
    if settings.env != "production":
        return []
    found = [ALONE] if fleet is not None and len(fleet.live) == 1 else []
    if views is not None:
        found += room_advice((view.room.config for view in views), has_admin_host=bool(settings.admin_host))
    return found
