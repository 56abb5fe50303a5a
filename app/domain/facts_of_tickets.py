"""Facts about tickets and places and whose they are: how they come, change hands and go by an act of somebody.

Belongs here: what each body says and its bytes. Not here: type numbers and heads (facts.py), passes and sessions and
their end by time (facts_of_passes.py).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from app.domain.actor import actor_name
from app.domain.fact_bytes import Forms, numbers_bytes, read_numbers


@dataclass(frozen=True, slots=True)
class Joined:
    """``ip``: readable address as 16 bytes; the others are salted digests. ``net``: as in a ticket record.

    ``from_loose``: further loose fingerprint of a connector's visitor, or b"" (ENG-110).
    """

    ticket: int
    ip: bytes
    address: bytes
    cookie: bytes
    strict: bytes
    loose: bytes
    net: int = 0
    from_loose: bytes = b""


@dataclass(frozen=True, slots=True)
class JoinWithdrawn:
    """Undoes the ``joined`` or ``prejoined`` fact at ``joined_seq``: of ``ticket``, or (0) of ``place``."""

    ticket: int
    joined_seq: int
    place: int = 0


@dataclass(frozen=True, slots=True)
class OwnerRebound:
    """Fingerprints of a ticket, or with ``ticket`` 0 of a place, from now on (ENG-108).

    ``from_loose``: its further one from now on, b"" = as before (ENG-110).
    """

    ticket: int
    strict: bytes
    loose: bytes
    from_loose: bytes = b""
    place: int = 0


@dataclass(frozen=True, slots=True)
class Left:
    """Holders who left: tickets, or places of the pre-queue."""

    tickets: tuple[int, ...]
    places: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ejected:
    """``was``: TicketState before."""

    ticket: int
    was: int
    actor: str


@dataclass(frozen=True, slots=True)
class Purged:
    """Everybody in line up to number ``up_to`` was dropped. ``waiting``, ``pre_queue``: how many people."""

    up_to: int
    waiting: int
    pre_queue: int
    actor: str


_DIGEST: Final = 16
_JOINED: Final = struct.Struct("<I16sH8s16s16s16s")
"""ticket, ip, net, address, cookie, strict, loose: from ``net`` on the bytes of a ticket record."""
_JOIN_WITHDRAWN: Final = struct.Struct("<IQ")
_OWNER_REBOUND: Final = struct.Struct("<I16s16s")
_EJECTED: Final = struct.Struct("<IB")
_PURGED: Final = struct.Struct("<III")


def _encode_joined(fact: Joined) -> bytes:
    owner = (fact.net, fact.address, fact.cookie, fact.strict, fact.loose)
    return _JOINED.pack(fact.ticket, fact.ip, *owner) + fact.from_loose


def _decode_joined(body: bytes) -> Joined:
    ticket, ip, net, address, cookie, strict, loose = _JOINED.unpack_from(body)
    return Joined(ticket, ip, address, cookie, strict, loose, net, _digest_behind(body, _JOINED.size))


def _encode_withdrawn(fact: JoinWithdrawn) -> bytes:
    body = _JOIN_WITHDRAWN.pack(fact.ticket, fact.joined_seq)
    return body + fact.place.to_bytes(4, "little") if fact.place else body


def _decode_withdrawn(body: bytes) -> JoinWithdrawn:
    ticket, seq = _JOIN_WITHDRAWN.unpack_from(body)
    (place,) = read_numbers(body[_JOIN_WITHDRAWN.size :]) or (0,)
    return JoinWithdrawn(ticket, seq, place)


def _encode_rebound(fact: OwnerRebound) -> bytes:
    """The place of a pre-queue stands behind a 0, which is no ticket."""
    body = _OWNER_REBOUND.pack(fact.ticket, fact.strict, fact.loose)
    return body + (fact.from_loose if fact.ticket else fact.place.to_bytes(4, "little"))


def _decode_rebound(body: bytes) -> OwnerRebound:
    ticket, strict, loose = _OWNER_REBOUND.unpack_from(body)
    if ticket:
        return OwnerRebound(ticket, strict, loose, _digest_behind(body, _OWNER_REBOUND.size))
    (place,) = read_numbers(body[_OWNER_REBOUND.size :])
    return OwnerRebound(0, strict, loose, place=place)


def _encode_left(fact: Left) -> bytes:
    """Places stand behind a 0, which is no ticket."""
    return numbers_bytes((0, *fact.places) if fact.places else fact.tickets)


def _decode_left(body: bytes) -> Left:
    numbers = read_numbers(body)
    return Left((), numbers[1:]) if numbers[:1] == (0,) else Left(numbers)


def _encode_ejected(fact: Ejected) -> bytes:
    return _EJECTED.pack(fact.ticket, fact.was) + fact.actor.encode()


def _decode_ejected(body: bytes) -> Ejected:
    ticket, was = _EJECTED.unpack_from(body)
    return Ejected(ticket, was, actor_name(body[_EJECTED.size :]))


def _encode_purged(fact: Purged) -> bytes:
    return _PURGED.pack(fact.up_to, fact.waiting, fact.pre_queue) + fact.actor.encode()


def _decode_purged(body: bytes) -> Purged:
    up_to, waiting, pre_queue = _PURGED.unpack_from(body)
    return Purged(up_to, waiting, pre_queue, actor_name(body[_PURGED.size :]))


def _digest_behind(body: bytes, size: int) -> bytes:
    """The digest that may follow the first ``size`` bytes."""
    if len(body) - size not in (0, _DIGEST):
        raise ValueError("no digest")
    return body[size:]


FORMS: Final[Forms] = {
    Joined: (_encode_joined, _decode_joined),
    JoinWithdrawn: (_encode_withdrawn, _decode_withdrawn),
    OwnerRebound: (_encode_rebound, _decode_rebound),
    Left: (_encode_left, _decode_left),
    Ejected: (_encode_ejected, _decode_ejected),
    Purged: (_encode_purged, _decode_purged),
}
