"""Troubles that repeat are told now and then, by one worker for all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.domain.inline.failures import Failure
from app.infrastructure.rate_limiter import RateLimiter
from app.services.connection_errors import ConnectionErrors
from app.services.inline_counts import InlineCounts


class Workers:
    """The two web workers of an instance, by a clock of the test's own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.table = RateLimiter.create("test", workers=2, max_keys=1000)
        self.limiters = [RateLimiter.attach(self.table.name, number, now=lambda: self.now) for number in (0, 1)]

    def close(self) -> None:
        for limiter in self.limiters:
            limiter.close()
        self.table.close()


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


@pytest.mark.req("OBS-186", "INL-183", "INL-197")
def test_an_instance_tells_of_a_room_without_its_store_once_a_minute(workers: Workers) -> None:
    counts = [InlineCounts(Counter(), None, limiter.may_say) for limiter in workers.limiters]

    def minute() -> list[tuple[str, str, str, int]]:
        with capture_logs() as lines:
            for number in range(10):
                counts[number % 2].backend_down("shop", is_open=number > 5)
                counts[number % 2].backend_down("other", is_open=False)
                counts[number % 2].failed("shop", Failure.TIMEOUT if number % 3 else Failure.DNS)
        workers.now += 61
        return sorted((line["event"], line["room"], line["kind"], line["count"]) for line in lines)

    first, second = minute(), minute()

    told = [
        ("inline_backend_down", "other", "closed"), ("inline_backend_down", "shop", "closed"),
        ("origin_failed", "shop", "dns"), ("origin_failed", "shop", "timeout"),
    ]  # fmt: skip
    assert [line[:3] for line in first] == [line[:3] for line in second] == told
    assert [line[3] for line in first] == [1] * 4
    assert [line[3] for line in second][:2] == [5, 5], "what this worker has not told of"


@pytest.mark.req("OBS-186")
async def test_an_unknown_error_of_a_connection_is_told_once_for_each_start(workers: Workers) -> None:
    one, two = (ConnectionErrors(limiter.counters) for limiter in workers.limiters)
    loop = asyncio.get_running_loop()
    usual: list[dict[str, Any]] = []
    context: dict[str, Any] = {"message": "Fatal read error on socket transport", "transport": object()}

    with capture_logs() as lines, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(loop), "default_exception_handler", lambda _, found: usual.append(found))
        for errors in (one, two, one):
            errors.handle(loop, {**context, "exception": TimeoutError(110, "Connection timed out")})
        one.handle(loop, {**context, "exception": ValueError("a fault of ours")})
        one.handle(
            loop, {"message": "Task exception was never retrieved", "exception": OSError(5, "not of a connection")}
        )

    assert [(line["event"], line["log_level"]) for line in lines] == [("unknown_connection_error", "warning")]
    assert lines[0]["error"] == "TimeoutError: [Errno 110] Connection timed out"
    assert [type(found["exception"]) for found in usual] == [ValueError, OSError]
    assert workers.limiters[0].counters.total("connection_errors") == 3
