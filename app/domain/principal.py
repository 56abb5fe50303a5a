"""Who a request of the admin API speaks for, once its credential was found good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.domain.roles import Role, can


class Kind(StrEnum):
    """What a credential is."""

    ADMIN_KEY = "admin_key"


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

    def through(self, via: Via, *, session_id: str, expires_at: int) -> Principal:
        """The same person, speaking through a session."""
        return replace(self, via=via, session_id=session_id, expires_at=expires_at)

    def me(self) -> dict[str, Any]:
        """Answer of ``GET /api/admin/me`` (ADM-082, ADM-083)."""
        return {
            "kind": self.kind,
            "via": self.via,
            "role": self.role.word,
            "name": self.name,
            "operatorId": None,
            "linkId": None,
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
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Principal:
        """The reverse; KeyError, TypeError or ValueError when ``raw`` is not of that form."""
        return cls(Kind(raw["kind"]), Role(raw["role"]), raw["name"], Via(raw["via"]), raw["exp"], raw["sid"])


OWNER_BY_KEY = Principal(Kind.ADMIN_KEY, Role.OWNER, "ADMIN_KEY")
"""Whoever holds ADMIN_KEY: one shared credential without a person's name (ADM-030)."""
