"""From the environment to Settings: single values, rules over several variables, refusals and warnings.

``load`` finds every refusal in one run (CFG-180). No sentence made here holds the value of a secret (CFG-008).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import secrets
from collections.abc import Mapping
from typing import Any, Final

from app.core.settings import ROWS, ConfigWarning, Loaded, Refused, Settings, environment
from app.core.settings_hardening import advise
from app.core.settings_kinds import BadValue, HostNames, Networks, OutOfBounds, PemText, split_url
from app.core.settings_row import Bad, Row

PARTNER: Final = {"memory": "memory", "embedded": "embedded", "valkey": "pg"}
_WATCHED_PREFIXES: Final = (
    "QM_", "ALERT_", "EDGE_", "FLEET_", "MESH_", "PROTECTION_", "SHUTDOWN_", "SMTP_", "SSE_", "TOKEN_", "TRUST_",
    "WEBHOOK_",
)  # fmt: skip
# Names of docs/spec/01 that this build does not obey, outside the watched prefixes: not obeying them silently
# would be worse than saying so.
_NOT_BUILT: Final = frozenset(
    {
        "MESH",
        "OPS_CONTACT", "TECHNICAL_CONTACT",
    }
)  # fmt: skip
# Read by the test run and by the tools beside the server, never by the server (CFG-087 to CFG-090, CFG-094).
_FOR_TESTS: Final = frozenset({"QM_REQUIRE_VALKEY", "QM_SERVER_CMD"})
_SHORT_SECRET: Final = 32
_SHORT_KEY: Final = 16


class Reading:
    """One reading of the environment: values so far, and what there is to say about them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.texts = {name: text.strip() for name, text in env.items() if text.strip()}
        self.values: dict[str, Any] = {}
        self.refusals: list[str] = []
        self.warnings: list[ConfigWarning] = []
        self.hardening: list[str] = []

    def is_set(self, name: str) -> bool:
        """True when the variable has a value."""
        return name in self.texts

    def warn(self, code: str, variable: str, message: str, *, using: Any = None) -> None:
        """Note a warning about ``variable``; a secret's value stays out of it."""
        known = next((item for item in ROWS.values() if item.name == variable), None)
        is_hidden = known is None or known.secret or isinstance(known.kind, PemText)
        text = None if is_hidden else self.texts.get(variable)
        self.warnings.append(ConfigWarning(code, variable, text, using, message))

    def quoted(self, known: Row) -> str:
        """``NAME="text"``; of a secret the length, of a list the name only, since one entry is named (CFG-111)."""
        text = self.texts[known.name]
        if isinstance(known.kind, Networks | HostNames | PemText):
            return known.name
        return f"{known.name} ({len(text)} characters)" if known.secret else f'{known.name}="{text}"'


def load(env: Mapping[str, str] | None = None) -> Loaded:
    """Read ``env`` (default: the environment) once.

    Raises:
        Refused: with every reason that can be found without a network.
    """
    reading = Reading(environment() if env is None else env)
    for attribute, known in ROWS.items():
        _read_row(reading, attribute, known)
    for rule in _RULES:
        rule(reading)
    if reading.refusals:
        raise Refused(*reading.refusals)
    spoiled = {warning.variable for warning in reading.warnings if warning.code == "bad_value"}
    given = frozenset(row.name for row in ROWS.values() if reading.is_set(row.name) and row.name not in spoiled)
    return Loaded(Settings(**reading.values), tuple(reading.warnings), tuple(reading.hardening), given)


def _read_row(reading: Reading, attribute: str, known: Row) -> None:
    text = reading.texts.get(known.name)
    if text is None:
        return
    try:
        reading.values[attribute] = known.kind.parse(text)
    except (BadValue, OutOfBounds) as problem:
        if known.bad is Bad.REFUSE:
            reading.refusals.append(f"{reading.quoted(known)} {problem}. Correct {known.name} or unset it.")
            return
        using = problem.nearest if isinstance(problem, OutOfBounds) else None
        code = "bad_value" if using is None else "out_of_bounds"
        if using is None:
            using = _default(attribute)
        else:
            reading.values[attribute] = using
        if using == 0 and not isinstance(using, bool):
            using, worded = None, known.default_text  # worked out later, from the machine
        else:
            worded = "" if using is None else _worded(using)
        end = f"using {worded}" if worded else "treated as unset"
        reading.warn(code, known.name, f"{reading.quoted(known)} {problem}; {end}", using=using)


def _default(attribute: str) -> Any:
    return next(item.default for item in dataclasses.fields(Settings) if item.name == attribute)


def _worded(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _rule_environment(reading: Reading) -> None:
    """NODE_ENV is an alias; where the two differ production wins (CFG-019)."""
    alias, own = reading.values.get("node_env"), reading.values.get("env")
    if alias is None:
        return
    if own is None:
        reading.values["env"] = alias
    elif own != alias:
        using = "production" if "production" in (own, alias) else own
        reading.values["env"] = using
        message = f'QM_ENV="{own}" and NODE_ENV="{alias}" differ; using {using}'
        reading.warn("ignored_setting", "NODE_ENV", message, using=using)


def _rule_defaults(reading: Reading) -> None:
    """Defaults that depend on the machine or on other variables."""
    values = reading.values
    if "host" not in values and values.get("env") == "production":
        values["host"] = "0.0.0.0"  # noqa: S104 - CFG-017: behind the platform's balancer, by choice of QM_ENV
    if not values.get("workers"):
        values["workers"] = min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    if not values.get("fleet_min_instances"):
        values["fleet_min_instances"] = 2 if values.get("env") == "production" else 1
    values.setdefault("instance_id", f"i:{secrets.token_hex(4)}")
    values.setdefault("store", "embedded")
    if not reading.is_set("SIDESTORE"):
        values["sidestore"] = PARTNER[values["store"]]


def _rule_stores(reading: Reading) -> None:
    """Store pairs, and production's demands (CFG-181, CFG-182)."""
    values, refuse = reading.values, reading.refusals.append
    store, side = values["store"], values.get("sidestore")
    if side is not None and side != PARTNER[store] and _is_good(reading, "STORE", "SIDESTORE"):
        refuse(
            f'STORE="{store}" and SIDESTORE="{side}" do not belong together. '
            f"Unset SIDESTORE, or set SIDESTORE={PARTNER[store]} for this STORE."
        )
    if reading.is_set("PG_CA_FILE") and reading.is_set("PG_CA_CERT"):
        message = "PG_CA_FILE and PG_CA_CERT are both set; using PG_CA_FILE"
        reading.warn("ignored_setting", "PG_CA_CERT", message)
    production = values.get("env") == "production"
    if production and (store, side) != ("valkey", "pg"):
        refuse(
            f'QM_ENV="production" needs STORE=valkey and SIDESTORE=pg, but STORE is "{store}" and SIDESTORE is '
            f'"{side}": a restart or a deploy would drop the line. Set both, with VALKEY_URL and DATABASE_URL.'
        )
    if store == "valkey" and not reading.is_set("VALKEY_URL"):
        refuse('STORE="valkey" needs VALKEY_URL, which is not set. Set it to redis://host:6379/0 or the like.')
    elif values.get("valkey_cluster") and reading.is_set("VALKEY_URL"):
        parts = split_url(values["valkey_url"].reveal())
        if parts is not None and parts.path not in ("", "/", "/0"):
            refuse("VALKEY_CLUSTER=1 and VALKEY_URL names a database other than 0, which a cluster does not have.")
    if store == "valkey" and not reading.is_set("DATABASE_URL"):
        refuse(f'SIDESTORE="{side}" needs DATABASE_URL, which is not set. Set it to postgresql://user@host/name.')
    if production or store == "valkey":
        for name in ("SECRET", "ADMIN_KEY"):
            if not reading.is_set(name):
                refuse(
                    f"{name} is not set: with STORE=valkey or in production each instance would make up its own. "
                    f"Set {name} to the same value on every instance, for example from `openssl rand -hex 32`."
                )


def _rule_keys(reading: Reading) -> None:
    """Short, equal and useless keys (CFG-047, CFG-048, CFG-050, CFG-051, CFG-232)."""
    for name, least in (
        ("SECRET", _SHORT_SECRET), ("SECRET_PREVIOUS", _SHORT_SECRET),
        ("ADMIN_KEY", _SHORT_KEY), ("PUBLIC_API_KEY", _SHORT_KEY),
    ):  # fmt: skip
        length = len(reading.texts.get(name, ""))
        if 0 < length < least:
            message = f"{name} has {length} characters, fewer than {least}; it is used as it is"
            reading.warn("short_secret", name, message)
            if least == _SHORT_SECRET and reading.values.get("env") == "production":
                reading.hardening.append(f"{name} is short: whoever holds one ticket can try to guess it")
    texts = reading.texts
    if reading.is_set("SECRET_PREVIOUS"):
        if not reading.is_set("SECRET"):
            reading.warn("no_effect", "SECRET_PREVIOUS", "SECRET_PREVIOUS is set while SECRET is not")
        elif texts["SECRET_PREVIOUS"] == texts["SECRET"]:
            reading.warn("no_effect", "SECRET_PREVIOUS", "SECRET_PREVIOUS is the same as SECRET and has no effect")
    if reading.is_set("ADMIN_KEY") and texts["ADMIN_KEY"] == texts.get("PUBLIC_API_KEY"):
        message = "ADMIN_KEY is the same as PUBLIC_API_KEY: every connector holds the owner's key"
        reading.warn("short_secret", "ADMIN_KEY", message)


def _rule_proxies(reading: Reading) -> None:
    """Half-set pairs, broad ranges, and what the edge secret makes idle (CFG-115, CFG-130, CFG-229)."""
    hops, ranges = reading.values.get("trust_proxy", 0), reading.values.get("trust_proxy_ips", ())
    if reading.is_set("EDGE_SECRET"):
        for name, value in (("TRUST_PROXY", hops), ("TRUST_PROXY_IPS", ranges)):
            if value:
                message = f"{name} has no effect while EDGE_SECRET is set: the edge names the visitor"
                reading.warn("ignored_setting", name, message)
        return
    if hops and not ranges and not reading.is_set("TRUST_PROXY_IPS"):
        message = f"TRUST_PROXY={hops} is set without TRUST_PROXY_IPS: forwarding headers are not believed"
        reading.warn("half_set_proxy", "TRUST_PROXY", message, using=hops)
    if ranges and not hops:
        message = "TRUST_PROXY_IPS is set and TRUST_PROXY is 0: forwarding headers are not believed"
        reading.warn("half_set_proxy", "TRUST_PROXY_IPS", message, using=[str(item) for item in ranges])
    for item in ranges:
        if item.prefixlen < (8 if isinstance(item, ipaddress.IPv4Network) else 16):
            message = f"TRUST_PROXY_IPS has the very broad range {item}: whoever is in it chooses his own address"
            reading.warn("broad_trust", "TRUST_PROXY_IPS", message, using=str(item))


def _rule_mail(reading: Reading) -> None:
    """What wants to send mail needs a server and a sender (CFG-080, WHK-195)."""
    missing = [name for name in ("SMTP_URL", "SMTP_FROM") if reading.values.get(name.lower()) is None]
    if not missing:
        return
    for name, wants in (("EMAIL_NOTIFY", reading.values.get("email_notify")), ("SMTP_URL", reading.is_set("SMTP_URL"))):
        if wants and name not in missing:
            message = f"{name} is set without {' and '.join(missing)}: no mail is sent and none is offered"
            reading.warn("smtp_unset", name, message)


def _rule_order(reading: Reading) -> None:
    """Pairs that must be ordered (CFG-012, CFG-062, CFG-066)."""
    values = reading.values
    grace, drain = (values.get(name, _default(name)) for name in ("shutdown_grace_ms", "shutdown_drain_ms"))
    if grace > drain:
        values["shutdown_grace_ms"] = drain
        message = (
            f"SHUTDOWN_GRACE_MS={grace} is larger than SHUTDOWN_DRAIN_MS={drain}; using SHUTDOWN_GRACE_MS={drain} "
            f"and SHUTDOWN_DRAIN_MS={drain}"
        )
        reading.warn("misordered", "SHUTDOWN_GRACE_MS", message, using=drain)
    most, streams = (values.get(name, _default(name)) for name in ("max_connections", "sse_max_total"))
    if 0 < most <= streams:
        message = (
            f"MAX_CONNECTIONS={most} is not above SSE_MAX_TOTAL={streams}: waiting streams alone could close the door; "
            f"using MAX_CONNECTIONS={most} and SSE_MAX_TOTAL={streams}"
        )
        reading.warn("misordered", "MAX_CONNECTIONS", message, using=most)


def _rule_protection(reading: Reading) -> None:
    """Thresholds that are not ordered give way to both defaults (CFG-012, CFG-076)."""
    values = reading.values
    names = ("protection_warn_at", "protection_block_at")
    warn, block = (values.get(name, _default(name)) for name in names)
    if warn < block:
        return
    for name in names:
        values[name] = _default(name)
    message = (
        f"PROTECTION_WARN_AT={warn} is not below PROTECTION_BLOCK_AT={block}; using "
        f"PROTECTION_WARN_AT={values[names[0]]} and PROTECTION_BLOCK_AT={values[names[1]]}"
    )
    reading.warn("misordered", "PROTECTION_WARN_AT", message, using=values[names[0]])


def _rule_other_names(reading: Reading) -> None:
    """Variables that this release does not have (CFG-010)."""
    known = {item.name for item in ROWS.values()} | _FOR_TESTS
    for name in sorted(reading.texts):
        if name not in known and (name.startswith(_WATCHED_PREFIXES) or name in _NOT_BUILT):
            reading.warn("unknown_variable", name, f"{name} is not a variable of this release")


def _is_good(reading: Reading, *names: str) -> bool:
    """False when one of the variables was refused already, so that no second reason is made of it."""
    return not any(reason.startswith(name + "=") for name in names for reason in reading.refusals)


_RULES: Final = (
    _rule_environment,
    _rule_defaults,
    _rule_stores,
    _rule_keys,
    _rule_proxies,
    _rule_mail,
    _rule_order,
    _rule_protection,
    _rule_other_names,
    advise,
)
