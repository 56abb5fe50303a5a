"""What one instance finds out about itself and its rooms, once for all its processes and for the fleet.

Every second: incidents, how Valkey does, whether the clock jumped. Every 5 s, and when readiness, storage or leading
change: the record that the other instances read.
Belongs here: looking, and leaving what was found (MetricBook, FleetRecords). Not here: storage (storage_watch.py), how
it is told (standing.py, admin_health.py, metrics.py). Source: OBS-039 … OBS-049, FLT-041 … FLT-047, FLT-089, FLT-091.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from app.core import metrics
from app.core.clock import mono, raw_wall_ms, wall_ms
from app.core.errors import StorageUnavailable
from app.core.ids import RoomId
from app.core.metrics import Metric
from app.core.runtime import Runtime
from app.core.version import VERSION
from app.domain.incidents import Incident, Onsets
from app.domain.net_ranges import address_text
from app.domain.room import Room
from app.domain.tokens import Cause
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.fleet_records import FleetRecords, InstanceRecord
from app.infrastructure.metric_book import TEXTS, MetricBook, signed
from app.infrastructure.rate_limiter import InstanceNumbers
from app.infrastructure.site_store import SiteShown
from app.infrastructure.valkey import Valkey
from app.services.capacity_watch import CapacityWatch
from app.services.lockout import CONNECTOR_SAID_SEC
from app.services.origin_watch import MINUTE_SEC, ORIGINS, LastMinute, Met, OriginWatch, of_fleet
from app.services.standing import Stand, incidents_text, parse_incidents

LOOK_SEC: Final = 1.0
RECORD_SEC: Final = 5.0
JUMP_MS: Final = 5000
"""A step of the wall clock that is called a jump."""
JUMP_SHOWN_MS: Final = 3_600_000
MANY_SITES: Final = 3
CAUSES: Final = tuple(cause.value for cause in Cause)
"""Why a token is refused."""
NO_WAY_OUT: Final = 2
"""When at least one of so many sites fails, and at least MANY_SITES do, it may be the one who looks (OBS-049)."""

log = structlog.get_logger(__name__)


class Rooms(Protocol):
    """Copies of the rooms (RoomDirectory)."""

    def all(self) -> list[Room]: ...


class Figures(Protocol):
    """Live figures of rooms (EngineAdmin.figures)."""

    async def figures(self, room_ids: Sequence[RoomId]) -> Mapping[RoomId, RoomFigures | None]: ...


class Knocked(Protocol):
    """How sites answer (Sites)."""

    async def refresh(self, rooms: Sequence[Room]) -> None: ...
    def of(self, room: Room) -> SiteShown | None: ...


class ClockWatch:
    """Finds out that somebody set the wall clock."""

    def __init__(
        self, book: MetricBook, *, wall: Callable[[], int] = raw_wall_ms, steady: Callable[[], float] = mono
    ) -> None:
        self._book = book
        self._wall = wall
        self._steady = steady
        self._before = wall(), steady()

    def look(self) -> None:
        """Compare how far both clocks went since the last look."""
        now, steady = self._wall(), self._steady()
        was, steady_then = self._before
        self._before = now, steady
        jump = now - was - int((steady - steady_then) * 1000)
        if abs(jump) > JUMP_MS:
            log.warning("clock_jumped", ms=jump)
            self._book.add(metrics.CLOCK_JUMPS)
            self._book.put(metrics.JUMP_AT, now)
            self._book.put(metrics.JUMP_MS, jump)

    def incident(self) -> Incident | None:
        """The latest jump, for an hour."""
        at = self._book.latest(metrics.JUMP_AT)
        if not at or not 0 <= self._wall() - at < JUMP_SHOWN_MS:
            return None
        ms = signed(self._book.latest(metrics.JUMP_MS))
        direction = "forward" if ms > 0 else "back"
        return Incident("clock_jump", f"the wall clock jumped {abs(ms) / 1000:.0f} s {direction}", since=at)


class InstanceWatch:
    """The looks of one instance; its loops are in workers/instance.py."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        valkey: Valkey,
        records: FleetRecords,
        rooms: Rooms,
        engine: Figures,
        sites: Knocked,
        numbers: InstanceNumbers,
        stand: Callable[[], Stand],
        kids: Sequence[str],
        capacity: CapacityWatch | None = None,
    ) -> None:
        """``kids``: public names of the secrets it verifies by, that of the one it signs by first. ``capacity`` None:
        nothing is told of CPU and capacity."""
        self._runtime = runtime
        self._book = book
        self._valkey = valkey
        self._records = records
        self._rooms = rooms
        self._engine = engine
        self._sites = sites
        self._numbers = numbers
        self._stand = stand
        self._kids = kids
        self._capacity = capacity
        self._clock = ClockWatch(book)
        self._onsets = Onsets(parse_incidents(book.text("incidents")))  # a predecessor's
        self._of_rooms: list[Incident] = []
        self._minutes: dict[str, LastMinute] = {}
        self._origins = OriginWatch(book)
        self._met: dict[str, Met] = {}
        """What visitors of this instance met at the sites of inline rooms."""
        self._others: Sequence[InstanceRecord] = ()
        """The other instances as last read."""
        self._run = runtime.run_name
        self._has_past = runtime.is_private
        """Stores of its own may still have what its last run told; a kill -9 let it say no farewell."""
        self._told: tuple[bool, bool, bool, bool] | None = None
        """Readiness, storage, leading and stopping as the record has them."""

    async def look(self) -> None:
        """Find out what is wrong, and leave it for every process of the instance."""
        self._clock.look()
        self._date_stores()
        self._met = self._origins.look(room.id for room in self._rooms.all() if room.config.is_inline)
        with contextlib.suppress(StorageUnavailable):  # what was known of the rooms stays
            self._of_rooms = [*await self._look_at_rooms(), *await self._rebuilt()]
        self._book.put(metrics.VALKEY_DOWN, self._valkey.shown_state == "down")
        self._book.put(metrics.VALKEY_EVER, self._valkey.ever_connected)
        self._tell_trouble(self._valkey.trouble or "")
        found = [*self._of_rooms, *filter(None, (self._shut_out(), self._policy(), self._clock.incident()))]
        found += [] if self._capacity is None else self._capacity.incidents()
        dated = self._onsets.dated(found, wall_ms())
        self._book.write_text("incidents", incidents_text(dated, TEXTS["incidents"]))
        if self._shown() != self._told:
            with contextlib.suppress(StorageUnavailable):
                await self.tell()

    def _date_stores(self) -> None:
        """Leave since when the stores have been in trouble: a time that all processes of the instance tell."""
        since = {one.code: one.since or 0 for one in self._stand().incidents}
        self._book.put(metrics.STORAGE_BAD_SINCE, since.get("storage_degraded", 0))
        self._book.put(metrics.VALKEY_DOWN_SINCE, since.get("valkey_down", 0))

    async def tell(self) -> None:
        """Write the record of this instance. Raises StorageUnavailable."""
        await self._look_at_memory()
        if self._has_past:
            await self._records.forget_others()
            self._has_past = False
        asked_at = raw_wall_ms()
        now = await self._records.now_ms()
        self._book.put(metrics.CLOCK_OFFSET, sure_offset(asked_at, raw_wall_ms(), now))
        runtime = self._runtime
        ready, storage_ok, leader, stopping = told = self._shown()
        await self._records.put(
            InstanceRecord(
                run=self._run,
                instance=runtime.instance_id,
                version=VERSION,
                kid=self._kids[0],
                started_at=runtime.started_at,
                ready=ready,
                storage_ok=storage_ok,
                leader=leader,
                seen_at=now,
                figures={**self.figures(), "stopping": stopping},
            )
        )
        self._told = told
        fleet = await self._records.read()
        self._others = [record for record in fleet.live if record.run != self._run]
        if self._capacity is not None:
            self._capacity.saw(fleet)

    def _tell_trouble(self, text: str) -> None:
        """Why Valkey will not come back by itself, for every process of the instance (FLT-056)."""
        if text != self._book.text("valkey_trouble"):
            self._book.write_text("valkey_trouble", text)

    def _shown(self) -> tuple[bool, bool, bool, bool]:
        stand = self._stand()
        return stand.ready, stand.storage_ok, self._runtime.is_leader, stand.is_stopping

    def figures(self) -> dict[str, Any]:
        """Numbers of this instance that alerts of the fleet go by (OBS-149)."""
        counters, lists, book = self._numbers.counters, self._numbers.lists, self._book
        jump_at = book.latest(metrics.JUMP_AT)
        # By the clock of the live store, as whoever reads it goes by: the own one may be days off since the jump.
        jumped = jump_at - signed(book.latest(metrics.CLOCK_OFFSET)) if jump_at else None
        connections = self._numbers.gauge_total("connections")
        most = self._runtime.settings.max_connections
        locked = self._locked_connectors()
        return {
            "connections": connections,
            "maxConnections": most,
            "isFull": 0 < most <= connections,
            "clockJumpAt": jumped,
            "clockJumpMs": signed(book.latest(metrics.JUMP_MS)) if jump_at else None,
            "undeclaredPeers": len(lists["undeclared"].recent(600.0)),
            "lockedConnectors": locked,
            "connectorWords": connector_words(locked, self._runtime.settings.connector_ips) if locked else None,
            "edgePeers": len(lists["edge_refused"].recent(MINUTE_SEC)),
            "edgeRefused": self._growth("edge", counters.total("edge_refused")),
            "requests": self._growth("requests", self._requests()),
            "tokensRefused": self._growth("refused", book.total(metrics.REJECTED_TOKENS_ALL)),
            "tokenPeers": len(lists["bad_tokens"].recent(MINUTE_SEC)),
            "tokenCauses": self._causes(),
            "tokensPresented": self._growth("presented", book.total(metrics.TOKENS_PRESENTED)),
            "kids": list(self._kids),
            "writeErrors": book.total(metrics.WRITE_ERRORS),
            ORIGINS: self._met,
            **({} if self._capacity is None else self._capacity.figures()),
        }

    async def _look_at_rooms(self) -> list[Incident]:
        rooms = self._rooms.all()
        found = await self._engine.figures([room.id for room in rooms])
        rooms = [room for room in rooms if room.id in found]
        await self._sites.refresh(rooms)
        return [*_of_lines(rooms, found), *_of_sites(rooms, self._sites, of_fleet(self._met, self._others))]

    async def _rebuilt(self) -> list[Incident]:
        rebuilt = await self._records.rebuilt()
        return [
            Incident(
                "room_rebuilt",
                f"{room.config.name} was rebuilt from the journal: compare its state and rate with what was set",
                room.id,
                rebuilt[room.id],
            )
            for room in self._rooms.all()
            if room.id in rebuilt
        ]

    def _locked_connectors(self) -> list[str]:
        """Addresses that are locked though a right PUBLIC_API_KEY came from them lately (CFG-231)."""
        return [address_text(packed) for packed in self._numbers.lists["locked_connectors"].recent(CONNECTOR_SAID_SEC)]

    def _shut_out(self) -> Incident | None:
        locked = self._locked_connectors()
        if not locked:
            return None
        return Incident("connector_locked", connector_words(locked, self._runtime.settings.connector_ips))

    def _policy(self) -> Incident | None:
        policy = self._book.text("valkey_policy")
        if policy in ("", "noeviction"):
            return None
        return Incident("valkey_policy", f"Valkey maxmemory-policy is {policy}; it must be noeviction")

    async def _look_at_memory(self) -> None:
        """Read what Valkey says of its memory: from INFO, since managed services close CONFIG (FLT-047)."""
        text = await self._valkey.execute("INFO", "memory")
        said = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        policy = said.get("maxmemory_policy", "")
        if policy != self._book.text("valkey_policy"):
            self._book.write_text("valkey_policy", policy)
            if policy != "noeviction":
                log.warning("valkey_may_evict", maxmemory_policy=policy, wanted="noeviction")
        self._book.put(metrics.VALKEY_USED, int(said.get("used_memory", 0)))
        self._book.put(metrics.VALKEY_MAX, int(said.get("maxmemory", 0)))

    def _requests(self) -> int:
        return _sum_of(self._book, metrics.HTTP_REQUESTS)

    def _causes(self) -> dict[str, int]:
        """Refused tokens of the last minute by their cause; those without any are left out."""
        totals: Counter[str] = Counter()
        for (name, labels), values in self._book.everything().items():
            if name == metrics.REJECTED_TOKENS.name:
                totals[labels[1]] += values[0]
        grown = {cause: self._growth(f"cause {cause}", totals[cause]) for cause in CAUSES}
        return {cause: number for cause, number in grown.items() if number}

    def _growth(self, name: str, total: int) -> int:
        return self._minutes.setdefault(name, LastMinute()).saw(total)


def sure_offset(asked_at: int, told_at: int, theirs: int) -> int:
    """How far the own clock is ahead of another at least, ms; negative = behind.

    The other was read sometime between ``asked_at`` and ``told_at`` (own clock, ms): a late answer says little.
    """
    return max(asked_at - theirs, 0) + min(told_at - theirs, 0)


def connector_words(locked: Sequence[str], present: Sequence[object]) -> str:
    """What is wrong, and the setting that mends it (CFG-121, CFG-231)."""
    line = ",".join([*map(str, present), locked[0]])
    return (
        f"the connector at {locked[0]} is locked out after wrong keys from its address: it lets visitors through "
        f"unqueued. Check that it is your own, then set QM_CONNECTOR_IPS={line}"
    )


def _sum_of(book: MetricBook, metric: Metric) -> int:
    return sum(values[0] for (name, _), values in book.everything().items() if name == metric.name)


def _of_lines(rooms: Iterable[Room], found: Mapping[RoomId, RoomFigures | None]) -> list[Incident]:
    incidents = []
    for room in rooms:
        figures = found[room.id]
        if figures is None:
            incidents.append(
                Incident("room_recovering", f"{room.config.name} is being rebuilt from the journal", room.id)
            )
        elif figures.joins_refused is not None:
            is_memory = figures.joins_refused == "memory"
            bound = "Valkey is short of memory" if is_memory else "the line is as long as QM_LINE_MAX allows"
            incidents.append(Incident("joins_refused", f"{room.config.name} takes nobody new: {bound}", room.id))
    return incidents


def _of_sites(rooms: Sequence[Room], sites: Knocked, met: Mapping[str, Met]) -> list[Incident]:
    """Sites that do not answer visitors, or the leader's knocks (OBS-047 … OBS-049)."""
    known = [(room, site) for room in rooms if (site := sites.of(room)) is not None and site.is_up is not None]
    down = {room.id: site for room, site in known if not site.is_up}
    is_doubted = len(down) >= MANY_SITES and len(down) * NO_WAY_OUT >= len(known)
    found = []
    for room in rooms:
        kind, word = ("origin_down", "origin") if room.config.is_inline else ("target_down", "target")
        visitors, site = met.get(room.id), down.get(room.id)
        if visitors is not None and visitors.is_down:
            reason = f"{visitors.failed} of {visitors.proxied} requests failed in the last minute"
        elif site is not None:
            reason = f"{site.failure or 'no answer'}, seen by {site.by}"
            if is_doubted:
                reason += f"; so many at once may mean that {site.by} itself has no way out"
        else:
            continue
        found.append(Incident(kind, f"{word} down — {room.config.name}: {reason}", room.id))
    return found
