"""Rules of the configuration as a whole: what refuses, what is advised, which words exist, what is no variable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.core.settings import ROWS, ConfigWarning, Refused, Settings
from app.core.settings_row import Bad
from app.core.settings_rules import load
from app.process.start import PG_IN_BACKGROUND, with_pool
from app.process.stop import kept_sec
from app.services.rebuild_lanes import LANES

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "docs/spec/01-configuration.md").read_text("utf-8")
PRODUCTION = {
    "QM_ENV": "production", "STORE": "valkey", "VALKEY_URL": "valkeys://:pass@valkey.example/0", "SECRET": "s" * 32,
    "DATABASE_URL": "postgresql://qm:pass@pg.example/qm", "PG_CA_CERT": (Path(__file__).parent / "ca.pem").read_text(),
    "ADMIN_KEY": "k" * 32, "PUBLIC_API_KEY": "p" * 32, "QM_CONNECTOR_IPS": "203.0.113.9", "EDGE_SECRET": "e" * 32,
    "PUBLIC_URL": "https://queue.example",
}  # fmt: skip


def table_rows() -> dict[str, list[str]]:
    """The rows of section 2 by variable: id, variable, type and default, bounds, effect, bad."""
    lines = [line.replace(r"\|", "/").split("|") for line in SPEC.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines if len(line) == 9]
    return {row[2].strip("`"): row for row in cells if row[2].startswith("`")}


@pytest.mark.req("CFG-187")
def test_it_refuses_to_start_for_every_row_that_says_so_and_for_no_other() -> None:
    refusing = {name for name, row in table_rows().items() if row[6].startswith("REFUSE") or "; REFUSE" in row[6]}
    asked_of_the_store = {"VALKEY_CLUSTER"}  # a boolean; whether it is right only the server can say

    assert {row.name for row in ROWS.values() if row.bad is Bad.REFUSE} | asked_of_the_store == {
        name for name in refusing if name in {row.name for row in ROWS.values()}
    }
    for name, text in (
        ("STORE", "redis"), ("SIDESTORE", "mysql"), ("PG_CA_FILE", "/nowhere.pem"), ("QM_INSTANCE_ID", "a b"),
        ("TRUST_PROXY_IPS", "10.0.0.0/8,nobody"), ("EDGE_SECRET", "e" * 15), ("SMTP_URL", "mail.example"),
        ("ADMIN_HOST", "a b"), ("VALKEY_PREFIX", "{a}"), ("VALKEY_CA_FILE", "/nowhere.pem"), ("HOST", "a b"),
        ("PROTECTION_ALLOW_IPS", "nobody"), ("QM_CONNECTOR_IPS", "nobody"), ("PG_CA_CERT", "none"),
    ):  # fmt: skip
        with pytest.raises(Refused) as caught:
            load({name: text})
        assert [reason for reason in caught.value.reasons if name in reason], name


@pytest.mark.req("CFG-190")
def test_it_has_the_published_words_for_warnings_and_no_others() -> None:
    (listed,) = re.findall(r"\*\*CFG-190\*\*.*with codes (.*?); `set` is `null`", SPEC)
    known = set(re.findall(r"`(\w+)`", listed))
    used: set[str] = set()
    for folder in ("app", "blueprints", "workers"):
        for path in (ROOT / folder).rglob("*.py"):
            used |= set(re.findall(r"(?:ConfigWarning|reading\.warn)\(\s*\"(\w+)\"", path.read_text("utf-8")))
    assert len(used) > 10
    assert used | {"bad_value", "out_of_bounds"} <= known

    assert ConfigWarning.__slots__ == ("code", "variable", "set", "using", "message")
    warnings = load({"SECRET": "short", "RESYNC_MS": "1", "QM_NEW": "x", "TRUST_PROXY": "1"}).warnings
    assert {(one.code, one.variable, one.set, one.using) for one in warnings} == {
        ("short_secret", "SECRET", None, None), ("out_of_bounds", "RESYNC_MS", "1", 500),
        ("half_set_proxy", "TRUST_PROXY", "1", 1), ("unknown_variable", "QM_NEW", None, None),
    }  # fmt: skip
    assert {one.code for one in warnings if not one.raises_badge} == {"unknown_variable"}


@pytest.mark.req("CFG-235")
def test_it_advises_a_well_set_production_of_nothing() -> None:
    assert load(PRODUCTION).hardening == ()
    assert "QM_CONNECTOR_IPS" not in "".join(load({"PUBLIC_API_KEY": "p" * 32}).hardening)


@pytest.mark.req("CFG-235")
@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"VALKEY_URL": "valkeys://valkey.example"}, ["VALKEY_URL has no password"]),
        ({"VALKEY_URL": "valkey://:pass@8.8.8.8"}, ["VALKEY_URL has neither TLS nor a loopback or private address"]),
        ({"VALKEY_URL": "redis://:pass@10.0.0.1"}, []),
        ({"VALKEY_URL": "redis://:pass@[::1]"}, []),
        ({"VALKEY_URL": "unix:///run/valkey.sock"}, []),
        ({"DATABASE_URL": "postgresql://qm@pg.example/qm"}, ["DATABASE_URL has no password"]),
        ({"PG_CA_CERT": ""}, ["DATABASE_URL has neither TLS nor a loopback or private address"]),
        ({"PG_CA_CERT": "", "DATABASE_URL": "postgresql://qm:pass@localhost/qm"}, []),
        ({"PG_CA_CERT": "", "DATABASE_URL": "postgresql://qm:pass@pg.example/qm?sslmode=verify-full"}, []),
        (
            {"PG_CA_CERT": "", "DATABASE_URL": "postgresql://qm:pass@10.0.0.1/qm?sslmode=require"},
            ["the certificate of DATABASE_URL is not verified: set PG_CA_CERT or PG_CA_FILE"],
        ),
        ({"PUBLIC_URL": ""}, ["PUBLIC_URL is not set: addresses handed out follow the Host header"]),
        (
            {"QM_CONNECTOR_IPS": ""},
            [
                "QM_CONNECTOR_IPS is not set: whoever shares a connector's address can have its key refused, and then "
                "visitors pass unqueued"
            ],
        ),
    ],
)
def test_it_advises_of_what_is_left_open_in_production(change: dict[str, str], advice: list[str]) -> None:
    loaded = load({**PRODUCTION, **change})

    assert list(loaded.hardening) == advice
    assert loaded.warnings == ()
    assert load({**PRODUCTION, **change, "QM_ENV": "test"}).hardening == ()


@pytest.mark.req("CFG-232")
def test_it_advises_of_a_secret_that_can_be_tried_out() -> None:
    for name in ("SECRET", "SECRET_PREVIOUS"):
        loaded = load({**PRODUCTION, name: "x" * 31})
        assert list(loaded.hardening) == [f"{name} is short: whoever holds one ticket can try to guess it"]
        assert [(one.code, one.variable) for one in loaded.warnings] == [("short_secret", name)]
        assert load({**PRODUCTION, "QM_ENV": "test", name: "x" * 31}).hardening == ()


@pytest.mark.req("CFG-039")
@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("most", [2, 5, 10, 68, 200])
def test_all_processes_together_hold_no_more_connections_than_the_variable_says(workers: int, most: int) -> None:
    held = {"drainer": 1, "jobs": 2, "heavy": 1, "rebuilds": LANES}
    assert sum(held.values()) == PG_IN_BACKGROUND
    settings, warnings = with_pool(Settings(workers=workers, pg_pool_max=most), is_set=True)
    a_worker = (settings.pg_pool_max - PG_IN_BACKGROUND) // workers

    assert a_worker >= 1
    assert PG_IN_BACKGROUND + workers * a_worker <= settings.pg_pool_max
    if most >= PG_IN_BACKGROUND + workers:
        assert (settings.pg_pool_max, warnings) == (most, [])
        return
    (warning,) = warnings
    assert settings.pg_pool_max == warning.using == PG_IN_BACKGROUND + workers
    assert (warning.code, warning.variable, warning.set) == ("out_of_bounds", "PG_POOL_MAX", str(most))
    for part in (f"PG_POOL_MAX={most}", f"QM_WORKERS={workers}", f"using {warning.using}"):
        assert part in warning.message
    silent, nothing = with_pool(Settings(workers=workers, pg_pool_max=most), is_set=False)
    assert (silent.pg_pool_max, nothing) == (settings.pg_pool_max, [])


@pytest.mark.req("CFG-196")
def test_it_keeps_the_last_quarter_of_a_stop_for_the_commits() -> None:
    assert [kept_sec(drain) for drain in (0.5, 1, 2, 4, 8, 15, 600)] == [0.25, 0.25, 0.5, 1, 2, 2, 2]


OUTSIDE = (
    *("QM_ANALYTICS", "CF_ACCOUNT_ID", "CF_API_TOKEN", "QM_URL", "QM_ROOM", "QM_API_KEY", "QM_TIMEOUT_MS"),
    *("QM_SKIP_STATIC", "FAIL_MODE", "TEST_PAGE", "UPSTASH_REDIS_REST_URL", "UPSTASH_REDIS_REST_TOKEN"),
    *("TOTAL_ACTIVE_USERS", "SESSION_DURATION_SECONDS", "WAITING_ROOM_SECRET", "WAITING_ROOM_ID", "REDIS_PREFIX"),
    *("REDIS_TIMEOUT_MS", "QM_ADMIN_KEY", "QM_LOAD_ADMIN_KEY", "QM_LOAD_ALLOW_HOST"),
)
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.mark.req("CFG-094")
def test_it_reads_no_variable_of_programs_beside_it() -> None:
    (listed,) = re.findall(r"\*\*CFG-094\*\* (.*?) Proxy variables", SPEC)
    assert set(re.findall(r"`([A-Z][A-Z_]+)`", listed)) == set(OUTSIDE)
    beside = ROOT / "app/process/room_copy.py"  # a command, not the server
    files = [path for folder in ("app", "blueprints", "workers") for path in (ROOT / folder).rglob("*.py")]
    sources = "".join(path.read_text("utf-8") for path in files if path != beside)
    assert re.findall(rf"[\"'](?:{'|'.join((*OUTSIDE, *PROXIES))})[\"']", sources) == []
    assert re.findall(r"^\s*(?:from|import) (?:urllib\.request|httpx|aiohttp|requests)", sources, re.M) == []

    loaded = load(dict.fromkeys((*OUTSIDE, *PROXIES), "http://127.0.0.1:1"))

    assert {one.variable for one in loaded.warnings} == {name for name in OUTSIDE if name.startswith("QM_")}
    assert {one.code for one in loaded.warnings} == {"unknown_variable"}
    assert {**loaded.settings.shown(), "QM_INSTANCE_ID": ""} == {**load({}).settings.shown(), "QM_INSTANCE_ID": ""}
