"""Fold of places that were left: which of them go on counting, and how many an address has left lately (ENG-293).

The live store decides it when a place is left (lua/lib/churn.lua); here the same follows from the facts again.
Not here: who holds a place (fold.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

HOLD_MS: Final = 60_000
"""How long a place goes on counting."""
MANY: Final = 1000
"""Leaves that count as churn where there is no cap."""

_SLOT_MS: Final = 10_000
_WINDOW: Final = 60
"""Slots of ten seconds that an address's leaves are counted for."""
_TURN_MS: Final = 600_000
_KEEP_MS: Final = (_WINDOW + 1) * _SLOT_MS + HOLD_MS
"""Leaves that may still decide whether a place counts on."""
_ENTRY: Final = struct.Struct("<II")
_HELD: Final = struct.Struct("<I10s")

PlaceLeft = tuple[int, str, bytes, int, bool]
"""When (ms of the room's clock), book (``i`` line, ``ip`` pre-queue), place (net u16, address 8), leaves from which on
it is churn, and whether it may go on counting: not after everybody's places were given back at once."""


def note_left(left: list[PlaceLeft], entry: PlaceLeft) -> None:
    """Add one place that was left; those that decide nothing any more go now and then."""
    left.append(entry)
    if entry[0] - left[0][0] > 2 * _KEEP_MS:
        left[:] = [one for one in left if entry[0] - one[0] <= _KEEP_MS]


def give_all_back(left: list[PlaceLeft], book: str) -> None:
    """Nobody holds a place of ``book`` any more, nor does one go on counting."""
    left[:] = [(at, name, place, limit, may and name != book) for at, name, place, limit, may in left]


def threshold(cap: int | None) -> int:
    """The leave from which on it is churn."""
    return 3 * cap if cap else MANY


@dataclass(frozen=True, slots=True)
class Churn:
    """What follows at one moment. ``held``: places by book that go on counting, oldest first, as (due ds, place)."""

    held: dict[str, list[tuple[int, bytes]]]
    leaves: dict[bytes, bytes]
    """Address → entries of slot u32, count u32."""
    turn: int

    def writes(self) -> Iterator[tuple[str, Any]]:
        """Kind and content of what the live store holds."""
        for book, held in self.held.items():
            yield "v" + book, (_HELD.pack(*one) for one in held)
        if self.leaves:
            stamp = (b"", str(self.turn).encode())
            yield f"x{self.turn % 2}", (pair for pair in (stamp, *self.leaves.items()))


def churn_of(left: list[PlaceLeft], now: int) -> Churn:
    """Churn at ``now``, ms of the room's clock."""
    slots: dict[bytes, dict[int, int]] = {}
    held: dict[str, list[tuple[int, bytes]]] = {"i": [], "ip": []}
    for at, book, place, limit, may in left:
        slot = at // _SLOT_MS
        own = slots.setdefault(place[2:], {})
        own[slot] = own.get(slot, 0) + 1
        is_churn = sum(count for when, count in own.items() if when >= slot - _WINDOW) >= limit
        due = (at + HOLD_MS) // 100
        if may and is_churn and due > now // 100:
            held[book].append((due, place))
    oldest = now // _SLOT_MS - _WINDOW
    leaves = {
        address: b"".join(_ENTRY.pack(*entry) for entry in own.items() if entry[0] >= oldest)
        for address, own in slots.items()
    }
    return Churn(held, {k: v for k, v in leaves.items() if v}, now // _TURN_MS)
