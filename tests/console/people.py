"""Links, operators and the audit trail of the stand-in server (file 05, sections 14, 15 and 17)."""

from __future__ import annotations

from typing import Any

from sanic import Blueprint, Request, response


def people_of(state: Any) -> Blueprint:
    """The routes about people, on the memory of the stand-in."""
    bp = Blueprint("people")

    def link_answer(link: dict[str, Any], status: int = 200) -> response.HTTPResponse:
        token = "token." + link["id"]
        return response.json(
            {"link": link, "token": token, "url": f"https://q.example/#monitor={token}"}, status=status
        )

    @bp.get("/api/admin/monitor-tokens")
    async def list_links(_: Request) -> response.HTTPResponse:
        links = list(state.shared.values())[::-1]
        live = sum(link["state"] == "live" for link in links)
        return response.json({"links": links, "live": live, "ttlSec": 604_800})

    @bp.post("/api/admin/monitor-tokens")
    async def mint_link(request: Request) -> response.HTTPResponse:
        ident = f"m_{len(state.shared):08x}"
        link = {
            "id": ident, "label": request.json.get("label", ""), "createdAt": state.now(), "createdBy": "ADMIN_KEY",
            "createdById": None, "expiresAt": state.now() + 604_800_000, "revokedAt": None, "revokedBy": None,
            "state": "live", "lastUsedAt": None,
        }  # fmt: skip
        state.shared[ident] = link
        return link_answer(link, 201)

    @bp.post("/api/admin/monitor-tokens/<ident:str>/reveal")
    async def reveal_link(_: Request, ident: str) -> response.HTTPResponse:
        return link_answer(state.shared[ident])

    @bp.delete("/api/admin/monitor-tokens")
    async def revoke_links(_: Request) -> response.HTTPResponse:
        for link in state.shared.values():
            link["state"] = "revoked"
        return response.json({"ok": True, "revoked": len(state.shared)})

    @bp.delete("/api/admin/monitor-tokens/<ident:str>")
    async def revoke_link(_: Request, ident: str) -> response.HTTPResponse:
        state.shared[ident]["state"] = "revoked"
        return response.json({"ok": True, "revoked": 1})

    @bp.get("/api/admin/operators")
    async def list_operators(_: Request) -> response.HTTPResponse:
        return response.json({"operators": list(state.people.values())})

    @bp.post("/api/admin/operators")
    async def make_operator(request: Request) -> response.HTTPResponse:
        ident = f"{len(state.people):08x}"
        person = {
            "id": ident, "name": request.json["name"], "role": request.json["role"], "createdAt": state.now(),
            "createdBy": "ADMIN_KEY", "lastUsedAt": None, "lastUsedIp": None, "revokedAt": None, "revokedBy": None,
            "liveLinks": 2,
        }  # fmt: skip
        state.people[ident] = person
        return response.json({"operator": person, "key": f"qmo_{ident}_secret", "shownOnce": True}, status=201)

    @bp.post("/api/admin/operators/<ident:str>")
    async def change_operator(request: Request, ident: str) -> response.HTTPResponse:
        state.people[ident].update(request.json)
        return response.json({"operator": state.people[ident], "changed": list(request.json)})

    @bp.delete("/api/admin/operators/<ident:str>")
    async def end_operator(request: Request, ident: str) -> response.HTTPResponse:
        person = state.people[ident]
        if request.args.get("purge"):
            del state.people[ident]
            return response.json({"ok": True, "operator": person, "purged": True, "linksRevoked": 0})
        person["revokedAt"] = state.now()
        return response.json({"ok": True, "operator": person, "linksRevoked": 2})

    @bp.get("/api/admin/audit")
    async def audit(request: Request) -> response.HTTPResponse:
        state.trail.append(request.query_string)
        wanted = {name: request.args.get(name) for name in ("roomId", "action")}
        found = [
            entry for entry in state.entries
            if all(value in (None, entry[name]) for name, value in wanted.items())
            and request.args.get("actor") in (None, entry["actor"], entry["actorId"])
            and entry["id"] < int(request.args.get("before", 1 << 60))
        ]  # fmt: skip
        if request.args.get("format") == "csv" and state.busy:
            sentence = "This server is at work on other exports and long reports. Try again shortly."
            return response.json({"error": sentence, "code": "busy", "retryAfterSec": 10}, status=429)
        if request.args.get("format") == "csv":
            text = "id,action\n" + "".join(f"{entry['id']},{entry['action']}\n" for entry in found)
            headers = {"Content-Disposition": 'attachment; filename="qm-audit.csv"'}
            return response.text(text, headers=headers, content_type="text/csv; charset=utf-8")
        page = found[: int(request.args.get("limit", 100))]
        return response.json({"entries": page, "next": str(page[-1]["id"]) if len(found) > len(page) else None})

    return bp
