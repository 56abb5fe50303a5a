"""Which opening times a room takes."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.errors import BadRequest
from app.domain.opening import MAX_AHEAD_MS, Moment
from app.domain.room_fields import parse_patch

NOW = 1_788_000_000_000
AT = 1_788_253_200_000


def patch(opens_at: Any, *, stored: int | None = None) -> Any:
    body = {"id": "drop", "opensAt": opens_at}
    return parse_patch(body, moment=Moment(NOW, stored)).values["opens_at"]


def code(opens_at: Any, *, stored: int | None = None) -> str:
    with pytest.raises(BadRequest) as caught:
        patch(opens_at, stored=stored)
    assert caught.value.members["fields"] == ["opensAt"]
    return caught.value.code


@pytest.mark.req("ENG-170")
@pytest.mark.parametrize(
    "form",
    [AT, "2026-09-01T09:00:00Z", "2026-09-01T16:00:00+07:00", "2026-09-01T09:00:00.000Z", "2026-09-01T09:00Z"],
)
def test_it_takes_iso_8601_with_a_zone_and_epoch_ms(form: Any) -> None:
    assert patch(form) == AT


@pytest.mark.req("ENG-170")
@pytest.mark.parametrize(
    "form",
    ["2026-09-01T09:00:00", "2026-09-01", "noon", "", str(AT), AT + 0.5, True, False, 0, -AT, [], {}, 10**18, "9" * 30],
)
def test_it_refuses_anything_else(form: Any) -> None:
    assert code(form) == "invalid_opens_at"


@pytest.mark.req("ENG-170")
def test_it_refuses_times_that_are_over_or_too_far_ahead() -> None:
    assert code(NOW) == code(NOW - 1) == code("2020-01-01T00:00:00Z") == "opens_at_in_past"
    assert patch(NOW + 1) == NOW + 1
    assert patch(NOW + MAX_AHEAD_MS) == NOW + MAX_AHEAD_MS
    assert code(NOW + MAX_AHEAD_MS + 1) == "invalid_opens_at"


@pytest.mark.req("ENG-170")
def test_it_takes_the_stored_time_back_however_old_it_is() -> None:
    assert patch(NOW - 5000, stored=NOW - 5000) == NOW - 5000
    assert code(NOW - 4999, stored=NOW - 5000) == "opens_at_in_past"


def test_it_takes_null() -> None:
    assert patch(None) is None
    assert patch(None, stored=AT) is None
