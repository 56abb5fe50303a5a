"""What is counted under which words, where a whole server is not needed."""

from __future__ import annotations

from collections import Counter

import pytest

from app.core import metrics
from app.domain.inline.failures import Failure
from app.domain.tokens import Cause
from app.infrastructure.metric_book import MetricBook
from app.services.inline_counts import InlineCounts, Passed, inline_block
from app.services.protection import Outcome
from app.services.visitor_counts import Counted, VisitorCounts


@pytest.mark.req("OBS-089")
def test_every_cause_of_a_refused_token_is_a_reason() -> None:
    counts = VisitorCounts()
    for cause in Cause:
        counts.rejected_token("shop", cause)

    found = counts.book.everything()

    name = metrics.REJECTED_TOKENS.name
    reasons = {labels[1]: values for (series, labels), values in found.items() if series == name}
    words = ("expired", "future", "bad_signature", "unknown_kid", "malformed", "wrong_room")
    assert reasons == {word: [1] for word in words}
    assert counts.book.total(metrics.REJECTED_TOKENS_ALL) == 6


@pytest.mark.req("OBS-100")
@pytest.mark.parametrize(
    ("outcomes", "decision"),
    [
        ([], "ok"),
        ([Outcome.ALLOW_LISTED], "ok"),
        ([Outcome.CRAWLER], "ok"),
        ([Outcome.WARNED], "warn"),
        ([Outcome.WOULD_BLOCK, Outcome.WARNED], "warn"),
        ([Outcome.BLOCKED, Outcome.WARNED], "block"),
    ],
)
def test_a_newcomer_is_counted_under_one_decision(outcomes: list[Outcome], decision: str) -> None:
    counts = VisitorCounts()
    counts.protection("shop", tuple(outcomes), (), is_scored=True)

    found = counts.book.everything()

    assert {key[1]: values for key, values in found.items() if key[0] == metrics.PROTECTION.name} == {
        ("shop", decision): [1]
    }


@pytest.mark.req("OBS-192")
def test_refusals_for_want_of_room_and_of_shared_sessions_are_counted() -> None:
    book = MetricBook.alone()
    counts = VisitorCounts(book=book)
    counts.join_refused("shop", is_memory=False)
    counts.join_refused("shop", is_memory=True)
    counts.join_refused("shop", is_memory=True)
    counts.count(Counted.SHARED_SESSIONS, "shop")
    InlineCounts(Counter(), book).count("shop", Passed.BYPASS_REFUSED)

    assert book.total(metrics.JOINS_REFUSED, "shop", "line_max") == 1
    assert book.total(metrics.JOINS_REFUSED, "shop", "memory") == 2
    assert book.total(metrics.SHARED_SESSIONS, "shop") == 1
    assert book.total(metrics.BYPASS_REFUSED, "shop") == 1


@pytest.mark.req("OBS-094", "OBS-095", "OBS-096", "OBS-097", "OBS-036")
def test_what_passes_through_is_counted_by_room_and_a_visitor_who_hung_up_is_no_failure() -> None:
    book, totals = MetricBook.alone(), Counter[str]()
    counts = InlineCounts(totals, book)
    for what, number in ((Passed.GATED, 3), (Passed.BYPASSED, 2), (Passed.CLIENT_ABORTS, 4), (Passed.OVERLOADED, 1)):
        for _ in range(number):
            counts.count("shop", what)
    for failure in Failure:
        counts.failed("shop", failure)
    for is_open in (True, False, False):
        counts.backend_down("shop", is_open=is_open)

    assert book.total(metrics.PROXY_GATED, "shop") == 3
    assert book.total(metrics.PROXY_BYPASSED, "shop") == 2
    assert book.total(metrics.CLIENT_ABORTS, "shop") == 4
    assert book.total(metrics.PROXY_OVERLOADED) == 1
    assert (book.total(metrics.BACKEND_DOWN, "open"), book.total(metrics.BACKEND_DOWN, "closed")) == (1, 2)
    classes = {labels[1] for name, labels in book.everything() if name == metrics.ORIGIN_ERRORS.name}
    assert classes == {"connect", "dns", "tls", "timeout", "reset", "bad_response", "blocked_address"}
    block = inline_block(totals)
    assert (block["originErrorsTotal"], block["clientAbortsTotal"]) == (7, 4)
