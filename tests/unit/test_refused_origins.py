"""Which refused origins are listed when more are invented than the list holds."""

from __future__ import annotations

import pytest

from app.services.fleet_counts import Sums
from app.services.refused_origins import MAX_PAIRS, OTHER, RefusedOrigins
from app.services.visitor_counts import VisitorCounts

REAL = "https://landing.example"


@pytest.mark.req("OBS-038")
def test_a_flood_of_invented_origins_keeps_the_real_one_in() -> None:
    counts = VisitorCounts()
    for number in range(5 * MAX_PAIRS):
        counts.refused_origin("shop", f"https://made-up-{number}.example")
        if number % 100 == 0:
            counts.refused_origin("shop", REAL)
            counts.refused_origin("second", REAL)

    listed = Sums.of(counts).health_blocks()["checks"]["refusedOrigins"]

    found = {(one["roomId"], one["origin"]): one["count"] for one in listed}
    assert len(found) == MAX_PAIRS
    assert found["shop", REAL] == found["second", REAL] == 25
    assert ("shop", f"https://made-up-{5 * MAX_PAIRS - 1}.example") in found
    assert ("shop", "https://made-up-0.example") not in found
    assert sum(found.values()) == 5 * MAX_PAIRS + 50, "what gave way is counted under other"
    times = [one["lastAt"] for one in listed]
    assert times == sorted(times, reverse=True)


@pytest.mark.req("OBS-038")
@pytest.mark.parametrize(
    ("origin", "listed"),
    [
        (REAL, REAL),
        ("null", "null"),
        ("https://" + "a" * 250 + ".example", OTHER),
        ("nonsense", OTHER),
        ("https://a.example/path", OTHER),
        ("javascript:alert(1)", OTHER),
    ],
)
def test_what_is_no_origin_counts_under_other_at_once(origin: str, listed: str) -> None:
    counts = VisitorCounts()
    counts.refused_origin("shop", origin)
    assert list(counts.origins.pairs) == [("shop", listed)]


def test_a_list_of_nothing_but_others_forgets_the_oldest() -> None:
    listed = RefusedOrigins(most=2)
    for number, room in enumerate(("a", "b", "c")):
        listed.add(room, OTHER, number)
    assert listed.pairs == {("b", OTHER): (1, 1), ("c", OTHER): (1, 2)}
