"""Alerts of the stand-in server, and a receiver that takes a test or does not (file 08, section 5.1)."""

from __future__ import annotations

from typing import Any

from sanic import Blueprint, Request, response


def alerts_of(state: Any) -> Blueprint:
    """The routes about alerts, on the memory of the stand-in."""
    bp = Blueprint("alerts")

    @bp.get("/api/admin/alerts")
    async def alerts(_: Request) -> response.HTTPResponse:
        return response.json(
            {
                "configured": state.hook is not None, "webhookHost": state.hook, "everyMs": 10_000, "holdSec": 120,
                "repeatSec": 1800, "firing": state.firing, "pending": [], "deliveries": state.deliveries,
            }
        )  # fmt: skip

    @bp.post("/api/admin/alerts")
    async def send_test(_: Request) -> response.HTTPResponse:
        if state.refuse:
            refusal = {name: value for name, value in state.refuse.items() if name != "status"}
            return response.json(refusal, status=state.refuse["status"])
        status = state.answers
        delivery = {
            "ts": state.now(), "event": "test", "status": "firing", "ok": status == 200, "httpStatus": status,
            "error": None if status == 200 else "timeout" if status is None else f"http-{status}", "ms": 131,
        }  # fmt: skip
        state.deliveries.insert(0, delivery)
        return response.json({"ok": delivery["ok"], "delivery": delivery})

    return bp
