"""The answer of ``GET /metrics``: the instance's counters, and the rooms as the live store has them now.

Belongs here: which number each series shows, and the text. Not here: the declarations (core/metrics.py), counting
(infrastructure/metric_book.py). A number that is not known is absent, never 0. Source: OBS-050 … OBS-109.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Sample

from app.core import metrics
from app.core.clock import mono, wall_ms
from app.core.errors import StorageUnavailable
from app.core.metrics import BOUNDS_SEC, METRICS, Kind, Metric
from app.core.pacing import in_turns, rest
from app.core.runtime import Runtime
from app.core.version import VERSION
from app.domain.room import RoomState
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.metric_book import AnswerMeter, MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.rate_table import KEPT
from app.services.contention import is_contended
from app.services.cpu_watch import CpuShown
from app.services.edge_watch import ConnectionCap
from app.services.room_object import RoomView

TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ROOMS_A_TURN: Final = 20
PIECE: Final = 100
"""Samples put into text before visitors' requests get their turn."""
BUDGETS: Final[Mapping[str, str]] = {
    "join": "join", "check": "check", "vouched": "check", "status": "status", "waiting": "waiting", "pages": "docs",
    "notify": "notify", "verify": "verify", "connectors": "connectors",
}  # fmt: skip
"""Budgets of the rate limiter, and what they are called outside."""
_STATES: Final = (RoomState.ACTIVE, RoomState.PAUSED, RoomState.BYPASS, RoomState.SCHEDULED)

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    metrics.BACKEND_DOWN.name: ("open", "closed"),
    metrics.REBUILDS.name: ("ok", "failed"),
    metrics.ALERT_DELIVERIES.name: ("sent", "failed"),
    metrics.NOTIFY_MAILS.name: ("sent", "failed", "retried", "unknown", "limited"),
}
"""Counters whose one label has few values."""
_EVERY_ROOM: Final = (
    metrics.JOINS, metrics.PASSES, metrics.ADMISSIONS, metrics.EJECTIONS,
    metrics.REFUSED_ORIGINS, metrics.REFUSED_KEYS, metrics.LIMITED_CHECKS, metrics.SHARED_SESSIONS,
)  # fmt: skip
"""Counters that every room has from the beginning."""

Samples = dict[tuple[str, ...], float]
"""Values of one series by the values of its labels."""


class Standing(Protocol):
    """What ``/healthz`` says, for the series that say the same."""

    ready: bool
    status: str
    storage_ok: bool
    valkey: str


class MetricsPage:
    """Makes the answer, for whichever worker is asked."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        book: MetricBook,
        limiter: RateLimiter,
        connections: ConnectionCap,
        views: Callable[[], Awaitable[Sequence[RoomView]]],
        room_count: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._book = book
        self._limiter = limiter
        self._connections = connections
        self._views = views
        self._room_count = room_count

    def meter(self, route: str) -> AnswerMeter:
        """The meter of a route's answers."""
        return AnswerMeter(self._book, route)

    async def text(self, standing: Standing) -> bytes:
        """The whole answer. Other requests get their turn while it is made (OBS-055)."""
        try:
            views = [view for view in await self._views() if view.stale_since is None]
        except StorageUnavailable:
            views = []
        found: dict[str, Samples] = {metric.name: {} for metric in METRICS}
        self._counted(found, {view.room.id for view in views})
        self._of_limiter(found)
        self._of_instance(found, standing, views)
        async for view in in_turns(views, ROOMS_A_TURN):
            if view.figures is not None:
                _of_room(found, view, view.figures)
        shared = {} if self._runtime.is_private else {"instance": self._runtime.instance_id}
        parts: list[tuple[str, bytes]] = []
        for metric in METRICS:
            for samples in _pieces(metric, found[metric.name]):
                began = mono()
                parts.append(_text(metric, samples, shared, is_first=not parts or parts[-1][0] != metric.name))
                await rest(began)
        return b"".join(text for _, text in parts)

    def _counted(self, found: dict[str, Samples], rooms: set[Any]) -> None:
        """What the processes of the instance have counted. A room that is gone has no series."""
        for (name, labels), values in self._book.everything().items():
            samples = found.get(name)
            if samples is None:
                continue
            metric = _BY_NAME[name]
            if metrics.ROOM in metric.labels and labels[metric.labels.index(metrics.ROOM)] not in rooms:
                continue
            samples[labels] = values if metric.kind is Kind.HISTOGRAM else values[0]  # type: ignore[assignment]
        # What is known to be 0 says so: the first one of a kind is an increase too.
        for metric in METRICS:
            if metric.kind is Kind.COUNTER and not metric.labels:
                found[metric.name].setdefault((), 0)
            for value in _VALUES.get(metric.name, ()):
                found[metric.name].setdefault((value,), 0)
        for metric in _EVERY_ROOM:
            for room_id in rooms:
                found[metric.name].setdefault((room_id,), 0)

    def _of_limiter(self, found: dict[str, Samples]) -> None:
        counters = self._limiter.counters
        found[metrics.EDGE_REFUSED.name][()] = counters.total("edge_refused")
        found[metrics.EDGE_NO_ADDRESS.name][()] = counters.total("edge_no_address")
        found[metrics.CONNECTIONS_REFUSED.name][()] = counters.total("connections_refused")
        found[metrics.AUTH_FAILURES.name][()] = counters.total("auth_failures")
        limited = found[metrics.RATE_LIMITED.name]
        for budget, refused in refused_by_budget(self._limiter).items():
            limited[budget,] = limited.get((budget,), 0) + refused

    def _of_instance(self, found: dict[str, Samples], standing: Standing, views: Sequence[RoomView]) -> None:
        runtime = self._runtime
        is_up = standing.valkey == "up"
        connections = self._connections.connections_block()
        one: dict[Metric, float] = {
            metrics.ROOMS: self._room_count(),
            metrics.CONNECTIONS: connections["open"],
            metrics.CONNECTIONS_LIMIT: connections["max"] or math.inf,
            metrics.UPTIME: max(0, wall_ms() - runtime.started_at) / 1000,
            metrics.START_TIME: runtime.started_at / 1000,
            metrics.SHUTTING_DOWN: runtime.stopping.is_set(),
            metrics.READY: standing.ready,
            metrics.DEGRADED: standing.status == "degraded",
            metrics.LEADER: runtime.is_leader,
            metrics.STORAGE_OK: standing.storage_ok,
            metrics.BACKEND_UP: is_up,
        }
        if is_up:
            one[metrics.RECOVERING] = sum(view.is_recovering for view in views)
            figures = [view.figures for view in views if view.figures is not None]
            one[metrics.PENDING_EVENTS] = sum(max(0, room.seq - room.committed) for room in figures)
        oldest = self._book.latest(metrics.OLDEST_AT)
        one[metrics.OLDEST_PENDING] = max(0, wall_ms() - oldest) / 1000 if oldest else 0
        one[metrics.CPU_CONTENTION] = is_contended(self._book)
        one.update(self._of_capacity())
        for metric, value in one.items():
            found[metric.name][()] = float(value)
        streams = found[metrics.SSE.name]
        streams["visitor",] = self._limiter.gauge_total("sse")
        streams.setdefault(("admin",), 0)
        found[metrics.BUILD_INFO.name][VERSION, VERSION] = 1

    def _of_capacity(self) -> dict[Metric, float]:
        """CPU and instances, as far as they are known."""
        cpu = CpuShown.of(self._book).use
        known: dict[Metric, float | None] = {
            metrics.CPU_USABLE: cpu.usable,
            metrics.CPU_SELF: cpu.own,
            metrics.CPU_HOST: cpu.host,
            metrics.CPU_STEAL: cpu.steal,
            metrics.CPU_THROTTLED: cpu.throttled,
            metrics.CPU_PRESSURE: cpu.pressure,
            metrics.FLEET_INSTANCES: self._book.latest(metrics.FLEET_COUNT) or None,
            metrics.FLEET_DECLARED: self._runtime.settings.fleet_min_instances,
        }
        return {metric: value for metric, value in known.items() if value is not None}


def refused_by_budget(limiter: RateLimiter) -> dict[str, int]:
    """Requests over each address budget, by its outside name; of the instance since its start."""
    found: dict[str, int] = {}
    for group, budget in BUDGETS.items():
        found[budget] = found.get(budget, 0) + limiter.counters.total("refused_" + group)
    return found


def kept_by_budget(limiter: RateLimiter) -> dict[str, int]:
    """Addresses that the table of each address budget holds, by its outside name, ended windows included.

    One that two workers serve is held twice, and counts twice of RATE_LIMIT_MAX_KEYS.
    """
    found: dict[str, int] = {}
    for group, budget in BUDGETS.items():
        found[budget] = found.get(budget, 0) + limiter.counters.total(KEPT + group)
    return found


_BY_NAME: Final = {metric.name: metric for metric in METRICS}


def _of_room(found: dict[str, Samples], view: RoomView, figures: RoomFigures) -> None:
    room = view.room
    cap = room.config.max_concurrent
    values: dict[Metric, float] = {
        metrics.ROOM_WAITING: figures.waiting,
        metrics.ROOM_PREQUEUE: figures.pre_queue,
        metrics.ROOM_ACTIVE: figures.active,
        metrics.ROOM_PENDING: figures.pending_entry,
        metrics.ROOM_OCCUPANCY: figures.occupancy,
        metrics.ROOM_PASSES: figures.passes_outstanding,
        metrics.ROOM_MAX: math.inf if cap is None else cap,
        metrics.ROOM_RATE: figures.rate_per_minute,
        metrics.ROOM_JOINS: figures.joins_per_min,
        metrics.ROOM_PASSED: figures.passed_last_minute,
        metrics.ROOM_OLDEST: figures.oldest_wait_sec or 0,
    }
    for metric, value in values.items():
        found[metric.name][room.id,] = value
    states = found[metrics.ROOM_STATE.name]
    for state in _STATES:
        states[room.id, state.word] = state is figures.effective_state


def _pieces(metric: Metric, samples: Samples) -> Iterator[list[tuple[tuple[str, ...], Any]]]:
    """The samples of a series in portions; one empty portion for a series without any."""
    ordered = sorted(samples.items())
    size = PIECE // (len(BOUNDS_SEC) + 3) if metric.kind is Kind.HISTOGRAM else PIECE
    for start in range(0, max(1, len(ordered)), size):
        yield ordered[start : start + size]


class _One:
    """A registry of one family."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        """As of CollectorRegistry."""
        return (self._family,)


def _text(
    metric: Metric, samples: Sequence[tuple[tuple[str, ...], Any]], shared: Mapping[str, str], *, is_first: bool
) -> tuple[str, bytes]:
    """Name and text of a portion; the first one has the lines HELP and TYPE."""
    is_counter = metric.kind is Kind.COUNTER
    family = Family(metric.name.removesuffix("_total") if is_counter else metric.name, metric.help, metric.kind.value)
    for labels, value in samples:
        named = {**dict(zip(metric.labels, labels, strict=True)), **shared}
        if metric.kind is Kind.HISTOGRAM:
            family.samples += _histogram(metric.name, named, value)
        else:
            family.samples.append(Sample(metric.name, named, float(value)))
    text = generate_latest(cast(CollectorRegistry, _One(family)))
    if is_counter and not metric.name.endswith("_total"):
        # The library puts a suffix behind every counter; the name of this one is older than that rule (OBS-056).
        text = text.replace(f"{metric.name}_total ".encode(), f"{metric.name} ".encode())
    if not is_first:
        text = text.split(b"\n", 2)[2]
    return metric.name, text


def _histogram(name: str, labels: dict[str, str], values: Sequence[int]) -> list[Sample]:
    *counts, micros = values
    found, total = [], 0
    for bound, count in zip((*BOUNDS_SEC, math.inf), counts, strict=True):
        total += count
        le = "+Inf" if bound == math.inf else repr(bound)
        found.append(Sample(name + "_bucket", {**labels, "le": le}, float(total)))
    found.append(Sample(name + "_count", labels, float(total)))
    found.append(Sample(name + "_sum", labels, micros / 1e6))
    return found
