"""What the guide for fleets has to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[2] / "docs/operations-fleet.md").read_text("utf-8")
GUIDE = " ".join(TEXT.split())


def in_order(*words: str) -> None:
    """Each of ``words`` stands in the guide, behind the one before it."""
    at = 0
    for word in words:
        assert word in GUIDE[at:], word
        at = GUIDE.index(word, at) + len(word)


@pytest.mark.req("FLT-008")
def test_it_says_what_instances_without_shared_stores_do_not_share() -> None:
    in_order("`STORE=memory` and `embedded`", "shares nothing but the values you give it", "a common `SECRET` makes")
    in_order(
        "own rooms, numbers and line", "N times the rate", "pin each room to one instance", "not for more capacity"
    )


@pytest.mark.req("FLT-013")
def test_it_says_which_budgets_are_each_instances_own() -> None:
    in_order(
        "budgets per visitor address, `SSE_PER_IP`, `SSE_MAX_TOTAL` and the connection caps are each instance's own"
    )
    in_order("N times each value", "fleet-wide rate control at the CDN")


@pytest.mark.req("FLT-027")
def test_it_says_how_the_leaders_number_is_reset() -> None:
    in_order("`<prefix>leader:epoch` must not be deleted by hand", "`<prefix>alerts:state` still there")
    in_order("is refused until the number has caught up", "delete both keys together", "sent once more")


@pytest.mark.req("FLT-040")
def test_it_says_when_to_change_what_an_outage_does() -> None:
    in_order("by the last settings it saw", "planned work on Valkey", "`onBackendDown` at least `RESYNC_MS` ahead")


@pytest.mark.req("FLT-096")
def test_it_says_what_to_look_at_after_a_recovery() -> None:
    in_order("reach the journal within a second", "the rebuild may undo them", "compare state and rate")


@pytest.mark.req("FLT-105", "FLT-122", "FLT-153", "FLT-121", "FLT-124")
def test_it_has_a_section_for_the_privacy_notice() -> None:
    in_order("The journal is not trimmed", "how long what it holds of visitors is kept")
    in_order("For your privacy notice", "digests of client address, socket peer, forwarded chain and User-Agent")
    in_order("of a session cookie only a hash", "in readable form at each join", "nothing leaves the server")
    in_order("personal data under the GDPR", "The purpose is narrow", "as journal and backups are", "for counsel")
    in_order("short work for whoever has the store", "count Valkey, its snapshots and all backups as personal data")


@pytest.mark.req("FLT-131")
def test_it_says_how_clocks_are_kept() -> None:
    in_order("Keep NTP on, and slew rather than step")


@pytest.mark.req("FLT-152")
def test_it_says_how_the_stores_are_given_away_least() -> None:
    in_order("limited to the keys and channels of `VALKEY_PREFIX`, without administration commands")
    in_order("`min-replicas-to-write 1`", "a primary that was cut off stops taking writes")
    in_order("Whoever can write to Valkey or Postgres can let anybody in")
    in_order("A role that owns its schema and is no superuser, TLS")
