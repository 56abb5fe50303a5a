"""What the audit trail and a room's timeline say of its facts: one note per act, made when the fact is journaled.

Belongs here: which facts are noted, the words. Not here: the tables (infrastructure/notes_store.py), acts that are no
facts of a room. Source: ENG-068, ENG-194, ENG-220, ENG-226, ADM-195, ADM-245 … ADM-250, ADM-252.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import ujson

from app.core.errors import camel
from app.domain.actor import SYSTEM, Actor, actor_of_fact, actor_of_tail
from app.domain.facts import HEAD, FactType, decode_body, encode_body
from app.domain.facts_of_doors import Drawn, Scheduled
from app.domain.facts_of_passes import Promoted, PromotedBy
from app.domain.facts_of_rooms import RoomUpdated
from app.domain.facts_of_tickets import Ejected, Purged
from app.domain.room import RoomState
from app.domain.room_fields import BY_KEY
from app.domain.ticket_state import TicketState

_ALWAYS: Final = frozenset(
    {
        FactType.ROOM_CREATED.value, FactType.ROOM_UPDATED.value, FactType.ROOM_DELETED.value, FactType.SCHEDULED.value,
        FactType.DRAWN.value, FactType.EJECTED.value, FactType.PURGED.value,
    }
)  # fmt: skip
_PROMOTED: Final = FactType.PROMOTED.value
_FLUSH: Final = PromotedBy.FLUSH.value
AUTOMATIC_MARKS: Final = frozenset({"activation", "autotune", "draw", "protection_block", "rebuilt"})
"""Kinds of marks of what no person did."""
_JUDGED: Final = ("target_url", "proxy_origin")
"""The two values that decide where an inline room takes its traffic from and sends it."""
_BY_AT: Final = HEAD.size
"""Where an element of type ``promoted`` says by what."""


@dataclass(frozen=True, slots=True)
class Note:
    """One act. ``mark``: kind of its mark on the timeline, "" = none; ``text``: what the mark says."""

    at: int
    actor: Actor
    action: str
    detail: str
    mark: str = ""
    text: str = ""


def is_noted(element: bytes) -> bool:
    """Tell whether an outbox element makes a note. Asked of every fact, so it looks at two bytes only."""
    kind = element[0]
    return kind in _ALWAYS or (kind == _PROMOTED and element[_BY_AT] == _FLUSH)


def notes_of(kind: int, lv: int, at: int, body: bytes, before: Mapping[str, Any]) -> Sequence[Note]:
    """Notes of one noted fact. ``before``: the room's configuration before it, {} when there was none.

    Raises UnknownFact.
    """
    return _NOTES[kind](at, decode_body(kind, lv, body), body, before)


def _created(at: int, _: Any, body: bytes, __: Mapping[str, Any]) -> list[Note]:
    raw = ujson.loads(body)
    actor = actor_of_fact(raw)
    notes = [Note(at, actor, "room.create", "", "settings", "room created")]
    return notes + _inline(at, actor, {}, raw["config"])


def _deleted(at: int, _: Any, body: bytes, __: Mapping[str, Any]) -> list[Note]:
    return [Note(at, actor_of_fact(ujson.loads(body)), "room.delete", "")]


def _updated(at: int, fact: RoomUpdated, body: bytes, before: Mapping[str, Any]) -> list[Note]:
    actor = actor_of_fact(ujson.loads(body))
    if fact.why == "threshold":
        return [_switched(at, actor, fact)]
    if fact.why == "autotune":
        return [_tuned(at, actor, fact)]
    notes = []
    changes = dict(fact.changes)
    inline = _inline(at, actor, before, changes)
    if inline:
        notes += inline
        changes = {key: value for key, value in changes.items() if key not in _JUDGED}
    if "state" in changes:
        text = f"{_state(before.get('state', 0))} → {_state(changes.pop('state'))}"
        notes.append(Note(at, actor, "room.state", text, "state", text))
    if "rate_per_minute" in changes:
        text = f"{before.get('rate_per_minute', 60)} → {changes.pop('rate_per_minute')}"
        notes.append(Note(at, actor, "room.rate", text, "rate", f"rate {text}/min"))
    if changes:
        names = _names(changes)
        notes.append(Note(at, actor, "room.update", names, "settings", f"settings: {names}"))
    return notes


def _inline(at: int, actor: Actor, before: Mapping[str, Any], changes: Mapping[str, Any]) -> list[Note]:
    """The note of a change of where an inline room takes its traffic from and sends it, with both values (ADM-142)."""
    if not (before.get("proxy_origin") or changes.get("proxy_origin")):
        return []
    changed = [key for key in _JUDGED if key in changes and changes[key] != before.get(key)]
    if not changed:
        return []
    detail = "; ".join(f"{camel(key)}: {before.get(key) or 'none'} → {changes[key] or 'none'}" for key in changed)
    if not before:
        return [Note(at, actor, "room.inline", detail)]  # the mark of a new room is there already
    return [Note(at, actor, "room.inline", detail, "settings", f"settings: {_names(dict.fromkeys(changed))}")]


def _switched(at: int, actor: Actor, fact: RoomUpdated) -> Note:
    figures = fact.figures or {}
    is_opened = fact.changes["state"] == RoomState.ACTIVE
    arrows = "bypass → active" if is_opened else "active → bypass"
    below = "" if is_opened else "below it, nobody waiting, "
    text = (
        f"{arrows}: {below}{figures.get('joins_per_min')} joins/min for {figures.get('seconds')} s "
        f"(threshold {figures.get('threshold')})"
    )
    return Note(at, actor, "threshold.open" if is_opened else "threshold.close", text, "activation", text)


def _tuned(at: int, actor: Actor, fact: RoomUpdated) -> Note:
    figures = fact.figures or {}
    change = f"{figures.get('old')} → {figures.get('new')}"
    probes, failed, requests = figures.get("probes"), figures.get("failed_probes"), figures.get("failed_requests")
    if figures.get("cause") == "failing":
        reason = f"{failed} of the last 3 probes and {requests} of {figures.get('requests')} requests failed"
    else:
        reason = f"median {figures.get('median_ms')} ms of {probes} probes (target {figures.get('target_ms')})"
    return Note(at, actor, "autotune.rate", f"{change}: {reason}", "autotune", f"rate {change}/min: {reason}")


def _scheduled(at: int, fact: Scheduled, body: bytes, _: Mapping[str, Any]) -> list[Note]:
    """A change while people stand in the pre-queue tells their number; a cancel draws them at once (ENG-300)."""
    names, held, text = _names(fact.changes), fact.pre_queue, "schedule changed"
    detail = f"{names}; {held} in the pre-queue" if held else names
    if "opens_at" in fact.changes:
        opens_at = fact.changes["opens_at"]
        text = "schedule cancelled" if opens_at is None else f"doors open at {_iso(opens_at)}"
        if opens_at is None:
            detail = "cancelled" + (f"; {held} in the pre-queue are drawn at once" if held else "")
            text += f", {held} in the pre-queue drawn at once" if held else ""
    return [Note(at, actor_of_fact(ujson.loads(body)), "room.schedule", detail, "schedule", text)]


def _drawn(at: int, fact: Drawn, _: bytes, __: Mapping[str, Any]) -> list[Note]:
    text = f"{fact.count} places of {fact.identities} addresses drawn, order {fact.digest.hex()}"
    return [Note(at, Actor(SYSTEM, kind=SYSTEM), "room.draw", text, "draw", text)]


def _flushed(at: int, fact: Promoted, body: bytes, _: Mapping[str, Any]) -> list[Note]:
    text = f"{fact.flushed} let in"
    return [Note(at, actor_of_tail(_tail(body, fact)), "room.flush", text, "flush", text)]


def _purged(at: int, fact: Purged, body: bytes, _: Mapping[str, Any]) -> list[Note]:
    text = f"{fact.waiting} waiting and {fact.pre_queue} in the pre-queue dropped"
    return [Note(at, actor_of_tail(_tail(body, fact)), "room.purge", text, "purge", text)]


def _ejected(at: int, fact: Ejected, body: bytes, _: Mapping[str, Any]) -> list[Note]:
    text = f"ticket {fact.ticket} (was {TicketState(fact.was).name.lower()})"
    return [Note(at, actor_of_tail(_tail(body, fact)), "visitor.eject", text, "eject", f"{text} ejected")]


_NOTES: Final[dict[int, Callable[[int, Any, bytes, Mapping[str, Any]], Sequence[Note]]]] = {
    FactType.ROOM_CREATED: _created,
    FactType.ROOM_UPDATED: _updated,
    FactType.ROOM_DELETED: _deleted,
    FactType.SCHEDULED: _scheduled,
    FactType.DRAWN: _drawn,
    FactType.PROMOTED: _flushed,
    FactType.EJECTED: _ejected,
    FactType.PURGED: _purged,
}


def _tail(body: bytes, fact: Promoted | Ejected | Purged) -> bytes:
    """The end of a packed body: the actor's name, which the fact has, and what stands behind it."""
    return body[len(encode_body(fact)) - len(fact.actor.encode()) :]


def blocked_note(at: int, number: int) -> Note:
    """What bot protection refused in the minute that began at ``at`` (ADM-197)."""
    text = f"{number} newcomer{'' if number == 1 else 's'} refused by bot protection"
    return Note(at, Actor(SYSTEM, kind=SYSTEM), "", "", "protection_block", text)


def rebuilt_note(at: int, *, facts: int, tickets: int, seconds: float) -> Note:
    """A room that was lost is there again."""
    text = f"rebuilt from {facts} facts of the journal with {tickets} tickets in {seconds:.1f} s"
    return Note(at, Actor(SYSTEM, kind=SYSTEM), "", "", "rebuilt", text)


def _state(number: int) -> str:
    return RoomState(number).word


def _names(changes: Mapping[str, Any]) -> str:
    """JSON names of changed fields, in the order of the field table; never a value (ADM-248)."""
    order = list(BY_KEY)
    known = sorted(changes, key=lambda key: order.index(key) if key in BY_KEY else len(order))
    return ", ".join(camel(key) for key in known)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
