"""Advice about inline rooms of a public deployment."""

from __future__ import annotations

from app.core.ids import RoomId
from app.domain.room import RoomConfig
from app.domain.room_hardening import room_advice

SNIPPET = RoomConfig(RoomId("a"), "A", "https://a.example/", on_backend_down="open")
CLOSED = RoomConfig(RoomId("b"), "B", "https://b.example/", proxy_origin="http://203.0.113.7")
OPEN = RoomConfig(RoomId("c"), "C", "https://c.example/", proxy_origin="http://203.0.113.8", on_backend_down="open")


def test_it_advises_about_inline_rooms_alone() -> None:
    assert room_advice([], has_admin_host=False) == []
    assert room_advice([SNIPPET], has_admin_host=False) == []
    assert room_advice([CLOSED], has_admin_host=True) == []
    (console,) = room_advice([SNIPPET, CLOSED], has_admin_host=False)
    assert "ADMIN_HOST is not set" in console
    (lets_in,) = room_advice([CLOSED, OPEN, SNIPPET], has_admin_host=True)
    assert lets_in.endswith("(c)")
    assert len(room_advice([OPEN], has_admin_host=False)) == 2
