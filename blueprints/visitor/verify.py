"""``GET /api/verify``: whether an installation is right. Source: VIS-142 … VIS-145."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.core.errors import RateLimited, Unauthorized
from app.services.connector_keys import QUERY_KEYS
from blueprints.edge.hot import HotHandler
from blueprints.edge.reply import HotReply, json_reply
from blueprints.edge.request import HotRequest
from blueprints.query_keys import tell_of_query_credential
from blueprints.visitor.request_reading import missing_room, refuse_other_host, room_in_query

if TYPE_CHECKING:
    from app.context import AppContext

_BUDGET: Final = "verify"


def routes(ctx: AppContext) -> dict[tuple[str, str], HotHandler]:
    """The handler of one worker process."""
    limit = ctx.settings.verify_limit_per_min

    async def verify(request: HotRequest) -> HotReply:
        request.budget = budget = ctx.limiter.take(_BUDGET, request.client.key, limit)
        if not budget.allowed:
            raise RateLimited
        query = request.query
        if named := next((name for name in QUERY_KEYS if name in query), None):
            tell_of_query_credential(ctx.limiter, "verify", named)
            raise Unauthorized("Public API key sent in the URL", code="credential_in_query", ok=False)
        authorization = request.header(b"authorization") if b"authorization" in request.headers else None
        holder = await ctx.visitor.keys.judge(request.client, authorization)
        room_id = room_in_query(query)
        if room_id is None:
            raise missing_room()
        refuse_other_host(request.inline, room_id)
        answer = await ctx.visitor.verify.verify(holder, room_id, query.get("origin"), query.get("url"))
        return json_reply(answer)

    return {("GET", "/api/verify"): verify}
