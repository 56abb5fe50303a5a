"""Facts about passes, their slots and sessions, and how these end by time.

Belongs here: what each body says and its bytes. Not here: type numbers and heads (facts.py), tickets that wait or are
taken away (facts_of_tickets.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from app.domain.actor import actor_name
from app.domain.fact_bytes import Forms, numbers_bytes, read_numbers


class Released(IntEnum):
    """Cause byte of ``slot_released``."""

    CLAIM_OVER = 1
    ABSENT = 2


class PromotedBy(IntEnum):
    """Cause byte of ``promoted``."""

    TICK = 1
    JOIN = 2
    FLUSH = 3


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` tickets from ``first`` on with the same ``flags`` (Flag.SLOT, Flag.PAID)."""

    first: int
    count: int
    flags: int


@dataclass(frozen=True, slots=True)
class Promoted:
    """Passes given at the fact's ``at``; ``claim_end`` 0 when no run holds a slot.

    By a flush the runs span everybody in line: of their numbers those that wait get a pass. ``flushed`` says how many
    they are, ``actor`` who did it; otherwise 0 and "".
    """

    by: int
    pass_end: int
    claim_end: int
    runs: tuple[Run, ...]
    flushed: int = 0
    actor: str = ""


@dataclass(frozen=True, slots=True)
class SlotGiven:
    """Slots given at the door; the passes are paid from then on."""

    claim_end: int
    tickets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotReleased:
    """Passes that gave up their slot."""

    why: int
    tickets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A session began. ``first_admitted_at``: of the ticket's first admission, from which the longest life counts."""

    ticket: int
    via: int
    door: bytes
    first_admitted_at: int


@dataclass(frozen=True, slots=True)
class AdmissionWithdrawn:
    """Undoes the ``admitted`` fact at ``admitted_seq``: the pass is as given here (``flags``: SLOT, PAID)."""

    ticket: int
    admitted_seq: int
    flags: int
    passed_at: int
    pass_end: int
    claim_end: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The owner took his session back: it is a pass again, with its slot; its door key is void (ENG-156)."""

    ticket: int
    pass_end: int
    claim_end: int


@dataclass(frozen=True, slots=True)
class Lapsed:
    """Passes or sessions that ended by time."""

    why: int
    tickets: tuple[int, ...]


_PROMOTED: Final = struct.Struct("<BQQ")
_FLUSHED: Final = struct.Struct("<IB")
"""Tickets, runs: behind the ends of a promotion by flush; the actor follows the runs."""
_RUN: Final = struct.Struct("<IIB")
_CLAIM_END: Final = struct.Struct("<Q")
_ADMITTED: Final = struct.Struct("<IB16sQ")
_ADMISSION_WITHDRAWN: Final = struct.Struct("<IQBQQQ")
_RECLAIMED: Final = struct.Struct("<IQQ")


def _encode_promoted(fact: Promoted) -> bytes:
    runs = b"".join(_RUN.pack(run.first, run.count, run.flags) for run in fact.runs)
    head = _PROMOTED.pack(fact.by, fact.pass_end, fact.claim_end)
    if fact.by != PromotedBy.FLUSH:
        return head + runs
    return head + _FLUSHED.pack(fact.flushed, len(fact.runs)) + runs + fact.actor.encode()


def _decode_promoted(body: bytes) -> Promoted:
    by, pass_end, claim_end = _PROMOTED.unpack_from(body)
    if by != PromotedBy.FLUSH:
        runs = tuple(Run(*run) for run in _RUN.iter_unpack(body[_PROMOTED.size :]))
        return Promoted(by, pass_end, claim_end, runs)
    flushed, count = _FLUSHED.unpack_from(body, _PROMOTED.size)
    first = _PROMOTED.size + _FLUSHED.size
    last = first + count * _RUN.size
    runs = tuple(Run(*run) for run in _RUN.iter_unpack(body[first:last]))
    if len(runs) != count:
        raise ValueError("runs are missing")
    return Promoted(by, pass_end, claim_end, runs, flushed, actor_name(body[last:]))


def _encode_given(fact: SlotGiven) -> bytes:
    return _CLAIM_END.pack(fact.claim_end) + numbers_bytes(fact.tickets)


def _decode_given(body: bytes) -> SlotGiven:
    (claim_end,) = _CLAIM_END.unpack_from(body)
    return SlotGiven(claim_end, read_numbers(body[_CLAIM_END.size :]))


def _encode_why(fact: SlotReleased | Lapsed) -> bytes:
    return bytes([fact.why]) + numbers_bytes(fact.tickets)


def _encode_admission_withdrawn(fact: AdmissionWithdrawn) -> bytes:
    ends = (fact.passed_at, fact.pass_end, fact.claim_end)
    return _ADMISSION_WITHDRAWN.pack(fact.ticket, fact.admitted_seq, fact.flags, *ends)


FORMS: Final[Forms] = {
    Promoted: (_encode_promoted, _decode_promoted),
    SlotGiven: (_encode_given, _decode_given),
    SlotReleased: (_encode_why, lambda body: SlotReleased(body[0], read_numbers(body[1:]))),
    Admitted: (
        lambda fact: _ADMITTED.pack(fact.ticket, fact.via, fact.door, fact.first_admitted_at),
        lambda body: Admitted(*_ADMITTED.unpack(body)),
    ),
    AdmissionWithdrawn: (
        _encode_admission_withdrawn,
        lambda body: AdmissionWithdrawn(*_ADMISSION_WITHDRAWN.unpack(body)),
    ),
    Reclaimed: (
        lambda fact: _RECLAIMED.pack(fact.ticket, fact.pass_end, fact.claim_end),
        lambda body: Reclaimed(*_RECLAIMED.unpack(body)),
    ),
    Lapsed: (_encode_why, lambda body: Lapsed(body[0], read_numbers(body[1:]))),
}
