"""What an instance tells by itself: that it cannot reach Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from app.core import metrics
from app.core.errors import StorageUnavailable
from app.core.settings import Settings
from app.infrastructure.alert_store import AlertLog, AlertStore
from app.infrastructure.hook_client import HookClient
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.valkey import Valkey
from app.services.alert_local import LocalAlerts
from app.services.alert_log import Attempts
from app.services.alerts import Alerts
from tests.alerts.conftest import Watch
from tests.alerts.receiver import Receiver, receiving

AFTER = 30_000


@dataclass
class Way:
    """The way to Valkey, which a test can cut."""

    valkey: Valkey
    is_cut: bool = False

    async def execute(self, *command: Any) -> Any:
        self.refuse_if_cut()
        return await self.valkey.execute(*command)

    async def pipeline(self, commands: Any) -> list[Any]:
        self.refuse_if_cut()
        return await self.valkey.pipeline(commands)

    def refuse_if_cut(self) -> None:
        if self.is_cut:
            raise StorageUnavailable


class Own:
    """One instance with a receiver and a clock of the test's own."""

    def __init__(self, way: Way, prefix: str, receiver: Receiver, name: str, rooms: Any = ()) -> None:
        self.now, self.book, self.receiver = 1_000_000, MetricBook.alone(), receiver
        settings = Settings(alert_repeat_sec=600, valkey_alert_after_ms=AFTER, alert_every_ms=1000)
        self.store = AlertStore(way, prefix, LuaLoader(way))
        attempts = Attempts(AlertLog(way, prefix, name), self.book)
        self.local = LocalAlerts(
            instance=name, settings=settings, ping=lambda: way.execute("PING"), rooms=lambda: rooms, store=self.store,
            book=self.book, attempts=attempts, client=HookClient(receiver.url), now=lambda: self.now,
        )  # fmt: skip
        runtime: Any = SimpleNamespace(settings=settings, instance_id=name, is_leader=False)
        nobody: Any = None
        self.api = Alerts(
            runtime=runtime, valkey=way, store=self.store, attempts=attempts, book=self.book, trail=nobody,
            client=HookClient(receiver.url), limiter=nobody,
        )  # fmt: skip
        assert self.local.outbox is not None
        self.sending = asyncio.ensure_future(self.local.outbox.run())

    async def looks(self, sec: int) -> None:
        """Look once a second."""
        for _ in range(sec):
            self.now += 1000
            await self.local.look()

    async def end(self) -> None:
        self.sending.cancel()
        await asyncio.gather(self.sending, return_exceptions=True)


@pytest.fixture
async def valkey(valkey_url: str) -> AsyncIterator[Valkey]:
    made = await Valkey.connect(valkey_url, timeout_ms=2000)
    yield made
    await made.close()


@pytest.mark.req("OBS-126", "OBS-150", "CFG-043", "FLT-025")
async def test_each_instance_tells_that_it_cannot_reach_valkey_and_that_it_can_again(
    valkey: Valkey, fresh_prefix: str
) -> None:
    def room(name: str, **config: Any) -> Any:
        return SimpleNamespace(config=SimpleNamespace(name=name, **config))

    rooms = [
        room("Shop", is_inline=True, on_backend_down="open"), room("Sale", is_inline=True, on_backend_down="closed"),
        room("Tag", is_inline=False, on_backend_down="open"),
    ]  # fmt: skip
    async with receiving() as receiver, receiving() as other:
        way = Way(valkey)
        one = Own(way, fresh_prefix, receiver, "i:one", rooms)
        two = Own(Way(valkey), fresh_prefix, other, "i:two")
        await one.looks(5)
        way.is_cut = True
        await one.looks(30)
        assert receiver.bodies == []
        await one.looks(1)
        await two.looks(60)

        (notice,) = await receiver.came(1)
        assert notice["message"] == (
            "i:one cannot reach Valkey: nobody is let through by the line; inline rooms that let everybody in "
            "meanwhile: Shop; tags and connectors let visitors through unqueued"
        )
        assert (notice["event"], notice["severity"], notice["status"]) == ("valkey_unreachable", "critical", "firing")
        assert (notice["roomId"], notice["instances"]) == (None, ["i:one"])
        assert notice["ts"] - notice["since"] == AFTER
        shown = await one.api.overview()
        (firing,) = shown["firing"]
        assert (firing["event"], firing["instances"]) == ("valkey_unreachable", ["i:one"])
        assert (firing["since"], firing["lastSentAt"]) == (notice["since"], notice["ts"])
        assert shown["leaderInstance"] is None
        assert (shown["sent"], shown["failed"]) == (1, 0)
        assert [(entry["event"], entry["ok"]) for entry in shown["deliveries"]] == [("valkey_unreachable", True)]
        reduced = {name: value for name, value in firing.items() if name != "instances"}
        assert await one.api.firing_only() == {"firing": [{**reduced, "message": "Valkey cannot be reached"}]}

        await one.looks(599)
        assert len(receiver.bodies) == 1
        await one.looks(1)
        assert (await receiver.came(2))[1]["status"] == "firing"
        way.is_cut = False
        await one.looks(1)
        resolved = (await receiver.came(3))[2]
        assert (resolved["status"], resolved["since"]) == ("resolved", notice["since"])
        assert (await one.api.overview())["firing"] == []
        assert len((await one.api.overview())["deliveries"]) == 3, "what was made meanwhile is shown too"
        assert other.bodies == [], "the other instance reaches it"
        await one.end()
        await two.end()


async def test_it_says_nothing_of_a_short_outage(valkey: Valkey, fresh_prefix: str, receiver: Receiver) -> None:
    way = Way(valkey)
    own = Own(way, fresh_prefix, receiver, "i:one")
    for _ in range(3):
        way.is_cut = True
        await own.looks(29)
        way.is_cut = False
        await own.looks(1)
    assert receiver.bodies == []
    await own.end()


async def test_every_instance_shows_how_many_alerts_fire(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    await watch.create(rate_per_minute=0)
    await watch.world.joined(1)
    own = Own(Way(watch.valkey), watch.prefix, watch.receiver, "i:two")
    await watch.frame()
    await own.looks(1)
    assert own.book.total(metrics.ALERTS_FIRING, "warning") == 0
    assert own.book.total(metrics.ALERTS_PENDING) == 1
    await watch.hold(120)
    monkeypatch.setattr(own.local, "_counted", float("-inf"))

    await own.looks(1)

    counts = {severity: own.book.total(metrics.ALERTS_FIRING, severity) for severity in ("critical", "warning", "info")}
    assert counts == {"critical": 0, "warning": 1, "info": 0}
    assert own.book.total(metrics.ALERTS_PENDING) == 0
    await own.end()


class SlowLog:
    """A log whose writes end when the test says so."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def add(self, entries: Any) -> None:
        entries = list(entries)
        self.asked.set()
        await self.go.wait()
        self.kept += entries


@pytest.mark.parametrize("waiting", [1, 20])
async def test_it_hands_each_attempt_over_once_when_two_do_so_and_more_are_made_meanwhile(waiting: int) -> None:
    log: Any = SlowLog()
    attempts = Attempts(log, MetricBook.alone())
    for number in range(waiting):
        attempts.note({"ok": True, "attempt": number})
    two = [asyncio.ensure_future(attempts.hand_over()) for _ in range(2)]
    await log.asked.wait()
    attempts.note({"ok": True, "attempt": waiting})
    log.go.set()
    await asyncio.gather(*two)
    await attempts.hand_over()

    assert [entry["attempt"] for entry in log.kept] == [*range(waiting + 1)]
