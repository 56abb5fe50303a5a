"""Which routes of the admin API read much: a new one has to be thought about (OBS-188, BUD-073)."""

from __future__ import annotations

import pytest

from blueprints.admin import ROUTER

WIDE = {"audit", "history", "reports", "timeline", "rooms/<id>/tickets", "rooms/<id>/tickets/<n>"}
"""Made, or searched, in process ``heavy`` beyond the few rows of a narrow look-up: tests/process/test_heavy.py."""
NARROW = {
    "alerts", "events", "health", "me", "monitor-tokens", "openapi.json", "operators", "protection", "rooms",
    "rooms/<id>", "rooms/<id>/install-check",
}  # fmt: skip
"""States, figures and settings that are kept ready; nothing is scanned for them."""


@pytest.mark.req("OBS-188")
def test_every_route_that_reads_is_known_to_be_narrow_or_made_elsewhere() -> None:
    reading = {route.path for route in ROUTER.routes if route.method == "GET"}
    assert reading - WIDE - NARROW == set()
    assert reading >= WIDE
    assert not any("log" in route.path.split("/") for route in ROUTER.routes), "the log is read where it is written to"
