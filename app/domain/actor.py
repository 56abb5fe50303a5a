"""Who did something to a room: a name, and with it what the audit trail keeps of him.

Facts carry an actor's name; behind it, unseen by whoever reads only the name, stands the rest as JSON: in JSON facts as
member ``by``, in packed ones after a NUL. Source: ENG-254 … ENG-270, ADM-247, ADM-258.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ujson

SYSTEM: Final = "system"
_SEPARATOR: Final = "\0"


class Actor(str):
    """An actor is his name. ``kind``: ``admin_key``, ``operator`` or ``system``; ``ident``: of an operator; ``ip``: the
    caller's proven address; ``instance``: name of the one that was asked."""

    __slots__ = ("ident", "instance", "ip", "kind", "role")

    kind: str
    ident: str | None
    role: str | None
    ip: str | None
    instance: str | None

    def __new__(
        cls,
        name: str,
        *,
        kind: str = "operator",
        ident: str | None = None,
        role: str | None = None,
        ip: str | None = None,
        instance: str | None = None,
    ) -> Actor:
        """``name`` as it is shown."""
        self = super().__new__(cls, name)
        self.kind, self.ident, self.role, self.ip, self.instance = kind, ident, role, ip, instance
        return self


def actor_members(actor: str) -> str:
    """The JSON text of member ``actor`` of a fact, and behind it member ``by`` when more than the name is known."""
    name = _dump(str(actor))
    return f'{name},"by":{_by(actor)}' if isinstance(actor, Actor) else name


def actor_tail(actor: str) -> str:
    """The end of a packed fact."""
    return f"{actor}{_SEPARATOR}{_by(actor)}" if isinstance(actor, Actor) else actor


def actor_name(tail: bytes) -> str:
    """The name in the end of a packed fact."""
    return tail.decode().partition(_SEPARATOR)[0]


def actor_of_tail(tail: bytes) -> Actor:
    """Whoever the end of a packed fact names."""
    name, _, rest = tail.decode().partition(_SEPARATOR)
    return _actor(name, ujson.loads(rest) if rest else None)


def actor_of_fact(raw: Mapping[str, Any]) -> Actor:
    """Whoever a JSON fact names."""
    return _actor(raw["actor"], raw.get("by"))


def _by(actor: Actor) -> str:
    return _dump(
        {"kind": actor.kind, "id": actor.ident, "role": actor.role, "ip": actor.ip, "instance": actor.instance}
    )


def _actor(name: str, by: Mapping[str, Any] | None) -> Actor:
    if by is None:
        return Actor(name, kind=SYSTEM if name == SYSTEM else "operator")
    return Actor(
        name, kind=by["kind"], ident=by.get("id"), role=by.get("role"), ip=by.get("ip"), instance=by.get("instance")
    )


def _dump(value: Any) -> str:
    return ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False)
