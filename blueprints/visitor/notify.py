"""``POST|DELETE /api/notify``: leaving an address to be told at one's turn. Source: VIS-177, VIS-178."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.core.errors import InvalidField, NotFound, RateLimited
from app.core.i18n import LANGUAGES
from blueprints.edge.hot import HotHandler
from blueprints.edge.reply import HotReply, json_reply
from blueprints.edge.request import HotRequest
from blueprints.visitor.hot import public_host
from blueprints.visitor.request_reading import missing_room, refuse_other_sites, texts_of, visitor_of

if TYPE_CHECKING:
    from app.context import AppContext

_BUDGET: Final = "notify"
_FIELDS: Final = {
    "POST": frozenset({"roomId", "token", "email", "lang"}),
    "DELETE": frozenset({"roomId", "token"}),
}


def routes(ctx: AppContext) -> dict[tuple[str, str], HotHandler]:
    """The handlers of one worker process."""
    own_host, limit = public_host(ctx), ctx.settings.notify_limit_per_min

    async def notify(request: HotRequest) -> HotReply:
        request.budget = budget = ctx.limiter.take(_BUDGET, request.client.key, limit)
        if not budget.allowed:
            raise RateLimited
        refuse_other_sites(request, own_host)
        service = ctx.visitor.notify
        if service is None:
            raise NotFound("Notification is not offered here", code="notify_disabled")
        fields = texts_of(request, _FIELDS[request.method])
        room_id = fields.get("roomId")
        if not room_id:
            raise missing_room()
        visitor = visitor_of(request, room_id, fields.get("token"))
        if request.method == "DELETE":
            await service.remove(room_id, visitor)
        else:
            await service.keep(room_id, visitor, fields.get("email") or "", _language(fields.get("lang")))
        return json_reply({"ok": True})

    return {("POST", "/api/notify"): notify, ("DELETE", "/api/notify"): notify}


def _language(lang: str | None) -> str:
    """The language of the mail. Raises 400 ``invalid_lang`` for one that this server does not write."""
    if not lang:
        return LANGUAGES[0]
    if lang not in LANGUAGES:
        raise InvalidField("lang", f"lang has to be one of {', '.join(LANGUAGES)}")
    return lang
