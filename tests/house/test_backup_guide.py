"""What the guides have to tell of deploying, going back, backups and restoring, and that it is true of the server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.core.settings import ROWS
from app.infrastructure.migrate import find_migrations

DOCS = Path(__file__).resolve().parents[2] / "docs"


def text_of(name: str) -> str:
    return " ".join((DOCS / name).read_text("utf-8").split())


BACKUP, DEPLOY, FLEET = (text_of(f"{name}.md") for name in ("operations-backup", "deploy", "operations-fleet"))
OPERATIONS = text_of("operations.md")


def in_order(guide: str, *words: str) -> None:
    """Each of ``words`` stands in the guide, behind the one before it."""
    at = 0
    for word in words:
        assert word in guide[at:], word
        at = guide.index(word, at) + len(word)


@pytest.mark.req("CFG-013")
def test_it_says_what_all_instances_have_in_common() -> None:
    in_order(FLEET, "must run with the same `SECRET`, `VALKEY_URL`, `VALKEY_PREFIX` and `DATABASE_URL`")


@pytest.mark.req("CFG-206", "CFG-217")
def test_it_says_what_production_runs_on_and_what_that_promises() -> None:
    in_order(BACKUP, "`STORE=valkey` with `SIDESTORE=pg`, the form that production accepts")
    in_order(BACKUP, "No instance keeps anything on its own disk that must survive")
    in_order(BACKUP, "at most 1 s of changes that are acknowledged before they are stored", "acknowledged joins and")
    in_order(BACKUP, "never are", "every room answers again within 5 minutes", "7 s after its loss was noticed")


@pytest.mark.req("CFG-207", "CFG-209")
def test_it_deploys_one_instance_after_the_other_and_not_close_to_a_drop() -> None:
    in_order(
        DEPLOY,
        *("replaced one by one", "start the new one", "`/healthz` answers 200", "stop an old one in order"),
        *("Nobody in line loses a place", "each stop closes that instance's streams", "reconnect elsewhere"),
        *("The schema is migrated at start", "do not deploy close to a scheduled drop"),
    )


@pytest.mark.req("BUD-060")
def test_it_says_what_shares_a_cpu_with_those_who_wait_and_to_read_logs_first() -> None:
    in_order(
        FLEET,
        *(
            "CPU, and who takes it",
            "shares a CPU with a process that somebody waits for",
            "a shell session or a script",
        ),
        *("a limit of one second", "uses 93 % of the one CPU", "read the logs first", "costs the machine nothing"),
    )


@pytest.mark.req("BUD-070")
def test_it_says_in_bold_that_spare_capacity_is_not_to_be_lowered_and_why() -> None:
    bold = re.findall(r"\*\*(.+?)\*\*", DEPLOY)
    assert any(one.startswith("Never lower `FLEET_MIN_INSTANCES`, `INSTANCE_MIN_CPUS`") for one in bold)
    in_order(
        DEPLOY, "Never lower", "it is what carries the line while one instance restarts", "409 below_fleet_minimum"
    )


@pytest.mark.req("CFG-210", "CFG-155", "CFG-157")
def test_it_says_what_going_back_costs() -> None:
    in_order(BACKUP, "Going back to the release before", "Deploy it the same way as a new one")
    in_order(
        BACKUP,
        *("knows the legacy form alone starts, and refuses every token of the v2 form", "has to queue again"),
        *("monitor links and console sessions end", "operators whose verifier became v2 get `401`"),
        *("goes out in two releases", "first one that reads both and writes legacy", "free to roll back"),
        *("`TOKEN_SIGN_V2=1` only when every instance runs it", "keeps that room fenced"),
    )
    in_order(OPERATIONS, "Switch it on only when every instance runs a release that reads both")
    assert next(row for row in ROWS.values() if row.name == "TOKEN_SIGN_V2").default_text == "0"


@pytest.mark.req("CFG-211", "CFG-215")
def test_it_lists_what_is_backed_up_and_what_is_not() -> None:
    in_order(
        BACKUP,
        *("Postgres, all of it", "journal, checkpoints, rooms, operators, monitor links, audit trail, report rows"),
        *("timeline notes", "point-in-time recovery, or at least daily dumps and the log archive"),
        *("`SECRET`, `SECRET_PREVIOUS`, `ADMIN_KEY`, `PUBLIC_API_KEY`, `EDGE_SECRET`", "a secret store apart"),
        *("Valkey", "nothing: it is rebuilt from the journal"),
        *("`STORE=embedded` copy the whole `DATA_DIR` while the server is stopped", "`STORE=memory` there is nothing"),
        *(
            "does not bring back notification addresses",
            "never in Postgres",
            "keep copies of them after their",
        ),
    )
    columns = " ".join(migration.path.read_text("utf-8") for migration in find_migrations())
    assert not re.search(r"\be_?mail\b|notify_address", columns, re.IGNORECASE), "no table has room for an address"


@pytest.mark.req("CFG-212", "CFG-213")
def test_it_restores_postgres_beside_an_empty_valkey_alone() -> None:
    in_order(
        BACKUP,
        *("Restoring", "Stop every instance", "Restore Postgres", "Empty Valkey, or set a new `VALKEY_PREFIX`"),
        *("rebuilt as of that moment; joins after it are lost",),
        *("Never restore Postgres under a Valkey that holds newer state", "is not rebuilt", "`backend.aheadRooms`"),
    )


@pytest.mark.req("CFG-214", "CFG-026")
def test_it_has_a_drill() -> None:
    in_order(
        BACKUP,
        *("The drill", "Restore into a new database", "`QM_DRILL=1` and a `VALKEY_PREFIX` of its own"),
        *("sends nothing outward: no alert, no mail, no knock", "never leads", "`drill: true`"),
        *("Compare `waiting` of every room in `GET /api/admin/rooms` with the original",),
    )


@pytest.mark.req("CFG-216")
def test_design_and_figures_are_written_down() -> None:
    live = text_of("adr/0001-live-state-in-valkey.md")
    in_order(
        live, "**Context.**", "**Choice.**", "**Consequences.**", "**Figures.** Measured with `make bench`", "bytes"
    )
    recovery = text_of("adr/0002-deploy-backup-recovery.md")
    in_order(recovery, "**Choice.**", "**Figures.** Targets", "Measured on", "7 s after its loss is noticed")
    linked = set(re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", text_of("adr/README.md")))
    assert linked == {path.name for path in (DOCS / "adr").glob("0*.md")}


@pytest.mark.req("CFG-221", "CFG-222", "CFG-223", "CFG-224")
def test_it_tells_what_a_platform_needs_and_hides() -> None:
    in_order(DEPLOY, "Valkey must run `maxmemory-policy noeviction`", "close `CONFIG`", "can only report it")
    in_order(DEPLOY, "doctl databases configuration update", '"valkey_maxmemory_policy": "noeviction"')
    in_order(DEPLOY, "health check reaches the container directly, without Cloudflare", "`GET /healthz` is the one")
    in_order(DEPLOY, "a scrape of `/metrics` reaches whichever instance the balancer picks", "leave `QM_INSTANCE_ID`")
    in_order(DEPLOY, "unset there", "every container has a name of its own")
    in_order(DEPLOY, "After every deploy Alert on `backend.valkeyEverConnected` being false", "starts degraded")
    app = (DOCS.parent / ".do/app.yaml").read_text("utf-8")
    assert not re.search(r"key: QM_INSTANCE_ID", app)


@pytest.mark.req("CFG-205")
def test_it_names_the_orderly_stop_of_windows() -> None:
    in_order(OPERATIONS, "`POST /api/admin/shutdown`", "of the instance that answers, and of no other")
    in_order(OPERATIONS, "On Windows, where `taskkill` without `/F` is refused", "`/F` is a kill", "the orderly stop")


@pytest.mark.req("CFG-138")
def test_it_keeps_the_shared_key_for_emergencies() -> None:
    in_order(OPERATIONS, "`ADMIN_KEY` is one shared secret without a person's name: keep it for emergencies")
    in_order(OPERATIONS, "change it and restart, which ends every session that was opened with it")


@pytest.mark.req("CFG-151")
def test_it_changes_the_signing_secret_in_three_steps() -> None:
    in_order(
        OPERATIONS,
        *("On every instance set `SECRET_PREVIOUS` to the present value and `SECRET` to the new one, and restart",),
        *("24 hours for tickets, 12 for console sessions, seven days for monitor links", "shown anew"),
        *("Remove `SECRET_PREVIOUS` and restart", "tokens of the old secret are refused"),
    )


@pytest.mark.req("CFG-131", "CFG-132")
def test_it_says_what_refusals_at_the_edge_mean() -> None:
    in_order(OPERATIONS, "`edge.refusedTotal`", "a slow rise means that something calls the app's own address")
    in_order(OPERATIONS, "a jump on every request means that rule and secret no longer agree")


@pytest.mark.req("CFG-228", "CFG-141")
def test_it_tells_connectors_to_be_listed() -> None:
    in_order(OPERATIONS, "Anybody who shares the connector's address", "set `QM_CONNECTOR_IPS`")
