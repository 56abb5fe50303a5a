"""What the engine knows of single tickets, for operators: function ``tickets``. Reading marks nobody as seen or told.

Not here: what an operator is shown (services/tickets.py), refs (services/ref_index.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.ids import RoomId
from app.domain.draw import HANDLE_BYTES
from app.domain.layout import Flag
from app.domain.ticket_state import TicketState, Why
from app.infrastructure.engine import room_error
from app.infrastructure.engine_pack import RoomCode
from app.infrastructure.keys import RoomKeys
from app.infrastructure.lua_loader import LuaLoader

_TICKET: Final = struct.Struct("<BBBBIIIIIIQQ")
_PRESENT, _COOKIE, _FINGERPRINT, _RECORD, _PLACE = 1, 2, 4, 8, 16


@dataclass(frozen=True, slots=True)
class TicketFacts:
    """One ticket. Times are epoch ms, 0 = none or not known."""

    ticket: int
    """0: a place in the pre-queue that has no number."""
    state: TicketState
    """NONE: the number was never issued. Of a place, WAITING: it stands in the pre-queue."""
    is_place: bool
    why: int
    """Why it is over (ticket_state.Why)."""
    holds_slot: bool
    at_door: bool
    present: bool
    by_cookie: bool
    by_fingerprint: bool
    ahead: int
    """Waiting tickets before it, while it waits."""
    seen_at: int
    pass_end: int
    session_end: int
    joined_at: int
    passed_at: int
    admitted_at: int
    """When it was first let in; known at least as long as its session runs."""
    place: int = 0
    """Number of the place in the pre-queue by which it was asked for; 0 = by its own."""

    @property
    def is_dropped(self) -> bool:
        """Issued, and its times are not kept any more (ENG-243)."""
        return self.state in (TicketState.EXPIRED, TicketState.WITHDRAWN) and (
            self.joined_at == 0 or self.state is TicketState.WITHDRAWN
        )

    @property
    def was_passed(self) -> bool:
        """It had a pass, whether or not the record still tells when."""
        return self.why in (Why.PASS_OVER, Why.SESSION_IDLE, Why.SESSION_MAX) or self.passed_at > 0


@dataclass(frozen=True, slots=True)
class Looked:
    """Tickets of one room at one moment."""

    generation: int
    now: int
    last_ticket: int
    places: int
    """Places in pre-queues given so far."""
    tickets: list[TicketFacts]


class EngineLookup:
    """Reads tickets. Raises RoomGone, RoomFenced, StorageUnavailable."""

    def __init__(self, prefix: str, loader: LuaLoader) -> None:
        self._prefix = prefix
        self._loader = loader

    async def tickets(self, room_id: RoomId, numbers: Sequence[int], *, places: Sequence[int] = ()) -> Looked:
        """The tickets with these numbers, then those of these places (at most some dozens), in their order."""
        reply = await self._call("tickets", room_id, *numbers, *(f"p{place}" for place in places))
        _, generation, now, base, last, given, packed = reply
        found = [_facts(base, *parts) for parts in _TICKET.iter_unpack(packed)]
        placed = [replace(one, place=place) for one, place in zip(found[len(numbers) :], places, strict=True)]
        return Looked(generation, now, last, given, found[: len(numbers)] + placed)

    async def handles(self, room_id: RoomId, chunk: int) -> tuple[int, list[bytes]]:
        """Generation, and the handles of the places from ``chunk`` * CHUNK + 1 on; zeros where there is none."""
        _, generation, _, packed = await self._call("handles", room_id, chunk)
        return generation, [packed[at : at + HANDLE_BYTES] for at in range(0, len(packed), HANDLE_BYTES)]

    async def _call(self, name: str, room_id: RoomId, *args: int | str) -> Any:
        reply = await self._loader.call(name, RoomKeys(self._prefix, room_id).header, *args)
        if reply[0] != RoomCode.OK:
            raise room_error(reply[0], room_id)
        return reply


def _facts(
    base: int, state: int, flags: int, why: int, marks: int, ticket: int, seen: int, ahead: int, pass_end: int,
    session_end: int, admitted: int, joined_at: int, passed_at: int,
) -> TicketFacts:  # fmt: skip
    now = TicketState(state)
    slot = bool(flags & Flag.SLOT) and now in (TicketState.PASSED, TicketState.ACTIVE)
    return TicketFacts(
        ticket=ticket,
        state=now,
        is_place=bool(marks & _PLACE),
        why=why,
        holds_slot=slot,
        at_door=now is TicketState.PASSED and bool(flags & Flag.AT_DOOR) and not slot,
        present=bool(marks & _PRESENT),
        by_cookie=bool(marks & _COOKIE),
        by_fingerprint=bool(marks & _FINGERPRINT),
        ahead=ahead,
        seen_at=base + seen * 100 if marks & _RECORD else 0,
        pass_end=base + pass_end * 100 if pass_end else 0,
        session_end=base + session_end * 100 if session_end else 0,
        joined_at=joined_at,
        passed_at=passed_at,
        admitted_at=base + admitted * 100 if admitted or now is TicketState.ACTIVE else 0,
    )
