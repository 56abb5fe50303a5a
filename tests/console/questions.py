"""What a room's panels ask the stand-in server: schedule, visitors, rules, installation (file 05)."""

from __future__ import annotations

from typing import Any

from sanic import Blueprint, Request, response

from app.domain.origins import origin_text, parse_web_url
from app.domain.room import UrlRule
from app.domain.url_rules import RuleSet

SEARCHED = {"generations": 3, "ticketsPerGeneration": 50_000}


def refuse(code: str, error: str, status: int = 400) -> response.HTTPResponse:
    return response.json({"error": error, "code": code}, status=status)


def questions_of(state: Any) -> Blueprint:
    """The routes of these panels, on the memory of the stand-in."""
    bp = Blueprint("questions")

    @bp.post("/api/admin/rooms/<room_id:str>/schedule")
    async def schedule(request: Request, room_id: str) -> response.HTTPResponse:
        room, body = state.rooms[room_id], request.json
        if not body:
            return refuse("nothing_to_change", "Send opensAt and/or preQueueMaxPerIp")
        if body.get("opensAt") is not None and body["opensAt"] < state.now():
            return refuse("opens_at_in_past", "opensAt is in the past")
        drawn = room["preQueue"] if "opensAt" in body and body["opensAt"] is None else None
        room.update(body)
        room["effectiveState"] = "scheduled" if room["opensAt"] else room["state"]
        if drawn is not None:
            room.update(waiting=drawn, preQueue=0)
        return response.json(
            {"room": room, "changed": list(body), "warnings": [], **({} if drawn is None else {"drawn": drawn})}
        )

    @bp.get("/api/admin/rooms/<_room:str>/tickets")
    async def find(request: Request, _room: str) -> response.HTTPResponse:
        text = request.args.get("q", "")
        if "place" in request.args:
            return response.json(state.found[f"{request.args.get('ref')}@{request.args.get('place')}"])
        if not text.replace("-", "").replace(" ", "").isalnum():
            return refuse("invalid_q", "Send a ticket number, or a ref such as K7Q-2MX")
        return response.json(state.found.get(text, {"q": text, "state": "unknown", "searched": SEARCHED}))

    @bp.get("/api/admin/rooms/<_room:str>/tickets/<number:str>")
    async def by_number(_: Request, _room: str, number: str) -> response.HTTPResponse:
        return response.json(state.found.get(number, {"ticket": int(number), "state": "unknown", "searched": SEARCHED}))

    @bp.post("/api/admin/rooms/<room_id:str>/rules/test")
    async def try_rules(request: Request, room_id: str) -> response.HTTPResponse:
        """The code of the door judges, as in the server."""
        url = parse_web_url(request.json["url"])
        if url is None:
            return refuse("invalid_url", "url must be a full http(s) address without credentials")
        rules = request.json.get("rules", state.rooms[room_id]["rules"])
        held = [UrlRule(one.get("id", str(at)), one["action"], one["pattern"], "") for at, one in enumerate(rules)]
        trial = RuleSet(held).trial(url)
        winner = None if trial.winner is None else {"index": trial.winner, **rules[trial.winner]}
        return response.json(
            {"covered": trial.covered, "winner": winner, "results": [], "warnings": state.rule_warnings}
        )

    @bp.get("/api/admin/rooms/<room_id:str>/install-check")
    async def install_check(request: Request, room_id: str) -> response.HTTPResponse:
        url = parse_web_url(request.args.get("url", ""))
        if url is None:
            return refuse("invalid_url", "url must be a full http(s) address without credentials")
        origin, tags = request.args.get("origin") or origin_text(url.origin), state.rooms[room_id]["tagOrigins"] or []
        allowed = origin in tags
        return response.json(
            {
                "roomId": room_id, "origin": origin, "url": request.args["url"], "tagAllowed": allowed,
                "returnAllowed": False, "covered": True, "rule": "r1", "lastCheckAt": None, "tagVersion": None,
                "refusedChecks": 12, "findings": [{"code": "tag_origin_missing", "text": "The tag is refused."}],
                "fix": None if allowed else {"tagOrigins": [*tags, origin]}, **state.install,
            }
        )  # fmt: skip

    return bp
