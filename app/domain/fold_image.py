"""A folded room as the live store holds it: header, chunks, indexes, in slices that never block others for long.

What follows from the records is made here and is in no fact: head, counters, deadlines, owner and address index, the
bitmap of those who left the line (ENG-272). Not here: applying facts (fold.py), writing (infrastructure/rebuild.py).
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from app.core.ids import RoomId
from app.domain.fingerprint import ADDRESS_BYTES
from app.domain.fold import RoomFold
from app.domain.fold_churn import churn_of
from app.domain.layout import CHUNK, DOOR_BYTES, LAYOUT, PLACE_BYTES, TICKET_BYTES, Flag, pack_header
from app.domain.room import RoomConfig
from app.domain.room_codec import config_from_json, config_to_json, field_text
from app.domain.ticket_state import TicketState

Write = tuple[str, Any] | tuple[str, int, bytes]
"""``("t"|"d"|"h", chunk, bytes)`` · ``("r"|"lp"|"c"|"hc"|"pn"|"hm", offset, bytes)`` a piece of a string ·
``("o", [(cookie 8, n or place), …])`` · ``("hx", [(handle 8, place), …])`` · ``("i"|"ip", [(address 8, count), …])`` ·
``("in"|"ipn", [(/48 4, entries), …])`` · ``("x0"|"x1", [(address 8, leaves), …])`` ·
``("vi"|"vip", [place that goes on counting, …])`` · ``("u"|"ut", [(address 8, slots), …])`` ·
``("e", [(n, ds), …])`` · ``("w", [n, …])`` · ``("f", [(n, digest 16), …])`` ·
``("pu", [first and last number as 8 bytes, …])``."""

MEMBERS: Final = 2000
"""Members of a hash or sorted set in one write: about 2 ms of the live store."""
BITMAP_BYTES: Final = 65_536

_PLACE: Final = struct.Struct("<14xH8s48x")
"""net, address."""
_PLACE_ALONE: Final = struct.Struct("<H8s")
_ADDRESS_AT: Final = 16
_NET_ENTRY: Final = struct.Struct("<HI")
_COOKIE: Final = struct.Struct("<24x8s40x")
_ENDS: Final = struct.Struct("<8xIIII20x")
"""pass_end, claim_end, used_at, first_admitted of a door record."""
_RANGE: Final = struct.Struct("<II")
_UNDER_WAY: Final = re.compile(rb"[\x02\x03]")
_NOT_WAITING: Final = re.compile(rb"[^\x00\x01]")
"""Neither waiting nor a number that a running draw will give."""


@dataclass(frozen=True, slots=True)
class RoomImage:
    """A room ready to be written. ``header``: every field but ``epoch`` by its name in layout.HEADER_FIELDS."""

    room_id: RoomId
    config: RoomConfig
    salt: bytes
    header: dict[str, float]
    records: RoomFold
    deadlines: dict[int, int]
    """Ticket → ds at which a tick has to look at it."""
    at_door: list[int]
    removed: bytes
    """Bitmap, bit n (from the highest bit of byte 0 on) = ticket n left the line beyond the head."""

    @property
    def tickets(self) -> int:
        """Highest number issued."""
        return self.records.last_ticket

    def cfg(self) -> dict[str, bytes]:
        """The room's configuration hash: JSON texts by field name, and the salt; {} for a deleted room."""
        if self.header.get("deleted"):
            return {}
        fields = {name: field_text(value).encode() for name, value in config_to_json(self.config).items()}
        marks = {name: text.encode() for name, text in self.records.marks.items()}
        return {**fields, **marks, "salt": self.salt}

    def header_bytes(self, epoch: int) -> bytes:
        """The header of the rebuilt room."""
        return pack_header({**self.header, "epoch": epoch})

    def ended(self) -> bytes:
        """When a ticket of each chunk last ended (lua/lib/ended.lua): nothing else is known but that it was before."""
        chunks = len(self.records.tickets) // (CHUNK * TICKET_BYTES)
        return struct.pack("<I", self.records.now_ds) * chunks if chunks else b""

    def writes(self) -> Iterator[Write]:
        """Everything but header and configuration, in slices."""
        yield from _chunks("t", self.records.tickets, CHUNK * TICKET_BYTES)
        yield from _chunks("d", self.records.doors, CHUNK * DOOR_BYTES)
        yield from _pieces("r", self.removed)
        yield from _pieces("c", self.ended())
        if self.records.pre_queue.places:
            yield from _pieces("hc", struct.pack("<I", self.records.now_ds))
        yield from _pieces("lp", bytes(self.records.ring))
        yield from _slices("o", _owners(self.records))
        churn = churn_of(self.records.left, self.records.mono(self.records.now_ms))
        for book, places in (("i", _places(self.records)), ("ip", self.records.pre_queue.held())):
            places.update(_PLACE_ALONE.unpack(place) for _, place in churn.held[book])
            yield from _slices(book, iter(_addresses(places).items()))
            yield from _slices(book + "n", _networks(places))
        for kind, members in churn.writes():
            yield from _slices(kind, members)
        slots = _slots(self.records)
        yield from _slices("u", iter(slots.items()))
        yield from _slices("ut", iter([entry for entry in slots.items() if entry[1] > 1]))
        yield from _slices("e", iter(self.deadlines.items()))
        yield from _slices("w", iter(self.at_door))
        yield from _slices("f", iter(self.records.froms.items()))
        yield from _slices("pu", (_RANGE.pack(*purge) for purge in self.records.purges))
        for kind, content in self.records.pre_queue.writes():
            if kind == "h":
                yield from _chunks(kind, content, CHUNK * PLACE_BYTES)
            elif isinstance(content, bytes):
                yield from _pieces(kind, content)
            else:
                yield from _slices(kind, content)


def make_image(fold: RoomFold) -> RoomImage:
    """Image of a folded room; KeyError, TypeError or ValueError when its configuration cannot be read."""
    config = config_from_json(fold.config)
    if fold.deleted:
        return _tombstone(fold, config)
    if fold.clock_moves:
        fold.renew()
    states = bytes(fold.tickets[::TICKET_BYTES])[: fold.last_ticket]
    at_door = _stand_at_the_door(fold, states)
    gone = [match.start() + fold.head + 1 for match in _NOT_WAITING.finditer(states[fold.head :])]
    header = _configured(config) | _counted(fold, states, len(gone)) | _clocks(fold)
    header |= fold.pre_queue.header()
    if header["last_ticket"] > header["head"] + header["removed"]:
        header["line_since"] = header["mono"]
    return RoomImage(
        config.id,
        config,
        fold.salt,
        header,
        fold,
        _deadlines(fold, config, states),
        at_door,
        _bitmap(gone),
    )


def _tombstone(fold: RoomFold, config: RoomConfig) -> RoomImage:
    """What stays of a deleted room: a header that knows the generation."""
    states = b"\0" * fold.last_ticket
    header = _counted(fold, states, 0) | _clocks(fold) | {"deleted": 1, "head": fold.last_ticket}
    nothing = RoomFold(fold.now_ms, seq=fold.seq, last_ticket=fold.last_ticket)
    return RoomImage(config.id, config, fold.salt, header, nothing, {}, [], b"")


def _configured(config: RoomConfig) -> dict[str, float]:
    return {
        "state": config.state,
        "rate": config.rate_per_minute,
        "max_concurrent": config.max_concurrent or 0,
        "passed_ttl": config.passed_ttl_sec,
        "session_ttl": config.session_ttl_sec,
        "session_max": config.session_max_sec,
        "presence": config.presence_sec,
        "ip_cap": config.queue_max_per_ip or 0,
        "pre_ip_cap": config.pre_queue_max_per_ip or 0,
        "auto_joins": _threshold(config),
        "session_ip_cap": config.session_max_per_ip or 0,
    }


def _threshold(config: RoomConfig) -> int:
    activate = config.auto_activate
    return activate.joins_per_min if activate is not None and activate.enabled else 0


def _counted(fold: RoomFold, states: bytes, removed: int) -> dict[str, float]:
    flags = fold.tickets[1::TICKET_BYTES]
    passed = list(_numbers(states, TicketState.PASSED))
    pending = sum(1 for n in passed if flags[n - 1] & Flag.SLOT)
    return {
        "layout": LAYOUT,
        "gen": fold.gen,
        "seq": fold.seq,
        "committed": fold.seq,
        "cfg_ver": fold.cfg_ver,
        "created_at": fold.created_at,
        "updated_at": fold.updated_at,
        "last_ticket": fold.last_ticket,
        "ended": fold.ended_count,
        "head": fold.head,
        "purge_up_to": fold.purges[-1][1] if fold.purges else 0,
        "removed": removed,
        "active": states.count(TicketState.ACTIVE),
        "pending": pending,
        "passes_out": len(passed) - pending,
    }


def _clocks(fold: RoomFold) -> dict[str, float]:
    mono = fold.mono(fold.now_ms)
    return {
        "t0": fold.t0,
        "last_time": fold.now_ms,
        "wall": fold.now_ms,
        "mono": mono,
        "last_tick": mono,
        "freed_at": mono,
        "second": mono // 1000,
    }


def _numbers(states: bytes, state: int) -> Iterator[int]:
    """Numbers of the tickets in a state."""
    at = states.find(state)
    while at >= 0:
        yield at + 1
        at = states.find(state, at + 1)


def _stand_at_the_door(fold: RoomFold, states: bytes) -> list[int]:
    """Passes past their end that have not lapsed: their holders stood at the door, and get a presence time to be
    seen there again (ENG-131)."""
    now, standing = fold.now_ds, []
    for n in _numbers(states, TicketState.PASSED):
        flags = fold.tickets[(n - 1) * TICKET_BYTES + 1]
        if not flags & (Flag.SLOT | Flag.WASTED) and fold.door(n).pass_end <= now:
            fold.tickets[(n - 1) * TICKET_BYTES + 1] = flags | Flag.AT_DOOR
            standing.append(n)
    return standing


def _deadlines(fold: RoomFold, config: RoomConfig, states: bytes) -> dict[int, int]:
    """When a tick has to look at each pass and session; too early is allowed, too late is not."""
    seen = fold.now_ds
    absent = seen + config.presence_sec * 10 + 1
    idle, longest = config.session_ttl_sec * 10, config.session_max_sec * 10
    found: dict[int, int] = {}
    for match in _UNDER_WAY.finditer(states):
        place = match.start()
        pass_end, claim_end, used_at, first = _ENDS.unpack_from(fold.doors, place * DOOR_BYTES)
        flags = fold.tickets[place * TICKET_BYTES + 1]
        if states[place] == TicketState.ACTIVE:
            due = min(used_at + idle, first + longest)
        elif flags & Flag.SLOT:
            due = min(claim_end, absent)
        elif flags & Flag.AT_DOOR:
            due = absent
        else:
            due = pass_end
        found[place + 1] = due
    return found


def _bitmap(gone: list[int]) -> bytes:
    if not gone:
        return b""
    bits = bytearray(gone[-1] // 8 + 1)
    for n in gone:
        bits[n >> 3] |= 0x80 >> (n & 7)
    return bytes(bits)


def _pieces(kind: str, content: bytes) -> Iterator[Write]:
    for offset in range(0, len(content), BITMAP_BYTES):
        yield (kind, offset, content[offset : offset + BITMAP_BYTES])


def _owners(fold: RoomFold) -> Iterator[tuple[bytes, int | bytes]]:
    """Owner index: tickets by number, those of the pre-queue by their place."""
    yield from fold.pre_queue.owners()
    drawn = fold.pre_queue.is_drawn()
    for k, chunk in _record_chunks(fold):
        for i, (cookie,) in enumerate(_COOKIE.iter_unpack(chunk)):
            n = k * CHUNK + i + 1
            if chunk[i * TICKET_BYTES] != TicketState.NONE and not (n < len(drawn) and drawn[n]):
                yield cookie, n


def _places(fold: RoomFold) -> Counter[tuple[int, bytes]]:
    """Waiting tickets per (net, address); whoever is said to wait up to the head was purged."""
    counts: Counter[tuple[int, bytes]] = Counter()
    for k, chunk in _record_chunks(fold):
        begin = max(0, fold.head - k * CHUNK)
        states = chunk[::TICKET_BYTES][begin:]
        counts.update(
            place
            for state, place in zip(states, _PLACE.iter_unpack(chunk[begin * TICKET_BYTES :]), strict=True)
            if state == TicketState.WAITING
        )
    return counts


def _addresses(places: Counter[tuple[int, bytes]]) -> Counter[bytes]:
    """Places per address."""
    counts: Counter[bytes] = Counter()
    for (_, address), count in places.items():
        counts[address] += count
    return counts


def _networks(places: Counter[tuple[int, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Places of each IPv6 /48 by its /56, packed (ENG-295)."""
    found: dict[bytes, Counter[int]] = {}
    for (net, address), count in places.items():
        if net:
            found.setdefault(address[:4], Counter())[net] += count
    for wide, counts in found.items():
        yield wide, b"".join(_NET_ENTRY.pack(*entry) for entry in sorted(counts.items()))


def _slots(fold: RoomFold) -> Counter[bytes]:
    """Slots per address: sessions, and passes that hold one (ENG-296)."""
    states = bytes(fold.tickets[::TICKET_BYTES])
    return Counter(
        bytes(fold.tickets[place + _ADDRESS_AT : place + _ADDRESS_AT + ADDRESS_BYTES])
        for place in (match.start() * TICKET_BYTES for match in _UNDER_WAY.finditer(states))
        if fold.tickets[place + 1] & Flag.SLOT
    )


def _record_chunks(fold: RoomFold) -> Iterator[tuple[int, bytes]]:
    size = CHUNK * TICKET_BYTES
    for k in range(len(fold.tickets) // size):
        yield k, bytes(fold.tickets[k * size : (k + 1) * size])


def _chunks(kind: str, records: bytearray, size: int) -> Iterator[Write]:
    for k in range(len(records) // size):
        chunk = bytes(records[k * size : (k + 1) * size])
        if any(chunk):
            yield (kind, k, chunk)


def _slices(kind: str, members: Iterator[Any]) -> Iterator[Write]:
    while part := list(islice(members, MEMBERS)):
        yield (kind, part)
