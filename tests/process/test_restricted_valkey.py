"""A Valkey that gives no more than the guide says: one prefix, and no command of administration."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.chaos.stores import ValkeyServer
from tests.harness import Server, wait_for

GUIDE = Path(__file__).resolve().parents[2] / "docs/operations-fleet.md"


@pytest.mark.req("FLT-050", "FLT-051", "FLT-152", "CFG-033")
def test_it_works_with_the_rights_of_the_guide_and_leaves_other_prefixes_alone(fresh_schema: str) -> None:
    (words,) = re.findall(r"`ACL (SETUSER [^`]+)`", GUIDE.read_text("utf-8"))
    with ValkeyServer() as valkey:
        valkey.ask("ACL", *words.split())
        valkey.ask("SET", "other:rooms", "theirs")
        env = {
            "STORE": "valkey", "VALKEY_URL": f"redis://qm:password@127.0.0.1:{valkey.port}", "VALKEY_PREFIX": "qm:",
            "DATABASE_URL": fresh_schema,
        }  # fmt: skip
        with Server(env=env, workers=2) as server:
            key = {"Authorization": f"Bearer {server.admin_key}"}
            with (
                httpx.Client(base_url=server.url, headers=key, timeout=20) as admin,
                httpx.Client(base_url=server.url, timeout=20) as visitor,
            ):
                room = {"id": "shop", "targetUrl": "https://shop.example/", "ratePerMinute": 600}
                assert admin.post("/api/admin/rooms", json=room).status_code == 200
                assert visitor.post("/api/join", json={"roomId": "shop"}).status_code == 200
                wait_for(lambda: visitor.get("/api/status?room=shop").json()["state"] == "passed")
                assert visitor.get("/api/check?room=shop").json()["reason"] == "admitted"
                valkey.ask("UNLINK", *valkey.ask("KEYS", "qm:{shop}*"))
                wait_for(lambda: visitor.get("/api/check?room=shop").json().get("reason") == "session")
                assert admin.post("/api/admin/rooms/shop/eject", json={"ticket": 1}).status_code == 200
                assert admin.delete("/api/admin/rooms/shop").status_code == 200
                wait_for(lambda: httpx.get(server.url + "/healthz", timeout=10).json()["leader"])
                wait_for(lambda: any(name.startswith(b"qm:ctr:") for name in valkey.ask("KEYS", "*")))
            channels = set(valkey.ask("PUBSUB", "CHANNELS"))
            names = set(valkey.ask("KEYS", "*"))
            assert server.stop() == 0
            denied = [entry for entry in valkey.ask("ACL", "LOG") if entry[b"username"] == b"qm"]

        assert {name for name in names | channels if not name.startswith(b"qm:")} == {b"other:rooms"}
        assert {b"qm:ctl"} <= channels
        assert {b"qm:leader:epoch"} <= names
        assert valkey.ask("GET", "other:rooms") == b"theirs"
        assert denied == [], "commands beyond its rights, FLUSHDB, FLUSHALL, KEYS and CONFIG among them"
