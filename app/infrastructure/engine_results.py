"""What goes into an engine call and what comes out: one item per visitor, packed by engine.py.

Times leave the engine as epoch milliseconds. ``seq`` is the fact whose commit an answer has to wait for
(0 = nothing to wait for). Codes are numbers across the Lua border; this file is their only table in Python.
What is made once per request is a named tuple: a frozen dataclass costs four times as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from app.domain.layout import Phase
from app.domain.room import RoomState
from app.domain.ticket_state import TicketState as TicketState
from app.infrastructure.engine_detail import RoomDetail


class Presented(IntEnum):
    """What became of the token that a request brought."""

    NONE = 0
    REFUSED = 1
    VALID = 2
    HANDLE = 3
    """A valid token of a place in the pre-queue."""


class Reason(IntEnum):
    """Reasons of queued and gone answers; ``word`` is the JSON value."""

    NONE = 0
    NEW = 1
    WAITING = 2
    SCHEDULED = 3
    PAUSED = 4
    EXPIRED = 5
    EJECTED = 6
    STALE_GENERATION = 7
    AT_CAPACITY = 8
    SESSION_ELSEWHERE = 9
    BAD_TOKEN = 10
    RECLAIMED = 11
    """Of a join that took a session back from another browser (ENG-156)."""

    @property
    def word(self) -> str:
        return self.name.lower()


class ViewState(IntEnum):
    """State of a visitor object (03, section 17); ``word`` is the JSON value."""

    WAITING = 1
    PAUSED = 2
    SCHEDULED = 3
    PASSED = 4
    AT_CAPACITY = 5
    ACTIVE = 6
    BYPASS = 7
    GONE = 8

    @property
    def word(self) -> str:
        return self.name.lower()


class JoinCode(IntEnum):
    """Outcome of a join."""

    EXISTING = 0
    CREATED = 1
    BYPASS = 2
    IDENTITY_LIMIT = 3
    LINE_FULL = 4
    PRE_IDENTITY_LIMIT = 5
    BARRED = 6
    """A newcomer whom bot protection keeps out."""


class Verdict(IntEnum):
    """Outcome of a check: 0 queues, the others pass."""

    QUEUE = 0
    BYPASS = 1
    NOT_TARGETED = 2
    SESSION = 3
    ADMITTED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


class Via(IntEnum):
    """Door through which an admission came."""

    DIRECT = 1
    VOUCHED = 2
    INLINE = 3


class Proof(NamedTuple):
    """What a request brings to prove who it is. Digests are salted SHA-256, 16 bytes (ENG-102 … ENG-107)."""

    presented: Presented
    generation: int
    """Generation in the token; 0 without a valid one."""
    ticket: int
    """Number in the token; 0 without a valid one."""
    cookies: bytes
    """0–4 digests of presented ``qms_`` values, one after the other."""
    strict: bytes
    """Strict fingerprint, 16 bytes."""
    loose: bytes
    """Loose fingerprint, 16 bytes."""
    doors: bytes = b""
    """0–4 digests of presented door keys."""
    handle: bytes = b""
    """The 16 bytes of the handle, with HANDLE only."""
    is_loose_proof: bool = False
    """The loose fingerprint may prove something (ENG-104)."""
    may_bind: bool = False
    """The ticket may be bound to where this request comes from (ENG-108): it brings nothing besides what proves it, so
    that nobody's planted cookies have a part in it."""


class JoinItem(NamedTuple):
    """One join. ``cookie``: digest of the ``qms_`` value made for a new ticket; ``address``, ``net``: for the caps
    (``Digester.place``); ``ip``: readable address as 16 bytes (IPv4 mapped), for the journal only."""

    proof: Proof
    cookie: bytes
    address: bytes
    ip: bytes
    net: int = 0
    from_loose: bytes = b""
    """Further loose fingerprint that came signed with the join (ENG-110), 16 bytes or none."""
    is_barred: bool = False
    """No new place is given; one that is held is told as ever (VIS-147)."""


class CheckItem(NamedTuple):
    """One check of a page. ``door``: digest of the door key made for an admission by this check."""

    proof: Proof
    covered: bool
    door: bytes
    via: Via
    arrival: bytes = bytes(16)
    """Digests of address and client (fingerprint.arrival), by which arrivals are counted while the queue is off."""
    is_alike: bool = False
    """Visitors of this peer cannot be told apart by their address (ENG-298)."""


class Schedule(NamedTuple):
    """What a scheduled room tells everybody."""

    opens_at: int
    """Epoch ms by the store's clock."""
    pre_count: int
    """Places held in the pre-queue."""


class VisitorView(NamedTuple):
    """What a visitor may know of his place. Fields that do not apply to ``state`` are 0."""

    state: ViewState
    room_state: RoomState
    reason: Reason
    by_purge: bool
    ticket: int
    ahead: int
    """Waiting tickets before this one; at the door: older tickets standing there."""
    joined_at: int
    passed_at: int
    pass_expires_at: int
    claim_until: int
    """0 = the pass holds no slot."""
    session_expires_at: int
    release_per_min: float
    """Release rate for the estimate (ENG-234); 0 = nobody is let in."""
    est_is_floor: bool
    now: int
    """Recorded clock of the room, epoch ms."""
    owner_by_cookie: bool
    schedule: Schedule | None = None
    """Set while the room is scheduled."""
    handle: bytes = b""
    """Of a place in the pre-queue, which has no ticket: 16 bytes, else empty."""


class JoinAnswer(NamedTuple):
    """``reason`` says why an earlier ticket was not continued (NEW for a plain newcomer, NONE for EXISTING).

    With LINE_FULL ``seq`` is not 0 when it is the live store that is short of memory.
    """

    code: JoinCode
    reason: Reason
    generation: int
    seq: int
    view: VisitorView | None
    """None for IDENTITY_LIMIT, LINE_FULL, PRE_IDENTITY_LIMIT and BARRED."""


class CheckAnswer(NamedTuple):
    """``ticket``/``generation`` are those of the admitted or running session, else 0."""

    verdict: Verdict
    reason: Reason
    room_state: RoomState
    generation: int
    ticket: int
    seq: int
    session_expires_at: int
    now: int
    is_shared: bool = False
    """Queued because too many addresses use the session (ENG-298)."""


class LeaveAnswer(NamedTuple):
    """``was`` is NONE when nothing was left (not the owner, or already over)."""

    was: TicketState
    seq: int


@dataclass(frozen=True, slots=True)
class RoomFigures:
    """Live figures of one room (ENG-227). Counts of people unless the name says otherwise."""

    generation: int
    cfg_ver: int
    state: RoomState
    rate_per_minute: int
    waiting: int
    active: int
    pending_entry: int
    passes_outstanding: int
    joins_per_min: int
    passed_last_minute: int
    oldest_wait_sec: int | None
    last_ticket: int
    release_per_min: float
    est_is_floor: bool
    seq: int
    committed: int
    now: int
    phase: Phase = Phase.NONE
    opens_at: int = 0
    """Epoch ms; 0 = never scheduled."""
    drawn_at: int = 0
    """Epoch ms; 0 = not drawn since the schedule was set."""
    pre_queue: int = 0
    checks_without_url: int = 0
    blocked_return_urls: int = 0
    shared_sessions: int = 0
    """Checks refused because too many addresses use their session (ENG-298)."""
    detail: RoomDetail | None = None
    """Only when it was asked for."""
    last_switch_at: int | None = None
    """Wall ms of the last switch by threshold activation."""
    last_switch: str | None = None
    """``opened`` or ``closed``."""
    last_change: bytes | None = None
    """The last change of state or rate, in the form of ``fold_marks.LastChange.read``."""
    top_address_slots: int = 0
    """Most slots that one address holds (ENG-296)."""
    joins_refused: str | None = None
    """Why a join was refused for want of room within the last minute: ``line`` or ``memory``."""

    @property
    def effective_state(self) -> RoomState:
        """What visitors are told (ENG-062)."""
        return RoomState.SCHEDULED if self.phase else self.state

    @property
    def occupancy(self) -> int:
        """Sessions plus unused passes that hold a slot (ENG-128)."""
        return self.active + self.pending_entry


@dataclass(frozen=True, slots=True)
class TickAnswer:
    """What one tick did; ``again`` = a work budget ran out, call again at once."""

    promoted: int
    skipped: int
    expired: int
    again: bool
    seq: int
    phase: Phase = Phase.NONE
    opens_at: int = 0
    """Epoch ms; 0 = never scheduled."""
