"""What a server with stores of its own keeps over a stop and a kill, and what STORE=memory does not."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.alerts.test_http import Hook
from tests.harness import Server, wait_for
from tests.process.forms import JOURNEY, journey


def told(server: Server, visitor: httpx.Client, key: str, link: str) -> dict[str, Any]:
    """Everything that was made, as the server has it now."""
    found: dict[str, Any] = {}

    def is_all_there() -> bool:
        def ask(path: str, bearer: str) -> Any:
            headers = {"Authorization": f"Bearer {bearer}"}
            return httpx.get(f"{server.url}/api/admin/{path}", headers=headers, timeout=20).json()

        visitor.base_url = httpx.URL(server.url)
        state = visitor.get("/api/status?room=shop").json()
        found.update(
            rooms=[(one["id"], one["rate"]) for one in ask("rooms", server.admin_key).get("rooms", [])],
            place=(state.get("ticket"), state.get("position")),
            operator=ask("me", key).get("name"),
            watcher=ask("me", link).get("kind"),
            audit=[
                e["action"] for e in ask("audit", server.admin_key)["entries"] if not e["action"].startswith("server.")
            ],
            firing=[
                (one["event"], one["since"], one["firedAt"])
                for one in ask("alerts", server.admin_key).get("firing", [])
            ],
            notes=[item["kind"] for item in ask("timeline", server.admin_key).get("items", [])],
            reported=sum(row["joins"] for row in ask("reports?roomId=shop", server.admin_key).get("rows", [])),
        )
        return found["place"][0] is not None or not found["rooms"]

    wait_for(is_all_there)
    return found


ALERTS = {"ALERT_EVERY_MS": "1000", "ALERT_HOLD_SEC": "1"}


@pytest.mark.timeout(300)
@pytest.mark.req("FLT-120", "ADM-034", "ENG-010")
@pytest.mark.req("OBS-151")
@pytest.mark.req("CFG-201")
@pytest.mark.req("FLT-002", "FLT-009")
def test_a_private_store_keeps_everything_over_a_stop_and_a_kill() -> None:
    hook = Hook()
    url = f"http://127.0.0.1:{hook.server_port}/"
    env = {"STORE": "embedded", "ADMIN_KEY": None, "ALERT_WEBHOOK_URL": url, **ALERTS}
    with closing(hook), Server(env=env, workers=1) as server, httpx.Client(timeout=20) as visitor:
        kept = Path(server.env["DATA_DIR"]) / "admin-key"
        assert f"ADMIN_KEY is not set: the key in use is in {kept}" in server.stderr
        assert httpx.get(f"{server.url}/api/admin/me", timeout=20).status_code == 401
        server.admin_key = kept.read_text().strip()
        assert journey(server) == JOURNEY
        assert server.admin_key not in server.stderr
        admin = {"Authorization": f"Bearer {server.admin_key}"}
        post = lambda path, **body: httpx.post(f"{server.url}/api/admin/{path}", json=body, headers=admin, timeout=20)  # noqa: E731
        post("rooms", id="shop", targetUrl="https://shop.example/", ratePerMinute=0)
        for _ in range(2):
            visitor.cookies.clear()
            joined = visitor.post(server.url + "/api/join", json={"roomId": "shop"})
        assert joined.json()["ticket"] == 2
        key = post("operators", name="Ann", role="operator").json()["key"]
        link = post("monitor-tokens", label="tv").json()["token"]
        post("rooms/shop/pause")  # first: a new room has a credit to give, which any rate would let it spend
        post("rooms/shop/rate", rate=7)
        wait_for(lambda: {"rate", "state"} <= set(told(server, visitor, key, link)["notes"]))
        wait_for(lambda: told(server, visitor, key, link)["firing"])
        before = told(server, visitor, key, link)
        assert (before["rooms"], before["place"]) == ([("shop", 7)], (2, 2))
        assert (before["operator"], before["watcher"], before["reported"]) == ("Ann", "monitor", 2)

        server.restart()
        assert told(server, visitor, key, link) == before
        server.kill()
        server.wait()
        server.start()
        assert told(server, visitor, key, link) == before
        assert [(one["event"], one["status"]) for one in hook.notices] == [("queue_frozen", "firing")], "told once"


def actions(server: Server, key: str) -> list[str]:
    """Actions of the whole audit trail."""
    headers = {"Authorization": f"Bearer {key}"}
    entries = httpx.get(f"{server.url}/api/admin/audit", headers=headers, timeout=20).json()["entries"]
    return [entry["action"] for entry in entries]


def printed_keys(server: Server) -> list[str]:
    """Keys that the start lines tell, the newest last."""
    return re.findall(r"ADMIN_KEY is not set: using (\S+) until the server stops", server.stderr)


@pytest.mark.timeout(300)
@pytest.mark.req("FLT-003", "ADM-034", "ADM-264", "ENG-010")
@pytest.mark.req("OBS-151")
@pytest.mark.req("CFG-201")
@pytest.mark.req("FLT-009")
def test_memory_starts_from_empty_and_leaves_no_folder() -> None:
    """What it signed is good for its successor, which knows nothing of the line, as for another instance beside it."""
    with Server(env={"ADMIN_KEY": None, **ALERTS}, workers=1) as server, httpx.Client(timeout=20) as visitor:
        (first,) = printed_keys(server)
        server.admin_key = first
        assert journey(server) == JOURNEY
        assert httpx.get(f"{server.url}/api/admin/me", timeout=20).status_code == 401
        admin = {"Authorization": f"Bearer {first}"}
        body = {"id": "shop", "targetUrl": "https://shop.example/", "ratePerMinute": 0}
        assert httpx.post(f"{server.url}/api/admin/rooms", json=body, headers=admin, timeout=20).status_code == 200
        person = {"name": "Ann", "role": "operator"}
        made = httpx.post(f"{server.url}/api/admin/operators", json=person, headers=admin, timeout=20).json()
        ann = {"Authorization": f"Bearer {made['key']}"}
        assert httpx.get(f"{server.url}/api/admin/me", headers=ann, timeout=20).status_code == 200
        token = visitor.post(server.url + "/api/join", json={"roomId": "shop"}).json()["token"]
        words = " ".join(server.descendants().values()).split()
        folders = {Path(word) for word in words if word.endswith("data/postgres")}
        assert folders

        assert "room.create" in actions(server, first)

        def firing() -> list[Any]:
            found = httpx.get(f"{server.url}/api/admin/alerts", headers=admin, timeout=20).json()
            return [one["event"] for one in found["firing"]]

        wait_for(lambda: firing() == ["queue_frozen"])

        server.restart()

        _, second = printed_keys(server)
        assert second != first
        assert httpx.get(f"{server.url}/api/admin/rooms", headers=admin, timeout=20).status_code == 401
        admin = {"Authorization": f"Bearer {second}"}
        wait_for(lambda: actions(server, second) == ["server.start"])
        assert firing() == []
        assert httpx.get(f"{server.url}/api/admin/rooms", headers=admin, timeout=20).json()["rooms"] == []
        assert httpx.post(f"{server.url}/api/join", json={"roomId": "shop"}, timeout=20).status_code == 404
        assert httpx.get(f"{server.url}/api/admin/me", headers=ann, timeout=20).status_code == 401
        httpx.post(f"{server.url}/api/admin/rooms", json=body, headers=admin, timeout=20)
        state = visitor.get(f"{server.url}/api/status?room=shop&token={token}").json()
        assert (state["state"], "ticket" in state) == ("gone", False)
        metrics = httpx.get(f"{server.url}/metrics", headers=admin, timeout=20).text
        assert "qm_rejected_tokens_all_total 0.0\n" in metrics, "its signature is good"
        assert not any(folder.exists() for folder in folders)
        assert not Path(server.env["DATA_DIR"]).exists()
