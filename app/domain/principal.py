"""Who a request of the admin API speaks for, once its credential was found good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.domain.operators import MonitorLink, Operator
from app.domain.roles import Role, can


class Kind(StrEnum):
    """What a credential is."""

    ADMIN_KEY = "admin_key"
    OPERATOR = "operator"
    MONITOR = "monitor"


class Via(StrEnum):
    """How it came."""

    BEARER = "bearer"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a credential and what he may do."""

    kind: Kind
    role: Role
    name: str
    via: Via = Via.BEARER
    expires_at: int | None = None
    """Epoch ms; None = does not expire."""
    session_id: str = ""
    """Of a console session; "" otherwise."""
    operator_id: str = ""
    link_id: str = ""

    def through(self, via: Via, *, session_id: str, expires_at: int) -> Principal:
        """The same person, speaking through a session."""
        return replace(self, via=via, session_id=session_id, expires_at=expires_at)

    def as_of(self, record: Operator) -> Principal:
        """The same credential with what its holder's record says now (ADM-064, ADM-206)."""
        return replace(self, role=record.role, name=record.name)

    def me(self) -> dict[str, Any]:
        """Answer of ``GET /api/admin/me`` (ADM-082, ADM-083)."""
        return {
            "kind": self.kind,
            "via": self.via,
            "role": self.role.word,
            "name": self.name,
            "operatorId": self.operator_id or None,
            "linkId": self.link_id or None,
            "expiresAt": self.expires_at,
            "can": can(self.role),
        }

    def to_json(self) -> dict[str, Any]:
        """What a stream ticket keeps of its maker."""
        return {
            "kind": self.kind,
            "role": int(self.role),
            "name": self.name,
            "via": self.via,
            "exp": self.expires_at,
            "sid": self.session_id,
            "operator": self.operator_id,
            "link": self.link_id,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Principal:
        """The reverse; KeyError, TypeError or ValueError when ``raw`` is not of that form."""
        return cls(
            Kind(raw["kind"]),
            Role(raw["role"]),
            raw["name"],
            Via(raw["via"]),
            raw["exp"],
            raw["sid"],
            raw.get("operator", ""),
            raw.get("link", ""),
        )


def operator(record: Operator) -> Principal:
    """Whoever holds an operator's key."""
    return Principal(Kind.OPERATOR, record.role, record.name, operator_id=record.id)


def monitor(record: MonitorLink) -> Principal:
    """Whoever holds a monitor link."""
    return Principal(Kind.MONITOR, Role.MONITOR, "Monitor link", expires_at=record.expires_at, link_id=record.id)


OWNER_BY_KEY = Principal(Kind.ADMIN_KEY, Role.OWNER, "ADMIN_KEY")
"""Whoever holds ADMIN_KEY: one shared credential without a person's name (ADM-030)."""
