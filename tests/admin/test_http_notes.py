"""Audit trail and timeline over real HTTP."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from app.domain.csv_text import csv_line
from app.domain.roles import Role
from blueprints.admin.notes import ROUTES
from tests.admin.callers import Caller, code
from tests.harness import wait_for

HEAD = "id,ts,tsIso,actor,actorKind,actorId,role,action,roomId,detail,ok,ip,instance"


@pytest.fixture
def noted(owner: Caller, room: str) -> str:
    """A room with a handful of acts."""
    for rate in (1, 2, 3):
        owner("POST", f"/api/admin/rooms/{room}/rate", {"rate": rate})
    owner("POST", f"/api/admin/rooms/{room}/pause")
    owner("POST", "/api/admin/rooms", {"id": room, "name": "=cmd()", "maxConcurrent": 5})
    wait_for(lambda: len(entries(owner, room)) == 6)
    return room


def entries(owner: Caller, room: str, **filters: Any) -> list[dict[str, Any]]:
    answer = owner("GET", "/api/admin/audit", params={"roomId": room, **filters})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


@pytest.mark.req("ADM-260")
def test_it_answers_the_audit_trail_newest_first_by_every_filter(owner: Caller, noted: str) -> None:
    everything = entries(owner, noted)
    assert [entry["action"] for entry in everything] == [
        "room.update", "room.state", "room.rate", "room.rate", "room.rate", "room.create",
    ]  # fmt: skip
    newest = everything[0]
    assert newest.keys() == {
        "id", "ts", "actor", "actorKind", "actorId", "role", "action", "roomId", "detail", "ok", "ip", "instance",
    }  # fmt: skip
    assert (newest["actor"], newest["actorKind"], newest["role"], newest["detail"], newest["ok"]) == (
        *("ADMIN_KEY", "admin_key", "owner", "name, maxConcurrent", True),
    )
    assert newest["ip"] == owner.http.headers["X-Forwarded-For"]
    assert newest["instance"].startswith("i:")

    assert [entry["detail"] for entry in entries(owner, noted, action="room.rate")] == ["2 → 3", "1 → 2", "60 → 1"]
    assert len(entries(owner, noted, actor="ADMIN_KEY")) == 6
    assert entries(owner, noted, actor="nobody") == []
    assert entries(owner, noted, ok="false") == []
    assert len(entries(owner, noted, ok="true", **{"from": everything[-1]["ts"], "to": newest["ts"] + 1})) == 6
    assert entries(owner, noted, to="2020-01-01T00:00:00Z") == []


@pytest.mark.req("ADM-260")
def test_it_pages_through_the_audit_trail(owner: Caller, noted: str) -> None:
    found, cursor = [], None
    while True:
        query = {"roomId": noted, "limit": 4, **({} if cursor is None else {"before": cursor})}
        answer = owner("GET", "/api/admin/audit", params=query).json()
        found += [entry["id"] for entry in answer["entries"]]
        cursor = answer["next"]
        if cursor is None:
            break

    assert len(found) == 6
    assert found == sorted(set(found), reverse=True)


@pytest.mark.req("ADM-261", "ADM-262")
def test_it_gives_the_audit_trail_as_a_file_that_runs_nothing(owner: Caller, noted: str) -> None:
    answer = owner("GET", "/api/admin/audit", params={"roomId": noted, "format": "csv", "limit": 2})

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="qm-audit.csv"'
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert ",".join(rows[0]) == HEAD
    assert len(rows) == 7, "all of them, not only the first page"
    assert {row[7] for row in rows[1:]} == {"room.create", "room.rate", "room.state", "room.update"}
    assert all(row[2].endswith("Z") and row[10] == "true" for row in rows[1:])
    assert owner("HEAD", "/api/admin/audit", params={"format": "csv"}).status_code == 200


@pytest.mark.req("ADM-262")
@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\ta", "\ra"])
def test_it_takes_the_edge_off_a_cell_that_a_spreadsheet_would_run(text: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(csv_line([text]), newline="")))
    assert cell == "'" + text
    assert csv_line(["a=1", -5, None]) == "a=1,-5,\r\n"
    assert csv_line(['a "b", c', ""]) == '"a ""b"", c",\r\n'


@pytest.mark.req("ADM-263")
def test_it_tells_of_a_room_that_is_no_more(owner: Caller, noted: str) -> None:
    owner("DELETE", f"/api/admin/rooms/{noted}")

    assert entries(owner, noted)[0]["action"] == "room.delete"
    assert code(owner("GET", "/api/admin/timeline", params={"roomId": noted})) == (404, "no_room")


@pytest.mark.req("ADM-195")
def test_it_answers_the_marks_of_a_room(owner: Caller, noted: str) -> None:
    items = owner("GET", "/api/admin/timeline", params={"roomId": noted}).json()["items"]

    assert [(item["kind"], item["text"], item["actor"]) for item in items] == [
        ("settings", "room created", "ADMIN_KEY"),
        ("rate", "rate 60 → 1/min", "ADMIN_KEY"),
        ("rate", "rate 1 → 2/min", "ADMIN_KEY"),
        ("rate", "rate 2 → 3/min", "ADMIN_KEY"),
        ("state", "active → paused", "ADMIN_KEY"),
        ("settings", "settings: name, maxConcurrent", "ADMIN_KEY"),
    ]
    assert items[0].keys() == {"id", "ts", "roomId", "kind", "text", "actor"}
    later = owner("GET", "/api/admin/timeline", params={"roomId": noted, "from": items[-1]["ts"] + 1}).json()["items"]
    assert later == []
    everywhere = owner("GET", "/api/admin/timeline").json()["items"]
    assert {item["roomId"] for item in everywhere} >= {noted}


@pytest.mark.req("ADM-260")
@pytest.mark.parametrize("late", ["2999-01-01", "2999-01-01T00:00:00", "2999-01-01T00:00:00+07:00", "32472144000000"])
def test_it_reads_a_time_as_reports_do(owner: Caller, late: str) -> None:
    assert owner("GET", "/api/admin/audit", params={"from": late}).json()["entries"] == []
    assert owner("GET", "/api/admin/audit", params={"to": late}).json()["entries"] != []
    assert owner("GET", "/api/admin/timeline", params={"from": late}).json()["items"] == []


@pytest.mark.req("OBS-183")
@pytest.mark.parametrize(
    ("path", "query", "refusal"),
    [
        ("audit", {"from": "yesterday"}, "invalid_time"),
        ("audit", {"to": "2026-13-01"}, "invalid_time"),
        ("audit", {"limit": "0"}, "invalid_limit"),
        ("audit", {"limit": "1001"}, "invalid_limit"),
        ("audit", {"before": "x"}, "invalid_before"),
        ("audit", {"ok": "yes"}, "invalid_ok"),
        ("audit", {"format": "xml"}, "invalid_format"),
        ("audit", {"sort": "ts"}, "unknown_field"),
        ("timeline", {"from": "x"}, "invalid_time"),
        ("timeline", {"from": "5", "to": "5"}, "invalid_range"),
        ("timeline", {"limit": "5"}, "unknown_field"),
        ("timeline", {"roomId": "no-such-room"}, "no_room"),
    ],
)
def test_it_refuses_what_it_cannot_read(owner: Caller, path: str, query: dict[str, str], refusal: str) -> None:
    answer = owner("GET", f"/api/admin/{path}", params=query)

    assert answer.status_code == (404 if refusal == "no_room" else 400)
    assert answer.json()["code"] == refusal


@pytest.mark.req("ADM-266", "OBS-183")
def test_it_lets_viewers_read_and_nobody_without_a_key(stranger: Caller) -> None:
    assert {route.path: route.role for route in ROUTES} == {"audit": Role.VIEWER, "timeline": Role.MONITOR}
    for path in ("audit", "timeline"):
        assert stranger("GET", f"/api/admin/{path}").status_code == 401
