"""Charts over real HTTP, measured by a real server."""

from __future__ import annotations

import csv
import io

import pytest

from app.domain.roles import Role
from blueprints.admin.history import ROUTES
from tests.admin.callers import Caller, code
from tests.harness import wait_for


@pytest.mark.req("CON-127", "ADM-193", "OBS-178")
def test_it_measures_by_itself_and_answers_both_forms(owner: Caller, room: str) -> None:
    def points() -> list[dict[str, int | None]]:
        return list(owner("GET", "/api/admin/history", params={"roomId": room}).json()["rooms"][room])

    wait_for(points)

    answer = owner("GET", "/api/admin/history", params={"roomId": room})
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    point = answer.json()["rooms"][room][-1]
    assert point["ts"] % 5000 == 0
    everything = owner("GET", "/api/admin/history").json()["rooms"]
    assert list(everything) == [shown["id"] for shown in owner("GET", "/api/v1/admin/rooms").json()["rooms"]]
    together = owner("GET", "/api/admin/history", params={"roomId": "*"}).json()["rooms"]
    assert list(together) == ["*"]
    assert {"ts": point["ts"], "waiting": 0, "waitP50Sec": None}.items() <= together["*"][-1].items()
    file = owner("GET", "/api/admin/history", params={"roomId": room, "format": "csv"})
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    assert file.headers["content-disposition"] == f'attachment; filename="qm-history-{room}.csv"'
    head, *rows = csv.reader(io.StringIO(file.text))
    assert head == ["roomId", "ts", "tsIso", *list(point)[1:]]
    assert [row[:2] for row in rows][: len(everything[room])] == [[room, str(one["ts"])] for one in everything[room]]
    whole = owner("GET", "/api/admin/history", params={"format": "csv"})
    assert whole.headers["content-disposition"] == 'attachment; filename="qm-history.csv"'
    sums = owner("GET", "/api/admin/history", params={"roomId": "*", "format": "csv"})
    assert sums.headers["content-disposition"] == 'attachment; filename="qm-history-sum.csv"'
    assert owner("HEAD", "/api/admin/history").status_code == 200


@pytest.mark.req("OBS-183")
def test_it_refuses_what_it_cannot_answer(owner: Caller, stranger: Caller) -> None:
    for query, refusal in (
        ({"roomId": "no-such-room"}, (404, "no_room")),
        ({"roomId": ""}, (404, "no_room")),
        ({"format": "xml"}, (400, "invalid_format")),
        ({"from": "1"}, (400, "unknown_field")),
    ):
        assert code(owner("GET", "/api/admin/history", params=query)) == refusal
    assert code(stranger("GET", "/api/admin/history")) == (401, "unauthorized")
    assert [route.role for route in ROUTES] == [Role.MONITOR]
