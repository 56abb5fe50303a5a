"""What is counted under which words, where a whole server is not needed."""

from __future__ import annotations

import pytest

from app.core import metrics
from app.domain.tokens import Cause
from app.infrastructure.metric_book import MetricBook
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
    counts.protection("shop", outcomes, [], is_scored=True)

    found = counts.book.everything()

    assert {key[1]: values for key, values in found.items() if key[0] == metrics.PROTECTION.name} == {
        ("shop", decision): [1]
    }


def test_refusals_for_want_of_room_and_of_shared_sessions_are_counted() -> None:
    book = MetricBook.alone()
    counts = VisitorCounts(book=book)
    counts.join_refused("shop", is_memory=False)
    counts.join_refused("shop", is_memory=True)
    counts.join_refused("shop", is_memory=True)
    counts.count(Counted.SHARED_SESSIONS, "shop")

    assert book.total(metrics.JOINS_REFUSED, "shop", "line_max") == 1
    assert book.total(metrics.JOINS_REFUSED, "shop", "memory") == 2
    assert book.total(metrics.SHARED_SESSIONS, "shop") == 1
