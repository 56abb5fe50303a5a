"""Conditional requests: whether the client already has what would be sent."""

from __future__ import annotations


def is_known(if_none_match: str, etag: str) -> bool:
    """Weak comparison of ``etag`` with ``If-None-Match`` (RFC 9110, 13.1.2)."""
    bare = etag.removeprefix("W/")
    return any(tag.strip().removeprefix("W/") in (bare, "*") for tag in if_none_match.split(","))
