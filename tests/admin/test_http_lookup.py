"""Questions about a room over HTTP: a trial of its rules, a visitor's ticket."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.callers import Caller, code
from tests.harness import wait_for

PAY = "https://shop.example/pay/now?x=1"
PROTECT = {"id": "r1", "action": "protect", "pattern": "/pay*"}


@pytest.mark.req("ENG-204", "ADM-186")
def test_it_tries_saved_and_unsaved_rules_on_a_page(owner: Caller, room: str) -> None:
    path = f"/api/admin/rooms/{room}/rules/test"
    skip = {"action": "skip", "pattern": "/pay/*"}
    owner("POST", "/api/admin/rooms", {"id": room, "rules": [PROTECT]})

    saved = owner("POST", path, {"url": PAY}).json()
    unsaved = owner("POST", path, {"url": PAY, "rules": [skip, PROTECT]}).json()
    none = owner("POST", path, {"url": PAY, "rules": []}).json()
    again = owner("GET", f"/api/admin/rooms/{room}").json()["room"]

    assert saved == {
        "roomId": room, "url": PAY, "covered": True, "winner": {"index": 0, **PROTECT},
        "results": [{"id": "r1", "matches": True}], "warnings": [],
    }  # fmt: skip
    assert (unsaved["covered"], unsaved["winner"]) == (False, {"index": 0, "id": "r2", **skip})
    assert unsaved["results"] == [{"id": "r2", "matches": True}, {"id": "r1", "matches": True}]
    assert (none["covered"], none["winner"], none["results"]) == (True, None, [])
    assert again["rules"] == [{**PROTECT, "note": "", "hits": 0, "lastMatchedAt": None}]


@pytest.mark.req("ADM-187")
@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({}, "invalid_url"),
        ({"url": "/pay"}, "invalid_url"),
        ({"url": 5}, "invalid_url"),
        ({"url": "https://user@shop.example/"}, "invalid_url"),
        ({"url": PAY, "rules": [PROTECT, {**PROTECT, "id": "r2", "action": "x"}]}, "invalid_rules"),
        ({"url": PAY, "rules": None}, "invalid_rules"),
        ({"url": PAY, "rules": [{**PROTECT, "patern": "/x"}]}, "unknown_field"),
        ({"url": PAY, "rule": []}, "unknown_field"),
    ],
)
def test_it_refuses_a_trial_that_cannot_be_made(owner: Caller, room: str, body: dict[str, Any], refusal: str) -> None:
    answer = owner("POST", f"/api/admin/rooms/{room}/rules/test", body)

    assert code(answer) == (400, refusal)
    if refusal == "invalid_rules" and body["rules"]:
        assert "rule 1" in answer.json()["error"]
    assert code(owner("POST", "/api/admin/rooms/nobody/rules/test", {"url": PAY})) == (404, "no_room")


@pytest.mark.req("ADM-188")
def test_it_warns_in_a_trial_of_pages_nobody_is_sent_back_to(owner: Caller, stranger: Caller, room: str) -> None:
    foreign = {"action": "protect", "pattern": "https://a.example/*"}
    stranger("GET", f"/api/check?room={room}")

    def trial() -> list[dict[str, Any]]:
        body = {"url": "https://b.example/x", "rules": [foreign]}
        found: list[dict[str, Any]] = owner("POST", f"/api/admin/rooms/{room}/rules/test", body).json()["warnings"]
        return found

    wait_for(lambda: len(trial()) == 3)
    assert [(one["code"], one.get("origin")) for one in trial()] == [
        ("rule_origin_not_returnable", "https://a.example"),
        ("page_origin_not_returnable", "https://b.example"),
        ("checks_without_url", None),
    ]


@pytest.mark.req("ENG-238", "ADM-171", "ADM-184")
def test_it_looks_a_visitor_up_for_an_operator(owner: Caller, stranger: Caller, room: str) -> None:
    path = f"/api/admin/rooms/{room}/tickets"
    owner("POST", f"/api/admin/rooms/{room}/rate", {"rate": 0})
    owner("POST", f"/api/admin/rooms/{room}/pause")
    joined = stranger("POST", "/api/join", {"roomId": room}).json()

    by_number = owner("GET", f"{path}/{joined['ticket']}")
    by_ref = owner("GET", path, params={"ref": joined["ref"]})
    by_query = owner("GET", path, params={"q": f"{joined['ref'][:3]}-{joined['ref'][3:]}"}).json()

    assert (by_number.status_code, by_number.json()["state"]) == (200, "waiting")
    assert by_ref.json()["ticket"] == by_query["ticket"] == joined["ticket"]
    assert by_query["joinedAt"] == joined["joinedAt"]
    assert joined["token"] not in by_number.text
    assert code(owner("GET", path)) == (400, "invalid_q")
    assert code(owner("GET", path, params={"q": "1", "ref": "K7Q2MX"})) == (400, "invalid_q")
    assert code(owner("GET", path, params={"ref": "x"})) == (400, "invalid_ref")
    assert code(owner("GET", f"{path}/x")) == (400, "invalid_ticket")
    assert code(owner("GET", path, params={"ticket": "1"})) == (400, "unknown_field")
    assert code(owner("GET", "/api/admin/rooms/nobody/tickets/1")) == (404, "no_room")
    assert code(stranger("GET", f"{path}/1")) == (401, "unauthorized")
