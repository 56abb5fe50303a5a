"""What an admin answer has acknowledged is there after a crash of every process (ADM-291, ADM-196)."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from app.core.clock import wall_ms
from tests.admin.callers import TARGET, Caller, Callers, code
from tests.harness import Server, wait_for


@pytest.mark.req("ADM-291", "ADM-196", "ADM-166", "OBS-179", "CON-126")
@pytest.mark.req("FLT-116", "FLT-111")
def test_every_acknowledged_act_is_there_after_a_crash_right_after_the_answer() -> None:
    with Server(env={"STORE": "embedded", "LEADER_LEASE_MS": "2000"}, workers=1) as server:
        callers = Callers(server)
        owner = callers.with_key(server.admin_key)
        page = callers.signed_in()
        for room_id in ("shop", "gone", "line"):
            assert owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET, "rate": 0}).status_code == 200
        for n in range(4):
            joined = httpx.post(f"{server.url}/api/join", json={"roomId": "line"}, timeout=20)
            assert joined.json()["ticket"] == n + 1
        wait_for(lambda: chart(owner, "line"))

        opens_at = wall_ms() + 3_600_000
        made = owner("POST", "/api/admin/operators", {"name": "Night ops", "role": "operator"}).json()
        gone = owner("POST", "/api/admin/operators", {"name": "Left", "role": "viewer"}).json()
        link = owner("POST", "/api/admin/monitor-tokens", {"label": "Agency"}).json()
        taken = owner("POST", "/api/admin/monitor-tokens", {"label": "Other"}).json()
        acts: list[tuple[str, str, Any]] = [
            ("POST", "rooms", {"id": "shop", "name": "Edited", "maxConcurrent": 9}),
            ("POST", "rooms/shop/schedule", {"opensAt": opens_at}),
            ("DELETE", "rooms/gone", None),
            ("POST", "rooms/line/eject", {"ticket": 2}),
            ("POST", "rooms/line/flush", None),
            ("DELETE", f"operators/{gone['operator']['id']}", None),
            ("DELETE", f"monitor-tokens/{taken['link']['id']}", None),
        ]
        for method, path, body in acts:
            assert owner(method, f"/api/admin/{path}", body).status_code == 200, path
        assert httpx.post(f"{server.url}/api/join", json={"roomId": "line"}, timeout=20).json()["ticket"] == 5
        assert owner("POST", "/api/admin/rooms/line/purge").json()["purged"]["waiting"] == 1
        assert page("DELETE", "/api/admin/session").status_code == 200
        points, before = chart(owner, "line"), wall_ms()
        server.kill(signal.SIGKILL)
        server.wait()
        callers.close()
        server.start()

        after = Callers(server)
        owner = after.with_key(server.admin_key)
        wait_for(lambda: not any(room["recovering"] for room in owner("GET", "/api/admin/rooms").json()["rooms"]))
        rooms = {room["id"]: room for room in owner("GET", "/api/admin/rooms").json()["rooms"]}
        assert list(rooms) == ["shop", "line"]
        shop, line = rooms["shop"], rooms["line"]
        assert (shop["name"], shop["maxConcurrent"], shop["opensAt"]) == ("Edited", 9, opens_at)
        assert (line["waiting"], line["lastTicket"]) == (0, 5)
        tickets = [owner("GET", f"/api/admin/rooms/line/tickets/{n}").json()["state"] for n in range(1, 6)]
        assert tickets == ["passed", "ejected", "passed", "passed", "ejected"]
        assert after.with_key(made["key"])("GET", "/api/admin/me").json()["name"] == "Night ops"
        assert code(after.with_key(gone["key"])("GET", "/api/admin/me")) == (401, "unauthorized")
        assert after.with_key(link["token"])("GET", "/api/admin/me").status_code == 200
        assert code(after.with_key(taken["token"])("GET", "/api/admin/me")) == (401, "unauthorized")
        again = after.page()
        again.keep_cookie(page.http.headers["Cookie"].partition("=")[2])
        assert code(again("GET", "/api/admin/me")) == (401, "unauthorized"), "signed out stays signed out"
        entries = owner("GET", "/api/admin/audit", params={"limit": 1000}).json()["entries"]
        told = [(entry["action"], entry["roomId"]) for entry in entries]
        for act in ("create", "update", "schedule"):
            assert (f"room.{act}", "shop") in told
        assert {
            ("room.delete", "gone"),
            ("visitor.eject", "line"),
            ("room.flush", "line"),
            ("room.purge", "line"),
        } <= set(told)
        # Marks and charts are on the console again, those of the ended room are not.
        marks = owner("GET", "/api/admin/timeline").json()["items"]
        kinds = {(mark["roomId"], mark["kind"]) for mark in marks if mark["ts"] <= before}
        assert {
            ("shop", "settings"),
            ("shop", "schedule"),
            ("line", "eject"),
            ("line", "flush"),
            ("line", "purge"),
        } <= kinds
        assert not any(mark["roomId"] == "gone" for mark in marks)
        assert chart(owner, "line")[: len(points)] == points
        after.close()


def chart(owner: Caller, room: str) -> list[dict[str, Any]]:
    return list(owner("GET", "/api/admin/history", params={"roomId": room}).json()["rooms"][room])
