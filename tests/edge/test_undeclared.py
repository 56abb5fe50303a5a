"""Proxies nobody declared: recognised by what they send, told of, and never believed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from app.core.settings import Settings
from app.core.settings_rules import load
from app.domain.client_address import Client, TrustPolicy, resolve_client
from app.domain.keyring import Keyring
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.services import undeclared as module
from app.services.health_of_settings import HealthOfSettings
from app.services.undeclared import UndeclaredPeers

PROXY = "192.0.2.50"
HEADERS = ("x-forwarded-for", "forwarded", "cf-connecting-ip", "x-real-ip", "true-client-ip")


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 5000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "mono", made)
    return made


@pytest.fixture
def limiters(clock: Clock) -> Iterator[list[RateLimiter]]:
    """Two workers of one instance."""
    table = RateLimiter.create("qm-undeclared", workers=2, max_keys=4096)
    made = [RateLimiter.attach(table.name, worker, now=clock) for worker in range(2)]
    yield made
    for each in made:
        each.close()
    table.close()


def settings(**env: str) -> Settings:
    return load({name.upper(): text for name, text in env.items()}).settings


def client(peer: str = PROXY, *, policy: TrustPolicy | None = None, **headers: str) -> Client:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return resolve_client(peer, {b"host": b"q.test", **sent}.get, policy or TrustPolicy())


def send(peers: UndeclaredPeers, count: int, sender: Client | None = None) -> None:
    for _ in range(count):
        one = sender or client(x_forwarded_for="203.0.113.9")
        if one.note:
            peers.saw(one)


@pytest.mark.req("VIS-023", "CFG-117")
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("env", [{}, {"trust_proxy": "1"}, {"trust_proxy": "1", "trust_proxy_ips": "10.0.0.7"}])
def test_it_marks_a_peer_after_ten_requests_with_any_forwarding_header(
    limiters: list[RateLimiter], header: str, env: dict[str, str]
) -> None:
    peers = UndeclaredPeers(limiters[0], settings(**env))
    sender = client(**{header.replace("-", "_"): "1.2.3.4"})
    send(peers, 9, sender)
    assert peers.proxy_block()["undeclaredPeers"] == []
    assert not peers.is_marked(sender)
    send(peers, 1, sender)

    assert peers.proxy_block()["undeclaredPeers"] == [PROXY]
    assert peers.is_marked(sender)
    assert peers.is_marked(client()), "whoever comes from there shares the address"
    assert not peers.is_marked(client("192.0.2.51"))


@pytest.mark.req("VIS-023", "CFG-117", "CFG-120")
def test_it_marks_nobody_for_few_requests_nor_for_many_in_more_than_a_minute(
    limiters: list[RateLimiter], clock: Clock
) -> None:
    peers = UndeclaredPeers(limiters[0], settings())
    for _ in range(8):
        send(peers, 9)
        clock.now += 61
    for number in range(200):  # one forged header each
        send(peers, 1, client(f"198.51.100.{number}", forwarded="for=1.2.3.4"))
    declared = TrustPolicy.of(1, settings(trust_proxy="1", trust_proxy_ips=PROXY).trust_proxy_ips)
    send(peers, 50, client(policy=declared, x_forwarded_for="203.0.113.9"))

    assert peers.sentences() == []
    assert peers.proxy_block()["ok"] is True


@pytest.mark.req("VIS-023", "CFG-117")
def test_it_counts_over_the_workers_of_an_instance(limiters: list[RateLimiter]) -> None:
    first, second = (UndeclaredPeers(each, settings()) for each in limiters)
    send(first, 5)
    send(second, 5)

    assert first.proxy_block()["undeclaredPeers"] == second.proxy_block()["undeclaredPeers"] == [PROXY]


@pytest.mark.req("VIS-024", "CFG-121", "CFG-118")
@pytest.mark.parametrize(
    ("env", "line", "more"),
    [
        ({}, f"TRUST_PROXY_IPS={PROXY}", " and TRUST_PROXY=1"),
        ({"trust_proxy": "1"}, f"TRUST_PROXY_IPS={PROXY}", ":"),
        (
            {"trust_proxy": "1", "trust_proxy_ips": "10.0.0.7, 2400:cb00::/32"},
            f"TRUST_PROXY_IPS=10.0.0.7,2400:cb00::/32,{PROXY}",
            ":",
        ),
    ],
)
def test_it_gives_the_line_to_set_and_says_what_to_check_first(
    limiters: list[RateLimiter], env: dict[str, str], line: str, more: str
) -> None:
    peers = UndeclaredPeers(limiters[0], settings(**env))
    send(peers, 10)

    (sentence,) = peers.sentences()
    assert f"set {line}{more}" in sentence
    assert sentence.startswith(f"Forwarding headers come from {PROXY}")
    assert "Check that it is your own load balancer or CDN" in sentence
    assert "may choose his own address" in sentence
    block = peers.proxy_block()
    assert (block["ok"], block["forwardedFromUndeclaredPeer"], block["suggestion"]) == (False, True, line)
    hops = int(env.get("trust_proxy", 0))
    assert (block["trustProxy"], block["incomplete"]) == (hops, bool(hops) and "trust_proxy_ips" not in env)


@pytest.mark.req("VIS-024", "CFG-119", "OBS-186")
def test_it_logs_one_line_at_once_and_one_in_ten_minutes(limiters: list[RateLimiter], clock: Clock) -> None:
    both = [UndeclaredPeers(each, settings()) for each in limiters]
    with structlog.testing.capture_logs() as lines:
        send(both[0], 10)
        assert [(line["event"], line["peer"]) for line in lines] == [("undeclared_proxy_found", PROXY)]
        for _ in range(9):
            clock.now += 60
            for number, peers in enumerate(both):
                send(peers, 20)
                send(peers, 20, client(f"192.0.2.{60 + number}", x_real_ip="1.2.3.4"))
        assert len(lines) == 1
        clock.now += 61
        for peers in both:
            send(peers, 20)

    assert len(lines) == 2


@pytest.mark.req("CFG-122")
def test_it_keeps_twenty_addresses_for_ten_minutes_the_latest_first(limiters: list[RateLimiter], clock: Clock) -> None:
    both = [UndeclaredPeers(each, settings()) for each in limiters]
    for number in range(30):
        clock.now += 1
        send(both[number % 2], 10, client(f"192.0.2.{number}", x_forwarded_for="1.2.3.4"))
    clock.now += 1
    assert both[0].proxy_block()["undeclaredPeers"] == [f"192.0.2.{number}" for number in range(29, 9, -1)]

    send(both[1], 10, client("192.0.2.15", x_forwarded_for="1.2.3.4"))
    assert both[0].proxy_block()["undeclaredPeers"][0] == "192.0.2.15"
    clock.now += 599
    assert both[0].proxy_block()["undeclaredPeers"] == ["192.0.2.15"]
    send(both[0], 9, client("192.0.2.15", x_forwarded_for="1.2.3.4"))
    clock.now += 2
    assert both[0].proxy_block() == {**both[1].proxy_block(), "ok": True, "undeclaredPeers": [], "suggestion": None}


def page(peers: UndeclaredPeers, sender: Client, count: int = 1) -> int:
    """How many of ``count`` pages are shown; each request passes the edge first."""
    shown = 0
    for _ in range(count):
        if sender.note:
            peers.saw(sender)
        shown += peers.page_budget("waiting", sender).allowed
    return shown


@pytest.mark.req("VIS-221", "VIS-082", "VIS-083", "VIS-085", "CFG-123")
@pytest.mark.req("PAG-104")
def test_it_suspends_the_page_budget_of_that_peer_alone(limiters: list[RateLimiter], clock: Clock) -> None:
    first, second = (UndeclaredPeers(each, settings(waiting_limit_per_min="120")) for each in limiters)
    behind = client(x_forwarded_for="203.0.113.9")
    assert page(first, client("192.0.2.9", x_forwarded_for="1.2.3.4")) == 1  # one forged header
    assert first.exempt == 0
    assert page(first, behind, 500) == 500
    assert page(second, behind, 500) == 500, "another worker knows"
    assert page(first, client("192.0.2.9"), 300) == 119
    assert page(first, client(), 300) <= 120, "who sends no such header is no proxy"
    clock.now += 3600

    assert page(second, behind, 300) == 300, "it ends with a restart only"
    assert page(second, client("192.0.2.9"), 300) == 120
    assert first.exempt == 1


@pytest.mark.req("VIS-082", "CFG-123")
def test_it_recognises_the_peer_before_a_small_budget_is_used_up(limiters: list[RateLimiter]) -> None:
    peers = UndeclaredPeers(limiters[0], settings(waiting_limit_per_min="3"))

    assert page(peers, client(x_real_ip="1.2.3.4"), 50) == 50
    assert page(peers, client("192.0.2.77"), 50) == 3


@pytest.mark.req("VIS-083", "CFG-123")
def test_health_says_that_a_budget_rests_until_a_restart(limiters: list[RateLimiter], clock: Clock) -> None:
    config = settings(waiting_limit_per_min="120")
    peers = UndeclaredPeers(limiters[0], config)
    runtime: Any = SimpleNamespace(settings=config)
    told = HealthOfSettings(
        runtime=runtime, book=MetricBook.alone(), limiter=limiters[1], keyring=Keyring("s" * 32), undeclared=peers
    ).waiting_page_block
    assert told() == {"enforced": True, "limitPerMin": 120, "exemptAddresses": 0, "refusedTotal": 0}

    send(peers, 10)
    clock.now += 36_000

    assert (told()["enforced"], told()["exemptAddresses"]) == (False, 1)


@pytest.mark.req("VIS-086", "CFG-123")
def test_it_empties_the_exempt_when_there_are_too_many(
    limiters: list[RateLimiter], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.MAX_EXEMPT == 1024
    monkeypatch.setattr(module, "MAX_EXEMPT", 8)
    both = [UndeclaredPeers(each, settings()) for each in limiters]
    most = 0
    for number in range(60):
        sender = client(f"198.51.100.{number}", x_forwarded_for="1.2.3.4")
        send(both[number % 2], 10, sender)
        most = max(most, both[0].exempt)
        assert both[1 - number % 2].page_budget("waiting", sender).limit == 0

    assert most == 8
    forgotten = client("198.51.100.0", x_forwarded_for="1.2.3.4")
    assert both[0].page_budget("waiting", forgotten).limit == 120
    send(both[0], 10, forgotten)
    assert both[0].page_budget("waiting", forgotten).limit == 0, "a real proxy is recognised again"


@pytest.mark.req("VIS-084", "CFG-123")
def test_it_never_suspends_a_budget_where_a_proxy_is_declared(limiters: list[RateLimiter]) -> None:
    config = settings(trust_proxy="1", trust_proxy_ips=PROXY, waiting_limit_per_min="5")
    peers = UndeclaredPeers(limiters[0], config)
    policy = TrustPolicy.of(1, config.trust_proxy_ips)
    sender = client(policy=policy, x_forwarded_for="203.0.113.9")
    forger = client("192.0.2.99", policy=policy, x_forwarded_for="1.2.3.4")

    assert page(peers, sender, 50) == 5
    assert page(peers, forger, 50) == 5
    assert peers.exempt == 0
    assert peers.proxy_block()["undeclaredPeers"] == ["192.0.2.99"], "told of all the same"


@pytest.mark.req("CFG-130", "VIS-084")
def test_it_says_nothing_of_undeclared_proxies_behind_the_edge_secret(limiters: list[RateLimiter]) -> None:
    config = settings(edge_secret="e" * 16, trust_proxy="1", waiting_limit_per_min="5")
    peers = UndeclaredPeers(limiters[0], config)
    policy = TrustPolicy.of(1, (), ["e" * 16])
    sender = client(policy=policy, x_qm_edge="e" * 16, cf_connecting_ip="203.0.113.9", x_forwarded_for="1.2.3.4")

    assert page(peers, sender, 50) == 5
    assert peers.sentences() == []
    block = peers.proxy_block()
    assert (block["ok"], block["incomplete"], block["ignored"]) == (True, False, True)


@pytest.mark.req("CFG-230")
def test_it_names_a_declared_proxy_that_sends_fewer_hops_than_it_should(
    limiters: list[RateLimiter], clock: Clock
) -> None:
    config = settings(trust_proxy="2", trust_proxy_ips="10.0.0.0/24")
    peers = UndeclaredPeers(limiters[0], config)
    policy = TrustPolicy.of(2, config.trust_proxy_ips)
    short = client("10.0.0.7", policy=policy, x_forwarded_for="203.0.113.9")
    long = client("10.0.0.8", policy=policy, x_forwarded_for="203.0.113.9, 198.51.100.1")
    probe = client("10.0.0.9", policy=policy)
    for sender in (long, probe):
        send(peers, 50, sender)
    send(peers, 9, short)
    assert peers.config_warnings() == []
    send(peers, 1, short)

    (warning,) = peers.config_warnings()
    assert (warning.code, warning.variable, warning.set) == ("hops_too_many", "TRUST_PROXY", "2")
    assert "10.0.0.7 sends fewer entries" in warning.message
    assert warning.raises_badge
    assert peers.proxy_block()["undeclaredPeers"] == []
    clock.now += 601
    assert peers.config_warnings() == []


def test_it_shares_counters_and_keeps_them_over_a_worker_s_death(clock: Clock) -> None:
    table = RateLimiter.create("qm-counters", workers=2, max_keys=4096)
    first, second = (RateLimiter.attach(table.name, worker, now=clock) for worker in range(2))
    for each, count in ((first, 3), (second, 4)):
        for _ in range(count):
            each.counters.add("edge_refused")
    first.lists["short_chain"].note(bytes(15) + b"\1")
    first.close()
    again = RateLimiter.attach(table.name, 0, now=clock)
    again.counters.add("edge_refused")

    found: Any = [each.counters.total("edge_refused") for each in (again, second)]
    assert found == [8, 8]
    assert again.counters.total("edge_no_address") == 0
    assert second.lists["short_chain"].recent(60) == [bytes(15) + b"\1"]
    assert second.lists["undeclared"].recent(60) == []
    again.close()
    second.close()
    table.close()
