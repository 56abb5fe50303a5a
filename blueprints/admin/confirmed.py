"""When a route asks for a step-up: a property that each route of the table declares (WHK-113, ADM-298).

On an inline host the console shares its origin with every script of the site, and neither cookie flags nor headers
tell them apart. Not here: making and judging tokens (services/step_up.py). Needs a second reviewer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from sanic import Request

from app.context import AppContext
from app.domain.principal import Principal, Via

HEADER: Final = "X-QM-Step-Up-Token"


class StepUp(Enum):
    """Who has to present his key once more before a route does its act."""

    NEVER = 0
    ON_SITE = 1
    """Whoever asks by a console session on an inline host (ADM-298)."""
    BY_FIELDS = 2
    """The same, but only where the body changes what the route's service names."""
    ALWAYS = 3
    """Everybody (WHK-113)."""


async def is_confirmed(rule: StepUp, request: Request, qm: AppContext, caller: Principal) -> bool:
    """Tell whether ``caller`` need not present his key again. StorageUnavailable when that cannot be said."""
    if rule is StepUp.NEVER:
        return True
    if rule is not StepUp.ALWAYS and not (caller.via is Via.SESSION and _is_inline(request, qm)):
        return True
    return await qm.step_ups.fits(request.headers.get(HEADER, ""), caller)


def _is_inline(request: Request, qm: AppContext) -> bool:
    """Below ``/__qm`` or, where the host is an address, beside the site (INL-067): the origin is the site's too."""
    host: str = request.ctx.client.host
    return request.ctx.inline is not None or qm.inline.gate.index.find(host.encode("latin-1", "replace")) is not None
