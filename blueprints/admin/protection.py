"""``GET /protection``: what bot protection does, and what it decided lately (ADM-198)."""

from __future__ import annotations

from typing import Any, Final

from sanic.response import HTTPResponse

from app.domain.roles import Role
from app.services.fleet_counts import OUTCOMES
from blueprints.admin.routing import Call, Route, reply

_HIDDEN: Final = frozenset({"address", "userAgent"})
"""Members of a decision that a monitor link does not read."""


async def protection(call: Call) -> HTTPResponse:
    """Modes, thresholds, totals of the fleet, and the last 50 decisions in which there was something to decide."""
    qm, settings = call.qm, call.qm.settings
    sums, recent = await qm.fleet_counts.sums(), await qm.fleet_counts.decisions()
    own = [(room.id, room.config.protection) for room in qm.rooms.all()]
    return reply(
        {
            "mode": settings.protection_mode,
            "warnAt": settings.protection_warn_at,
            "blockAt": settings.protection_block_at,
            "rooms": [{"roomId": room_id, "mode": found.mode} for room_id, found in own if found is not None],
            "totals": {name: sums.protection[name] for name in OUTCOMES},
            "signals": [{"signal": name, "count": count} for name, count in sums.signals.most_common()],
            "recent": [_shown(one, call.principal.role) for one in recent],
        }
    )


def _shown(decision: Any, role: Role) -> dict[str, Any]:
    hidden = _HIDDEN if role < Role.VIEWER else frozenset()
    return {name: value for name, value in decision.items() if name not in hidden}


ROUTES: Final = (Route("GET", "protection", protection),)
