"""What a room's rules would say of one page, before anything is saved (ENG-204, ADM-186 … ADM-188).

The very code of the door judges (domain/url_rules.py). Nothing is changed or counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.core.errors import InvalidField, UnknownField
from app.domain.origins import OriginPolicy, WebUrl, origin_text, parse_web_url
from app.domain.room import RoomConfig
from app.domain.room_fields import parse_patch
from app.domain.room_warnings import warnings_for
from app.domain.url_rules import RuleSet
from app.services.room_object import RoomView
from app.services.rooms import RoomService


async def try_rules(rooms: RoomService, room_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer to ``{"url", "rules"?}``. Raises NoRoom, UnknownField, InvalidField, BadRequest, StorageUnavailable."""
    if unknown := [name for name in body if name not in ("url", "rules")]:
        raise UnknownField(*unknown)
    view = await rooms.view(room_id)
    text = body.get("url")
    url = parse_web_url(text) if isinstance(text, str) else None
    if url is None:
        raise InvalidField("url", "url must be a full http(s) address without credentials")
    config = view.room.config
    if "rules" in body:
        patch = parse_patch({"id": view.room.id, "rules": body["rules"]})
        config = replace(config, rules=patch.values["rules"])
    trial = RuleSet(config.rules).trial(url)
    pairs = zip(config.rules, trial.matches, strict=True)
    return {
        "roomId": view.room.id,
        "url": text,
        "covered": trial.covered,
        "winner": None if trial.winner is None else _winner(config, trial.winner),
        "results": [{"id": rule.id, "matches": matches} for rule, matches in pairs],
        "warnings": [*warnings_for(config, ("rules",)), *_page_warnings(config, url), *_check_warnings(view)],
    }


def _winner(config: RoomConfig, index: int) -> dict[str, Any]:
    rule = config.rules[index]
    return {"index": index, "id": rule.id, "action": rule.action, "pattern": rule.pattern}


def _page_warnings(config: RoomConfig, url: WebUrl) -> list[dict[str, Any]]:
    if OriginPolicy(config.target_url, config.return_origins).covers(url.origin):
        return []
    name = origin_text(url.origin)
    message = f"Released visitors are not sent back to pages of {name}."
    return [{"code": "page_origin_not_returnable", "message": message, "origin": name}]


def _check_warnings(view: RoomView) -> list[dict[str, Any]]:
    count = view.figures.checks_without_url if view.figures is not None else 0
    if count == 0:
        return []
    message = (
        f"{count} checks came without the address of their page, from an integration older than qm.js 1.2.0; "
        "their visitors queue as if there were no rules."
    )
    return [{"code": "checks_without_url", "message": message, "count": count}]
