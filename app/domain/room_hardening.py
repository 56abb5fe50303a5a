"""Advice for public deployments that follows from their inline rooms (CFG-235). Not here: that of settings alone
(core/settings_rules.py)."""

from __future__ import annotations

from collections.abc import Iterable

from app.domain.room import RoomConfig


def room_advice(rooms: Iterable[RoomConfig], *, has_admin_host: bool) -> list[str]:
    """Sentences of ``hardening`` about these rooms."""
    inline = [room for room in rooms if room.is_inline]
    found = []
    if inline and not has_admin_host:
        found.append(
            "ADMIN_HOST is not set beside inline rooms: any script of such a site can act as an operator who is signed "
            "in there"
        )
    if open_rooms := sorted(room.id for room in inline if room.on_backend_down == "open"):
        found.append(f"onBackendDown is open: everybody passes unqueued while Valkey is away ({', '.join(open_rooms)})")
    return found
