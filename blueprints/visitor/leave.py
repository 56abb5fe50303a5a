"""``POST /api/leave``: giving up a place. Source: VIS-175."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.errors import RateLimited
from blueprints.edge.hot import HotHandler
from blueprints.edge.reply import HotReply
from blueprints.edge.request import HotRequest
from blueprints.visitor.hot import public_host
from blueprints.visitor.request_reading import fields_of, refuse_other_sites, room_in_body, text_in, visitor_of

if TYPE_CHECKING:
    from app.context import AppContext


def routes(ctx: AppContext) -> dict[tuple[str, str], HotHandler]:
    """The handler of one worker process; counted with joins (VIS-069)."""
    own_host = public_host(ctx)

    async def leave(request: HotRequest) -> HotReply:
        limit = ctx.settings.join_limit_per_min
        request.budget = budget = ctx.limiter.take("join", request.client.key, limit)
        if not budget.allowed:
            raise RateLimited
        refuse_other_sites(request, own_host)
        fields = fields_of(request, "roomId", "token")
        room_id = room_in_body(fields)
        token = text_in(fields, "token")
        answer = await ctx.visitor.leave.leave(room_id, visitor_of(request, room_id, token))
        return HotReply(200, answer.body, answer.cookies, [])

    return {("POST", "/api/leave"): leave}
