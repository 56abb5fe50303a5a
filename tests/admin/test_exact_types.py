"""Values of bodies have exact types: nothing is converted, and the refusal names the field (ADM-018)."""

from __future__ import annotations

import pytest

from app.core.errors import snake
from app.domain.room_fields import FIELDS
from tests.admin.callers import Caller, code

WHOLE = [(row.name, row.error_code) for row in FIELDS if row.bounds is not None]
NO_NUMBERS = [b'"60"', b"1.5", b"60.0", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"[60]", b"{}"]
MEMBERS = [
    ("autoActivate", '{"enabled":true,"joinsPerMin":%s}'),
    ("autoActivate", '{"enabled":%s,"joinsPerMin":5}'),
    ("autotune", '{"enabled":true,"minRate":%s}'),
    ("protection", '{"mode":%s}'),
    ("rules", '[{"action":"skip","pattern":%s}]'),
    ("returnOrigins", "[%s]"),
    ("name", "%s"),
    ("targetUrl", "%s"),
    ("opensAt", "%s"),
]


@pytest.mark.req("ADM-018")
@pytest.mark.parametrize(("name", "refused"), WHOLE)
def test_a_whole_number_is_a_whole_number_and_nothing_like_it(
    owner: Caller, room: str, name: str, refused: str
) -> None:
    before = owner("GET", f"/api/admin/rooms/{room}").json()["room"]

    for wrong in NO_NUMBERS:
        answer = owner("POST", "/api/admin/rooms", b'{"id":"%b","%b":%b}' % (room.encode(), name.encode(), wrong))
        assert code(answer) == (400, refused), wrong
        assert answer.json()["fields"] == [name]
        assert refused == f"invalid_{snake(name)}"
    assert owner("GET", f"/api/admin/rooms/{room}").json()["room"]["etag"] == before["etag"]


@pytest.mark.req("ADM-018")
def test_every_other_value_has_its_type_too(owner: Caller, room: str) -> None:
    for name, form in MEMBERS:
        for wrong in ("NaN", "1.5", "Infinity"):
            body = f'{{"id":"{room}","{name}":{form % wrong}}}'.encode()
            assert code(owner("POST", "/api/admin/rooms", body)) == (400, f"invalid_{snake(name)}"), body
    for path, name in (("rate", "rate"), ("rate", "ratePerMinute"), ("eject", "ticket"), ("state", "state")):
        for wrong in NO_NUMBERS:
            answer = owner("POST", f"/api/admin/rooms/{room}/{path}", b'{"%b":%b}' % (name.encode(), wrong))
            assert code(answer) == (400, f"invalid_{'rate' if path == 'rate' else name}"), (path, wrong)
    for name in ("opensAt", "preQueueMaxPerIp"):
        for wrong in (b"NaN", b"1.5", b"true"):
            answer = owner("POST", f"/api/admin/rooms/{room}/schedule", b'{"%b":%b}' % (name.encode(), wrong))
            assert code(answer) == (400, f"invalid_{snake(name)}")
    assert code(owner("POST", "/api/admin/rooms", b'{"id":NaN}')) == (400, "invalid_room_id")
    assert code(owner("POST", "/api/admin/rooms", b"NaN")) == (400, "bad_json")
