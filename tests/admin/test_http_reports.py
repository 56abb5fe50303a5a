"""``GET /reports`` of a running server."""

from __future__ import annotations

import csv
import io

import pytest

from tests.admin.callers import Caller, Callers, code
from tests.harness import wait_for


@pytest.mark.req("OBS-160", "OBS-161", "OBS-165", "OBS-166", "OBS-173", "ADM-276", "ADM-278", "ADM-243")
def test_it_answers_rows_and_files(owner: Caller, callers: Callers, room: str, stranger: Caller) -> None:
    assert stranger("POST", "/api/join", {"roomId": room}).status_code == 200

    def rows() -> list[dict[str, object]]:
        return list(owner("GET", f"/api/admin/reports?roomId={room}").json()["rows"])

    wait_for(lambda: sum(int(str(row["joins"])) for row in rows()) == 1)
    answer = owner("GET", f"/api/admin/reports?roomId={room}").json()
    assert set(answer) == {"bucket", "from", "to", "generatedAt", "notes", "rows"}
    assert set(answer["notes"]) == {"percentiles", "measuredWaits", "netUnserved", "partial"}
    assert (answer["bucket"], answer["to"] - answer["from"]) == ("hour", 86_400_000)
    days = owner("GET", f"/api/v1/admin/reports?bucket=day&roomId={room}&roomId=other").json()
    assert (days["bucket"], days["to"] - days["from"]) == ("day", 30 * 86_400_000)
    assert sum(row["joins"] for row in days["rows"]) == 1

    file = owner("GET", f"/api/admin/reports?format=csv&from=2024-10-04&to=2099-01-01&roomId={room}")
    assert file.headers["content-type"] == "text/csv; charset=utf-8"
    disposition = file.headers["content-disposition"]
    assert disposition == 'attachment; filename="queue-report-hour-20241004T0000Z-20990101T0000Z.csv"'
    read = list(csv.DictReader(io.StringIO(file.text)))
    assert [one["roomId"] for one in read] == [room] * len(read)
    assert sum(int(one["joins"]) for one in read) == 1

    link = owner("POST", "/api/admin/monitor-tokens", {"label": "wall"}).json()["token"]
    watcher = callers.with_key(link)
    shared = watcher("GET", f"/api/admin/reports?roomId={room}").json()
    assert (set(shared), shared["notes"]) == (set(answer), answer["notes"])
    own = answer["rows"][-1]
    row = next(row for row in shared["rows"] if row["start"] == own["start"])
    counted = ("joins", "passes", "measuredWaits", "waitMaxSec", "blocked")  # of the hour that runs; others grow
    assert (row.keys(), [row[name] for name in counted]) == (own.keys(), [own[name] for name in counted])
    same = watcher("GET", f"/api/admin/reports?format=csv&from=2024-10-04&to=2099-01-01&roomId={room}")
    assert next(iter(csv.DictReader(io.StringIO(same.text)))).keys() == read[0].keys()
    assert code(stranger("GET", "/api/admin/reports")) == (401, "unauthorized")
    for query, wanted in (
        ("bucket=week", "invalid_bucket"), ("format=xml", "invalid_format"), ("from=soon", "invalid_time"),
        ("from=2026-08-02&to=2026-08-01", "invalid_range"), ("page=2", "unknown_field"),
    ):  # fmt: skip
        assert code(owner("GET", f"/api/admin/reports?{query}")) == (400, wanted)
