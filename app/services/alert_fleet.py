"""What is wrong with the deployment as a whole at this moment: conditions that instances tell of in their records.

Belongs here: the conditions and their sentences. Not here: what an instance finds out about itself (instance_watch.py,
storage_watch.py), conditions of rooms (alert_rooms.py), Valkey that cannot be reached (alert_local.py).
Source: OBS-125, OBS-128 … OBS-135, OBS-148, OBS-149.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.core import metrics
from app.domain.alerts import Trouble
from app.domain.capacity import Declared, counted
from app.domain.storage_state import StorageReport
from app.infrastructure.fleet_records import Fleet, FleetRecords, InstanceRecord
from app.infrastructure.metric_book import MetricBook

TOKENS_MANY: Final = 20
TOKENS_PART: Final = 0.1
TOKENS_SHOWN_MS: Final = 600_000
EDGE_MANY: Final = 20
EDGE_PART: Final = 0.5
JUMP_SHOWN_MS: Final = 3_600_000
MEMORY_PART: Final = 0.9
PEERS_KEPT: Final = 20
"""Addresses that each worker remembers: from here on there may be more."""
_STORAGE: Final = "storage_failing"


@dataclass(frozen=True, slots=True)
class FleetView:
    """What one look at the fleet goes by."""

    fleet: Fleet
    reports: Sequence[StorageReport]
    every_ms: int
    policy: str
    """``maxmemory-policy``; "" = not known."""
    used_bytes: int
    max_bytes: int
    """0 = Valkey has no bound, or it is not known."""
    declared: Declared | None = None
    """What the deployment needs; None: nothing is known of that."""


@dataclass(frozen=True, slots=True)
class TokensPast:
    """The latest minute in which many visitor tokens were refused."""

    at: int = 0
    message: str = ""

    def to_json(self) -> list[Any]:
        """As a later leader reads it."""
        return [self.at, self.message]

    @classmethod
    def from_json(cls, raw: Any) -> TokensPast:
        """The reverse. TypeError, ValueError: of another release."""
        at, message = raw
        return cls(int(at), str(message))


@dataclass(slots=True)
class FleetSight:
    """Looks at the fleet."""

    records: FleetRecords
    book: MetricBook
    every_ms: int
    declared: Declared | None = None
    tokens: TokensPast = field(default_factory=TokensPast)

    async def read(self) -> Fleet:
        """What the instances tell of themselves. Raises StorageUnavailable."""
        return await self.records.read()

    async def look(self, fleet: Fleet, open_events: Collection[str]) -> tuple[list[Trouble], set[str]]:
        """What is wrong, and the events of which nothing can be said. Raises StorageUnavailable.

        ``open_events``: those that fire now.
        """
        view = FleetView(
            fleet=fleet,
            reports=await self.records.storage_reports(),
            every_ms=self.every_ms,
            policy=self.book.text("valkey_policy"),
            used_bytes=self.book.latest(metrics.VALKEY_USED),
            max_bytes=self.book.latest(metrics.VALKEY_MAX),
            declared=self.declared,
        )
        fresh = [one for one in view.reports if one.is_fresh(view.fleet.now, self.every_ms)]
        blind = set() if fresh else {_STORAGE}
        found = [*storage_troubles(fresh, is_open=_STORAGE in open_events), *troubles_of_fleet(view)]
        return [*found, *self._tokens(view)], blind

    def _tokens(self, view: FleetView) -> Iterator[Trouble]:
        now, live = view.fleet.now, view.fleet.live
        refused, presented = _sum(live, "tokensRefused"), _sum(live, "tokensPresented")
        if refused >= TOKENS_MANY and refused >= TOKENS_PART * presented:
            self.tokens = TokensPast(now, _tokens_message(live, refused, presented))
        if self.tokens.at and now - self.tokens.at < TOKENS_SHOWN_MS:
            yield Trouble("tokens_rejected", self.tokens.message)


def storage_troubles(fresh: Sequence[StorageReport], *, is_open: bool) -> Iterator[Trouble]:
    """The journal takes no commits, by the reports that still count (OBS-125, OBS-148).

    It begins with two frames that saw a failure, and is over when every instance that reports is well.
    """
    bad = [one for one in fresh if one.is_raised or (is_open and not one.is_well)]
    if not bad:
        return
    names = sorted({one.instance for one in bad})
    error = next((f": {one.error}" for one in bad if one.error), "")
    message = f"the journal takes no commits on {_listed(names)}{error}; joins there are answered 503"
    yield Trouble(_STORAGE, message, instances=tuple(names))


def troubles_of_fleet(view: FleetView) -> Iterator[Trouble]:
    """Everything else that is wrong with instances or with Valkey."""
    live = view.fleet.live
    for event, (is_bad, words) in _OF_INSTANCES.items():
        bad = [one for one in live if is_bad(one, view.fleet.now)]
        if bad:
            names = sorted({one.instance for one in bad})
            yield Trouble(event, words(bad, _listed(names)), instances=tuple(names))
    if lost := sorted({one.instance for one in view.fleet.lost}):
        message = f"{_listed(lost)} stopped telling of itself within the last 10 minutes, without a stop in order"
        yield Trouble("instance_lost", message, instances=tuple(lost))
    few = None if view.declared is None else view.declared.too_few(counted(live))
    if few is not None:
        yield Trouble("fleet_below_min", few)
    if view.policy not in ("", "noeviction"):
        message = f"Valkey's maxmemory-policy is {view.policy}; it must be noeviction, or places in line can vanish"
        yield Trouble("valkey_policy", message)
    if view.max_bytes and view.used_bytes >= MEMORY_PART * view.max_bytes:
        share = round(100 * view.used_bytes / view.max_bytes)
        yield Trouble("valkey_memory", f"Valkey uses {share} % of its maxmemory ({view.max_bytes >> 20} MiB)")


def _jumped(one: InstanceRecord, now: int) -> bool:
    at = one.figures.get("clockJumpAt")
    return at is not None and now - at < JUMP_SHOWN_MS


def _jump_words(bad: Sequence[InstanceRecord], names: str) -> str:
    ms = bad[0].figures.get("clockJumpMs") or 0
    return f"the wall clock of {names} jumped {abs(ms) / 1000:.0f} s {'forward' if ms > 0 else 'back'}"


def _full_words(bad: Sequence[InstanceRecord], names: str) -> str:
    return f"{names} holds as many connections as MAX_CONNECTIONS ({bad[0].figures.get('maxConnections')}) allows"


def _undeclared_words(_: Sequence[InstanceRecord], names: str) -> str:
    return (
        f"{names} sees forwarding headers from a proxy that is not in TRUST_PROXY_IPS: everybody behind it counts as "
        "one address. GET /api/admin/health names it"
    )


def _off_edge(one: InstanceRecord, _: int) -> bool:
    """The numbers are those of one minute; what was refused for the secret is in no number of answers."""
    refused, answered = one.figures.get("edgeRefused", 0), one.figures.get("requests", 0)
    return bool(refused >= EDGE_MANY and refused >= EDGE_PART * (refused + answered))


def _edge_words(bad: Sequence[InstanceRecord], names: str) -> str:
    refused, peers = _sum(bad, "edgeRefused"), _sum(bad, "edgePeers")
    return (
        f"{names} refused {refused} requests in the last minute for X-QM-Edge, from {_addresses(peers)}: "
        "the CDN and EDGE_SECRET do not agree, or somebody calls past the CDN"
    )


def _connector_words(bad: Sequence[InstanceRecord], _: str) -> str:
    return str(bad[0].figures.get("connectorWords") or "a connector is locked out: it lets visitors through unqueued")


_Judge = Callable[[InstanceRecord, int], bool]
_Words = Callable[[Sequence[InstanceRecord], str], str]


def _first(name: str) -> _Words:
    """The sentence of the first of them, and how many more there are."""

    def words(bad: Sequence[InstanceRecord], _: str) -> str:
        more = f" (and on {len(bad) - 1} more)" if len(bad) > 1 else ""
        return f"{bad[0].figures.get(name)}{more}"

    return words


_OF_INSTANCES: Final[dict[str, tuple[_Judge, _Words]]] = {
    "clock_jump": (_jumped, _jump_words),
    "connection_limit": (lambda one, _: bool(one.figures.get("isFull")), _full_words),
    "proxy_undeclared": (lambda one, _: bool(one.figures.get("undeclaredPeers")), _undeclared_words),
    "edge_mismatch": (_off_edge, _edge_words),
    "cpu_contention": (lambda one, _: bool(one.figures.get("cpuContention")), _first("cpuContention")),
    "cpus_below_min": (lambda one, _: bool(one.figures.get("cpusShort")), _first("cpusShort")),
    "connector_locked": (lambda one, _: bool(one.figures.get("lockedConnectors")), _connector_words),
}


def _tokens_message(live: Sequence[InstanceRecord], refused: int, presented: int) -> str:
    causes: Counter[str] = Counter()
    for one in live:
        causes.update(one.figures.get("tokenCauses") or {})
    named = ", ".join(f"{cause} {number}" for cause, number in causes.most_common() if number)
    return (
        f"{refused} of {presented} visitor tokens were refused in a minute, from "
        f"{_addresses(_sum(live, 'tokenPeers'))}{f' ({named})' if named else ''}: a new signing key or a clock that is "
        "off, or one stranger with made-up tokens"
    )


def _addresses(number: int) -> str:
    if number >= PEERS_KEPT:
        return f"{number} addresses or more"
    return "one address" if number == 1 else f"{number} addresses"


def _sum(records: Iterable[InstanceRecord], name: str) -> int:
    values: list[Any] = [one.figures.get(name) or 0 for one in records]
    return int(sum(values))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
