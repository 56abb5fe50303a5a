"""Sending: attempts and their times, what takes the place of what, and who sends when the leader changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.secret import Secret
from app.core.settings import Settings
from app.domain.alert_delivery import Delivery, Outcome
from app.domain.alerts import Alert, Notice, Status, Trouble
from app.infrastructure.alert_store import AlertLog, Changes
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.hook_client import HookClient
from app.infrastructure.keys import leader_lease
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.postgres import Postgres
from app.infrastructure.valkey import Valkey
from app.services.alert_log import Attempts
from app.services.alert_outbox import Outbox
from app.services.alerts import Alerts
from app.services.heavy_pauses import never
from app.services.leadership import TermOver
from app.services.watch_services import hook_of
from tests.alerts.conftest import Watch
from tests.alerts.receiver import Receiver
from tests.journal.house import until
from workers.instance import _own_alerts
from workers.leader import lead
from workers.runner import Background


def delivery(since: int = 5, at: int = 10, status: Status = Status.FIRING) -> Delivery:
    return Delivery.of(Notice(Alert(Trouble("queue_frozen", "Shop: 1 waiting", "shop"), since), status, at))


async def frozen(watch: Watch) -> None:
    """A room whose queue stands still by its settings, a moment before that is told."""
    await watch.create(rate_per_minute=0)
    await watch.world.joined(2)
    await watch.frame()
    await watch.hold(110)
    assert watch.receiver.bodies == []


@pytest.mark.req("OBS-143", "WHK-040", "WHK-041", "WHK-044", "WHK-050", "WHK-159")
async def test_it_posts_once_and_follows_nobody(receiver: Receiver) -> None:
    sent = delivery()
    receiver.status, receiver.more = 302, b"Location: http://127.0.0.1:1/other\r\nContent-Length: 0\r\n\r\n"
    assert await HookClient(receiver.url).send(sent) == Outcome(302, "http-302", receiver_ms(receiver))
    receiver.status, receiver.more = 200, b"Content-Length: 900000\r\n\r\nnever all of it"

    outcome = await HookClient(receiver.url).send(replace(sent, attempts=3))

    assert (outcome.status, outcome.error) == (200, None), "the status line decides"
    head = receiver.heads[-1]
    assert head[""] == "POST /hooks/T0?team=shop HTTP/1.1"
    assert head["host"] == f"127.0.0.1:{receiver.port}"
    assert head["content-type"] == "application/json; charset=utf-8"
    assert head["user-agent"].startswith("queue-manager-webhook/")
    assert head["connection"] == "close"
    assert (head["x-qm-delivery-id"], head["x-qm-attempt"]) == (sent.id, "4")
    assert "authorization" not in head
    assert receiver.bodies[-1] == sent.body.encode()
    assert len(receiver.bodies) == 2


def receiver_ms(receiver: Receiver) -> Any:
    """Any number of ms."""

    class Some(int):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, int) and 0 <= other < 5000

        __hash__ = int.__hash__

    return Some()


@pytest.mark.req("OBS-143", "WHK-057", "WHK-167")
async def test_it_names_the_class_of_a_failure(receiver: Receiver, unused_tcp_port: int) -> None:
    async def error(url: str, limit_sec: float = 5.0) -> str | None:
        outcome = await HookClient(Secret(url), limit_sec=limit_sec).send(delivery())
        assert outcome.status is None
        return outcome.error

    base = f"127.0.0.1:{receiver.port}"
    assert await error(f"http://127.0.0.1:{unused_tcp_port}/") == "connect"
    assert await error("http://no-such-host.invalid/") == "dns"
    async with await asyncio.start_server(speak_plainly, "127.0.0.1", 0) as plain:
        assert await error(f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}/") == "tls"
    receiver.status = None
    assert await error(f"http://{base}/", 0.2) == "timeout"
    receiver.status, receiver.more = 99, b"\r\n\r\n"
    assert await error(f"http://{base}/") == "bad_response"


async def speak_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    writer.close()


async def test_it_brings_user_and_password_of_the_address(receiver: Receiver) -> None:
    client = HookClient(Secret(f"http://us%40er:pass@127.0.0.1:{receiver.port}"))
    await client.send(delivery())
    assert receiver.heads[0][""] == "POST / HTTP/1.1"
    assert receiver.heads[0]["authorization"] == "Basic dXNAZXI6cGFzcw=="
    assert client.host == f"127.0.0.1:{receiver.port}"


class Line:
    """An outbox whose saves are kept in a list, with a clock of the test's own."""

    def __init__(self, receiver: Receiver, limit_sec: float = 2.0) -> None:
        self.now = 10
        self.saved: list[tuple[str, Delivery | None]] = []
        self.noted: list[dict[str, Any]] = []
        self.outbox = Outbox(
            HookClient(receiver.url, limit_sec=limit_sec), save=self.save, noted=self.noted.append,
            now=lambda: self.now,
        )  # fmt: skip
        self.task = asyncio.ensure_future(self.outbox.run())

    async def save(self, delivery_id: str, after: Delivery | None) -> None:
        self.saved.append((delivery_id, after))

    async def saves(self, count: int) -> None:
        async def are_there() -> bool:
            return len(self.saved) >= count

        await until(are_there)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait_for(asyncio.gather(self.task, return_exceptions=True), 10)


@pytest.mark.req("OBS-144", "WHK-061")
async def test_it_tries_again_with_the_same_bytes_at_its_time(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.alert_outbox.LOOK_SEC", 0.01)
    line, sent, receiver.status = Line(receiver), delivery(), 503
    line.outbox.put([sent])
    await line.saves(1)
    (_, after), receiver.status = line.saved[0], 200
    assert after is not None
    assert 9000 <= after.due - line.now <= 11000
    line.now = after.due - 1
    await asyncio.sleep(0.1)
    assert len(receiver.bodies) == 1

    line.now = after.due
    await line.saves(2)

    assert line.saved[1] == (sent.id, None)
    assert receiver.bodies == [sent.body.encode()] * 2
    assert [(one["attempt"], one["ok"], one["httpStatus"], one["error"]) for one in line.noted] == [
        (1, False, 503, "http-503"), (2, True, 200, None),
    ]  # fmt: skip
    await line.end()


@pytest.mark.req("OBS-144", "WHK-163")
async def test_it_gives_up_an_older_notice_of_the_same_incident_for_a_newer_one(receiver: Receiver) -> None:
    line, receiver.status = Line(receiver), 500
    firing, resolved, other = delivery(), delivery(status=Status.RESOLVED), delivery(since=6)
    line.outbox.put([firing, other])
    await line.saves(2)
    receiver.status = 200

    assert line.outbox.take_older([resolved]) == [firing.id]
    line.outbox.put([resolved])
    await line.saves(3)

    assert receiver.taken == [resolved.body.encode()]
    line.now += 12_000
    line.outbox.put([])
    await line.saves(4)
    assert receiver.taken == [resolved.body.encode(), other.body.encode()]
    await line.end()


async def test_it_makes_one_attempt_of_an_incident_at_a_time(receiver: Receiver) -> None:
    line, receiver.status = Line(receiver, limit_sec=0.3), None
    firing, resolved = delivery(), delivery(status=Status.RESOLVED)
    line.outbox.put([firing])
    await receiver.asked(1)
    line.outbox.take_older([resolved])
    line.outbox.put([resolved])
    receiver.status = 200
    await line.saves(1)

    assert [one["status"] for one in line.noted] == ["firing", "resolved"]
    assert line.saved == [(resolved.id, None)], "what came of the older one matters no more"
    await line.end()


async def test_it_ends_at_once_whatever_came_in_the_same_moment(receiver: Receiver) -> None:
    for _ in range(20):
        line = Line(receiver)
        await asyncio.sleep(0)
        line.outbox.put([])
        await line.end()


@pytest.mark.req("OBS-145")
async def test_it_looks_on_while_the_receiver_says_nothing(watch: Watch) -> None:
    await watch.begin(limit_sec=3600)  # the attempt is never cut
    await frozen(watch)
    watch.receiver.status = None
    await watch.hold(10)
    await watch.receiver.asked(1)
    alert = await watch.alert("queue_frozen")

    async with asyncio.timeout(60):
        await watch.hold(60)
    assert (await watch.store.read()).looked.at == watch.now
    assert (await watch.alert("queue_frozen")).fired_at == alert.fired_at


@pytest.mark.req("OBS-142", "OBS-147", "FLT-026")
async def test_a_new_leader_announces_nothing_again_and_forgets_no_end(watch: Watch) -> None:
    await frozen(watch)
    await watch.hold(10)
    (first,) = await watch.receiver.came(1)
    old = watch.duty, watch.term
    await watch.give_up()

    await watch.begin(holder="i:two")
    await watch.hold(60)
    assert len(watch.receiver.bodies) == 1
    await watch.world.update(rate_per_minute=60)
    await watch.world.tick(3)
    await watch.frame(after_sec=10)
    resolved = (await watch.receiver.came(2))[1]
    assert (resolved["status"], resolved["since"]) == ("resolved", first["since"])

    with pytest.raises(TermOver):
        await old[0].frame(old[1])
    with pytest.raises(Overtaken):
        await watch.store.put(old[1].epoch, Changes(at=1))


@pytest.mark.req("OBS-147")
async def test_a_new_leader_sends_what_the_last_one_could_not(watch: Watch) -> None:
    await frozen(watch)
    watch.receiver.status = 500
    await watch.hold(10)
    await watch.receiver.asked(1)

    async def is_noted() -> bool:
        kept = (await watch.store.read()).deliveries
        return [one.attempts for one in kept.values()] == [1]

    await until(is_noted)
    await watch.give_up()
    watch.receiver.status = 200
    await watch.begin(holder="i:two")
    watch.now += 12_000
    await watch.frame()

    await watch.receiver.came(1)
    assert watch.receiver.bodies[0] == watch.receiver.bodies[1]
    assert [head["x-qm-attempt"] for head in watch.receiver.heads] == ["1", "2"]


@pytest.mark.req("OBS-152")
async def test_the_end_of_a_leader_resolves_nothing(watch: Watch) -> None:
    await frozen(watch)
    await watch.hold(10)
    await watch.receiver.came(1)

    await watch.end()
    watch.now += 10_000
    leading = asyncio.ensure_future(watch.duty.run(watch.term))

    async def has_looked() -> bool:
        return (await watch.store.read()).looked.at == watch.now

    await until(has_looked)
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    await watch.give_up()
    await asyncio.sleep(0.2)

    assert len(watch.receiver.bodies) == 1
    assert await watch.firing() == ["queue_frozen"]


@pytest.mark.req("OBS-111")
async def test_it_looks_also_where_nobody_is_told(watch: Watch) -> None:
    await watch.begin(told=False)
    await watch.create(rate_per_minute=0)
    await watch.world.joined(1)
    await watch.frame()
    await watch.hold(120)

    assert await watch.firing() == ["queue_frozen"]
    assert (await watch.alert("queue_frozen")).told_at is None
    assert (await watch.store.read()).deliveries == {}


@pytest.mark.req("OBS-146")
@pytest.mark.req("FLT-011")
async def test_every_instance_shows_the_same_and_only_the_leader_sends(watch: Watch) -> None:
    await frozen(watch)
    await watch.hold(10)
    await watch.receiver.came(1)
    other = LeaderLease(
        loader=watch.loader, postgres=watch.postgres, prefix=watch.prefix, holder="i:two x", lease_ms=60_000
    )
    assert not await other.take()

    shown = []
    for name in ("i:one", "i:two"):
        runtime: Any = SimpleNamespace(
            settings=Settings(valkey_prefix=watch.prefix), instance_id=name, is_leader=name == "i:one"
        )
        nobody: Any = None
        attempts = Attempts(AlertLog(watch.valkey, watch.prefix, f"{name}.1"), MetricBook.alone())
        await watch.attempts.hand_over()
        api = Alerts(
            runtime=runtime, valkey=watch.valkey, store=watch.store, attempts=attempts, book=MetricBook.alone(),
            trail=nobody, client=HookClient(watch.receiver.url), limiter=nobody,
        )  # fmt: skip
        shown.append(await api.overview())

    assert [one["firing"][0]["event"] for one in shown] == ["queue_frozen"] * 2
    assert shown[0]["firing"] == shown[1]["firing"]
    assert [(one["leader"], one["leaderInstance"]) for one in shown] == [(True, "i:one"), (False, "i:one")]
    assert [len(one["deliveries"]) for one in shown] == [1, 0]


@pytest.mark.req("OBS-153", "CFG-026")
async def test_a_drill_sends_nothing(valkey_url: str, database_url: str, fresh_prefix: str, receiver: Receiver) -> None:
    settings = Settings(drill=True, alert_webhook_url=receiver.url, valkey_prefix=fresh_prefix, alert_hold_sec=0)
    runtime: Any = SimpleNamespace(settings=settings, instance_id="i:one", run_name="i:one.1")
    valkey, postgres = await Valkey.connect(valkey_url), Postgres(database_url, max_size=1)
    background = Background(runtime, valkey, postgres, asyncio.Event(), lambda: None)
    rooms: Any = SimpleNamespace(all=list)

    assert hook_of(settings) is None, "nor does a test"
    assert _own_alerts(background, rooms).outbox is None
    leading = asyncio.ensure_future(lead(background, rooms, never))
    await asyncio.sleep(0.1)
    assert await valkey.execute("EXISTS", leader_lease(fresh_prefix)) == 0, "nobody leads, so nobody tells"
    background.stop.set()
    await asyncio.wait_for(leading, 10)
    assert receiver.bodies == []
    assert hook_of(Settings(alert_webhook_url=receiver.url)) is not None
    await valkey.close()
    await postgres.close()


async def test_a_leader_of_an_older_release_leaves_alone_what_it_cannot_read(watch: Watch) -> None:
    await frozen(watch)
    key = watch.prefix + "alerts:state"
    for name, text in (("aqueue_frozen else", "{}"), ("nwhd_1", "[1]"), ("rshop", '["later"]'), ("zx", "?"), ("a", "")):
        await watch.valkey.execute("HSET", key, name, text)

    await watch.begin(holder="i:one")
    await watch.hold(10)

    assert [notice["event"] for notice in await watch.receiver.came(1)] == ["queue_frozen"]
    assert await watch.valkey.execute("HGET", key, "aqueue_frozen else") == b"{}"


async def test_it_tells_in_one_step_what_it_knows(watch: Watch) -> None:
    """After a crash neither the alert nor its notice is known without the other."""
    await frozen(watch)
    await watch.end()  # nobody sends any more
    await watch.hold(10)

    kept = await watch.store.read()
    assert (await watch.alert("queue_frozen")).told_at == watch.now
    assert [(one.event, one.ts, one.attempts) for one in kept.deliveries.values()] == [("queue_frozen", watch.now, 0)]
    assert watch.receiver.bodies == []
