"""Bytes across the Lua border: items of visitor calls in, packed answers out.

The layouts are described in lua/lib/owner.lua (items), lua/lib/view.lua (views) and the headers of lua/fn. Per item
this is one precompiled struct each way. Not here: batching (engine.py), meaning of the values (engine_results.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from app.domain.marks import mark
from app.domain.room import RoomState
from app.infrastructure.engine_results import (
    CheckAnswer,
    CheckItem,
    JoinAnswer,
    JoinCode,
    JoinItem,
    LeaveAnswer,
    Proof,
    Reason,
    Schedule,
    TicketState,
    Verdict,
    Via,
    ViewState,
    VisitorView,
)


class RoomCode(IntEnum):
    """First element of every answer of the library (``qm.CODE`` in lua/lib/base.lua)."""

    OK = 0
    NOHEADER = 1
    NOROOM = 2
    STALE = 3
    FENCED = 4
    BUSY = 5
    CONFLICT = 6


class Ask(IntEnum):
    """Flag byte of an item (``qm.ASK``). The functions below write them as numbers: an enum's name costs a call."""

    LOOSE = 1
    TOLD = 2
    SEEN = 4
    COVERED = 8
    BIND = 16
    FROM = 32
    ALIKE = 64
    BARRED = 128


_HEAD: Final = struct.Struct("<BBBBII16s")
_JOIN_BODY: Final = struct.Struct("<16sH8s16s16s")
_VIEW: Final = struct.Struct("<BBBxIIIIIQQ")
_JOIN: Final = struct.Struct("<BBxxI" + "BBBxIIIIIQQ")
_CHECK: Final = struct.Struct("<BBBxIII")
_HANDLE: Final = struct.Struct("<4I")
_SCHEDULED: Final = int(ViewState.SCHEDULED)
_REFUSED_FROM: Final = int(JoinCode.IDENTITY_LIMIT)

_STATES: Final = tuple(RoomState)
_REASONS: Final = tuple(Reason)
_VERDICTS: Final = tuple(Verdict)
_JOIN_CODES: Final = tuple(JoinCode)
_VIEW_STATES: Final = (None, *ViewState)
_TICKET_STATES: Final = tuple(TicketState)


def pack_proof(proof: Proof, ask: int) -> tuple[bytes, bytes]:
    """Head and tail of an item; ``ask``: flags other than LOOSE."""
    presented, generation, ticket, cookies, strict, loose, doors, handle, is_loose_proof, _ = proof
    if is_loose_proof:
        ask |= 1
    head = _HEAD.pack(presented, ask, len(cookies) >> 4, len(doors) >> 4, generation, ticket, strict)
    return head, loose + cookies + doors + handle


def pack_join(item: JoinItem) -> bytes:
    """Item of function join."""
    proof, cookie, address, ip, net, from_loose, is_barred = item
    ask = (16 if proof.may_bind else 0) | (32 if from_loose else 0) | (128 if is_barred else 0)
    head, tail = pack_proof(proof, ask)
    return head + _JOIN_BODY.pack(ip, net, address, cookie, proof.strict) + tail + from_loose


def pack_status(proof: Proof, *, told: bool, seen: bool, bind: bool) -> bytes:
    """Item of function status."""
    head, tail = pack_proof(proof, (2 if told else 0) | (4 if seen else 0) | (16 if bind and proof.may_bind else 0))
    return head + tail


def pack_check(item: CheckItem) -> bytes:
    """Item of function check."""
    proof, covered, door, via, arrival, is_alike = item
    head, tail = pack_proof(proof, (8 if covered else 0) | (16 if proof.may_bind else 0) | (64 if is_alike else 0))
    return b"%b%c%b%b%b" % (head, via, door, arrival, tail)


class PackedCheck(NamedTuple):
    """An item of function check apart from what differs from page to page."""

    proof: Proof
    via: Via
    is_alike: bool
    uncovered: bytes
    """Beginning of the item for a page that no rule covers."""
    covered: bytes
    end: bytes

    @classmethod
    def of(cls, proof: Proof, via: Via, arrival: bytes, *, is_alike: bool) -> PackedCheck:
        """Members as of CheckItem."""
        ask = (16 if proof.may_bind else 0) | (64 if is_alike else 0)
        uncovered, tail = pack_proof(proof, ask)
        covered, _ = pack_proof(proof, ask | 8)
        return cls(proof, via, is_alike, b"%b%c" % (uncovered, via), b"%b%c" % (covered, via), arrival + tail)

    def item(self, covered: bool, door: bytes) -> bytes:
        """The item for a page; ``door``: digest of the door key made for an admission by it."""
        return (self.covered if covered else self.uncovered) + door + self.end


def pack_leave(proof: Proof) -> bytes:
    """Item of function leave."""
    head, tail = pack_proof(proof, 0)
    return head + tail


class _Common:
    """What a reply says for all its items: clocks, state, rate, generation, epoch."""

    __slots__ = ("base", "epoch", "gen", "is_floor", "now", "packed", "rate", "schedule", "state")

    def __init__(self, reply: Sequence[Any]) -> None:
        _, self.now, self.base, state, self.rate, is_floor, self.gen, self.epoch, self.packed, *more = reply
        self.schedule = Schedule(*more) if more else None
        self.state = _STATES[state]
        self.rate = float(self.rate)
        self.is_floor = is_floor == 1

    def view(self, fields: Sequence[int]) -> VisitorView:
        """View from the eleven fields of its 40 bytes, states as numbers."""
        state, reason, marks, ticket, ahead, pass_end, claim_end, session_end, joined_at, passed_at = fields
        if not ticket and state == _SCHEDULED:
            return self._place(reason, marks, (ahead, pass_end, claim_end, session_end), joined_at)
        base = self.base
        return VisitorView(
            _VIEW_STATES[state],
            self.state,
            _REASONS[reason],
            marks & 1 == 1,
            ticket,
            ahead,
            joined_at,
            passed_at,
            base + pass_end * 100 if pass_end else 0,
            base + claim_end * 100 if claim_end else 0,
            base + session_end * 100 if session_end else 0,
            self.rate,
            self.is_floor,
            self.now,
            marks & 2 == 2,
            self.schedule,
        )

    def _place(self, reason: int, marks: int, handle: Sequence[int], joined_at: int) -> VisitorView:
        """View of a place in the pre-queue, which has a handle where tickets have numbers."""
        return VisitorView(
            state=ViewState.SCHEDULED, room_state=self.state, reason=_REASONS[reason], by_purge=False, ticket=0,
            ahead=0, joined_at=joined_at, passed_at=0, pass_expires_at=0, claim_until=0, session_expires_at=0,
            release_per_min=self.rate, est_is_floor=False, now=self.now, owner_by_cookie=marks & 2 == 2,
            schedule=self.schedule, handle=_HANDLE.pack(*handle),
        )  # fmt: skip


def unpack_joins(reply: Sequence[Any]) -> list[JoinAnswer]:
    """Answers of function join."""
    common = _Common(reply)
    answers = []
    for code, reason, seq, *view in _JOIN.iter_unpack(common.packed):
        shown = common.view(view) if code < _REFUSED_FROM else None
        answers.append(JoinAnswer(_JOIN_CODES[code], _REASONS[reason], common.gen, mark(common.epoch, seq), shown))
    return answers


def unpack_statuses(reply: Sequence[Any]) -> list[VisitorView]:
    """Answers of function status."""
    common = _Common(reply)
    return [common.view(fields) for fields in _VIEW.iter_unpack(common.packed)]


def unpack_checks(reply: Sequence[Any]) -> list[CheckAnswer]:
    """Answers of function check."""
    common = _Common(reply)
    state, gen, base, now, epoch = common.state, common.gen, common.base, common.now, common.epoch
    return [
        CheckAnswer(
            _VERDICTS[verdict],
            _REASONS[reason],
            state,
            gen if ticket else 0,
            ticket,
            mark(epoch, seq),
            base + ends * 100 if ends else 0,
            now,
            shared == 1,
        )
        for verdict, reason, shared, ticket, seq, ends in _CHECK.iter_unpack(common.packed)
    ]


def unpack_leaves(reply: Sequence[Any]) -> list[LeaveAnswer]:
    """Answers of function leave."""
    epoch, values = reply[1], reply[2:]
    return [
        LeaveAnswer(_TICKET_STATES[state], mark(epoch, seq))
        for state, seq in zip(values[::2], values[1::2], strict=True)
    ]


Unpacker = Callable[[Sequence[Any]], list[Any]]
UNPACKERS: Final[dict[str, Unpacker]] = {
    "join": unpack_joins,
    "status": unpack_statuses,
    "check": unpack_checks,
    "leave": unpack_leaves,
}
