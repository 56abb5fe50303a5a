"""Advice for a public deployment that follows from the settings alone: protections that are off.

It raises no badge (CFG-136, CFG-142, CFG-235). Not here: what is advised about rooms (domain/room_hardening.py), short
keys (settings_rules.py).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, parse_qs

from app.core.settings_kinds import split_url

if TYPE_CHECKING:
    from app.core.settings_rules import Reading

_TLS_SCHEMES: Final = ("rediss", "valkeys")
_VERIFYING: Final = ("verify-ca", "verify-full")


def advise(reading: Reading) -> None:
    """Add sentences to ``reading.hardening``."""
    values, add = reading.values, reading.hardening.append
    production = values.get("env") == "production"
    if (production or values["store"] == "valkey") and not reading.is_set("EDGE_SECRET"):
        add("EDGE_SECRET is not set: requests that bypass Cloudflare are accepted")
    if not reading.is_set("PUBLIC_API_KEY"):
        add("PUBLIC_API_KEY is not set: connectors cannot vouch for visitors without ADMIN_KEY")
    if not production:
        return
    if reading.is_set("FLEET_MIN_INSTANCES") and values["fleet_min_instances"] == 1:
        add("FLEET_MIN_INSTANCES is 1: one instance is one deploy away from a closed door")
    if "public_url" not in values:
        add("PUBLIC_URL is not set: addresses handed out follow the Host header")
    if reading.is_set("PUBLIC_API_KEY") and not values.get("connector_ips"):
        add(
            "QM_CONNECTOR_IPS is not set: whoever shares a connector's address can have its key refused, and then "
            "visitors pass unqueued"
        )
    if (parts := _address(reading, "valkey_url")) is not None:
        _advise_store(reading, "VALKEY_URL", parts, is_tls=parts.scheme in _TLS_SCHEMES)
    if (parts := _address(reading, "database_url")) is not None:
        _advise_postgres(reading, parts)


def _advise_postgres(reading: Reading, parts: SplitResult) -> None:
    mode = parse_qs(parts.query).get("sslmode", [""])[0]
    is_verified = mode in _VERIFYING or reading.is_set("PG_CA_FILE") or reading.is_set("PG_CA_CERT")
    _advise_store(reading, "DATABASE_URL", parts, is_tls=is_verified or mode == "require")
    if mode == "require" and not is_verified:
        reading.hardening.append("the certificate of DATABASE_URL is not verified: set PG_CA_CERT or PG_CA_FILE")


def _advise_store(reading: Reading, name: str, parts: SplitResult, *, is_tls: bool) -> None:
    if not parts.password:
        reading.hardening.append(f"{name} has no password")
    if not is_tls and not _is_private(parts.hostname or ""):
        reading.hardening.append(f"{name} has neither TLS nor a loopback or private address")


def _address(reading: Reading, name: str) -> SplitResult | None:
    """Parts of the address of a store that is reached over a network."""
    value = reading.values.get(name)
    parts = None if value is None else split_url(value.reveal())
    return parts if parts is not None and parts.hostname else None


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"
