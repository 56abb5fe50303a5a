"""Room configuration as plain JSON values by snake_case field name, and back.

This is the form in the live store's ``cfg`` hash, in facts and in Postgres. A field that is missing there takes its
default, so an older record reads well. Not here: the camelCase of the API (room_fields.py).
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import ujson

from app.core.ids import RoomId
from app.domain.automation import AutoActivate, Autotune
from app.domain.protection_mode import Protection, ProtectionMode
from app.domain.room import RoomConfig, RoomState, UrlRule


def config_to_json(config: RoomConfig) -> dict[str, Any]:
    """Every field of ``config`` as JSON values; ``state`` is its number."""
    return {field.name: value_to_json(getattr(config, field.name)) for field in fields(config)}


def value_to_json(value: Any) -> Any:
    """JSON value of one field's value."""
    if isinstance(value, RoomState):
        return int(value)
    if isinstance(value, UrlRule):
        return {"id": value.id, "action": value.action, "pattern": value.pattern, "note": value.note}
    if isinstance(value, AutoActivate | Autotune | Protection):
        return asdict(value)
    if isinstance(value, tuple | list):
        return [value_to_json(item) for item in value]
    return value


def field_text(value: Any) -> str:
    """JSON text of one field's value; the live store compares such texts, so the form depends on the value alone."""
    return ujson.dumps(value_to_json(value), ensure_ascii=False, escape_forward_slashes=False, sort_keys=True)


def config_from_json(raw: dict[str, Any]) -> RoomConfig:
    """Configuration from JSON values; raises KeyError, TypeError or ValueError when they are not of that form."""
    known = {field.name for field in fields(RoomConfig)}
    values = {name: value for name, value in raw.items() if name in known}
    values["id"] = RoomId(values["id"])
    if "state" in values:
        values["state"] = RoomState(values["state"])
    if "return_origins" in values:
        values["return_origins"] = tuple(values["return_origins"])
    if values.get("tag_origins") is not None:
        values["tag_origins"] = tuple(values["tag_origins"])
    if "rules" in values:
        values["rules"] = tuple(UrlRule(**rule) for rule in values["rules"])
    if values.get("auto_activate") is not None:
        values["auto_activate"] = AutoActivate(**values["auto_activate"])
    if values.get("autotune") is not None:
        values["autotune"] = Autotune(**values["autotune"])
    if values.get("protection") is not None:
        values["protection"] = Protection(ProtectionMode(values["protection"]["mode"]))
    return RoomConfig(**values)
