"""Words of the model: browsers, what a request shows, one place in a line, what is answered, settings of the room.

Not here: what a room makes of them (model.py, doors.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Ds = int
"""Time in tenths of a second since the room was made."""

CLAIM: Ds = 1200
"""Longest claim window (ENG-127)."""
GRACE: Ds = 100
"""After an admission the owner by cookie passes without a key (ENG-155)."""
LONGEST_TICK: Ds = 10
"""Most time that one tick counts (ENG-116)."""
NOTED: Ds = 10
"""Presence is noted again after this time (ENG-138)."""
BINDINGS = 3
"""Times a minute that an owner is bound anew (ENG-108)."""
CHURN_WINDOW, CHURN_HOLD = 60, 600
"""Tens of seconds in which leaves are counted, and how long a place counts on (ENG-293)."""
SHORT_CLAIM: Ds = 150
"""Claim window of a squatter (ENG-297)."""


class Shown(NamedTuple):
    """What a request brings. ``token``: None, "refused", (generation, number) or (generation, handle)."""

    token: str | tuple[int, int | bytes] | None
    cookies: tuple[str, ...]
    strict: str
    loose: str
    is_loose_proof: bool
    keys: tuple[str, ...]
    may_bind: bool
    """Nothing of it can have been planted by somebody else (ENG-108)."""


@dataclass(slots=True)
class Pass:
    """A pass as an admission takes it, and as its withdrawal gives it back."""

    slot: bool = False
    paid: bool = False
    at_door: bool = False
    given_at_door: bool = False
    """The slot is one that was given at the door."""
    wasted: bool = False
    """Such a slot went unused: the pass ends with its time (ENG-131)."""
    passed_at: Ds = 0
    end: Ds = 0
    claim_end: Ds = 0


@dataclass(slots=True)
class Holder:
    """A place in the pre-queue or a ticket; a place that is drawn becomes the ticket."""

    number: int
    """0 = a place that has no number that may be told."""
    address: str
    cookie: str
    strict: str
    loose: str
    joined: Ds
    seen: Ds
    handle: bytes = b""
    place: int = 0
    """Number of the place, counted through all pre-queues; 0 = it never was one."""
    state: str = "waiting"
    """waiting, passed, active, expired, ejected, withdrawn."""
    by_purge: bool = False
    told: bool = False
    right: Pass = field(default_factory=Pass)
    used: Ds = 0
    first_admitted: Ds | None = None
    admitted: Ds = 0
    key: str = ""
    """Door key of the session; of a session that was taken back, the void one."""
    came_from: str = ""
    """Further loose fingerprint, by which a connector saw him (ENG-110)."""
    bound: tuple[int, int] = (0, 0)
    """Minute in which the owner was last bound anew, and how often in it."""
    before: tuple[Pass, Ds | None] | None = None
    """Pass and first admission as they were before the running session."""

    @property
    def holds_slot(self) -> bool:
        """Counts for the occupancy of the room (ENG-128)."""
        return self.state == "active" or (self.state == "passed" and self.right.slot)

    @property
    def is_unfinished(self) -> bool:
        """In line, with a pass, or in a session, as far as ticks have ended them."""
        return self.state in ("waiting", "passed", "active")

    @property
    def is_reclaimed(self) -> bool:
        """The pass was a session before: from then on it is that of the cookie alone (ENG-156)."""
        return self.state == "passed" and self.first_admitted is not None

    def proof(self, shown: Shown) -> str:
        """ "cookie", "print" or "" (ENG-107)."""
        if self.cookie in shown.cookies:
            return "cookie"
        is_loose = shown.is_loose_proof and self.loose == shown.loose
        return "print" if is_loose or self.strict == shown.strict else ""


class View(NamedTuple):
    """What a visitor is told. Fields that do not belong to ``state`` are 0."""

    state: str
    reason: str = ""
    by_purge: bool = False
    number: int = 0
    ahead: int = 0
    joined: Ds = 0
    passed: Ds = 0
    pass_end: Ds = 0
    claim_end: Ds = 0
    session_end: Ds = 0
    may_be_ahead: int = 0
    """At the door ``ahead`` may be up to so many: who has gone away is counted until that is noticed, and who is held
    back by his address need not be counted."""

    def like(self, other: View | None) -> View:
        """This one, with the number ahead that the other one tells if it may be that."""
        at_door = other is not None and self.state == other.state == "at_capacity"
        if other is None or not at_door or not self.ahead <= other.ahead <= self.may_be_ahead:
            return self._replace(may_be_ahead=0)
        return self._replace(may_be_ahead=0, ahead=other.ahead)


class Joined(NamedTuple):
    """Answer to a join: ``created``, ``existing``, ``bypass`` or a refusal without a view."""

    code: str
    reason: str = ""
    view: View | None = None
    holder: Holder | None = None


class Checked(NamedTuple):
    """Answer to a check; ``number`` and ``session_end`` are of a session that runs."""

    verdict: str
    reason: str = ""
    number: int = 0
    session_end: Ds = 0


@dataclass
class Settings:
    """Fields of the room that the engine obeys (ENG-029 … ENG-040); times in seconds, None = no cap."""

    state: str = "active"
    rate: int = 60
    max_concurrent: int | None = None
    passed_ttl: int = 600
    session_ttl: int = 1800
    session_max: int = 14400
    presence: int = 30
    ip_cap: int | None = 16
    pre_ip_cap: int | None = 16
    session_ip_cap: int | None = None
    opens_at: Ds | None = None
    """When the doors open."""


@dataclass
class Visitor:
    """A browser and the network that it is in."""

    name: str
    address: str
    edge: str = "e1"
    """The proxy through which it comes: part of the strict fingerprint only."""
    is_behind_proxy: bool = False
    token: str | tuple[int, int] | tuple[int, bytes] | None = None
    cookies: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def loose(self) -> str:
        return f"{self.name}@{self.address}"

    @property
    def strict(self) -> str:
        return f"{self.loose} {self.edge}"

    def shown(self, *, may_bind: bool = True, vouched: bool = False) -> Shown:
        """What its next request brings; a connector has none of its cookies, but its key."""
        is_proof = self.is_behind_proxy or vouched
        cookies = () if vouched else self.cookies
        return Shown(self.token, cookies, self.strict, self.loose, is_proof, self.keys, may_bind)


@dataclass
class Undoable:
    """Joins and admissions whose commit may still fail: mark and number or handle."""

    joins: list[tuple[int, int, bytes, str]] = field(default_factory=list)
    admissions: list[tuple[int, int, str]] = field(default_factory=list)
