"""Checks of a room's lists: origin patterns, and URL rules with the ids that the server gives.

Not here: what one pattern or rule means (origins.py, url_rules.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from app.domain.field_checks import is_plain_text
from app.domain.origins import parse_pattern
from app.domain.room import UrlRule
from app.domain.url_rules import check_pattern

LIST_MAX: Final = 50
RULE_MEMBERS: Final = ("id", "action", "pattern", "note")
RULE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}").fullmatch
NOTE_MAX: Final = 120
RULE_READ_ONLY: Final = ("hits", "lastMatchedAt")
"""Facts that a read rule carries and a body may send back (ENG-049)."""


def origin_patterns(value: Any) -> tuple[str, ...]:
    """0–50 origin patterns (ENG-041, ENG-208); a pattern that occurs twice is kept once."""
    if not isinstance(value, list) or len(value) > LIST_MAX:
        raise ValueError(f"must be a list of at most {LIST_MAX} origins")
    for index, text in enumerate(value):
        if not isinstance(text, str) or not is_plain_text(text):
            raise ValueError(f"must hold text only; number {index} is none")
        try:
            parse_pattern(text)
        except ValueError as error:
            raise ValueError(f"has an origin that cannot be used, number {index}: {error}") from error
    return tuple(dict.fromkeys(value))


def rules(value: Any) -> tuple[UrlRule, ...]:
    """0–50 URL rules (ENG-197); a rule without ``id`` gets the first free one of r1, r2, …"""
    if not isinstance(value, list) or len(value) > LIST_MAX:
        raise ValueError(f"must be a list of at most {LIST_MAX} rules")
    taken = {rule["id"] for rule in value if isinstance(rule, dict) and isinstance(rule.get("id"), str)}
    free = iter(name for name in (f"r{n}" for n in range(1, 2 * LIST_MAX + 1)) if name not in taken)
    found: dict[str, UrlRule] = {}
    for index, raw in enumerate(value):
        try:
            rule = _rule(raw, free)
        except ValueError as error:
            raise ValueError(f"cannot be used, rule {index}: {error}") from error
        if rule.id in found:
            raise ValueError(f'cannot be used, rule {index}: the id "{rule.id}" is there twice')
        found[rule.id] = rule
    return tuple(found.values())


def _rule(raw: Any, free: Iterator[str]) -> UrlRule:
    """One rule whose unknown members were refused before."""
    if not isinstance(raw, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - one exception for every bad value
    rule_id = raw["id"] if "id" in raw else next(free)
    action, pattern, note = raw.get("action"), raw.get("pattern"), raw.get("note", "")
    if not isinstance(rule_id, str) or not RULE_ID(rule_id):
        raise ValueError("id must be 1 to 32 letters, digits, _ or -")
    if action not in ("protect", "skip"):
        raise ValueError('action must be "protect" or "skip"')
    if not isinstance(note, str) or len(note) > NOTE_MAX or not is_plain_text(note):
        raise ValueError(f"note must be text of at most {NOTE_MAX} characters without control characters")
    if not isinstance(pattern, str) or not is_plain_text(pattern):
        raise ValueError("pattern must be text without control characters")
    check_pattern(pattern)
    return UrlRule(rule_id, action, pattern, note)
