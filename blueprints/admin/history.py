"""``GET /history``: the charts of rooms, as JSON or as a file (05, section 13)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.services.heavy_works import charts
from app.services.notes import is_csv
from blueprints.admin.pieces import as_file, from_heavy, in_pieces
from blueprints.admin.routing import JSON_TYPE, NO_STORE, Call, Route


async def history(call: Call) -> HTTPResponse | None:
    """Points of the last hour of one room, or of all."""
    room_id = call.query.get("roomId")
    is_file = is_csv(call.query)
    work = charts(room_id, is_csv=is_file)
    if work is None:
        return await in_pieces(call, call.qm.history.json(room_id), JSON_TYPE, NO_STORE)
    if not is_file:
        return await from_heavy(call, work)
    return await as_file(call, work, "qm-history.csv" if room_id is None else f"qm-history-{room_id}.csv")


ROUTES: Final = (Route("GET", "history", history, query=frozenset({"roomId", "format"})),)
