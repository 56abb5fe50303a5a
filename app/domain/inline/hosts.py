"""The host index: for each inline host its rooms and their origin (04, section 3). Pure.

Belongs here: how a ``Host`` is compared, which room of a host gates a page. Not here: where rooms come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.domain.inline.requests import is_media_pattern
from app.domain.net_ranges import address_text, pack_address
from app.domain.origins import Origin, parse_origin, parse_web_url
from app.domain.room import Room
from app.domain.url_rules import RuleSet, page_of

PREFIX: Final = "/__qm"
"""What every path of the queue begins with on an inline host."""
_KNOWN_MAX: Final = 1024


def host_name(host: str) -> str:
    """The name in a ``Host`` value as hosts are compared: lower case, no port, no closing dot (INL-045).

    IPv6 literals come in brackets, in their one spelling.
    """
    text = host.lower()
    if text.startswith("["):
        packed = pack_address(text[1:].partition("]")[0])
        return text.partition("]")[0] + "]" if packed is None else f"[{address_text(packed)}]"
    return text.partition(":")[0].removesuffix(".")


def is_literal(name: str) -> bool:
    """Tell whether a compared name is an address or ``localhost`` (INL-067)."""
    return name == "localhost" or name.startswith("[") or pack_address(name) is not None


@dataclass(frozen=True, slots=True)
class InlineHost:
    """One inline host. ``rooms``: in the order in which they are asked whether they gate a page (INL-048)."""

    name: str
    origin: Origin
    rooms: tuple[Room, ...]
    ids: frozenset[str] = field(default_factory=frozenset)
    media: RuleSet | None = None
    """Rules of its rooms that name media files: what they fit does not bypass (INL-239)."""
    first: Room = field(init=False)
    """The first room in room order: it stands for the host where no rules are asked."""

    def __post_init__(self) -> None:
        """Find ``first``."""
        object.__setattr__(self, "first", min(self.rooms, key=lambda room: (room.created_at, room.id)))

    def protects_file(self, url: str) -> bool:
        """Tell whether a rule keeps this media file from bypassing."""
        return self.media is not None and self.media.judge(page_of(url)).covered


class HostIndex:
    """The inline hosts as this process knows them."""

    __slots__ = ("_known", "hosts")

    def __init__(self, hosts: Mapping[str, InlineHost] | None = None) -> None:
        self.hosts: Mapping[str, InlineHost] = hosts or {}
        self._known: dict[bytes, InlineHost | None] = {}

    def __bool__(self) -> bool:
        """Tell whether any room is inline."""
        return bool(self.hosts)

    def find(self, host: bytes | None) -> InlineHost | None:
        """The inline host that a ``Host`` value names."""
        if host is None:
            return None
        try:
            return self._known[host]
        except KeyError:
            found = self.hosts.get(host_name(host.decode("latin-1")))
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[host] = found
            return found


def index_of(rooms: Iterable[Room]) -> HostIndex:
    """The index of ``rooms``, which come in room order. Of two origins on one host the first room's counts."""
    found: dict[str, list[Room]] = {}
    for room in rooms:
        if room.config.proxy_origin is not None and (name := inline_name(room)) is not None:
            found.setdefault(name, []).append(room)
    hosts: dict[str, InlineHost] = {}
    for name, its_rooms in found.items():
        origin = parse_origin(its_rooms[0].config.proxy_origin or "")
        if origin is not None:
            ordered = sorted(its_rooms, key=lambda room: not _has_protect_rule(room))
            ids = frozenset(room.id for room in its_rooms)
            hosts[name] = InlineHost(name, origin, tuple(ordered), ids, _media_rules(its_rooms))
    return HostIndex(hosts)


def inline_name(room: Room) -> str | None:
    """The compared name of the host of a room's ``targetUrl``."""
    url = parse_web_url(room.config.target_url)
    return None if url is None else host_name(url.origin.host)


def _media_rules(rooms: Iterable[Room]) -> RuleSet | None:
    found = [
        rule
        for room in rooms
        for rule in room.config.rules
        if rule.action == "protect" and is_media_pattern(rule.pattern)
    ]
    return RuleSet(found) if found else None


def _has_protect_rule(room: Room) -> bool:
    return any(rule.action == "protect" for rule in room.config.rules)
