"""Which tickets and places have a ref (ENG-245 … ENG-247): no key of the live store, but hashes made when asked for.

A ref follows from room, generation and number (or handle) alone, so the answer never changes and is kept for the
generations that were asked about last. Hashing is done in slices; between them visitors' requests get their turn.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from app.domain.draw import HANDLE_BYTES
from app.domain.layout import CHUNK
from app.domain.refs import number_of, ref_number
from app.domain.tokens import handle_text

TICKETS: Final = 50_000
"""Tickets of a generation, and places, that are searched."""
GENERATIONS: Final = 3
KEPT: Final = 24
"""Lists of hashes that are kept: 200 KB each at most."""
SLICE: Final = 500
"""Hashes made in one turn: about half a millisecond."""

Handles = Callable[[int], Awaitable[list[bytes]]]
"""Handles of the places of a chunk, zeros where there is no record."""

_NO_HANDLE: Final = bytes(HANDLE_BYTES)
_NO_REF: Final = 2**32 - 1
"""Stands where no ref can be: refs have 30 bits."""


class RefIndex:
    """Finds tickets and places by ref, in one process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str], array[int]] = OrderedDict()
        self._making = asyncio.Lock()

    async def tickets(self, room_id: str, generation: int, ref: str, last_ticket: int) -> list[int]:
        """Numbers up to ``last_ticket``, and to TICKETS, whose ref is ``ref`` (in the form of ``refs.read_ref``)."""
        last = min(last_ticket, TICKETS)
        async with self._making:  # one at a time: many look-ups at once must not add up
            hashes = self._of(room_id, generation, "tickets")
            while (done := len(hashes)) < last:
                upto = min(last, done + SLICE)
                hashes.extend(ref_number(room_id, generation, n) for n in range(done + 1, upto + 1))
                await asyncio.sleep(0)
        return _find(hashes, ref, last)

    async def beyond(self, room_id: str, generation: int, ref: str, last_ticket: int) -> list[int]:
        """Numbers above TICKETS and up to ``last_ticket`` with this ref. Not kept: a second for a million."""
        wanted, found = number_of(ref), []
        async with self._making:
            for start in range(TICKETS + 1, last_ticket + 1, SLICE):
                numbers = range(start, min(start + SLICE, last_ticket + 1))
                found += [n for n in numbers if ref_number(room_id, generation, n) == wanted]
                await asyncio.sleep(0)
        return found

    async def places(self, room_id: str, generation: int, ref: str, given: int, handles: Handles) -> list[int]:
        """Places up to ``given``, and to TICKETS, whose handle has this ref."""
        last = min(given, TICKETS)
        async with self._making:
            hashes = self._of(room_id, generation, "places")
            while (done := len(hashes)) < last:
                chunk = await handles(done // CHUNK)
                new = chunk[done % CHUNK : done % CHUNK + min(SLICE, last - done)]
                if not new:
                    break
                hashes.extend(
                    _NO_REF if handle == _NO_HANDLE else ref_number(room_id, generation, handle_text(handle))
                    for handle in new
                )
        return _find(hashes, ref, last)

    def _of(self, room_id: str, generation: int, kind: str) -> array[int]:
        """The list whose element n - 1 is the hash of ticket or place n, as far as it was made."""
        hashes = self._known.setdefault((room_id, generation, kind), array("I"))
        self._known.move_to_end((room_id, generation, kind))
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return hashes


def _find(hashes: array[int], ref: str, last: int) -> list[int]:
    wanted, at = number_of(ref), 0
    found: list[int] = []
    while True:
        try:
            at = hashes.index(wanted, at, last) + 1
        except ValueError:
            return found
        found.append(at)
