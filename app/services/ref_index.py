"""Which tickets have a ref (ENG-246, ENG-247): no key of the live store, but numbers hashed here when somebody asks.

A ref follows from room, generation and number alone, so the answer never changes and is kept for the generations that
were asked about last. Hashing is done in slices; between them visitors' requests get their turn.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import OrderedDict
from typing import Final

from app.domain.refs import number_of, ref_number

TICKETS: Final = 50_000
"""Tickets of a generation that are searched."""
GENERATIONS: Final = 3
KEPT: Final = 12
"""Generations whose hashes are kept: 200 KB each."""
SLICE: Final = 500
"""Numbers hashed in one turn: about half a millisecond."""


class RefIndex:
    """Finds tickets by ref, in one process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], array[int]] = OrderedDict()
        self._making = asyncio.Lock()

    async def tickets(self, room_id: str, generation: int, ref: str, last_ticket: int) -> list[int]:
        """Numbers up to ``last_ticket``, and to TICKETS, whose ref is ``ref`` (in the form of ``refs.read_ref``)."""
        last = min(last_ticket, TICKETS)
        numbers = await self._hashed(room_id, generation, last)
        wanted, at = number_of(ref), 0
        found: list[int] = []
        while True:
            try:
                at = numbers.index(wanted, at, last)
            except ValueError:
                return found
            at += 1
            found.append(at)

    async def _hashed(self, room_id: str, generation: int, last: int) -> array[int]:
        """Hash of ticket n at n - 1, at least up to ``last``."""
        async with self._making:  # one at a time: many look-ups at once must not add up
            key = (room_id, generation)
            numbers = self._known.setdefault(key, array("I"))
            self._known.move_to_end(key)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            while (done := len(numbers)) < last:
                numbers.extend(ref_number(room_id, generation, n) for n in range(done + 1, min(last, done + SLICE) + 1))
                await asyncio.sleep(0)
            return numbers
