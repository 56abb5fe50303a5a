"""Rooms go from one server to another as a file, and going twice changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import wall_ms
from app.domain.room_fields import READ_ONLY
from app.process.room_copy import settings_of, without_past
from tests.admin.callers import TARGET, Caller, fresh_id
from tests.harness import ROOT, Server


def run(way: str, server: Server, file: Path, key: str | None = None) -> tuple[int, str]:
    done = subprocess.run(
        ["make", "--no-print-directory", "-o", ".venv/run.stamp", f"rooms-{way}", f"URL={server.url}", f"FILE={file}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "KEY": key or server.admin_key},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def shown(owner: Caller, ids: list[str]) -> dict[str, Any]:
    rooms = owner("GET", "/api/admin/rooms").json()["rooms"]
    return {room["id"]: settings_of(room) for room in rooms if room["id"] in ids}


@pytest.mark.req("ADM-131", "ADM-147")
def test_rooms_that_are_exported_can_be_imported_and_twice_changes_nothing(
    server: Server, owner: Caller, tmp_path: Path
) -> None:
    ids, file = [fresh_id() for _ in range(3)], tmp_path / "rooms.json"
    rich = {
        "name": 'Zoë "shop"', "ratePerMinute": 7, "maxConcurrent": 9, "queueMaxPerIp": None, "state": "bypass",
        "returnOrigins": ["https://www.shop.example", "https://*.b.example"], "tagOrigins": [],
        "rules": [{"action": "protect", "pattern": "/pay*", "note": "n"}, {"action": "skip", "pattern": "/"}],
        "autoActivate": {"enabled": True, "joinsPerMin": 90}, "autotune": {"enabled": False},
        "protection": {"mode": "enforce"}, "opensAt": wall_ms() + 3_600_000, "sessionMaxPerIp": 3,
    }  # fmt: skip
    for room_id, fields in zip(ids, ({}, rich, {"state": "paused"}), strict=True):
        owner("POST", "/api/admin/rooms", {"id": room_id, "targetUrl": TARGET, **fields})
    before = shown(owner, ids)

    assert run("export", server, file)[0] == 0
    written = {room["id"]: room for room in json.loads(file.read_text("utf-8"))["rooms"]}
    assert {room_id: written[room_id] for room_id in ids} == before
    assert not READ_ONLY & set(written[ids[1]])
    file.write_text(json.dumps({"rooms": [written[room_id] for room_id in ids]}), "utf-8")
    entries = owner("GET", "/api/admin/audit", params={"roomId": ids[1]}).json()["entries"]
    code, said = run("import", server, file)
    assert (code, said.split("\n")[:3]) == (0, [f"{room_id}: unchanged" for room_id in ids])
    after = owner("GET", "/api/admin/audit", params={"roomId": ids[1]}).json()["entries"]
    assert after == entries, "nothing was written"
    for room_id in ids:
        owner("DELETE", f"/api/admin/rooms/{room_id}")
    code, said = run("import", server, file)
    assert (code, said.split("\n")[:3]) == (0, [f"{room_id}: created" for room_id in ids])
    assert shown(owner, ids) == before
    # A refused room does not keep the others back.
    file.write_text(json.dumps({"rooms": [{"id": "no good"}, {"id": ids[0], "name": "New"}]}), "utf-8")
    code, said = run("import", server, file)
    assert code != 0
    assert "no good: refused: " in said
    assert "(invalid_room_id)" in said
    assert f"{ids[0]}: name" in said
    for room_id in ids:
        owner("DELETE", f"/api/admin/rooms/{room_id}")


def test_it_says_what_is_wrong_and_never_the_key(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "rooms.json"
    for text in ("", "[]", '{"rooms": {}}', '{"rooms": [1]}'):
        file.write_text(text)
        code, said = run("import", server, file)
        assert code != 0
        assert "cannot be read" in said
    code, said = run("export", server, file, "wrong-key-of-somebody")
    assert code != 0
    assert "A valid key is required. (unauthorized)" in said
    assert "wrong-key" not in said
    done = subprocess.run(
        [sys.executable, "-m", "app", "rooms", "export", "--url", "file:///etc", "-"],
        cwd=ROOT, input="k\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "has to begin with http" in done.stderr


def test_an_opening_that_is_over_is_left_out() -> None:
    soon, over = wall_ms() + 60_000, wall_ms() - 1
    assert without_past({"id": "a", "opensAt": soon}) == {"id": "a", "opensAt": soon}
    assert without_past({"id": "a", "opensAt": over}) == {"id": "a"}
    assert without_past({"id": "a", "opensAt": None}) == {"id": "a", "opensAt": None}
