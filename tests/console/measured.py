"""Charts, marks, protection and reports of the stand-in server (file 05, sections 13 and 18)."""

from __future__ import annotations

import math
from typing import Any

from sanic import Blueprint, Request, response

from app.domain.chart import SUM

STEP_MS = 5000
POINTS = 720
FIGURES = ("waiting", "preQueue", "joinsPerMin", "passesPerMin", "estWaitSec", "waitP50Sec", "waitP90Sec",
           "active", "occupancy")  # fmt: skip
COUNTS = ("waiting", "joinsPerMin", "passesPerMin")
COVERAGE = {"samples": 720, "partial": False, "coveredSec": 3600, "missingSec": 0}


def sample_history(now: int, room: dict[str, Any]) -> list[dict[str, Any]]:
    """An hour of a line that grows, to the figures of the room's card."""
    last = now // STEP_MS * STEP_MS
    points = []
    for place in range(POINTS):
        part = (place + 1) / POINTS
        joins = room["joinsPerMin"] * (0.6 + 0.4 * math.sin(place / 90) ** 2)
        line = room["waiting"] * part
        values = (round(line), 0, round(joins), room["passedLastMinute"], round(40 + line / 3),
                  round(30 + line / 6), round(50 + line / 4), room["active"], room["occupancy"])  # fmt: skip
        ts = last - (POINTS - 1 - place) * STEP_MS
        points.append({"ts": ts, **dict(zip(FIGURES, values, strict=True))})
    return points


def sums(charts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The charts of all rooms together."""
    return [
        {"ts": turn[0]["ts"], **{name: sum(one[name] for one in turn) for name in COUNTS}}
        for turn in zip(*charts, strict=True)
    ]


def sample_marks(now: int) -> list[dict[str, Any]]:
    """What was done to rooms in the last hour."""
    done = [
        (58, "shop", "rate", "rate 30 → 60/min", "Night ops"), (31, "shop", "autotune", "rate 60 → 66/min", "system"),
        (31, "shop", "eject", "ticket 4114 ejected", "Dana"), (12, "news", "flush", "flush of 40", "Dana"),
    ]  # fmt: skip
    return [
        {"id": f"m{place}", "ts": now - ago * 60_000, "roomId": room, "kind": kind, "text": text, "actor": actor}
        for place, (ago, room, kind, text, actor) in enumerate(done)
    ]


def sample_protection(now: int) -> dict[str, Any]:
    """Monitoring, with two decisions."""
    recent = [
        {"ts": now - 60_000, "roomId": "spring-drop", "address": "203.0.113.9", "userAgent": "python-requests/2.31",
         "score": 92, "outcome": "blocked", "signals": ["declared_automation"]},
        {"ts": now - 90_000, "roomId": "shop", "address": "198.51.100.7", "userAgent": "<b>Mozilla</b>", "score": 44,
         "outcome": "warned", "signals": ["cookieless_repeat", "no_accept_language"]},
    ]  # fmt: skip
    return {
        "mode": "monitor", "warnAt": 40, "blockAt": 70, "rooms": [{"roomId": "spring-drop", "mode": "enforce"}],
        "totals": {"scored": 20_417, "warned": 120, "wouldBlock": 9, "blocked": 3, "crawlers": 14, "allowListed": 2},
        "signals": [{"signal": "cookieless_repeat", "count": 88}, {"signal": "declared_automation", "count": 12}],
        "recent": recent,
    }  # fmt: skip


def sample_rows(now: int) -> list[dict[str, Any]]:
    """Two hours of a room, the later one with a gap."""
    hour = now // 3_600_000 * 3_600_000
    counts = {
        "joins": 20_417, "passes": 20_005, "netUnserved": 412, "peakDepth": 4500, "avgDepth": 310.5, "peakActive": 25,
        "waitP50Sec": 371, "waitP90Sec": 409, "waitMaxSec": 1210, "waitAvgSec": 355.2, "measuredWaits": 20_005,
        "blocked": 3, "warned": 120,
    }  # fmt: skip
    begin = {"roomId": "shop", "bucket": "hour", "start": hour - 3_600_000, "startIso": "2026-08-01T00:00:00.000Z"}
    gap = {"netUnserved": None, "samples": 540, "partial": True, "coveredSec": 2700, "missingSec": 900}
    return [{**begin, **counts, **COVERAGE}, {**begin, **counts, "start": hour, **gap}]


def measured_of(state: Any) -> Blueprint:
    """The routes, on the memory of the stand-in: ``histories``, ``marks``, ``protection``, ``rows`` where set."""
    bp = Blueprint("measured")

    def wanted(request: Request) -> list[str]:
        state.queries.append(f"{request.path.removeprefix('/api/admin')}?{request.query_string}")
        return [str(one) for one in request.args.getlist("roomId", [])]

    def as_csv(name: str) -> response.HTTPResponse:
        return response.text(
            "roomId,ts\r\nshop,1\r\n", headers={"Content-Disposition": f'attachment; filename="{name}"'}
        )

    @bp.get("/api/admin/history")
    async def history(request: Request) -> response.HTTPResponse:
        rooms = wanted(request) or list(state.rooms)
        if request.args.get("format") == "csv":
            return as_csv("qm-history.csv")
        now = state.now()
        if rooms == [SUM]:
            return response.json(
                {"stepSec": 5, "rooms": {SUM: sums([sample_history(now, one) for one in state.rooms.values()])}}
            )
        found = {one: state.histories.get(one, sample_history(now, state.rooms[one])) for one in rooms}
        return response.json({"stepSec": 5, "rooms": found})

    @bp.get("/api/admin/timeline")
    async def timeline(request: Request) -> response.HTTPResponse:
        rooms = wanted(request) or list(state.rooms)
        marks = sample_marks(state.now()) if state.marks is None else state.marks
        return response.json({"items": [mark for mark in marks if mark["roomId"] in rooms]})

    @bp.get("/api/admin/protection")
    async def protection(request: Request) -> response.HTTPResponse:
        answer = state.protection or sample_protection(state.now())
        if request.headers.get("authorization"):
            hidden = ("address", "userAgent")
            answer["recent"] = [{k: v for k, v in one.items() if k not in hidden} for one in answer["recent"]]
        return response.json(answer)

    @bp.get("/api/admin/reports")
    async def reports(request: Request) -> response.HTTPResponse:
        wanted(request)
        if state.storage_down:
            refusal = {"error": "Storage is unavailable.", "code": "storage_unavailable"}
            return response.json(refusal, status=503)
        if request.args.get("format") == "csv":
            return as_csv("qm-report-hour.csv")
        rows = sample_rows(state.now()) if state.rows is None else state.rows
        return response.json({"bucket": request.args.get("bucket"), "rows": rows, "notes": {}})

    return bp
