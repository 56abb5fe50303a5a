"""Who has a ref: searched here when there is little to search, else in process ``heavy`` (OBS-188).

Not here: the search itself (ref_index.py), what an operator is told (tickets.py).
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import ujson

from app.core.ids import RoomId
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.heavy_link import HeavyLink, Question
from app.services.ref_index import SLICE, TICKETS, RefIndex

NARROW: Final = SLICE
"""So many hashes are made where one is asked; more are work for another process."""


class RefSearch(Protocol):
    """Each method gives numbers in ascending order; see RefIndex. Raises QmError."""

    async def tickets(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """Tickets of the first ones."""

    async def beyond(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """Tickets behind those."""

    async def places(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """Places of pre-queues."""


class RefsHere:
    """In this process."""

    def __init__(self, engine: EngineLookup) -> None:
        self._engine = engine
        self._index = RefIndex()

    async def tickets(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""
        return await self._index.tickets(room_id, generation, ref, last)

    async def beyond(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""
        return await self._index.beyond(room_id, generation, ref, last)

    async def places(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""

        async def handles(chunk: int) -> list[bytes]:
            now, found = await self._engine.handles(RoomId(room_id), chunk)
            return found if now == generation else []

        return await self._index.places(room_id, generation, ref, last, handles) if last else []

    async def answer(self, what: str, room_id: str, generation: int, ref: str, last: int) -> dict[str, Any]:
        """What RefsElsewhere asks for."""
        search = {"tickets": self.tickets, "beyond": self.beyond, "places": self.places}[what]
        return {"numbers": await search(room_id, generation, ref, last)}


class RefsElsewhere:
    """In process ``heavy``, unless it is less work than asking."""

    def __init__(self, link: HeavyLink, here: RefsHere) -> None:
        self._link = link
        self._here = here

    async def tickets(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""
        if last <= NARROW:
            return await self._here.tickets(room_id, generation, ref, last)
        return await self._ask("tickets", room_id, generation, ref, last)

    async def beyond(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""
        if last <= TICKETS:  # there are none behind the first ones
            return await self._here.beyond(room_id, generation, ref, last)
        return await self._ask("beyond", room_id, generation, ref, last)

    async def places(self, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        """See RefSearch."""
        if last <= NARROW:
            return await self._here.places(room_id, generation, ref, last)
        return await self._ask("places", room_id, generation, ref, last)

    async def _ask(self, what: str, room_id: str, generation: int, ref: str, last: int) -> list[int]:
        args = {"what": what, "room_id": room_id, "generation": generation, "ref": ref, "last": last}
        async with self._link.ask(Question("refs", args), lambda: None) as answer:
            text = b"".join([piece async for piece in answer.pieces])
        numbers: list[int] = ujson.loads(text)["numbers"]
        return numbers
