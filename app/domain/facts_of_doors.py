"""Bodies of the facts about the doors: schedule, places in the pre-queue, the draw (ENG-257, ENG-258, ENG-261).

Belongs here: what each body says and its bytes. Not here: type numbers and heads (facts.py), the order (draw.py).
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass
from typing import Any, Final

import ujson

from app.domain.fact_bytes import Forms, json_bytes, numbers_bytes, read_numbers


@dataclass(frozen=True, slots=True)
class Scheduled:
    """``changes``: new values of ``opens_at`` (wall ms or None) and ``pre_queue_max_per_ip``, those that changed.
    ``pre_queue``: places held at that moment; with ``opens_at`` None they are drawn at once."""

    changes: dict[str, Any]
    actor: str
    pre_queue: int
    cfg_ver: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Prejoined:
    """A place in the pre-queue. ``ip``: readable address as 16 bytes; ``handle``: 16 bytes; the others are
    salted digests, ``address`` is the identity of the draw. ``net``: as in a ticket record."""

    place: int
    ip: bytes
    handle: bytes
    address: bytes
    cookie: bytes
    strict: bytes
    loose: bytes
    net: int = 0


@dataclass(frozen=True, slots=True)
class DrawBegun:
    """The doors open: list and ``seed`` are fixed. Drawn are the ``count`` places up to ``places`` that are held now;
    they get the tickets from ``first`` on, in the order of ``algorithm`` (domain/draw.py)."""

    algorithm: int
    opens_at: int
    places: int
    first: int
    count: int
    seed: bytes


@dataclass(frozen=True, slots=True)
class DrawPart:
    """``order``: places that stand in the drawn order from position ``done`` (from 0) on."""

    done: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The parts before are the whole order. ``digest``: SHA-256 over the handles in their order, 16 bytes each."""

    algorithm: int
    opens_at: int
    first: int
    count: int
    identities: int
    seed: bytes
    digest: bytes


_PREJOINED: Final = struct.Struct("<I16s16sH8s16s16s16s")
_DRAW_BEGUN: Final = struct.Struct("<BQIII32s")
_DRAWN: Final = struct.Struct("<BQIII32s32s")


def _encode_scheduled(fact: Scheduled) -> bytes:
    """JSON object of the members by name."""
    return json_bytes(asdict(fact))


def _decode_scheduled(body: bytes) -> Scheduled:
    raw = ujson.loads(body)
    return Scheduled(raw["changes"], raw["actor"], raw["pre_queue"], raw["cfg_ver"], raw["updated_at"])


def _encode_prejoined(fact: Prejoined) -> bytes:
    """Place, ip, handle, net, then the digests: 94 bytes."""
    owner = (fact.net, fact.address, fact.cookie, fact.strict, fact.loose)
    return _PREJOINED.pack(fact.place, fact.ip, fact.handle, *owner)


def _decode_prejoined(body: bytes) -> Prejoined:
    place, ip, handle, net, address, cookie, strict, loose = _PREJOINED.unpack(body)
    return Prejoined(place, ip, handle, address, cookie, strict, loose, net)


def _encode_draw_begun(fact: DrawBegun) -> bytes:
    """The members in their order, 53 bytes."""
    return _DRAW_BEGUN.pack(fact.algorithm, fact.opens_at, fact.places, fact.first, fact.count, fact.seed)


def _decode_draw_begun(body: bytes) -> DrawBegun:
    return DrawBegun(*_DRAW_BEGUN.unpack(body))


def _encode_draw_part(fact: DrawPart) -> bytes:
    """``done`` and the places, u32 each."""
    return numbers_bytes((fact.done, *fact.order))


def _decode_draw_part(body: bytes) -> DrawPart:
    done, *order = read_numbers(body)
    return DrawPart(done, tuple(order))


def _encode_drawn(fact: Drawn) -> bytes:
    """The members in their order, 85 bytes."""
    return _DRAWN.pack(fact.algorithm, fact.opens_at, fact.first, fact.count, fact.identities, fact.seed, fact.digest)


def _decode_drawn(body: bytes) -> Drawn:
    return Drawn(*_DRAWN.unpack(body))


FORMS: Final[Forms] = {
    Scheduled: (_encode_scheduled, _decode_scheduled),
    Prejoined: (_encode_prejoined, _decode_prejoined),
    DrawBegun: (_encode_draw_begun, _decode_draw_begun),
    DrawPart: (_encode_draw_part, _decode_draw_part),
    Drawn: (_encode_drawn, _decode_drawn),
}
