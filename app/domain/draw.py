"""The draw: the order in which the places of a pre-queue become tickets. Pure, so that anybody can compute it again.

docs/reference/draw.md describes the algorithm for others; a test computes it from the journal by that page's own
program. Not here: when a draw happens (lua/lib/opening.lua), how its order is put in place (services/draws.py).
Source: ENG-177, ENG-178, ENG-300.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.domain.layout import PLACE_BYTES, PLACE_LATE, TICKET_BYTES
from app.domain.ticket_state import TicketState

ALGORITHM: Final = 1
"""Number of this algorithm in the journal; another one gets the next number."""
SEED_BYTES: Final = 32
HANDLE_BYTES: Final = 16
IDENTITY_BYTES: Final = 8
_KEY_BYTES: Final = 32
_IDENTITY_AT: Final = 16
"""Where a place's record has the digest of its visitor address."""

Place = tuple[int, bytes, bytes]
"""Number, handle (16 bytes), identity (8 bytes)."""


@dataclass(frozen=True, slots=True)
class Order:
    """A drawn order. ``places``: numbers in the order, u32 each; ``digest``: SHA-256 over the handles in the order."""

    places: bytes
    count: int
    identities: int
    digest: bytes


def draw(seed: bytes, places: Iterable[Place]) -> Order:
    """The order of ``places`` under ``seed``.

    The SHA-512 of seed and handle gives each place two keys of 32 bytes. By the first key the places of one identity
    are put in order among themselves: its r-th place takes part in round r. The rounds follow one another; within a
    round the second key decides. Both keys are as good as random and know nothing of when a place was taken.
    """
    handles: dict[int, bytes] = {}
    keyed: list[bytes] = []
    # Keys of bytes, not of tuples: a million of these are sorted in a third of the memory and time.
    for number, handle, identity in places:
        handles[number] = handle
        keyed.append(identity + hashlib.sha512(seed + handle).digest() + number.to_bytes(4, "little"))
    keyed.sort()
    identities, rank, before = 0, 0, b""
    for at, key in enumerate(keyed):
        identity = key[:IDENTITY_BYTES]
        rank = rank + 1 if identity == before else 1
        identities += rank == 1
        before = identity
        keyed[at] = rank.to_bytes(4, "big") + key[IDENTITY_BYTES + _KEY_BYTES :]
    keyed.sort()
    order = b"".join([key[-4:] for key in keyed])
    digest = hashlib.sha256()
    for at in range(0, len(order), 4):
        digest.update(handles[int.from_bytes(order[at : at + 4], "little")])
    return Order(order, len(keyed), identities, digest.digest())


def places_in(records: bytes, first: int, after: int) -> list[Place]:
    """Places of a chunk of records that take part in a draw. ``first``: number of the first record; those up to
    ``after`` belong to an earlier draw or were purged."""
    found = []
    for at in range(0, len(records), PLACE_BYTES):
        number = first + at // PLACE_BYTES
        if number > after and (records[at] == TicketState.WAITING or records[at + 1] & PLACE_LATE):
            handle = records[at + TICKET_BYTES : at + TICKET_BYTES + HANDLE_BYTES]
            identity = records[at + _IDENTITY_AT : at + _IDENTITY_AT + IDENTITY_BYTES]
            found.append((number, handle, identity))
    return found
