"""Advice about inline rooms of a public deployment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.room import RoomConfig
from app.domain.room_hardening import room_advice
from app.infrastructure.fleet_records import Fleet, InstanceRecord
from app.services.hardening import ALONE, running_advice

SNIPPET = RoomConfig(RoomId("a"), "A", "https://a.example/", on_backend_down="open")
CLOSED = RoomConfig(RoomId("b"), "B", "https://b.example/", proxy_origin="http://203.0.113.7")
OPEN = RoomConfig(RoomId("c"), "C", "https://c.example/", proxy_origin="http://203.0.113.8", on_backend_down="open")


@pytest.mark.req("CFG-235")
def test_it_advises_about_inline_rooms_alone() -> None:
    assert room_advice([], has_admin_host=False) == []
    assert room_advice([SNIPPET], has_admin_host=False) == []
    assert room_advice([CLOSED], has_admin_host=True) == []
    (console,) = room_advice([SNIPPET, CLOSED], has_admin_host=False)
    assert "ADMIN_HOST is not set" in console
    (lets_in,) = room_advice([CLOSED, OPEN, SNIPPET], has_admin_host=True)
    assert lets_in.endswith("(c)")
    assert len(room_advice([OPEN], has_admin_host=False)) == 2


def fleet(*ages_ms: int) -> Fleet:
    """Instances that last told of themselves so long ago."""
    now = 1_788_253_200_000
    records = [
        InstanceRecord(str(age), f"i:{age}", "1", "0a1b2c3d", now, True, True, False, seen_at=now - age)
        for age in ages_ms
    ]
    return Fleet(now, records)


@pytest.mark.req("CFG-220", "CFG-235")
def test_it_says_in_production_that_one_instance_is_none_too_many() -> None:
    def said(env: str, found: Fleet | None, admin_host: tuple[str, ...] = ()) -> list[str]:
        runtime: Any = SimpleNamespace(settings=SimpleNamespace(env=env, admin_host=admin_host))
        views: Any = [SimpleNamespace(room=SimpleNamespace(config=OPEN))]
        return running_advice(runtime, views, found)

    assert "one deploy, one crash, one busy CPU away from a closed door" in ALONE
    assert said("production", fleet(0)) == [ALONE, *room_advice([OPEN], has_admin_host=False)]
    assert said("production", fleet(0, 3_600_000), ("a.test",))[0] == ALONE, "the other one is gone"
    assert ALONE not in said("production", fleet(0, 1))
    assert ALONE not in said("production", fleet())
    assert said("production", None, ("a.test",)) == room_advice([OPEN], has_admin_host=True)
    assert said("development", fleet(0)) == []
    runtime: Any = SimpleNamespace(settings=SimpleNamespace(env="production", admin_host=()))
    assert running_advice(runtime, None, fleet(0)) == [ALONE]
