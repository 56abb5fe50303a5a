"""``GET /history``: the charts of rooms, as JSON or as a file (05, section 13)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.services.notes import is_csv
from blueprints.admin.pieces import CSV_TYPE, csv_headers, in_pieces
from blueprints.admin.routing import JSON_TYPE, NO_STORE, Call, Route


async def history(call: Call) -> HTTPResponse | None:
    """Points of the last hour of one room, or of all."""
    room_id = call.query.get("roomId")
    if not is_csv(call.query):
        return await in_pieces(call, call.qm.history.json(room_id), JSON_TYPE, NO_STORE)
    name = "qm-history.csv" if room_id is None else f"qm-history-{room_id}.csv"
    return await in_pieces(call, call.qm.history.csv(room_id), CSV_TYPE, csv_headers(name))


ROUTES: Final = (Route("GET", "history", history, query=frozenset({"roomId", "format"})),)
