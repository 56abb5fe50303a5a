"""``POST /shutdown``: the orderly stop of this instance, where no signal can be sent.

Source: ADM-168 … ADM-170, CFG-202, BUD-069.
"""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.core.clock import wall_ms
from app.core.errors import InvalidField
from app.core.jsonbody import refuse_unknown
from app.domain.roles import Role
from app.services.stop_guard import BelowFleetMinimum
from blueprints.admin.confirmed import StepUp
from blueprints.admin.routing import Call, Route, reply, tell


async def shutdown(call: Call) -> HTTPResponse:
    """Answer, and then stop as at a SIGTERM; asked again while it stops, the same answer and nothing more."""
    body = call.body()
    refuse_unknown(body, ("force",))
    force = body.get("force", False)
    if not isinstance(force, bool):
        raise InvalidField("force", "force must be true or false")
    runtime = call.qm.runtime
    if not runtime.stopping.is_set() and not runtime.is_stop_requested.is_set():
        why = await call.qm.stop_guard.refusal()
        if why is not None and not force:
            tell(call, "shutdown_refused", why=why)
            raise BelowFleetMinimum(f'{why}. Send {{"force":true}} to stop this instance all the same.')
        tell(call, "shutdown_requested")
        await call.qm.life.request_stop(call.actor, "" if why is None else f"forced: {why}")
        call.request.app.m.terminate()
    uptime = max(0, wall_ms() - runtime.started_at) // 1000
    return reply({"ok": True, "stopping": True, "uptimeSec": uptime}, headers={"Connection": "close"})


ROUTES: Final = (Route("POST", "shutdown", shutdown, role=Role.OWNER, step_up=StepUp.ON_SITE),)
