"""An operator's question about one visitor, by ticket number or ref (05, section 11; ENG-238 … ENG-249).

Read-only: nobody is seen or told by it. Never a token, cookie, digest or address. Not here: HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from app.core.errors import InvalidField, NoRoom, NoTicket, QmError
from app.core.ids import RoomId, Ticket
from app.domain.refs import read_ref, ref_of
from app.domain.room import Room
from app.domain.ticket_state import TicketState
from app.infrastructure.engine_errors import RoomGone
from app.infrastructure.engine_lookup import EngineLookup, Looked, TicketFacts
from app.infrastructure.room_directory import RoomDirectory
from app.services.ref_index import GENERATIONS, TICKETS
from app.services.ref_search import RefSearch, RefsHere

CANDIDATES_MAX: Final = 20
TEXT_MAX: Final = 32
_DIGITS: Final = re.compile(r"[0-9]{1,32}").fullmatch
_NUMBER_MAX: Final = 2**32 - 1
_HINT: Final = "The room was re-created; this visitor has to join again."
_SEARCHED: Final = {"generations": GENERATIONS, "ticketsPerGeneration": TICKETS}
_WORDS: Final = {
    TicketState.NONE: "unknown",
    TicketState.WAITING: "waiting",
    TicketState.PASSED: "passed",
    TicketState.ACTIVE: "active",
    TicketState.EXPIRED: "expired",
    TicketState.EJECTED: "ejected",
    TicketState.WITHDRAWN: "expired",
}


class AmbiguousRef(QmError):
    """409 ``ambiguous_ref``: several tickets have this ref (ADM-163)."""

    status = 409
    code = "ambiguous_ref"
    sentence = "Several tickets have this ref. Send the number of the one you mean."


class PreviousGeneration(QmError):
    """409 ``previous_generation``: the ref is of a ticket that ended with an earlier room of this id (ADM-163)."""

    status = 409
    code = "previous_generation"
    sentence = "The room was made anew since; nobody stands in it with this ticket."


class TicketLookup:
    """Answers look-ups of one process. Methods raise NoRoom, StorageUnavailable and 400 for what cannot be read."""

    def __init__(self, *, rooms: RoomDirectory, engine: EngineLookup, refs: RefSearch | None = None) -> None:
        """``refs``: who searches for refs; None = this process."""
        self._rooms = rooms
        self._engine = engine
        self._refs: RefSearch = RefsHere(engine) if refs is None else refs

    async def by_path(self, room_id: str, text: str) -> dict[str, Any]:
        """What stands in the path: a number, or a ref."""
        if _DIGITS(text):
            return await self._by_number(await self._room(room_id), text, "ticket")
        ref = read_ref(text) if len(text) <= TEXT_MAX else None
        if ref is None:
            raise InvalidField("ticket", "A ticket number has only digits")
        return await self._by_ref(await self._room(room_id), ref, "ref", text)

    async def by_ref(self, room_id: str, text: str) -> dict[str, Any]:
        """``?ref=``."""
        ref = read_ref_field(text)
        return await self._by_ref(await self._room(room_id), ref, "ref", text)

    async def by_place(self, room_id: str, text: str, place: str) -> dict[str, Any]:
        """``?ref=&place=``: the one of several with a ref who stood, or stands, at this place of the pre-queue."""
        ref = read_ref_field(text)
        if not _DIGITS(place) or not 1 <= len(place.lstrip("0")) <= len(str(_NUMBER_MAX)):
            raise InvalidField("place", "place is the number of a candidate's place")
        room = await self._room(room_id)
        looked = await self._current(room, ref, [])
        for ticket in looked.tickets:
            if ticket.place == int(place):
                return _ticket_json(room, looked, ticket, ref)
        return {"roomId": room, "ref": ref, **_unknown()}

    async def by_query(self, room_id: str, text: str) -> dict[str, Any]:
        """``?q=``: whatever the visitor read out. Digits are a number, and a ref too if another ticket has it."""
        ref = read_ref(text) if len(text) <= TEXT_MAX else None
        digits = text.strip() if len(text) <= TEXT_MAX else ""
        if not _DIGITS(digits):
            if ref is None:
                raise InvalidField("q", "Send a ticket number, or a ref such as K7Q-2MX")
            return await self._by_ref(await self._room(room_id), ref, "q", text)
        room = await self._room(room_id)
        if ref is None:
            return await self._by_number(room, digits, "q")
        return await self._by_either(room, digits, ref, text)

    async def holder_of(self, room: Room, ref: str) -> Ticket:
        """The one ticket of this generation with a ref: something is to be done to its holder (ADM-163).

        All tickets are searched, not only the first ones, so that nobody is taken for somebody else. Raises
        AmbiguousRef, PreviousGeneration, NoTicket.
        """
        looked = await self._current(room.id, ref, [])
        if looked.generation != room.generation:
            raise PreviousGeneration
        further = await self._refs.beyond(room.id, looked.generation, ref, looked.last_ticket)
        more = await self._look(room.id, further[:CANDIDATES_MAX])
        found = [*looked.tickets, *_held(more.tickets, [])]
        if len(found) > 1:
            listed = _candidates(room.id, "ref", ref, found[:CANDIDATES_MAX])
            raise AmbiguousRef(candidates=listed["candidates"])
        if found and found[0].ticket:
            return Ticket(found[0].ticket)
        earlier = {} if found else await self._earlier(room.id, looked.generation, ref, "ref", ref)
        if earlier.get("state") == "previous_generation":
            raise PreviousGeneration(generation=earlier["generation"])
        raise NoTicket

    async def _by_number(self, room: RoomId, digits: str, name: str) -> dict[str, Any]:
        number = int(digits)
        looked = await self._look(room, [min(number, _NUMBER_MAX)])
        (ticket,) = looked.tickets
        if ticket.state is TicketState.NONE or number > _NUMBER_MAX:
            return {"roomId": room, name: number if name == "ticket" else digits, **_unknown()}
        return _ticket_json(room, looked, ticket)

    async def _by_either(self, room: RoomId, digits: str, ref: str, text: str) -> dict[str, Any]:
        number = min(int(digits), _NUMBER_MAX)
        looked = await self._current(room, ref, [number])
        issued = [ticket for ticket in looked.tickets if ticket.state is not TicketState.NONE]
        if not issued:
            return await self._earlier(room, looked.generation, ref, "q", text)
        if len(issued) == 1:
            return _ticket_json(room, looked, issued[0], ref)
        return _candidates(room, "q", text, issued)

    async def _by_ref(self, room: RoomId, ref: str, name: str, text: str) -> dict[str, Any]:
        looked = await self._current(room, ref, [])
        if not looked.tickets:
            return await self._earlier(room, looked.generation, ref, name, text)
        if len(looked.tickets) == 1:
            return _ticket_json(room, looked, looked.tickets[0], ref)
        return _candidates(room, name, text if name == "q" else ref, looked.tickets)

    async def _current(self, room: RoomId, ref: str, besides: list[int]) -> Looked:
        """Tickets and places of the current generation with this ref (and tickets in ``besides``), the first ones.

        A number whose join was withdrawn is nobody's, and so is a place without record.
        """
        now = await self._look(room, [])
        while True:
            found = await self._refs.tickets(room, now.generation, ref, now.last_ticket)
            places = await self._refs.places(room, now.generation, ref, now.places)
            numbers = list(dict.fromkeys([*besides, *found]))[:CANDIDATES_MAX]
            looked = await self._look(room, numbers, places[:CANDIDATES_MAX])
            if looked.generation == now.generation:
                return replace(looked, tickets=_held(looked.tickets, besides)[:CANDIDATES_MAX])
            now = looked  # made anew in between

    async def _earlier(self, room: RoomId, generation: int, ref: str, name: str, text: str) -> dict[str, Any]:
        """The ref in the generations before: never one of today's tickets."""
        for earlier in range(generation - 1, max(0, generation - GENERATIONS), -1):
            last = await self._rooms.issued(room, earlier)
            numbers = (await self._refs.tickets(room, earlier, ref, last))[:CANDIDATES_MAX] if last else []
            head = {"roomId": room, "ref": ref, "state": "previous_generation", "generation": earlier}
            if len(numbers) == 1:
                return {**head, "ticket": numbers[0], "hint": _HINT}
            if numbers:
                tickets = [{"ticket": number, "state": "previous_generation"} for number in numbers]
                return {**head, "candidates": tickets, "hint": _HINT}
        return {"roomId": room, name: text if name == "q" else ref, **_unknown()}

    async def _room(self, room_id: str) -> RoomId:
        room = await self._rooms.find(room_id)
        if room is None:
            raise NoRoom
        return room.id

    async def _look(self, room: RoomId, numbers: list[int], places: Sequence[int] = ()) -> Looked:
        try:
            return await self._engine.tickets(room, numbers, places=places)
        except RoomGone:
            raise NoRoom from None


def read_ref_field(text: object) -> str:
    """A ref as it was sent, in its form. Raises InvalidField."""
    ref = read_ref(text) if isinstance(text, str) and len(text) <= TEXT_MAX else None
    if ref is None:
        raise InvalidField("ref", "A ref has six letters and digits, such as K7Q-2MX")
    return ref


def _held(tickets: list[TicketFacts], besides: list[int]) -> list[TicketFacts]:
    """Each ticket once, without those that nobody holds; ``besides`` stay, whatever they are."""
    found: dict[int, TicketFacts] = {}
    for at, ticket in enumerate(tickets):
        is_nobodys = ticket.state is TicketState.WITHDRAWN or (ticket.state is TicketState.NONE and not ticket.is_place)
        if not is_nobodys or ticket.ticket in besides:
            found.setdefault(ticket.ticket or -at, ticket)
    return list(found.values())


def _word(ticket: TicketFacts) -> str:
    if ticket.is_place and ticket.state is TicketState.WAITING:
        return "prequeued"
    return _WORDS[ticket.state]


def _unknown() -> dict[str, Any]:
    return {"state": "unknown", "searched": dict(_SEARCHED)}


def _candidates(room: RoomId, name: str, text: str, tickets: list[TicketFacts]) -> dict[str, Any]:
    return {"roomId": room, name: text, "candidates": [_candidate(ticket) for ticket in tickets]}


def _candidate(ticket: TicketFacts) -> dict[str, Any]:
    """One of several; who has no number is told by his place, and by when he took it."""
    if ticket.ticket:
        return {"ticket": ticket.ticket, "state": _word(ticket)}
    return {"ticket": None, "state": _word(ticket), "place": ticket.place, "joinedAt": ticket.joined_at or None}


def _ticket_json(room: RoomId, looked: Looked, ticket: TicketFacts, ref: str = "") -> dict[str, Any]:
    """Everything about one ticket (ENG-240). ``ref``: by which a place was found that has no number."""
    state = ticket.state
    answer: dict[str, Any] = {
        "roomId": room,
        "generation": looked.generation,
        "ticket": ticket.ticket or None,
        "ref": ref if ticket.is_place else ref_of(room, looked.generation, ticket.ticket),
        "state": _word(ticket),
        "position": ticket.ahead + 1 if state is TicketState.WAITING and not ticket.is_place else None,
        **_times(looked.now, ticket),
        "passExpiresAt": ticket.pass_end if state is TicketState.PASSED else None,
        "sessionExpiresAt": ticket.session_end if state is TicketState.ACTIVE else None,
        "holdsSlot": ticket.holds_slot,
        "atDoor": ticket.at_door,
        "onSite": state is TicketState.ACTIVE,
        "present": ticket.present,
        "lastSeenAt": ticket.seen_at or None,
        "bound": {"cookie": ticket.by_cookie, "fingerprint": ticket.by_fingerprint},
    }
    if ticket.is_dropped:
        answer["recordDropped"] = True
    return answer


def _times(now: int, ticket: TicketFacts) -> dict[str, Any]:
    """When it joined and passed, and the wait that runs or is over."""
    dropped = ticket.is_dropped
    joined, passed = (0, 0) if dropped else (ticket.joined_at, ticket.passed_at)
    found: dict[str, Any] = {"joinedAt": joined or None, "passedAt": passed or None}
    if ticket.state is TicketState.WAITING:
        return found | {"waitingSec": max(0, now - joined) // 1000}
    found["waitedSec"] = max(0, passed - joined) // 1000 if joined and passed else None
    is_in = ticket.state in (TicketState.PASSED, TicketState.ACTIVE)
    if not passed and (is_in or dropped or (ticket.state is TicketState.EXPIRED and ticket.was_passed)):
        found["passedUnknown"] = True
    return found
