"""Reading the environment: defaults, bad values, refusals, notices."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from app.core.secret import Secret
from app.core.settings import ROWS, ConfigWarning, Loaded, Refused
from app.core.settings_docs import write_documents
from app.core.settings_kinds import Int
from app.core.settings_rules import load

SPEC = Path(__file__).resolve().parents[2] / "docs/spec/01-configuration.md"
SHARED = {
    "STORE": "valkey",
    "VALKEY_URL": "redis://:hunter2hunter2@10.0.0.1/0",
    "DATABASE_URL": "postgresql://qm:hunter3hunter3@10.0.0.2/qm?search_path=a",
    "SECRET": "s" * 32,
    "ADMIN_KEY": "k" * 16,
}


def warning_of(env: dict[str, str]) -> ConfigWarning:
    (warning,) = load(env).warnings
    return warning


def refusals(env: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(Refused) as caught:
        load(env)
    return caught.value.reasons


@pytest.mark.req("CFG-001")
def test_it_starts_with_nothing_set() -> None:
    loaded = load({})

    assert loaded.warnings == ()
    assert loaded.settings.host == "127.0.0.1"
    assert (loaded.settings.store, loaded.settings.sidestore) == ("embedded", "embedded")
    assert 1 <= loaded.settings.workers <= 8
    assert re.fullmatch(r"i:[0-9a-f]{8}", loaded.settings.instance_id)


@pytest.mark.req("CFG-003")
def test_it_takes_empty_for_unset_and_cuts_blanks_off() -> None:
    loaded = load({"PORT": "", "QM_WORKERS": "  ", "HOST": "\t::1 ", "RESYNC_MS": " 700 "})

    assert loaded.warnings == ()
    assert (loaded.settings.port, loaded.settings.host, loaded.settings.resync_ms) == (8080, "::1", 700)


@pytest.mark.req("CFG-004")
@pytest.mark.parametrize("text", ["10s", "1e3", "0x10", "-5", "1_000", "1.5", "٣", "+5", "1 000"])
def test_it_uses_the_default_for_a_number_of_another_form(text: str) -> None:
    loaded = load({"VALKEY_TIMEOUT_MS": text})

    assert loaded.settings.valkey_timeout_ms == 1000
    (warning,) = loaded.warnings
    assert warning == ConfigWarning(
        "bad_value",
        "VALKEY_TIMEOUT_MS",
        text,
        1000,
        f'VALKEY_TIMEOUT_MS="{text}" is not a whole number; using 1000',
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("TRUE", True),
        ("Yes", True),
        ("on", True),
        ("0", False),
        ("false", False),
        ("NO", False),
        ("Off", False),
    ],
)
def test_it_reads_booleans_in_any_case(text: str, value: bool) -> None:
    loaded = load({"TOKEN_SIGN_V2": text})

    assert loaded.warnings == ()
    assert loaded.settings.token_sign_v2 is value


@pytest.mark.req("CFG-005")
def test_it_warns_of_any_other_boolean() -> None:
    assert warning_of({"TOKEN_SIGN_V2": "2"}).message == (
        'TOKEN_SIGN_V2="2" is not a boolean (1, true, yes, on, 0, false, no or off); using 0'
    )
    assert warning_of({"COOKIE_SECURE": "maybe"}).message.endswith("; treated as unset")


ORDERED = ("port", "protection_warn_at", "protection_block_at")
"""Numbers whose bounds a rule of their own watches over."""


@pytest.mark.req("CFG-006", "CFG-007")
@pytest.mark.parametrize(
    ("attribute", "kind"),
    [(name, row.kind) for name, row in ROWS.items() if isinstance(row.kind, Int) and name not in ORDERED],
)
def test_it_clamps_every_number_to_its_bounds(attribute: str, kind: Int) -> None:
    name = ROWS[attribute].name
    quiet = {"TRUST_PROXY_IPS": "10.0.0.0/8", "SHUTDOWN_DRAIN_MS": "600000", "SSE_MAX_TOTAL": "0"}

    for text, bound in ((str(kind.high + 1), kind.high), (str(10**40), kind.high)) + (
        ((str(kind.low - 1), kind.low),) if kind.low else ()
    ):
        loaded = load({**quiet, name: text} if name not in quiet else {name: text})

        assert getattr(loaded.settings, attribute) == bound
        mine = [warning for warning in loaded.warnings if warning.code == "out_of_bounds"]
        assert [item.variable for item in mine] == [name]
        assert mine[0].message == f'{name}="{text}" is outside {kind.low} to {kind.high}; using {bound}'
        assert (mine[0].set, mine[0].using) == (text, bound)


def test_its_rows_have_the_defaults_and_bounds_of_the_specification() -> None:
    rows = {
        cells[2].strip("`"): cells
        for line in SPEC.read_text().splitlines()
        if len(cells := [cell.strip() for cell in line.replace(r"\|", "/").split("|")]) == 9
        and cells[2].startswith("`")
    }
    settings = load({}).settings
    for attribute, row in ROWS.items():
        kind_and_default, bounds = rows[row.name][3], rows[row.name][4]
        assert row.ident in rows[row.name][1]
        if isinstance(row.kind, Int):
            assert bounds.split(";")[0].replace("–", "-") == f"{row.kind.low}-{row.kind.high}", row.name
            default = re.search(r"`(\d+)`", kind_and_default)
            assert default is None or int(default[1]) == getattr(settings, attribute), row.name


@pytest.mark.req("CFG-182")
@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"PORT": "http"}, 'PORT="http" is not a whole number'),
        ({"PORT": "70000"}, 'PORT="70000" is outside 0 to 65535'),
        ({"QM_ENV": "prod"}, 'QM_ENV="prod" is not one of'),
        ({"STORE": "redis"}, 'STORE="redis" is not one of'),
        ({"SIDESTORE": "mysql"}, 'SIDESTORE="mysql" is not one of'),
        ({"STORE": "memory", "SIDESTORE": "pg"}, 'STORE="memory" and SIDESTORE="pg" do not belong together'),
        ({"QM_INSTANCE_ID": "a b"}, 'QM_INSTANCE_ID="a b" is not'),
        ({"VALKEY_PREFIX": "a{b}"}, 'VALKEY_PREFIX="a{b}" is not'),
        ({"PG_CA_FILE": "/nowhere.pem"}, 'PG_CA_FILE="/nowhere.pem" cannot be read'),
        ({"PG_CA_FILE": __file__}, "is not a PEM file"),
        (
            {
                "STORE": "valkey",
                "DATABASE_URL": "postgresql://pg/qm",
                "SECRET": "s" * 32,
                "ADMIN_KEY": "a" * 16,
                "VALKEY_CLUSTER": "1",
                "VALKEY_URL": "redis://valkey/3",
            },
            "names a database other than 0",
        ),
    ],
)
def test_it_refuses_what_would_be_unsafe(env: dict[str, str], words: str) -> None:
    reasons = refusals(env)

    assert len(reasons) == 1
    assert words in reasons[0]


@pytest.mark.req("CFG-182")
@pytest.mark.parametrize("missing", ["VALKEY_URL", "DATABASE_URL"])
def test_it_refuses_half_a_store_pair(missing: str) -> None:
    (reason,) = refusals({name: text for name, text in SHARED.items() if name != missing})

    assert f"{missing}, which is not set" in reason


@pytest.mark.req("CFG-183", "ADM-034")
@pytest.mark.parametrize("missing", ["SECRET", "ADMIN_KEY"])
@pytest.mark.parametrize("production", [{}, {"QM_ENV": "production"}, {"QM_ENV": "production", "STORE": "embedded"}])
def test_it_refuses_shared_stores_and_production_without_shared_keys(missing: str, production: dict[str, str]) -> None:
    reasons = refusals({name: text for name, text in {**SHARED, **production}.items() if name != missing})

    assert [reason for reason in reasons if reason.startswith(f"{missing} is not set")]


@pytest.mark.req("CFG-181", "FLT-001")
@pytest.mark.parametrize("name", ["QM_ENV", "NODE_ENV"])
@pytest.mark.parametrize("store", ["embedded", "memory"])
def test_it_refuses_production_on_private_stores(name: str, store: str) -> None:
    reasons = refusals({**SHARED, name: "production", "STORE": store})

    assert any(reason.startswith('QM_ENV="production" needs STORE=valkey') for reason in reasons)


@pytest.mark.req("CFG-180")
def test_it_lists_all_refusals_of_one_run() -> None:
    with pytest.raises(Refused) as caught:
        load({"PORT": "x", "STORE": "valkey", "QM_INSTANCE_ID": "-", "TRUST_PROXY_IPS": "host"})

    block = caught.value.block()
    assert block.startswith("refusing to start:\n")
    for name in ("PORT", "VALKEY_URL", "DATABASE_URL", "SECRET", "ADMIN_KEY", "QM_INSTANCE_ID", "TRUST_PROXY_IPS"):
        assert f"  - {name}" in block or f" {name}, which is not set" in block


@pytest.mark.req("CFG-111")
@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("10.0.0.1,173.245.48.0/33", "173.245.48.0/33"),
        ("10.0.0.1 10.0.0.2,10.0.0.3", "10.0.0.1 10.0.0.2"),
        ("lb.example", "lb.example"),
    ],
)
def test_it_names_the_one_entry_that_is_no_address(text: str, bad: str) -> None:
    (reason,) = refusals({"TRUST_PROXY_IPS": text, "TRUST_PROXY": "1"})

    assert f'"{bad}"' in reason
    assert "10.0.0.3" not in reason
    assert load({"TRUST_PROXY": "1", "TRUST_PROXY_IPS": "10.0.0.1,, 2400:cb00::/32 ,"}).warnings == ()


@pytest.mark.req("CFG-229")
def test_it_refuses_a_range_of_everybody_and_warns_of_broad_ones() -> None:
    for everybody in ("0.0.0.0/0", "::/0", "::ffff:0:0/96"):
        assert everybody in refusals({"TRUST_PROXY": "1", "TRUST_PROXY_IPS": everybody})[0]
    for broad in ("8.0.0.0/7", "2000::/15"):
        assert warning_of({"TRUST_PROXY": "1", "TRUST_PROXY_IPS": broad}).code == "broad_trust"
        assert broad in warning_of({"TRUST_PROXY": "1", "TRUST_PROXY_IPS": broad}).message
    assert load({"TRUST_PROXY": "1", "TRUST_PROXY_IPS": "9.0.0.0/8,2000::/16"}).warnings == ()


def test_it_reads_mapped_addresses_as_what_they_stand_for() -> None:
    ranges = load(
        {"TRUST_PROXY": "1", "TRUST_PROXY_IPS": "::ffff:10.0.0.7,::ffff:10.1.0.0/112"}
    ).settings.trust_proxy_ips

    assert [str(item) for item in ranges] == ["10.0.0.7/32", "10.1.0.0/16"]


def test_it_warns_of_a_half_set_pair() -> None:
    assert warning_of({"TRUST_PROXY": "1"}).code == "half_set_proxy"
    assert warning_of({"TRUST_PROXY_IPS": "10.0.0.1"}).code == "half_set_proxy"


@pytest.mark.req("CFG-012", "CFG-066")
def test_it_names_both_values_of_a_misordered_pair() -> None:
    loaded = load({"SHUTDOWN_GRACE_MS": "9000", "SHUTDOWN_DRAIN_MS": "3000"})

    assert loaded.settings.shutdown_grace_ms == 3000
    assert loaded.warnings[0].code == "misordered"
    set_and_used = ("SHUTDOWN_GRACE_MS=9000", "SHUTDOWN_DRAIN_MS=3000; using SHUTDOWN_GRACE_MS=3000")
    for words in (*set_and_used, "and SHUTDOWN_DRAIN_MS=3000"):
        assert words in loaded.warnings[0].message


@pytest.mark.req("CFG-019")
def test_it_lets_production_win_over_a_differing_alias() -> None:
    assert load({"NODE_ENV": "test"}).settings.env == "test"
    for env in ({"QM_ENV": "production", "NODE_ENV": "test"}, {"QM_ENV": "test", "NODE_ENV": "production"}):
        loaded = load({**SHARED, **env})
        assert loaded.settings.env == "production"
        assert "QM_ENV=" in loaded.warnings[0].message
        assert "NODE_ENV=" in loaded.warnings[0].message
    assert warning_of({"NODE_ENV": "staging"}).variable == "NODE_ENV"


@pytest.mark.req("CFG-010")
def test_it_notices_variables_it_does_not_have() -> None:
    loaded = load({"TRUST_PROXY_IP": "10.0.0.1", "QM_ANALYTICS": "x", "PATH": "/bin", "LC_ALL": "C", "SMTP_HOST": "a"})

    assert [(item.code, item.message) for item in loaded.warnings] == [
        ("unknown_variable", "QM_ANALYTICS is not a variable of this release"),
        ("unknown_variable", "SMTP_HOST is not a variable of this release"),
        ("unknown_variable", "TRUST_PROXY_IP is not a variable of this release"),
    ]
    assert not any(item.raises_badge for item in loaded.warnings)


def test_it_treats_a_public_url_of_another_form_as_unset() -> None:
    for text in (
        "qm.example",
        "ftp://qm.example",
        "https://qm.example/a",
        "https://u@qm.example",
        "https://qm.example?x",
        "https://qm.example:x",
    ):
        loaded = load({"PUBLIC_URL": text})
        assert loaded.settings.public_url is None
        assert loaded.warnings[0].using is None
    assert load({"PUBLIC_URL": "https://QM.example:8443/"}).settings.public_url == "https://qm.example:8443"


def test_it_listens_on_all_addresses_in_production_only() -> None:
    assert load({**SHARED, "QM_ENV": "production"}).settings.host == "0.0.0.0"
    assert load({**SHARED, "QM_ENV": "production", "HOST": "10.0.0.9"}).settings.host == "10.0.0.9"
    assert load(SHARED).settings.host == "127.0.0.1"


@pytest.mark.req("CFG-047", "CFG-048", "CFG-050", "CFG-051", "ADM-034")
def test_it_warns_of_keys_that_are_short_equal_or_useless() -> None:
    assert warning_of({"SECRET": "x" * 31}).code == "short_secret"
    assert warning_of({"ADMIN_KEY": "x" * 15}).code == "short_secret"
    assert warning_of({"PUBLIC_API_KEY": "x" * 15}).code == "short_secret"
    same = warning_of({"ADMIN_KEY": "x" * 16, "PUBLIC_API_KEY": "x" * 16})
    assert "PUBLIC_API_KEY" in same.message
    assert same.raises_badge
    assert warning_of({"ADMIN_KEY": "x" * 15}).raises_badge, "the console shows `insecure config`"
    assert warning_of({"SECRET": "x" * 32, "SECRET_PREVIOUS": "x" * 32}).code == "no_effect"
    assert warning_of({"SECRET_PREVIOUS": "x" * 32}).code == "no_effect"


def everything_said(loaded: Loaded) -> str:
    warnings = [dataclasses.asdict(item) for item in loaded.warnings]
    return json.dumps(
        [warnings, loaded.hardening, loaded.settings.shown(), repr(loaded.settings), str(loaded)], default=str
    )


@pytest.mark.req("CFG-179")
def test_it_never_says_the_value_of_a_secret() -> None:
    secret: dict[str, str] = {
        "SECRET": "short-one-A", "SECRET_PREVIOUS": "short-two-B", "ADMIN_KEY": "key-C", "PUBLIC_API_KEY": "key-D",
        "VALKEY_URL": "redis://user:pass-E@host/0", "DATABASE_URL": "postgresql://user:pass-F@host/qm",
    }  # fmt: skip
    said = everything_said(load({**SHARED, **secret, "QM_ENV": "production"}))
    bad = " ".join(
        refusals({**SHARED, "VALKEY_URL": "http://user:pass-E@host", "DATABASE_URL": "mysql://user:pass-F@h"})
    )

    for part in ("short-one-A", "short-two-B", "key-C", "key-D", "pass-E", "pass-F"):
        assert part not in said
        assert part not in bad
    assert "VALKEY_URL (23 characters)" in bad


def test_it_shows_every_value_in_use_and_of_secrets_whether_they_are_set() -> None:
    shown = load({**SHARED, "TRUST_PROXY": "1", "TRUST_PROXY_IPS": "10.0.0.0/8"}).settings.shown()

    assert set(shown) == {row.name for row in ROWS.values()}
    assert (shown["SECRET"], shown["PUBLIC_API_KEY"], shown["VALKEY_URL"]) == ("set", "unset", "set")
    assert (shown["TRUST_PROXY_IPS"], shown["RESYNC_MS"]) == (["10.0.0.0/8"], 5000)
    json.dumps(shown)


def test_it_advises_on_what_is_off_in_production() -> None:
    advice = "\n".join(load({**SHARED, "QM_ENV": "production", "VALKEY_URL": "redis://8.8.8.8/0"}).hardening)

    for words in (
        "EDGE_SECRET is not set",
        "PUBLIC_API_KEY is not set",
        "PUBLIC_URL is not set",
        "VALKEY_URL has no password",
    ):
        assert words in advice
    assert "EDGE_SECRET" not in "".join(load({}).hardening)


def test_its_settings_travel_to_other_processes_with_their_secrets() -> None:
    sent: Any = pickle.loads(pickle.dumps(load(SHARED).settings))

    assert sent.secret.reveal() == "s" * 32


@pytest.mark.parametrize("text", ["{}", "{!r}", "{!s}", "{:>20}"])
def test_a_secret_shows_nothing_of_itself(text: str) -> None:
    secret = Secret("hunter2")

    assert "hunter2" not in text.format(secret)
    assert "hunter2" not in repr([secret])
    with pytest.raises(TypeError):
        secret == "hunter2"  # noqa: B015


def test_its_documents_are_up_to_date() -> None:
    assert write_documents(check=True) == 0


def test_it_finds_a_document_that_is_out_of_date(tmp_path: Path) -> None:
    assert write_documents(check=True, root=tmp_path) == 1
    assert write_documents(check=False, root=tmp_path) == 0
    assert write_documents(check=True, root=tmp_path) == 0
    page = (tmp_path / "docs/reference/settings.md").read_text()
    assert [row.name for row in ROWS.values() if f"## {row.name}\n" not in page] == []


@pytest.mark.req("CFG-076", "CFG-077", "VIS-193")
@pytest.mark.parametrize(
    ("warn", "block", "using"),
    [(None, None, (40, 70)), ("10", "20", (10, 20)), ("99", "100", (99, 100)), ("70", "70", (40, 70)),
     ("71", None, (40, 70)), (None, "40", (40, 70)), ("0", "5", (1, 5)), ("5", "1000", (5, 100)),
     ("x", "90", (40, 90))],
)  # fmt: skip
def test_it_keeps_the_thresholds_of_the_protection_ordered(
    warn: str | None, block: str | None, using: tuple[int, int]
) -> None:
    env = {"PROTECTION_WARN_AT": warn, "PROTECTION_BLOCK_AT": block}
    loaded = load({name: text for name, text in env.items() if text is not None})

    assert (loaded.settings.protection_warn_at, loaded.settings.protection_block_at) == using
    misordered = [warning for warning in loaded.warnings if warning.code == "misordered"]
    assert bool(misordered) is ((warn, block) in {("70", "70"), ("71", None), (None, "40")})
    for warning in misordered:
        for text in ("PROTECTION_WARN_AT", "PROTECTION_BLOCK_AT", "40", "70"):
            assert text in warning.message


@pytest.mark.req("CFG-075", "CFG-078", "CFG-225")
def test_it_reads_the_lists_and_the_mode_of_the_protection() -> None:
    loaded = load({"PROTECTION_ALLOW_IPS": "203.0.113.0/24, ::1,", "PROTECTION_MODE": "block"})

    assert [str(one) for one in loaded.settings.protection_allow_ips] == ["203.0.113.0/24", "::1/128"]
    assert loaded.settings.protection_mode == "monitor"
    assert [warning.variable for warning in loaded.warnings] == ["PROTECTION_MODE"]
    for name in ("PROTECTION_ALLOW_IPS", "QM_CONNECTOR_IPS"):
        with pytest.raises(Refused, match=f'{name} has the entry "shop.example"'):
            load({name: "203.0.113.1,shop.example"})
