"""One short journey through visitors' and operators' routes, the same over every form of the stores."""

from __future__ import annotations

from typing import Any

import httpx

from tests.harness import Server, wait_for

JOURNEY: list[tuple[Any, ...]] = [
    ("created", 200, True),
    ("joined", 200, "waiting", 1, 1),
    ("behind", 200, "waiting", 2, 2),
    ("paused", 200, "paused"),
    ("asked", 200, "paused", 2),
    ("passed", "passed"),
    ("admitted", 200, "pass", "admitted"),
    ("again", 200, "pass", "session"),
    ("unknown", 404, "no_room"),
    ("ejected", 200),
    ("gone", 200, "gone", "ejected"),
    ("left", 200, True),
    ("deleted", 200, 2),
    ("over", 404, "no_room"),
]
"""What it is answered."""


def journey(server: Server) -> list[tuple[Any, ...]]:
    """Go through it; the room is deleted at the end."""
    key = {"Authorization": f"Bearer {server.admin_key}"}
    found: list[tuple[Any, ...]] = []

    def operator(method: str, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        answer = httpx.request(method, f"{server.url}/api/admin/{path}", headers=key, json=body or None, timeout=30)
        return answer.status_code, answer.json()

    def note(name: str, *told: Any) -> None:
        found.append((name, *told))

    with httpx.Client(base_url=server.url, timeout=30) as ann, httpx.Client(base_url=server.url, timeout=30) as bob:

        def ask(visitor: httpx.Client, method: str, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
            answer = visitor.request(method, path, json=body or None)
            return answer.status_code, answer.json()

        status, told = operator("POST", "rooms", id="form", targetUrl="https://shop.example/", rate=0)
        note("created", status, told["created"])
        for name, visitor in (("joined", ann), ("behind", bob)):
            status, told = ask(visitor, "POST", "/api/join", roomId="form")
            note(name, status, told["state"], told["ticket"], told["position"])
        status, told = operator("POST", "rooms/form/pause")
        note("paused", status, told["room"]["state"])
        status, told = ask(bob, "GET", "/api/status?room=form")
        note("asked", status, told["state"], told["position"])
        operator("POST", "rooms", id="form", rate=600, maxConcurrent=1, state="active")
        wait_for(lambda: ask(ann, "GET", "/api/status?room=form")[1]["state"] == "passed")
        note("passed", ask(ann, "GET", "/api/status?room=form")[1]["state"])
        for name in ("admitted", "again"):
            status, told = ask(ann, "GET", "/api/check?room=form")
            note(name, status, told["action"], told["reason"])
        status, told = ask(bob, "GET", "/api/check?room=nowhere")
        note("unknown", status, told["code"])
        note("ejected", operator("POST", "rooms/form/eject", ticket=2)[0])
        status, told = ask(bob, "GET", "/api/status?room=form")
        note("gone", status, told["state"], told["reason"])
        status, told = ask(ann, "POST", "/api/leave", roomId="form")
        note("left", status, told["ok"])
        status, told = operator("DELETE", "rooms/form")
        note("deleted", status, len(told["warnings"]) + 2)
        status, told = ask(ann, "GET", "/api/status?room=form")
        note("over", status, told["code"])
    return found
