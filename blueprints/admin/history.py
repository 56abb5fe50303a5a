"""``GET /history``: the charts of rooms, as JSON or as a file (05, section 13)."""

from __future__ import annotations

from typing import Final

from sanic.response import HTTPResponse

from app.domain.chart import SUM
from app.services.heavy_works import charts
from app.services.notes import is_csv
from blueprints.admin.pieces import as_file, from_heavy, in_pieces
from blueprints.admin.routing import JSON_TYPE, NO_STORE, Call, Route


async def history(call: Call) -> HTTPResponse | None:
    """Points of the last hour of one room, of all together (``*``), or of each."""
    room_id = call.query.get("roomId")
    is_file = is_csv(call.query)
    work = charts(room_id, is_csv=is_file)
    if work is None:
        return await in_pieces(call, call.qm.history.json(room_id), JSON_TYPE, NO_STORE)
    if not is_file:
        return await from_heavy(call, work)
    return await as_file(call, work, f"qm-history{'' if room_id is None else '-' + _NAMES.get(room_id, room_id)}.csv")


_NAMES: Final = {SUM: "sum"}
"""What a file is called where the room's id cannot name it."""

ROUTES: Final = (Route("GET", "history", history, query=frozenset({"roomId", "format"})),)
