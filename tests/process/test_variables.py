"""Every variable of this build: what it takes, what it is without, and what a value that cannot be used does.

The effect of each is proved where it acts; claims of both kinds stand side by side.
"""

from __future__ import annotations

import os
import resource
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import ROWS, Refused, Settings
from app.core.settings_kinds import Int
from app.core.settings_rules import load
from app.process import start
from app.process.start import bind, raise_file_limit, with_ca_file

CA = Path(__file__).parent / "ca.pem"
REFUSE, DEFAULT = "refuse", "default"
LISTS = {"TRUST_PROXY": "1"}
SHARED = {
    "STORE": "valkey", "VALKEY_URL": "redis://a/0", "DATABASE_URL": "postgresql://a/b", "SECRET": "s" * 32,
    "ADMIN_KEY": "k" * 16,
}  # fmt: skip
ADDRESSES = {"10.0.0.1": "10.0.0.1/32", "10.0.0.0/8": "10.0.0.0/8", "2400:cb00::/32": "2400:cb00::/32"}
NO_ADDRESSES = ["10.0.0.0/33", "10.0.0.1 10.0.0.2", "lb.example", "0.0.0.0/0", "::/0"]


TEXTS = [
    # name, default, {text: value}, texts that cannot be used, what they do
    pytest.param("QM_ENV", "development", {"development": "development", "test": "test"},
                 ["prod", "Production", "0"], REFUSE, marks=pytest.mark.req("CFG-018")),
    pytest.param("PUBLIC_URL", None, {"https://qm.test": "https://qm.test", "http://QM.test:8/": "http://qm.test:8"},
                 ["qm.test", "https://qm.test/a", "https://u:p@qm.test", "ftp://qm.test", "https://qm.test?a"], DEFAULT,
                 marks=pytest.mark.req("CFG-022")),
    pytest.param("ADMIN_HOST", (), {"A.test": ("a.test",), "a.test:1, 10.0.0.9 ,[2001:DB8::1]:2,b.": (
                 "a.test:1", "10.0.0.9", "[2001:db8::1]:2", "b")},
                 ["a b", "a.test,-b", "https://a.test", "a.test:0", "a.test:65536", "2001:db8::1", "[a]", "a/b", "*.a"],
                 REFUSE, marks=pytest.mark.req("CFG-023")),
    pytest.param("COOKIE_SECURE", None, {"1": True, "0": False}, ["2", "maybe"], DEFAULT,
                 marks=pytest.mark.req("CFG-024")),
    pytest.param("QM_INSTANCE_ID", None, {"a": "a", "web-1.eu_2": "web-1.eu_2", "x" * 63: "x" * 63},
                 ["-a", "a b", "x" * 64, "i:1", "ä"], REFUSE, marks=pytest.mark.req("CFG-025")),
    pytest.param("LOG_LEVEL", "info", {"debug": "debug", "error": "error"}, ["trace", "INFO"], DEFAULT,
                 marks=pytest.mark.req("CFG-027")),
    pytest.param("LOG_FORMAT", "text", {"json": "json"}, ["xml"], DEFAULT),
    pytest.param("STORE", "embedded", {"memory": "memory", "embedded": "embedded"}, ["redis", "Memory"], REFUSE,
                 marks=pytest.mark.req("CFG-029")),
    pytest.param("SIDESTORE", "embedded", {"embedded": "embedded"}, ["mysql", "pg", "memory"], REFUSE,
                 marks=pytest.mark.req("CFG-030")),
    pytest.param("VALKEY_PREFIX", "qm:", {"a": "a", "x" * 64: "x" * 64, "A_b.c:d-": "A_b.c:d-"},
                 ["a{b}", "a b", "x" * 65, "ä"], REFUSE, marks=pytest.mark.req("CFG-033")),
    pytest.param("TOKEN_SIGN_V2", False, {"yes": True, "OFF": False}, ["2"], DEFAULT, marks=pytest.mark.req("CFG-049")),
    pytest.param("TRUST_PROXY_IPS", (), ADDRESSES, NO_ADDRESSES, REFUSE,
                 marks=pytest.mark.req("CFG-057", "CFG-110", "VIS-014")),
    pytest.param("QM_CONNECTOR_IPS", (), ADDRESSES, NO_ADDRESSES, REFUSE),
    pytest.param("EDGE_SECRET", (), {"e" * 16: ("e" * 16,), f"{'a' * 16} , {'b' * 20},": ("a" * 16, "b" * 20)},
                 ["e" * 15, f"{'e' * 16},short", "e" * 8 + " " + "e" * 8, "ä" * 16, ",".join("abcdef") * 16, ",",
                  ",".join(letter * 16 for letter in "abcdef")],
                 REFUSE, marks=pytest.mark.req("CFG-058", "CFG-133", "VIS-027")),
    pytest.param("PROXY_ALLOW_PRIVATE", False, {"1": True}, ["maybe"], DEFAULT, marks=pytest.mark.req("CFG-059")),
    pytest.param("EMAIL_NOTIFY", False, {"1": True}, ["maybe"], DEFAULT),
    pytest.param("AUTOTUNE", False, {"true": True}, ["maybe"], DEFAULT, marks=pytest.mark.req("CFG-079")),
    pytest.param("QM_DRILL", False, {"on": True}, ["maybe"], DEFAULT, marks=pytest.mark.req("CFG-026")),
]  # fmt: skip


def attribute_of(name: str) -> str:
    return next(attribute for attribute, row in ROWS.items() if row.name == name)


def plain(value: Any) -> Any:
    """The value without its types: secrets revealed, ranges as text."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if hasattr(value, "reveal"):
        return value.reveal()
    return value if isinstance(value, str | bool | int) or value is None else str(value)


@pytest.mark.parametrize(("name", "default", "good", "bad", "rule"), TEXTS)
def test_it_takes_keeps_and_refuses_as_its_row_says(
    name: str, default: Any, good: dict[str, Any], bad: list[str], rule: str
) -> None:
    attribute = attribute_of(name)
    if name != "QM_INSTANCE_ID":
        assert plain(getattr(load({}).settings, attribute)) == default
    for text, value in good.items():
        found = plain(getattr(load({**LISTS, name: text}).settings, attribute))
        assert found == (value if not isinstance(default, tuple) or isinstance(value, tuple) else (value,))
    for text in bad:
        if rule == REFUSE:
            with pytest.raises(Refused) as caught:
                load({**LISTS, name: text})
            assert any(reason.startswith((name, "STORE")) for reason in caught.value.reasons)
        else:
            loaded = load({name: text})
            assert plain(getattr(loaded.settings, attribute)) == default
            (warning,) = loaded.warnings
            assert (warning.code, warning.variable, warning.set, warning.using) == ("bad_value", name, text, default)


NUMBERS = [
    pytest.param("VALKEY_TIMEOUT_MS", 1000, 50, 30000, marks=pytest.mark.req("CFG-006", "CFG-007", "CFG-035")),
    pytest.param("PG_POOL_MAX", 10, 2, 200, marks=pytest.mark.req("CFG-039")),
    pytest.param("PG_STATEMENT_TIMEOUT_MS", 5000, 500, 60000, marks=pytest.mark.req("CFG-040")),
    pytest.param("RESYNC_MS", 5000, 500, 60000, marks=pytest.mark.req("CFG-041")),
    pytest.param("LEADER_LEASE_MS", 10000, 2000, 120000, marks=pytest.mark.req("CFG-042")),
    pytest.param("LAPSED_TTL_MS", 86400000, 60000, 604800000, marks=pytest.mark.req("CFG-044")),
    pytest.param("VALKEY_ALERT_AFTER_MS", 30000, 1000, 3600000),
    pytest.param("HISTORY_RETAIN_DAYS", 400, 1, 3650),
    pytest.param("ALERT_EVERY_MS", 10000, 1000, 300000),
    pytest.param("ALERT_HOLD_SEC", 120, 0, 86400),
    pytest.param("ALERT_REPEAT_SEC", 1800, 0, 604800),
    pytest.param("ALERT_SURGE_MIN", 60, 0, 10000000),
    pytest.param("ALERT_SURGE_FACTOR", 5, 2, 1000),
    pytest.param("QM_LINE_MAX", 2000000, 1000, 100000000, marks=pytest.mark.req("CFG-226")),
    pytest.param("TOKEN_MAX_AGE_SEC", 86400, 600, 2592000, marks=pytest.mark.req("CFG-052")),
    pytest.param("CHECKPOINT_EVENTS", 20000, 100, 10000000, marks=pytest.mark.req("CFG-045")),
    pytest.param("QUEUE_COOKIE_MAX_AGE_SEC", 86400, 600, 2592000, marks=pytest.mark.req("CFG-053")),
    pytest.param("MONITOR_TOKEN_TTL_SEC", 604800, 60, 7776000, marks=pytest.mark.req("CFG-054")),
    pytest.param("TRUST_PROXY", 0, 0, 10, marks=pytest.mark.req("CFG-056")),
    pytest.param("MAX_CONNECTIONS", 20000, 0, 1000000, marks=pytest.mark.req("CFG-062")),
    pytest.param("CONNECTION_RESERVE", 256, 0, 65536, marks=pytest.mark.req("CFG-063")),
    pytest.param("SSE_PER_IP", 64, 0, 1000000, marks=pytest.mark.req("CFG-064")),
    pytest.param("SSE_MAX_TOTAL", 10000, 0, 1000000, marks=pytest.mark.req("CFG-065")),
    pytest.param("SHUTDOWN_GRACE_MS", 500, 0, 60000, marks=pytest.mark.req("CFG-066")),
    pytest.param("STATUS_LIMIT_PER_MIN", 6000, 0, 1000000, marks=pytest.mark.req("CFG-070")),
    pytest.param("NOTIFY_LIMIT_PER_MIN", 30, 0, 1000000, marks=pytest.mark.req("CFG-072")),
    pytest.param("PROXY_TIMEOUT_MS", 30000, 1000, 600000, marks=pytest.mark.req("CFG-060")),
    pytest.param("SHUTDOWN_DRAIN_MS", 2000, 500, 600000, marks=pytest.mark.req("CFG-067")),
    pytest.param("JOIN_LIMIT_PER_MIN", 600, 0, 1000000, marks=pytest.mark.req("CFG-068")),
    pytest.param("CHECK_LIMIT_PER_MIN", 3000, 0, 1000000, marks=pytest.mark.req("CFG-069")),
    pytest.param("WAITING_LIMIT_PER_MIN", 120, 0, 1000000, marks=pytest.mark.req("CFG-071")),
    pytest.param("VERIFY_LIMIT_PER_MIN", 60, 0, 1000000),
    pytest.param("RATE_LIMIT_MAX_KEYS", 200000, 1000, 10000000, marks=pytest.mark.req("CFG-074")),
    pytest.param("ADMIN_AUTH_FAIL_PER_MIN", 20, 0, 100000, marks=pytest.mark.req("CFG-055")),
]


@pytest.mark.parametrize(("name", "default", "low", "high"), NUMBERS)
def test_it_keeps_a_number_within_its_bounds_and_says_so(name: str, default: int, low: int, high: int) -> None:
    attribute = attribute_of(name)

    def used(text: str) -> tuple[int, list[Any]]:
        loaded = load({"TRUST_PROXY_IPS": "10.0.0.1", "SHUTDOWN_DRAIN_MS": "600000", name: text})
        mine = [item for item in loaded.warnings if item.variable == name and item.code != "misordered"]
        mine = [item for item in mine if item.code != "half_set_proxy"]
        return getattr(loaded.settings, attribute), mine

    assert getattr(load({}).settings, attribute) == default
    assert used(str(low)) == (low, [])
    assert used(str(high)) == (high, [])
    number, (warning,) = used(str(high + 1))
    assert number == high
    assert warning.message == f'{name}="{high + 1}" is outside {low} to {high}; using {high}'
    assert (warning.code, warning.set, warning.using) == ("out_of_bounds", str(high + 1), high)
    number, (warning,) = used("10s")
    assert number == default
    assert warning.message == f'{name}="10s" is not a whole number; using {default}'
    assert warning.code == "bad_value"


@pytest.mark.req("CFG-006")
def test_it_names_a_rule_for_every_row_and_refuses_what_the_specification_refuses() -> None:
    refusing = {row.name for row in ROWS.values() if row.bad == "refuse"}

    assert refusing >= {"PORT", "HOST", "QM_ENV", "STORE", "SIDESTORE", "QM_INSTANCE_ID", "TRUST_PROXY_IPS"}
    assert refusing >= {"EDGE_SECRET", "ADMIN_HOST", "PG_CA_FILE", "PG_CA_CERT", "VALKEY_PREFIX", "VALKEY_URL"}
    numbers = {row.name for row in ROWS.values() if isinstance(row.kind, Int)}
    assert refusing & numbers == {"PORT"}


@pytest.mark.req("CFG-016")
@pytest.mark.parametrize("text", ["http", "-1", "65536", "8080.0", "1e3"])
def test_it_refuses_a_port_that_is_none(text: str) -> None:
    with pytest.raises(Refused, match="PORT="):
        load({"PORT": text})
    assert [load({"PORT": port}).settings.port for port in ("0", "1", "65535")] == [0, 1, 65535]
    assert load({}).settings.port == 8080


@pytest.mark.req("CFG-017")
def test_it_refuses_an_address_it_cannot_listen_on() -> None:
    assert load({}).settings.host == "127.0.0.1"
    assert load({**SHARED, "QM_ENV": "production"}).settings.host == "0.0.0.0"
    for host in ("127.0.0.1", "[::1]", "localhost"):
        bind(host, 0).close()
    with pytest.raises(Refused, match=r'HOST="203\.0\.113\.1" cannot be listened on'):
        bind("203.0.113.1", 0)
    with pytest.raises(Refused, match="HOST="):
        load({"HOST": "a b"})


@pytest.mark.req("CFG-020")
def test_it_has_a_worker_for_each_usable_cpu_up_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, workers in ((1, 1), (3, 3), (8, 8), (96, 8)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, count=count: set(range(count)))
        assert load({}).settings.workers == workers
        assert load({"QM_WORKERS": "5"}).settings.workers == 5
        for text, code, used in (("0", "out_of_bounds", 1), ("65", "out_of_bounds", 64), ("all", "bad_value", workers)):
            loaded = load({"QM_WORKERS": text})
            assert (loaded.settings.workers, loaded.warnings[0].code) == (used, code)


@pytest.mark.req("CFG-005")
@pytest.mark.parametrize(
    ("texts", "value"),
    [(["1", "true", "yes", "on", "TRUE", "Yes", "oN"], True), (["0", "false", "no", "off", "FALSE", "nO"], False)],
)
def test_it_reads_booleans_of_any_letter_case_and_nothing_else(texts: list[str], value: bool) -> None:
    for text in texts:
        assert load({"COOKIE_SECURE": text}).settings.cookie_secure is value
    for text in ("2", "y", "n", "enabled", "t", "11", "true,"):
        loaded = load({"COOKIE_SECURE": text})
        assert (loaded.settings.cookie_secure, loaded.warnings[0].code) == (None, "bad_value")


@pytest.mark.req("CFG-036")
def test_it_takes_an_address_of_postgres_by_its_scheme() -> None:
    for text in ("postgres://a/b", "postgresql://u:p@a:5432/b?search_path=c&application_name=d"):
        revealed = load({**SHARED, "DATABASE_URL": text}).settings.database_url
        assert revealed is not None
        assert revealed.reveal() == text
    for text in ("mysql://a/b", "a:5432", "postgres:", "postgres://a:x/b"):
        with pytest.raises(Refused, match="DATABASE_URL"):
            load({**SHARED, "DATABASE_URL": text})
    with pytest.raises(Refused, match="DATABASE_URL, which is not set"):
        load({**SHARED, "DATABASE_URL": ""})


@pytest.mark.req("CFG-031")
def test_it_takes_an_address_of_a_store_by_its_scheme() -> None:
    for text in ("redis://a:6379/0", "rediss://u:p@a/1", "valkey://a", "valkeys://a", "unix:///run/valkey.sock"):
        revealed = load({**SHARED, "VALKEY_URL": text}).settings.valkey_url
        assert revealed is not None
        assert revealed.reveal() == text
    for text in ("http://a", "a:6379", "redis:", "redis://a:x"):
        with pytest.raises(Refused, match="VALKEY_URL"):
            load({**SHARED, "VALKEY_URL": text})
    with pytest.raises(Refused, match="VALKEY_URL, which is not set"):
        load({**SHARED, "VALKEY_URL": ""})


def test_it_leaves_alerts_unsent_and_says_so_when_their_address_is_no_web_address() -> None:
    for bad in (
        "ftp://hooks.example/T0",
        "hooks.example/T0",
        "http://",
        "https://hooks.example/T 0",
        "https://[::1/T0",
    ):
        loaded = load({"ALERT_WEBHOOK_URL": bad})
        (warning,) = loaded.warnings
        assert loaded.settings.alert_webhook_url is None
        assert (warning.code, warning.variable, warning.set) == ("bad_value", "ALERT_WEBHOOK_URL", None)
        assert f"ALERT_WEBHOOK_URL ({len(bad)} characters)" in warning.message
        assert "T0" not in warning.message
    good = load({"ALERT_WEBHOOK_URL": "https://hooks.example/T0"}).settings
    assert good.alert_webhook_url is not None
    assert good.alert_webhook_url.reveal() == "https://hooks.example/T0"
    assert good.shown()["ALERT_WEBHOOK_URL"] == "set"
    assert "T0" not in repr(good)


@pytest.mark.req("CFG-038")
def test_it_takes_the_ca_of_postgres_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CA.read_text()
    env = {**SHARED, "PG_CA_CERT": text.replace("\n", "\\n")}
    loaded = load(env)
    with ExitStack() as held:
        settings = with_ca_file(loaded.settings, held)
        assert settings.pg_ca_file is not None
        ssl.create_default_context(cafile=str(settings.pg_ca_file))
        assert start.shared_urls(settings)[1].endswith(f"?sslmode=verify-full&sslrootcert={settings.pg_ca_file}")
    assert not settings.pg_ca_file.exists()
    assert loaded.settings.shown()["PG_CA_CERT"] == "set"

    both = load({**SHARED, "PG_CA_CERT": text, "PG_CA_FILE": str(CA)})
    with ExitStack() as held:
        assert with_ca_file(both.settings, held).pg_ca_file == CA
    assert [(item.code, item.variable) for item in both.warnings] == [("ignored_setting", "PG_CA_CERT")]
    for bad in ("no certificate", text.replace("CERTIFICATE", "PRIVATE KEY"), text[:200]):
        with pytest.raises(Refused) as caught:
            load({**SHARED, "PG_CA_CERT": bad})
        assert caught.value.reasons == (
            "PG_CA_CERT is not PEM text with a certificate. Correct PG_CA_CERT or unset it.",
        )


@pytest.mark.req("CFG-010", "CFG-092")
def test_it_gives_notice_of_names_it_does_not_have() -> None:
    names = ["QM_X", "ALERT_X", "EDGE_X", "FLEET_X", "MESH_X", "PROTECTION_X", "SHUTDOWN_X", "SMTP_X", "SSE_X"]
    names += ["TOKEN_REFRESH_AFTER_MS", "TRUST_PROXY_IP", "WEBHOOK_X", "QM_ANALYTICS", "QM_API_KEY", "QM_SKIP_STATIC"]
    loaded = load({**dict.fromkeys(names, "1"), "HOME": "/", "HTTPS_PROXY": "http://p", "FAIL_MODE": "open"})

    assert [item.variable for item in loaded.warnings] == sorted(names)
    for item in loaded.warnings:
        assert (item.code, item.message) == ("unknown_variable", f"{item.variable} is not a variable of this release")
        assert not item.raises_badge


@pytest.mark.req("CFG-062")
def test_it_warns_when_streams_alone_could_close_the_door() -> None:
    loaded = load({"MAX_CONNECTIONS": "10000"})
    (warning,) = loaded.warnings
    assert warning.code == "misordered"
    assert "MAX_CONNECTIONS=10000" in warning.message
    assert "SSE_MAX_TOTAL=10000" in warning.message
    assert (loaded.settings.max_connections, loaded.settings.sse_max_total) == (10000, 10000)
    for env in ({"MAX_CONNECTIONS": "10001"}, {"MAX_CONNECTIONS": "0"}, {"MAX_CONNECTIONS": "9", "SSE_MAX_TOTAL": "0"}):
        assert load(env).warnings == ()


@pytest.mark.req("CFG-177")
def test_it_raises_the_limit_of_files_and_warns_when_that_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (1024, 40511))
    monkeypatch.setattr(resource, "setrlimit", lambda _what, limits: raised.append(limits))

    assert raise_file_limit(Settings(max_connections=20000, connection_reserve=255)) == []
    (warning,) = raise_file_limit(Settings(max_connections=20000, connection_reserve=256))
    assert raise_file_limit(Settings(max_connections=0)) == []

    assert raised == [(40511, 40511)] * 3
    assert "40511" in warning.message
    assert "40512" in warning.message
    assert capsys.readouterr().err == warning.message + "\n"


@pytest.mark.req("CFG-130")
def test_it_says_that_the_edge_secret_makes_the_proxy_list_idle() -> None:
    edge = {"EDGE_SECRET": "e" * 16}
    assert load(edge).warnings == ()
    loaded = load({**edge, "TRUST_PROXY": "1", "TRUST_PROXY_IPS": "8.0.0.0/7"})
    assert [(item.code, item.variable) for item in loaded.warnings] == [
        ("ignored_setting", "TRUST_PROXY"),
        ("ignored_setting", "TRUST_PROXY_IPS"),
    ]
    assert [item.code for item in load({**edge, "TRUST_PROXY": "1"}).warnings] == ["ignored_setting"]


@pytest.mark.req("VIS-034", "CFG-136")
def test_it_advises_on_the_edge_secret_where_it_matters() -> None:
    sentence = "EDGE_SECRET is not set: requests that bypass Cloudflare are accepted"
    for env in (SHARED, {**SHARED, "QM_ENV": "production"}, {**SHARED, "NODE_ENV": "production"}):
        loaded = load(env)
        assert sentence in loaded.hardening
        assert sentence not in [item.message for item in loaded.warnings]
        assert sentence not in load({**env, "EDGE_SECRET": "e" * 16}).hardening
    assert sentence not in load({}).hardening


def test_it_names_a_secret_and_its_length_and_never_its_value() -> None:
    secrets = {
        "EDGE_SECRET": "tooshort-edge,0123456789abcdef", "VALKEY_URL": "http://user:pass-word-1@h",
        "DATABASE_URL": "mysql://user:pass-word-2@h", "ADMIN_KEY": "short-admin-key", "SECRET": "short-signing-key",
        "SECRET_PREVIOUS": "short-previous-key", "PUBLIC_API_KEY": "short-public",
    }  # fmt: skip
    with pytest.raises(Refused) as caught:
        load({**SHARED, **secrets})
    for name in ("EDGE_SECRET", "VALKEY_URL", "DATABASE_URL"):
        assert f"{name} ({len(secrets[name])} characters)" in caught.value.block()
    good = {**secrets, "EDGE_SECRET": "e" * 16, **{n: SHARED[n] for n in ("VALKEY_URL", "DATABASE_URL")}}
    loaded = load({**SHARED, **good, "QM_ENV": "production", "TRUST_PROXY": "1"})
    said = f"{caught.value.block()} {loaded.warnings} {loaded.hardening} {loaded.settings} {loaded.settings.shown()}"

    for part in (
        "tooshort",
        "0123456789abcdef",
        "pass-word",
        "short-admin",
        "short-signing",
        "short-prev",
        "short-pub",
    ):
        assert part not in said
    assert "e" * 16 not in said
    assert {w.variable: w.set for w in loaded.warnings if w.code == "short_secret"} == {
        "SECRET": None, "SECRET_PREVIOUS": None, "ADMIN_KEY": None, "PUBLIC_API_KEY": None,
    }  # fmt: skip
