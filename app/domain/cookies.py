"""The visitor's cookies: their names, their flags, and which of those that were sent matter.

Belongs here: everything about the text of the three cookies of a room. Not here: reading the header (edge), what
the values prove (tokens.py, fingerprint.py), the console's cookie. Source: VIS-050 … VIS-057, RFC 6265.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from app.core.ids import is_room_id, reserved_reason

TICKET_PREFIX: Final = "qm_"
SESSION_PREFIX: Final = "qms_"
DOOR_PREFIX: Final = "qm_dk_"
MAX_ROOMS: Final = 8
"""Rooms whose cookies one host keeps (VIS-056)."""
MAX_CANDIDATES: Final = 8
"""Tokens that are verified when no room is named (VIS-057)."""


@dataclass(frozen=True, slots=True)
class CookiePolicy:
    """What the settings say about cookies. ``secure`` None: as the visitor's scheme (VIS-053, CFG-024)."""

    secure: bool | None
    queue_max_age_sec: int


class RoomCookies:
    """Ready-made ``Set-Cookie`` values of one room; made once per room copy."""

    __slots__ = ("_door", "_ends", "_session", "_ticket", "names")

    def __init__(self, room_id: str, policy: CookiePolicy, *, session_max_sec: int) -> None:
        self.names = (TICKET_PREFIX + room_id, SESSION_PREFIX + room_id, DOOR_PREFIX + room_id)
        """Names of the ticket, the session and the door cookie."""
        self._ticket, self._session, self._door = ((name + "=").encode() for name in self.names)
        self._ends = {
            scheme: tuple(
                _flags(age, is_secure=scheme == "https" if policy.secure is None else policy.secure)
                for age in (policy.queue_max_age_sec, session_max_sec, 0)
            )
            for scheme in ("http", "https")
        }
        """By the visitor's scheme, what follows a value: of ticket and session, of the door key, of a removal."""

    def ticket(self, token: str, scheme: str) -> bytes:
        """``qm_<room>`` (VIS-050)."""
        return b"%b%b%b" % (self._ticket, token.encode(), self._ends[scheme][0])

    def session(self, value: str, scheme: str) -> bytes:
        """``qms_<room>`` (VIS-051). ``value`` must be one that this server made: base64url text."""
        return b"%b%b%b" % (self._session, value.encode(), self._ends[scheme][0])

    def door(self, key: str, scheme: str) -> bytes:
        """``qm_dk_<room>`` (VIS-052)."""
        return b"%b%b%b" % (self._door, key.encode(), self._ends[scheme][1])

    def clear_ticket_and_door(self, scheme: str) -> list[bytes]:
        """Values that take the ticket and the door key from the browser (VIS-055)."""
        end = self._ends[scheme][2]
        return [self._ticket + end, self._door + end]

    def clear_all(self, scheme: str) -> list[bytes]:
        """Values that take all three cookies of this room from the browser (VIS-056)."""
        end = self._ends[scheme][2]
        return [self._ticket + end, self._session + end, self._door + end]


def _flags(max_age_sec: int, *, is_secure: bool) -> bytes:
    flags = b"; Path=/; Max-Age=%d; HttpOnly; SameSite=Lax" % max_age_sec
    return flags + b"; Secure" if is_secure else flags


def ticket_candidates(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(room id, value) of the cookies that may hold a ticket when no room is named (VIS-057).

    Names that ENG-015 and ENG-016 reserve come last, ``qm_console`` never; at most 8.
    """
    plain: list[tuple[str, str]] = []
    reserved: list[tuple[str, str]] = []
    for name, value in pairs:
        room_id = name[len(TICKET_PREFIX) :]
        if not name.startswith(TICKET_PREFIX) or room_id == "console" or not is_room_id(room_id):
            continue
        (plain if reserved_reason(room_id) is None else reserved).append((room_id, value))
    return (plain + reserved)[:MAX_CANDIDATES]


def surplus_rooms(
    pairs: Iterable[tuple[str, str]], keep_room: str, issued_at: Callable[[str, str], int | None]
) -> list[str]:
    """Rooms whose cookies have to go because an answer sets ``qm_<keep_room>`` (VIS-056).

    ``issued_at(room id, value)`` is the time of issue of a readable token, else None. With cookies of eight or
    more other rooms the ones issued longest ago go, unreadable ones first, until seven others are left.
    """
    oldest_first: dict[str, int] = {}
    for name, value in pairs:
        room_id = name[len(TICKET_PREFIX) :]
        if not name.startswith(TICKET_PREFIX) or room_id == keep_room or not is_room_id(room_id):
            continue
        if reserved_reason(room_id) is None:
            issued = issued_at(room_id, value)
            oldest_first[room_id] = max(oldest_first.get(room_id, -1), -1 if issued is None else issued)
    surplus = len(oldest_first) - (MAX_ROOMS - 1)
    return sorted(oldest_first, key=lambda room_id: oldest_first[room_id])[: max(0, surplus)]
