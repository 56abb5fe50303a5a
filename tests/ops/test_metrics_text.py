"""The text of ``/metrics`` from what is known: which number each series shows, and what it costs."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

import pytest

from app.core import metrics
from app.core.ids import RoomId
from app.core.runtime import Runtime
from app.core.settings import Settings
from app.domain.client_address import Client, Note
from app.domain.layout import Phase
from app.domain.room import Room, RoomConfig, RoomState
from app.infrastructure.engine_results import RoomFigures
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services import metrics as metrics_page
from app.services.edge_watch import ConnectionCap, EdgeWatch
from app.services.metrics import BUDGETS, MetricsPage
from app.services.room_object import RoomView
from app.services.standing import Standing
from app.services.undeclared import UndeclaredPeers
from tests.admin.turns import visitors_beside
from tests.ops.scrape import Scrape

NOW = 1_800_000_000_000
FIGURES = RoomFigures(
    generation=1, cfg_ver=1, state=RoomState.ACTIVE, rate_per_minute=120, waiting=412, active=90, pending_entry=5,
    passes_outstanding=7, joins_per_min=33, passed_last_minute=44, oldest_wait_sec=55, last_ticket=900,
    release_per_min=120.0, est_is_floor=False, seq=12, committed=9, now=NOW, pre_queue=3,
)  # fmt: skip


def view(room_id: str, figures: RoomFigures | None, **config: object) -> RoomView:
    made = RoomConfig(RoomId(room_id), room_id, "https://shop.example", **config)  # type: ignore[arg-type]
    room = Room(config=made, generation=1, cfg_ver=1, salt=bytes(16), created_at=NOW, updated_at=NOW)
    return RoomView(room, figures)


@dataclass
class Page:
    """A page over views that a test gives."""

    page: MetricsPage
    standing: Standing
    book: MetricBook
    limiter: RateLimiter
    views: Sequence[RoomView] = ()

    async def scrape(self) -> Scrape:
        return Scrape((await self.page.text(self.standing.now())).decode())


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    table = RateLimiter.create("test", workers=1, max_keys=1000)
    limiter = RateLimiter.attach(table.name, 0)
    settings, book = Settings(workers=1), MetricBook.alone()
    runtime = Runtime(settings, "", "", "i:test", table.name, NOW, 1, True)
    connections = ConnectionCap(limiter, settings)

    async def views() -> Sequence[RoomView]:
        return made.views

    made = Page(
        MetricsPage(
            runtime=runtime,
            book=book,
            limiter=limiter,
            connections=connections,
            views=views,
            room_count=lambda: len(made.views),
        ),
        Standing(runtime=runtime, book=book, is_full=lambda: connections.is_full),
        book,
        limiter,
    )
    yield made
    limiter.close()
    table.close()


@pytest.mark.req("OBS-058", "OBS-059", "OBS-060", "OBS-061", "OBS-062", "OBS-063", "OBS-064", "OBS-065", "OBS-066")
@pytest.mark.req("OBS-057", "OBS-067", "ENG-228")
async def test_each_gauge_of_a_room_shows_its_figure(page: Page) -> None:
    idle = replace(FIGURES, waiting=0, oldest_wait_sec=None)
    page.views = [view("shop", FIGURES, max_concurrent=95), view("idle", idle)]

    found = await page.scrape()

    shown = {
        name: found.value(f"qm_room_{name}", room="shop")
        for name in (
            "waiting", "prequeue", "active_sessions", "pending_entry", "occupancy", "passes_outstanding",
            "max_concurrent", "rate_per_minute", "joins_last_minute", "passed_last_minute", "oldest_wait_seconds",
        )
    }  # fmt: skip
    assert list(shown.values()) == [412, 3, 90, 5, 95, 7, 95, 120, 33, 44, 55]
    assert found.value("qm_room_max_concurrent", room="idle") == math.inf
    assert found.value("qm_room_oldest_wait_seconds", room="idle") == 0
    assert found.value("qm_journal_pending_events") == 6


@pytest.mark.req("OBS-068")
@pytest.mark.parametrize(
    ("state", "phase", "word"),
    [
        (RoomState.ACTIVE, Phase.NONE, "active"),
        (RoomState.PAUSED, Phase.NONE, "paused"),
        (RoomState.BYPASS, Phase.NONE, "bypass"),
        (RoomState.ACTIVE, Phase.OPEN, "scheduled"),
    ],
)
async def test_one_state_is_1_and_the_others_are_0(page: Page, state: RoomState, phase: Phase, word: str) -> None:
    page.views = [view("shop", replace(FIGURES, state=state, phase=phase))]

    found = await page.scrape()

    states = {dict(labels)["state"]: value for labels, value in found.of("qm_room_state").items()}
    assert states == {name: float(name == word) for name in ("active", "paused", "bypass", "scheduled")}


async def test_a_room_that_is_rebuilt_or_cannot_be_read_has_no_figures(page: Page) -> None:
    page.views = [view("lost", None), replace(view("old", FIGURES), stale_since=NOW)]

    found = await page.scrape()

    assert not any(name.startswith("qm_room_") and dict(labels).get("room") for name, labels in found.samples)
    assert found.value("qm_recovering_rooms") == 1


@pytest.mark.req("OBS-092", "OBS-093", "VIS-030", "VIS-033")
async def test_it_counts_at_the_edge(page: Page) -> None:
    settings = Settings(workers=1)
    watch = EdgeWatch(page.limiter, settings, UndeclaredPeers(page.limiter, settings))
    client = Client("203.0.113.9", bytes(16), b"abcd", "203.0.113.9", "", declared=False, scheme="http", host="x")
    watch.saw(replace_note(client, Note.NOT_BY_EDGE))
    watch.saw(replace_note(client, Note.NOT_BY_EDGE))
    watch.saw(replace_note(client, Note.NO_EDGE_ADDRESS))

    found = await page.scrape()

    assert "# TYPE qm_edge_refused counter\n" in found.text
    assert found.value("qm_edge_refused") == 2
    assert found.value("qm_edge_client_ip_fallback_total") == 1


def replace_note(client: Client, note: Note) -> Client:
    return client._replace(note=note) if hasattr(client, "_replace") else replace(client, note=note)


@pytest.mark.req("OBS-090")
async def test_each_budget_counts_what_it_refused(page: Page) -> None:
    for number, group in enumerate(BUDGETS, start=1):
        for _ in range(1 + number):
            page.limiter.take(group, b"an address of one", 1)

    found = (await page.scrape()).of("qm_rate_limited_total")

    counted = {dict(labels)["budget"]: value for labels, value in found.items()}
    assert counted == {
        "join": 1, "check": 2 + 3, "status": 4, "waiting": 5, "docs": 6, "notify": 7, "verify": 8, "connectors": 9,
    }  # fmt: skip


@pytest.mark.req("OBS-055")
async def test_a_scrape_of_500_rooms_lets_others_have_their_turn(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.views = [view(f"room-{number}", FIGURES, max_concurrent=5) for number in range(500)]
    for one in page.views:
        for metric in (metrics.JOINS, metrics.PASSES, metrics.ADMISSIONS, metrics.REFUSED_ORIGINS):
            page.book.add(metric, one.room.id)
        page.book.add(metrics.REJECTED_TOKENS, one.room.id, "expired")
    async with visitors_beside(monkeypatch, metrics_page, "_of_room") as rooms:
        text = await page.page.text(page.standing.now())
    async with visitors_beside(monkeypatch, metrics_page, "Sample") as samples:
        await page.page.text(page.standing.now())

    assert len(Scrape(text.decode()).of("qm_room_waiting")) == 500
    assert (rooms.pieces, rooms.at_once) == (500, 20), "a turn after every few rooms"
    assert samples.pieces > 10_000
    assert samples.at_once <= 100, "a turn after every few lines"


@pytest.mark.req("OBS-054")
async def test_a_counter_of_a_series_without_room_begins_at_0(page: Page) -> None:
    found = await page.scrape()
    bare = [metric.name for metric in metrics.METRICS if metric.kind is metrics.Kind.COUNTER and not metric.labels]
    assert [found.value(name) for name in bare] == [0] * len(bare)
    for name, label in (("qm_room_rebuilds_total", "result"), ("qm_alert_deliveries_total", "result")):
        assert set(found.of(name).values()) == {0}
        assert {next(iter(dict(labels))) for labels in found.of(name)} == {label}
