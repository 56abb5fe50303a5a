"""The visitor state: what a visitor is told of his place, as one line of JSON (03, section 17).

Belongs here: the wording of every state. Not here: how the state is found (the engine), who may know it.
Answers are put together from ready pieces: a general JSON writer would cost more than the engine call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.estimate import estimated_wait_sec
from app.domain.refs import ref_of
from app.domain.tokens import handle_text
from app.infrastructure.engine_results import Reason, ViewState, VisitorView
from app.services.visitor_room import VisitorRoom


@dataclass(slots=True)
class VisitorAnswer:
    """A ``200``: its JSON body and ``Set-Cookie`` values."""

    body: bytes
    cookies: Sequence[bytes]


# Asking an enum for a member costs as much as a call.
_WAITING, _LAST_IN_LINE, _BYPASS_STATE = ViewState.WAITING, ViewState.SCHEDULED, ViewState.BYPASS
POLL_MS: Final = 5000
_TAIL: Final = b',"now":%%d,"pollMs":%d}' % POLL_MS
_BOOL: Final = (b"false", b"true")
REASONS: Final = {reason: f',"reason":"{reason.word}"' for reason in Reason}
"""The member ``reason`` of an answer, ready to be put in: asking an enum for its name costs more than the rest."""

_IN_LINE: Final = (
    b'%b%b,"ticket":%d,"ref":"%b","position":%d,"ahead":%d,"estWaitSec":%b,"estWaitIsFloor":%b,"joinedAt":%d' + _TAIL
)
_PRE_QUEUED: Final = (
    b'%b%b,"preQueued":true,"preCount":%d,"opensAt":%d,"position":null,"ahead":null,"ref":"%b","joinedAt":%d' + _TAIL
)
_PASSED: Final = (
    b'%b%b,"ticket":%d,"ref":"%b","joinedAt":%d,"passedAt":%d,"waitedSec":%d,"passExpiresAt":%d,'
    b'"claimUntil":%b,"holdsSlot":%b,"location":"%b"' + _TAIL
)
_AT_CAPACITY: Final = b'%b%b,"ticket":%d,"ref":"%b","passedAt":%d,"passExpiresAt":%d,"doorAhead":%d' + _TAIL
_ACTIVE: Final = b'%b%b,"ticket":%d,"ref":"%b","sessionExpiresAt":%d,"location":"%b"' + _TAIL
_BYPASS: Final = b'%b%b,"location":"%b"' + _TAIL
_GONE: Final = b'%b%b%b,%b"rejoin":%b' + _TAIL


def needs_location(view: VisitorView) -> bool:
    """Tell whether the state names a place to go to."""
    return _IS_LOCATED[view.state]


def holds_ticket(view: VisitorView) -> bool:
    """Tell whether the state is that of an owner of a live ticket, or of a place in the pre-queue."""
    return view.state < _BYPASS_STATE  # behind it comes only GONE


def state_json(
    room: VisitorRoom, view: VisitorView, *, generation: int, location: str = "", extra: bytes = b""
) -> bytes:
    """One visitor state. ``location``: where to go, if the state says (``needs_location``), ASCII without quotes.

    ``extra``: further members, each with a comma before it; ``generation`` that of ``view.ticket``.
    """
    head = room.state_head(view.state, view.room_state)
    if view.handle:
        return _pre_queued(room, head, extra, generation, view)
    if view.state <= _LAST_IN_LINE:
        return _in_line(head, extra, ref_of(room.id, generation, view.ticket).encode(), view)
    if view.state is ViewState.GONE:
        by = b'"by":"purge",' if view.by_purge else b""
        return _GONE % (head, extra, REASONS[view.reason].encode(), by, _BOOL[not view.by_purge], view.now)
    if view.state is ViewState.BYPASS:
        return _BYPASS % (head, extra, location.encode(), view.now)
    ref = ref_of(room.id, generation, view.ticket).encode()
    if view.state is ViewState.PASSED:
        waited = max(0, view.passed_at - view.joined_at) // 1000
        claim = b"%d" % view.claim_until if view.claim_until else b"null"
        slot = _BOOL[view.claim_until != 0]
        times = (view.joined_at, view.passed_at, waited, view.pass_expires_at)
        return _PASSED % (head, extra, view.ticket, ref, *times, claim, slot, location.encode(), view.now)
    if view.state is ViewState.ACTIVE:
        return _ACTIVE % (head, extra, view.ticket, ref, view.session_expires_at, location.encode(), view.now)
    ends = (view.passed_at, view.pass_expires_at)  # at capacity
    return _AT_CAPACITY % (head, extra, view.ticket, ref, *ends, view.ahead, view.now)


def shown_values(view: VisitorView) -> tuple[object, ...]:
    """What a state shows besides the time: equal tuples make equal frames."""
    estimate = estimated_wait_sec(view.ahead, view.release_per_min) if view.state is ViewState.WAITING else None
    return (
        view.state,
        view.room_state,
        view.reason,
        view.ticket,
        view.ahead,
        estimate,
        view.est_is_floor,
        view.passed_at,
        view.pass_expires_at,
        view.claim_until,
        view.session_expires_at,
        view.schedule,
    )


def _in_line(head: bytes, extra: bytes, ref: bytes, view: VisitorView) -> bytes:
    """``waiting`` and ``paused``, and ``scheduled`` for a ticket: in line before the schedule, or behind the draw."""
    ahead = view.ahead
    if view.schedule is not None:
        extra += b',"preQueued":false,"preCount":%d,"opensAt":%d' % (view.schedule.pre_count, view.schedule.opens_at)
    estimate = estimated_wait_sec(ahead, view.release_per_min) if view.state is _WAITING else None
    wait = b"null" if estimate is None else b"%d" % estimate
    floor = _BOOL[view.est_is_floor and estimate is not None]
    return _IN_LINE % (head, extra, view.ticket, ref, ahead + 1, ahead, wait, floor, view.joined_at, view.now)


def _pre_queued(room: VisitorRoom, head: bytes, extra: bytes, generation: int, view: VisitorView) -> bytes:
    """``scheduled`` for a place in the pre-queue: no number, no position (VIS-184)."""
    opens_at, pre_count = view.schedule or (0, 0)
    ref = ref_of(room.id, generation, handle_text(view.handle)).encode()
    return _PRE_QUEUED % (head, extra, pre_count, opens_at, ref, view.joined_at, view.now)


_IS_LOCATED: Final = tuple(
    number in (ViewState.PASSED, ViewState.ACTIVE, ViewState.BYPASS) for number in range(max(ViewState) + 1)
)
