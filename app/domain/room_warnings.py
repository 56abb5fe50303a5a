"""What a saved room's settings will do that its operator may not expect: warnings, never refusals.

Source: ENG-037 (short_timing), ENG-205 (rule_origin_not_returnable), ADM-144.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from app.domain.origins import OriginPattern, OriginPolicy, origin_text, parse_pattern
from app.domain.room import RoomConfig
from app.domain.url_rules import pattern_origins

SHORT: Final = {
    "presenceSec": (
        "presence_sec", 15,
        "Visitors whose page reconnects after a moment without network count as absent and are passed over.",
    ),
    "passedTtlSec": ("passed_ttl_sec", 30, "Visitors who do not look at the page for half a minute lose their turn."),
    "sessionTtlSec": (
        "session_ttl_sec", 60, "Visitors who read one page for a minute lose their place on the site and queue again.",
    ),
}  # fmt: skip
"""JSON name → attribute, least value without a warning, whom less of it hurts."""
_ORIGIN_FIELDS: Final = frozenset({"rules", "returnOrigins", "targetUrl"})


def warnings_for(config: RoomConfig, sent: Collection[str]) -> list[dict[str, Any]]:
    """Warnings about the saved ``config`` that concern the fields ``sent`` (JSON names)."""
    return [*_short_timing(config, sent), *(_unreturnable(config) if _ORIGIN_FIELDS & set(sent) else ())]


def _short_timing(config: RoomConfig, sent: Collection[str]) -> list[dict[str, Any]]:
    found = []
    for name, (key, least, harm) in SHORT.items():
        value = getattr(config, key)
        if name in sent and value < least:
            message = f"{name} is {value}, less than {least}. {harm}"
            found.append({"code": "short_timing", "message": message, "field": name})
    return found


def _unreturnable(config: RoomConfig) -> list[dict[str, Any]]:
    """Rules that name an origin to which a released visitor would not be sent back."""
    found = []
    for rule_id, origin in pattern_origins(config.rules):
        if not _returns_to(config, origin):
            name = _pattern_text(origin)
            message = f"Rule {rule_id} covers pages of {name}, but released visitors are not sent back there."
            found.append({"code": "rule_origin_not_returnable", "message": message, "rule": rule_id, "origin": name})
    return found


def _returns_to(config: RoomConfig, wanted: OriginPattern) -> bool:
    if not wanted.is_wildcard:
        return OriginPolicy(config.target_url, config.return_origins).covers(wanted.origin)
    wild = [pattern for pattern in map(parse_pattern, config.return_origins) if pattern.is_wildcard]
    return any(pattern == wanted or pattern.covers(wanted.origin) for pattern in wild)


def _pattern_text(pattern: OriginPattern) -> str:
    text = origin_text(pattern.origin)
    return text.replace("://", "://*.", 1) if pattern.is_wildcard else text
