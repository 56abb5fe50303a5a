"""What the guide for fleets has to tell."""

from __future__ import annotations

import re
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


@pytest.mark.req("FLT-046")
def test_it_says_why_valkey_may_evict_nothing_and_no_example_lets_it() -> None:
    in_order("`maxmemory-policy noeviction`", "may drop parts of a room that nothing can miss", "the server warns")
    root = Path(__file__).resolve().parents[2]
    compose = (root / "docs/deploy/compose.yaml").read_text("utf-8")
    started = [line for line in compose.splitlines() if "command: valkey-server" in line]
    assert started
    assert all("--maxmemory-policy noeviction" in line for line in started)
    assert "noeviction" in (root / "app/infrastructure/embedded.py").read_text("utf-8"), "the private one neither"


LARGE = ("events", "room_hours", "audit", "room_snapshot_parts")
"""Tables that may hold millions of rows when a later release comes."""
SLOW = re.compile(
    rf"(CREATE (UNIQUE )?INDEX (?!CONCURRENTLY).* ON|UPDATE|ALTER TABLE( ONLY)?) ({'|'.join(LARGE)})\b", re.I
)
QUICK = re.compile(
    r"ALTER TABLE \w+\s+(ADD COLUMN \w+ \w+( NOT NULL DEFAULT [\w'()]+)?|(ENABLE|DISABLE) TRIGGER \w+);", re.I
)


@pytest.mark.req("FLT-143")
def test_release_notes_name_each_migration_that_takes_long() -> None:
    """One that touches every row of a large table which is there already, by its number and its time on 10 million."""
    root = Path(__file__).resolve().parents[2]
    notes = (root / "CHANGELOG.md").read_text("utf-8")
    guide = " ".join((root / "docs/development.md").read_text("utf-8").split())
    assert "longer than 10 s on 10 million events is named in the release notes" in guide
    known: set[str] = set()
    for path in sorted((root / "app/infrastructure/migrations").glob("*.sql")):
        text = re.sub(r"--[^\n]*|'[^']*'", "", path.read_text("utf-8"))
        for found in SLOW.finditer(QUICK.sub("", text)):
            if found.group(4).lower() in known:
                assert re.search(rf"[Mm]igration {path.name[:4]}\b.* s\b", notes), f"{path.name}: {found.group(0)}"
        known |= {name.lower() for name in re.findall(r"CREATE TABLE (\w+)", text)}
