"""Budgets and gauges in shared memory, over several processes."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from app.domain.budget import UNLIMITED
from app.infrastructure.rate_budgets import WINDOW_MS
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.rate_table import RateTable

V4 = b"\x0a\0\0\1"
NET = b"\x20\1\x0d\xb8\0\0"  # a /48


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(workers: int, max_keys: int = 200_000) -> Iterator[RateTable]:
    table = RateLimiter.create(workers=workers, max_keys=max_keys)
    yield table
    table.close()


@pytest.fixture
def table() -> Iterator[RateTable]:
    """For two workers."""
    yield from make(2)


@pytest.fixture
def pair(table: RateTable, clock: Clock) -> Iterator[tuple[RateLimiter, RateLimiter]]:
    both = RateLimiter.attach(table.name, 0, now=clock), RateLimiter.attach(table.name, 1, now=clock)
    yield both
    for one in both:
        one.close()


Pair = tuple[RateLimiter, RateLimiter]


def v4(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_it_lets_exactly_the_limit_pass_whichever_worker_is_asked(pair: Pair) -> None:
    answers = [pair[number % 2].take("join", V4, 7) for number in range(20)]

    assert [answer.allowed for answer in answers] == [True] * 7 + [False] * 13
    assert [answer.remaining for answer in answers] == [6, 5, 4, 3, 2, 1, 0] + [0] * 13
    assert {answer.limit for answer in answers} == {7}


@pytest.mark.req("VIS-072")
def test_it_counts_a_window_of_60_s_from_the_first_request(pair: Pair, clock: Clock) -> None:
    assert pair[0].take("join", V4, 2).reset_sec == 60
    clock.now += 45
    assert pair[1].take("join", V4, 2).reset_sec == 15
    refused = pair[1].take("join", V4, 2)
    assert (refused.allowed, refused.reset_sec, refused.retry_after_sec) == (False, 15, 15)
    clock.now += 14.999
    assert pair[0].take("join", V4, 2).retry_after_sec == 1
    clock.now += 0.001
    assert pair[0].take("join", V4, 2) == (True, 2, 1, 60, 0)
    assert pair[1].take("join", V4, 2) == (True, 2, 0, 60, 0)
    assert not pair[0].take("join", V4, 2).allowed


def test_it_does_not_count_a_refused_request(pair: Pair, clock: Clock) -> None:
    for _ in range(100):
        pair[0].take("join", V4, 1)
    clock.now += 60

    assert pair[0].take("join", V4, 3) == (True, 3, 2, 60, 0)


def test_it_keeps_a_table_for_each_group_and_a_budget_for_each_key(pair: Pair) -> None:
    for group in ("join", "check", "vouched", "status", "waiting"):
        for key in (V4, v4(7), b"another identity"):
            assert pair[0].take(group, key, 1).allowed
            assert not pair[1].take(group, key, 1).allowed


def test_it_is_off_at_0(pair: Pair) -> None:
    assert pair[0].take("join", V4, 0) == UNLIMITED
    assert pair[0].peek("join", V4, 0) == UNLIMITED
    assert UNLIMITED.headers() == []


def test_it_looks_without_counting(pair: Pair) -> None:
    assert pair[0].peek("auth", V4, 2) == (True, 2, 2, 0, 0)
    pair[0].take("auth", V4, 2)
    assert [pair[1].peek("auth", V4, 2) for _ in range(3)] == [(True, 2, 1, 60, 0)] * 3
    pair[1].take("auth", V4, 2)
    assert pair[0].peek("auth", V4, 2) == (False, 2, 0, 60, 60)


def test_it_tells_at_a_glance_what_is_spent(pair: Pair) -> None:
    first, second = pair
    wide = b"\x20\x01\x0d\xb8\x00\x01\x00\x02"
    for key in (V4, wide):
        assert not first.is_spent("check", key, 2)
        first.take("check", key, 2)
        assert not second.is_spent("check", key, 2)
        second.take("check", key, 2)
        assert first.is_spent("check", key, 2)
        assert second.is_spent("check", key, 2)
        assert not second.is_spent("status", key, 2)
    assert not first.is_spent("check", wide[:6] + b"\xff\xff", 2)


@pytest.mark.req("VIS-233")
def test_it_counts_ipv6_for_its_64_and_256_fold_for_its_48(pair: Pair) -> None:
    nets = [NET + number.to_bytes(2, "big") for number in range(400)]

    assert pair[0].take("join", nets[0], 2) == (True, 2, 1, 60, 0)
    assert pair[1].take("join", nets[0], 2).allowed
    assert not pair[0].take("join", nets[0], 2).allowed
    passed = sum(pair[number % 2].take("join", net, 2).allowed for number, net in enumerate(nets) for _ in range(3))

    assert passed == 2 * 256 - 2
    assert pair[0].take("join", nets[399], 2) == (False, 2, 0, 60, 60)
    assert not pair[0].peek("join", nets[399], 2).allowed
    assert pair[0].take("join", b"\x20\1\x0d\xb8\0\1\0\0", 2).allowed
    assert pair[0].take("join", v4(0x20010DB8), 2).allowed


def test_it_does_not_charge_the_48_for_what_the_64_is_refused(pair: Pair) -> None:
    greedy, modest = NET + b"\0\1", NET + b"\0\2"
    for _ in range(600):
        pair[0].take("join", greedy, 1)

    assert pair[0].take("join", modest, 1).allowed


@pytest.mark.req("VIS-074")
def test_it_never_frees_a_limited_client_by_churn_and_bounds_the_table(clock: Clock) -> None:
    table = RateLimiter.create(workers=1, max_keys=1000)
    limiter = RateLimiter.attach(table.name, 0, now=clock)
    limited = [v4(number) for number in range(20)]
    for key in limited:
        limiter.take("check", key, 1)
    size = os.stat(table.name).st_size

    refused = 0
    for number in range(50_000):
        limiter.take("check", v4(1000 + number), 5)
        if number % 100 == 0:
            refused += sum(not limiter.take("check", key, 1).allowed for key in limited)

    assert refused == 500 * len(limited)
    assert os.stat(table.name).st_size == size
    limiter.close()
    table.close()


@pytest.mark.req("VIS-074", "CFG-074")
def test_it_drops_the_least_recently_used_key_first(clock: Clock) -> None:
    table = RateLimiter.create(workers=1, max_keys=8)
    limiter = RateLimiter.attach(table.name, 0, now=clock)
    for number in range(8):
        limiter.take("check", v4(number), 10)
    for number in (1, 2, 3, 4, 5, 6, 7):
        limiter.take("check", v4(number), 10)
    limiter.take("check", v4(100), 10)

    assert [limiter.peek("check", v4(number), 10).remaining for number in range(8)] == [10] + [8] * 7
    limiter.close()
    table.close()


def test_it_tells_how_many_keys_each_table_holds(clock: Clock) -> None:
    """A key that gives way to another does not count any more."""
    table = RateLimiter.create(workers=2, max_keys=16)
    pair = [RateLimiter.attach(table.name, worker, now=clock) for worker in range(2)]
    for number in (1, 2, 3, 1, 2, 3):
        pair[0].take("check", v4(number), 10)
    pair[1].take("check", v4(3), 10)
    pair[1].take("join", v4(3), 10)
    assert {group: pair[0].counters.total("kept_" + group) for group in ("check", "join", "status")} == {
        "check": 4, "join": 1, "status": 0,
    }  # fmt: skip
    for number in range(100):
        pair[0].take("check", v4(number), 10)
    assert pair[1].counters.total("kept_check") == 8 + 1, "as many as there is room for"
    for one in pair:
        one.close()
    table.close()


def test_it_overwrites_an_ended_window_before_a_live_one(clock: Clock) -> None:
    table = RateLimiter.create(workers=1, max_keys=8)
    limiter = RateLimiter.attach(table.name, 0, now=clock)
    limiter.take("check", v4(0), 10)
    clock.now += 30
    for number in range(1, 8):
        limiter.take("check", v4(number), 10)
    clock.now += 30
    limiter.take("check", v4(100), 10)

    assert [limiter.peek("check", v4(number), 10).remaining for number in range(1, 8)] == [9] * 7
    limiter.close()
    table.close()


def test_it_refuses_a_newcomer_rather_than_free_a_limited_client(clock: Clock) -> None:
    table = RateLimiter.create(workers=1, max_keys=8)
    limiter = RateLimiter.attach(table.name, 0, now=clock)
    for number in range(8):
        limiter.take("check", v4(number), 1)

    assert not limiter.take("check", v4(100), 1).allowed
    assert not any(limiter.take("check", v4(number), 1).allowed for number in range(8))
    clock.now += 60
    assert limiter.take("check", v4(100), 1).allowed
    limiter.close()
    table.close()


TAKER = """
import sys
from app.infrastructure.rate_limiter import RateLimiter
limiter = RateLimiter.attach(sys.argv[1], int(sys.argv[2]))
print("ready", flush=True)
for line in sys.stdin:
    group, keys, limit, times = line.split()
    passed = 0
    for _ in range(int(times)):
        for key in range(int(keys)):
            passed += limiter.take(group, key.to_bytes(4, "big"), int(limit)).allowed
    print(passed, flush=True)
"""


class Taker:
    """A worker process that takes as told."""

    def __init__(self, table: RateTable, index: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKER, table.name, str(index)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self.read() == "ready"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, group: str, keys: int, limit: int, times: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{group} {keys} {limit} {times}\n")
        self.process.stdin.flush()

    def end(self, how: int = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.communicate()


@pytest.mark.req("VIS-076")
@pytest.mark.parametrize("workers", [2, 4])
def test_it_lets_exactly_the_limit_pass_when_all_workers_take_at_once(workers: int) -> None:
    table = RateLimiter.create(workers=workers)
    takers = [Taker(table, index) for index in range(workers)]
    try:
        for group, keys, limit in (("join", 1, 2000), ("check", 40, 50), ("status", 300, 3), ("waiting", 500, 1)):
            for taker in takers:
                taker.tell(group, keys, limit, limit + 5)

            assert sum(int(taker.read()) for taker in takers) == keys * limit
    finally:
        for taker in takers:
            taker.end()
        table.close()


def test_it_keeps_the_counts_of_a_worker_that_is_killed(table: RateTable) -> None:
    first, other = Taker(table, 0), Taker(table, 1)
    try:
        first.tell("join", 10, 10, 6)
        assert first.read() == "60"
        first.end(signal.SIGKILL)
        other.tell("join", 10, 10, 2)
        assert other.read() == "20"
        first = Taker(table, 0)
        first.tell("join", 10, 10, 20)

        assert first.read() == "20"
    finally:
        first.end()
        other.end()


def test_it_never_passes_more_when_workers_are_killed_while_they_take(table: RateTable) -> None:
    passed = 0
    takers = [Taker(table, 0), Taker(table, 1)]
    for _ in range(4):
        takers[0].tell("join", 200, 1000, 10_000)
        threading.Event().wait(0.05 + secrets.randbelow(50) / 1000)
        takers[0].end(signal.SIGKILL)
        takers[0] = Taker(table, 0)
    for taker in takers:
        taker.tell("join", 200, 1000, 1100)
    passed = sum(int(taker.read()) for taker in takers)
    left = RateLimiter.attach(table.name, 1)

    try:
        assert passed <= 200 * 1000
        # What a killed worker was just deciding may count as taken: one request of one key.
        assert sum(left.peek("join", v4(key), 1000).remaining for key in range(200)) <= 4
    finally:
        left.close()
        for taker in takers:
            taker.end()


@pytest.mark.req("VIS-076")
def test_it_counts_what_is_open_over_all_workers(pair: Pair) -> None:
    entered = [pair[number % 2].gauge_enter("sse", V4, per_key=5, in_all=8) for number in range(7)]
    others = [pair[number % 2].gauge_enter("sse", v4(number), per_key=5, in_all=8) for number in range(5)]

    assert [entry.over for entry in entered] == [""] * 5 + ["key"] * 2
    assert [entry.over for entry in others] == [""] * 3 + ["total"] * 2
    assert [limiter.gauge_total("sse") for limiter in pair] == [8, 8]
    assert [limiter.gauge_count("sse", V4) for limiter in pair] == [5, 5]
    pair[0].gauge_leave("sse", V4)
    assert pair[1].gauge_enter("sse", V4, per_key=5, in_all=8).entered
    assert pair[1].gauge_total("connections") == 0


@pytest.mark.req("VIS-087")
def test_it_has_no_cap_at_0(pair: Pair) -> None:
    assert all(pair[0].gauge_enter("sse", V4, per_key=0, in_all=0).entered for _ in range(1000))
    assert pair[1].gauge_total("sse") == 1000


def test_it_forgets_the_open_things_of_a_worker_that_died(pair: Pair, table: RateTable) -> None:
    for _ in range(3):
        pair[0].gauge_enter("sse", V4, per_key=0, in_all=0)
        pair[1].gauge_enter("sse", V4, per_key=0, in_all=0)

    successor = RateLimiter.attach(table.name, 0)

    assert (successor.gauge_total("sse"), pair[1].gauge_count("sse", V4)) == (3, 3)
    successor.close()


def test_it_counts_keys_that_find_their_bucket_full(pair: Pair) -> None:
    keys = [secrets.token_bytes(8) for _ in range(50_000)]
    for key in keys:
        assert pair[0].gauge_enter("sse", key, per_key=1, in_all=0).entered
    assert not any(pair[0].gauge_enter("sse", key, per_key=1, in_all=0).entered for key in keys)
    for key in keys:
        pair[0].gauge_leave("sse", key)

    assert pair[0].gauge_total("sse") == 0
    assert pair[0].gauge_enter("sse", keys[0], per_key=1, in_all=0).entered


def test_it_refuses_a_table_that_is_none(table: RateTable, tmp_path: object) -> None:
    with pytest.raises(ValueError, match="no worker 2"):
        RateLimiter.attach(table.name, 2)
    with pytest.raises(OSError):
        RateLimiter.attach(f"{tmp_path}/nothing", 0)
    junk = f"{tmp_path}/junk"
    with open(junk, "wb") as file:
        file.write(bytes(8192))
    with pytest.raises(ValueError, match="no rate table"):
        RateLimiter.attach(junk, 0)


def test_it_writes_the_headers_of_a_limited_answer(pair: Pair) -> None:
    allowed, refused = pair[0].take("join", V4, 1), pair[0].take("join", V4, 1)

    limit, left, reset, retry = b"X-RateLimit-Limit", b"X-RateLimit-Remaining", b"X-RateLimit-Reset", b"Retry-After"
    assert allowed.headers() == [(limit, b"1"), (left, b"0"), (reset, b"60")]
    assert refused.headers() == [(limit, b"1"), (left, b"0"), (reset, b"60"), (retry, b"60")]
    assert WINDOW_MS == 60_000
