"""Every variable this build obeys, declared once: name, type, default, bounds, what a bad value does, help.

The only module that reads the environment (CFG-002: once, at start). Parsing, ``/api/admin/health``, ``.env.example``
and ``docs/reference/settings.md`` come from the rows below; rules that concern more than one variable are in
``settings_rules``. Source: docs/spec/01-configuration.md, section 2.
"""

# ruff: noqa: RUF009 - row() makes a dataclass field; that is how a variable is declared
from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.core.mail_kinds import EmailAddress, SmtpUrl
from app.core.secret import Secret
from app.core.settings_kinds import (
    BaseUrl,
    Bool,
    Choice,
    Folder,
    HookUrl,
    HostNames,
    Int,
    Key,
    KeyList,
    Network,
    Networks,
    PemFile,
    PemText,
    Short,
    StoreUrl,
    Text,
)
from app.core.settings_row import ROW, Bad, Row, row

_LIMIT: Final = Int(0, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """The values in use. Secrets are Secret; an unset optional value is None.

    Travels by pickle to this server's own processes, over the pipe that starts them: never through their environment.
    """

    port: int = row("PORT", "CFG-016", Int(0, 65535), 8080, "TCP port; 0 = any free one", bad=Bad.REFUSE)
    host: str = row(
        "HOST", "CFG-017", Text(r"[A-Za-z0-9.:_\[\]-]+", "an IP address or a host name"), "127.0.0.1",
        "address the server listens on", bad=Bad.REFUSE, shown="127.0.0.1; 0.0.0.0 with QM_ENV=production",
    )  # fmt: skip
    env: str = row(
        "QM_ENV", "CFG-018", Choice(("development", "production", "test")), "development",
        "production demands shared stores, SECRET and ADMIN_KEY", bad=Bad.REFUSE,
    )  # fmt: skip
    node_env: str | None = row(
        "NODE_ENV", "CFG-019", Choice(("development", "production", "test")), None, "stands in for QM_ENV when unset"
    )
    workers: int = row("QM_WORKERS", "CFG-020", Int(1, 64), 0, "web worker processes", shown="usable CPUs, at most 8")
    data_dir: Path = row(
        "DATA_DIR", "CFG-021", Folder(), Path("data"), "where STORE=embedded keeps its stores and keys",
        bad=Bad.REFUSE, shown="./data",
    )  # fmt: skip
    public_url: str | None = row("PUBLIC_URL", "CFG-022", BaseUrl(), None, "address of this server for links it gives")
    admin_host: tuple[str, ...] = row(
        "ADMIN_HOST", "CFG-023", HostNames(), (), "the only hosts that serve the console and the admin API",
        bad=Bad.REFUSE,
    )  # fmt: skip
    cookie_secure: bool | None = row(
        "COOKIE_SECURE", "CFG-024", Bool(), None, "Secure on every cookie, or on none",
        shown="unset: Secure when the visitor's request is HTTPS",
    )  # fmt: skip
    instance_id: str = row(
        "QM_INSTANCE_ID", "CFG-025",
        Text(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "1 to 63 letters, digits, dots, _ or -, a letter or digit first"), "",
        "display name of this instance", bad=Bad.REFUSE, shown="i: and a random number, new at every start",
    )  # fmt: skip
    drill: bool = row(
        "QM_DRILL", "CFG-026", Bool(), False, "a restore drill: sends nothing outward, never leads, switches no room"
    )
    log_level: str = row(
        "LOG_LEVEL", "CFG-027", Choice(("debug", "info", "warning", "error")), "info", "least severe line written"
    )
    log_format: str = row("LOG_FORMAT", "CFG-028", Choice(("text", "json")), "text", "form of the lines on stderr")

    store: str = row(
        "STORE", "CFG-029", Choice(("memory", "embedded", "valkey")), "embedded", "where live state is kept",
        bad=Bad.REFUSE,
    )  # fmt: skip
    sidestore: str = row(
        "SIDESTORE", "CFG-030", Choice(("memory", "embedded", "pg")), "", "where the lasting record is kept",
        bad=Bad.REFUSE, shown="the one that belongs to STORE",
    )  # fmt: skip
    valkey_url: Secret | None = row(
        "VALKEY_URL", "CFG-031", StoreUrl(("redis", "rediss", "valkey", "valkeys", "unix")), None,
        "the shared Valkey of STORE=valkey", bad=Bad.REFUSE,
    )  # fmt: skip
    valkey_cluster: bool = row(
        "VALKEY_CLUSTER", "CFG-032", Bool(), False, "VALKEY_URL names one node of a Valkey Cluster"
    )
    valkey_prefix: str = row(
        "VALKEY_PREFIX", "CFG-033", Text(r"[A-Za-z0-9_.:-]{1,64}", "1 to 64 letters, digits, _ . : or -"), "qm:",
        "put before every key and channel", bad=Bad.REFUSE,
    )  # fmt: skip
    valkey_ca_file: Path | None = row(
        "VALKEY_CA_FILE", "CFG-034", PemFile(), None, "extra CA for a TLS Valkey", bad=Bad.REFUSE
    )
    valkey_timeout_ms: int = row(
        "VALKEY_TIMEOUT_MS", "CFG-035", Int(50, 30000), 1000, "longest wait for one Valkey command"
    )
    database_url: Secret | None = row(
        "DATABASE_URL", "CFG-036", StoreUrl(("postgres", "postgresql")), None,
        "the shared Postgres of SIDESTORE=pg; ?search_path= names a schema", bad=Bad.REFUSE,
    )  # fmt: skip
    pg_ca_file: Path | None = row(
        "PG_CA_FILE", "CFG-037", PemFile(), None, "CA that signed Postgres' certificate, which is then verified",
        bad=Bad.REFUSE,
    )  # fmt: skip
    pg_ca_cert: str | None = row(
        "PG_CA_CERT", "CFG-038", PemText(), None, "the same as text, where no file can be laid down", bad=Bad.REFUSE
    )
    pg_pool_max: int = row("PG_POOL_MAX", "CFG-039", Int(2, 200), 10, "most Postgres connections of this instance")
    pg_statement_timeout_ms: int = row(
        "PG_STATEMENT_TIMEOUT_MS", "CFG-040", Int(500, 60000), 5000, "longest time of one SQL statement"
    )
    resync_ms: int = row(
        "RESYNC_MS", "CFG-041", Int(500, 60000), 5000, "how often copies of room configs are confirmed"
    )
    lapsed_ttl_ms: int = row(
        "LAPSED_TTL_MS", "CFG-044", Int(60_000, 604_800_000), 86_400_000,
        "how long what is known of a ticket that is over is kept",
    )  # fmt: skip
    address_retain_days: int = row(
        "QM_ADDRESS_RETAIN_DAYS", "CFG-227", Int(0, 3650), 0,
        "days after which readable visitor addresses in the journal are blanked; 0 = never",
    )  # fmt: skip
    checkpoint_events: int = row(
        "CHECKPOINT_EVENTS", "CFG-045", Int(100, 10_000_000), 20_000,
        "facts since its last checkpoint from which a room gets a new one",
    )  # fmt: skip
    leader_lease_ms: int = row(
        "LEADER_LEASE_MS",
        "CFG-042",
        Int(2000, 120_000),
        10_000,
        "life of the leader's lease; a dead leader is replaced",
    )
    valkey_alert_after_ms: int = row(
        "VALKEY_ALERT_AFTER_MS", "CFG-043", Int(1000, 3_600_000), 30_000,
        "an instance that has not reached Valkey for this long says so itself",
    )  # fmt: skip
    history_retain_days: int = row(
        "HISTORY_RETAIN_DAYS", "CFG-046", Int(1, 3650), 400, "rows of reports older than this are deleted"
    )
    line_max: int = row(
        "QM_LINE_MAX", "CFG-226", Int(1000, 100_000_000), 2_000_000, "waiting tickets one room holds at most"
    )

    secret: Secret = row(
        "SECRET", "CFG-047", Key(), Secret(""), "root of every signature; at least 32 characters",
        shown="memory: random; embedded: made once and kept in DATA_DIR; else none",
    )  # fmt: skip
    secret_previous: Secret | None = row("SECRET_PREVIOUS", "CFG-048", Key(), None, "also verifies, never signs")
    token_sign_v2: bool = row("TOKEN_SIGN_V2", "CFG-049", Bool(), False, "new tokens are written in v2 form")
    admin_key: Secret = row(
        "ADMIN_KEY", "CFG-050", Key(), Secret(""), "the shared owner credential; at least 16 characters",
        shown="memory: random, printed once; embedded: made once and kept in DATA_DIR; else none",
    )  # fmt: skip
    public_api_key: Secret | None = row("PUBLIC_API_KEY", "CFG-051", Key(), None, "lets a connector speak for visitors")
    connector_ips: tuple[Network, ...] = row(
        "QM_CONNECTOR_IPS", "CFG-225", Networks(), (),
        "addresses of connectors: a right PUBLIC_API_KEY from there is taken although the address is locked",
        bad=Bad.REFUSE,
    )  # fmt: skip
    token_max_age_sec: int = row(
        "TOKEN_MAX_AGE_SEC", "CFG-052", Int(600, 2_592_000), 86400, "a visitor token older than this is refused"
    )
    monitor_token_ttl_sec: int = row(
        "MONITOR_TOKEN_TTL_SEC", "CFG-054", Int(60, 7_776_000), 604_800, "life of a shared monitor link"
    )
    queue_cookie_max_age_sec: int = row(
        "QUEUE_COOKIE_MAX_AGE_SEC", "CFG-053", Int(600, 2_592_000), 86400, "Max-Age of the cookie qm_<room>"
    )
    admin_auth_fail_per_min: int = row(
        "ADMIN_AUTH_FAIL_PER_MIN",
        "CFG-055",
        Int(0, 100_000),
        20,
        "wrong admin keys an address may send a minute; 0 = off",
    )

    trust_proxy: int = row("TRUST_PROXY", "CFG-056", Int(0, 10), 0, "proxy hops between the client and this server")
    trust_proxy_ips: tuple[Network, ...] = row(
        "TRUST_PROXY_IPS", "CFG-057", Networks(), (), "addresses those hops connect from", bad=Bad.REFUSE
    )

    edge_secret: tuple[Secret, ...] = row(
        "EDGE_SECRET", "CFG-058", KeyList(16, 5), (),
        "what the CDN sends as X-QM-Edge with every request; two values while it is being changed", bad=Bad.REFUSE,
    )  # fmt: skip
    proxy_allow_private: bool = row(
        "PROXY_ALLOW_PRIVATE",
        "CFG-059",
        Bool(),
        False,
        "sites may be asked at private, loopback or link-local addresses",
    )

    proxy_timeout_ms: int = row(
        "PROXY_TIMEOUT_MS", "CFG-060", Int(1000, 600_000), 30_000,
        "how long an inline room's site may take to be connected to and to begin its answer",
    )  # fmt: skip
    max_connections: int = row(
        "MAX_CONNECTIONS", "CFG-062", _LIMIT, 20000, "open client connections above which new ones get 503; 0 = no cap"
    )
    connection_reserve: int = row(
        "CONNECTION_RESERVE", "CFG-063", Int(0, 65536), 256,
        "connections accepted above the cap, so that the refusal can be answered",
    )  # fmt: skip
    sse_per_ip: int = row("SSE_PER_IP", "CFG-064", _LIMIT, 64, "open /events streams of one address; 0 = no cap")
    sse_max_total: int = row("SSE_MAX_TOTAL", "CFG-065", _LIMIT, 10000, "open /events streams in all; 0 = no cap")
    shutdown_grace_ms: int = row(
        "SHUTDOWN_GRACE_MS", "CFG-066", Int(0, 60000), 500, "time idle connections and streams get at a stop"
    )
    shutdown_drain_ms: int = row(
        "SHUTDOWN_DRAIN_MS", "CFG-067", Int(500, 600_000), 2000, "longest the whole stop may take"
    )

    join_limit_per_min: int = row(
        "JOIN_LIMIT_PER_MIN", "CFG-068", _LIMIT, 600, "joins and leaves of one address; 0 = off"
    )
    check_limit_per_min: int = row("CHECK_LIMIT_PER_MIN", "CFG-069", _LIMIT, 3000, "checks of one address; 0 = off")
    status_limit_per_min: int = row(
        "STATUS_LIMIT_PER_MIN", "CFG-070", _LIMIT, 6000, "status calls and streams opened of one address; 0 = off"
    )
    waiting_limit_per_min: int = row(
        "WAITING_LIMIT_PER_MIN", "CFG-071", _LIMIT, 120, "waiting pages of one address; 0 = off"
    )
    notify_limit_per_min: int = row(
        "NOTIFY_LIMIT_PER_MIN", "CFG-072", _LIMIT, 30, "addresses left or removed by one client address; 0 = off"
    )
    verify_limit_per_min: int = row(
        "VERIFY_LIMIT_PER_MIN", "CFG-073", _LIMIT, 60, "calls of /api/verify of one address; 0 = off"
    )
    protection_mode: str = row(
        "PROTECTION_MODE", "CFG-075", Choice(("off", "monitor", "enforce")), "monitor",
        "bot protection of rooms without a setting of their own",
    )  # fmt: skip
    protection_warn_at: int = row(
        "PROTECTION_WARN_AT", "CFG-076", Int(1, 100), 40, "score from which a newcomer counts as warned"
    )
    protection_block_at: int = row(
        "PROTECTION_BLOCK_AT", "CFG-077", Int(1, 100), 70,
        "score above which enforce gives no place; 100 refuses nobody",
    )  # fmt: skip
    protection_allow_ips: tuple[Network, ...] = row(
        "PROTECTION_ALLOW_IPS", "CFG-078", Networks(), (), "addresses that are never scored", bad=Bad.REFUSE
    )
    autotune: bool = row(
        "AUTOTUNE", "CFG-079", Bool(), False, "rooms without a setting of their own have their rate adjusted"
    )
    email_notify: bool = row(
        "EMAIL_NOTIFY", "CFG-080", Bool(), False,
        "the waiting page may take an address, to which one mail is sent at the visitor's turn",
    )  # fmt: skip
    smtp_url: Secret | None = row(
        "SMTP_URL", "WHK-194", SmtpUrl(), None, "mail server; user and password inside", bad=Bad.REFUSE
    )
    smtp_from: str | None = row("SMTP_FROM", "WHK-195", EmailAddress(), None, "sender of every mail")
    alert_webhook_url: Secret | None = row(
        "ALERT_WEBHOOK_URL", "CFG-081", HookUrl(), None, "where alerts are sent; unset: nobody is told"
    )
    alert_every_ms: int = row(
        "ALERT_EVERY_MS", "CFG-082", Int(1000, 300_000), 10_000, "how often the conditions of alerts are looked at"
    )
    alert_hold_sec: int = row(
        "ALERT_HOLD_SEC", "CFG-083", Int(0, 86_400), 120, "how long a condition holds before it is told"
    )
    alert_repeat_sec: int = row(
        "ALERT_REPEAT_SEC", "CFG-084", Int(0, 604_800), 1800, "how often it is told again; 0 = never"
    )
    alert_surge_min: int = row(
        "ALERT_SURGE_MIN", "CFG-085", Int(0, 10_000_000), 60,
        "joins per minute below which nothing counts as a surge; 0 = never",
    )  # fmt: skip
    alert_surge_factor: int = row(
        "ALERT_SURGE_FACTOR", "CFG-086", Int(2, 1000), 5, "times its usual joins that make a surge"
    )
    mesh_knock_ms: int = row("MESH_KNOCK_MS", "MSH-121", Int(1000, 600_000), 10_000, "how often a site is knocked at")
    mesh_timeout_ms: int = row("MESH_TIMEOUT_MS", "MSH-122", Int(500, 30_000), 5000, "limit of one knock")
    fleet_min_instances: int = row(
        "FLEET_MIN_INSTANCES", "BUD-103", Int(1, 1000), 0,
        "instances that this deployment needs; once set, fewer raise an alert", shown="1; 2 with QM_ENV=production",
    )  # fmt: skip
    fleet_min_reason: str | None = row("FLEET_MIN_REASON", "BUD-104", Short(200), None, "why so many; shown with it")
    instance_min_cpus: int | None = row(
        "INSTANCE_MIN_CPUS", "BUD-105", Int(1, 256), None, "CPUs that each instance needs; fewer is told"
    )
    loop_lag_warn_ms: int = row(
        "LOOP_LAG_WARN_MS", "BUD-107", Int(5, 5000), 50, "delay of an event loop that counts as CPU contention"
    )
    rate_limit_max_keys: int = row(
        "RATE_LIMIT_MAX_KEYS", "CFG-074", Int(1000, 10_000_000), 200_000, "addresses kept per budget"
    )

    @property
    def offers_mail(self) -> bool:
        """True when visitors may leave an address: asked for, and there is a way to send (VIS-177)."""
        return bool(self.email_notify and self.smtp_url and self.smtp_from)

    @property
    def is_production(self) -> bool:
        """True with QM_ENV=production (or its alias)."""
        return self.env == "production"

    def secrets(self) -> list[Secret]:
        """Every secret that is set, for whoever has to keep them out of what is written (CFG-008)."""
        values = [getattr(self, attribute) for attribute, known in ROWS.items() if known.secret]
        return [one for value in values for one in (value if isinstance(value, tuple) else (value,)) if one]

    def shown(self) -> dict[str, Any]:
        """Value in use of every variable; of a secret only ``set`` or ``unset`` (CFG-009)."""
        return {known.name: _shown(known, getattr(self, attribute)) for attribute, known in ROWS.items()}


ROWS: Final[Mapping[str, Row]] = {entry.name: entry.metadata[ROW] for entry in dataclasses.fields(Settings)}
"""The rows by attribute name, in the order of the documentation."""


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """One entry of ``configWarnings`` (CFG-190); ``set`` and ``using`` are None for a secret."""

    code: str
    variable: str
    set: str | None
    using: Any
    message: str

    @property
    def raises_badge(self) -> bool:
        """False for mere notices (CFG-010)."""
        return self.code != "unknown_variable"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one reading of the environment gave."""

    settings: Settings
    warnings: tuple[ConfigWarning, ...]
    hardening: tuple[str, ...]
    """Advice about protections that are off; raises no badge."""
    given: frozenset[str] = frozenset()
    """Variables whose value in use came from the environment."""


class Refused(Exception):
    """The server must not start; ``reasons`` are whole sentences, each with its repair."""

    EXIT_CODE: Final = 78

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons

    def block(self) -> str:
        """The text for stderr (CFG-179)."""
        return "refusing to start:\n" + "\n".join(f"  - {reason}" for reason in self.reasons)


def _shown(known: Row, value: Any) -> Any:
    if known.secret or isinstance(known.kind, PemText):
        return "set" if value else "unset"
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def environment() -> dict[str, str]:
    """A copy of the environment, and the end of every ``SANIC_`` variable in it.

    Sanic reads some of its variables straight from the environment; none may change this server (CFG-011).
    """
    for name in [name for name in os.environ if name.startswith("SANIC_")]:
        del os.environ[name]
    return dict(os.environ)
