"""Named operators: making, renaming, changing of roles, revoking, purging (05, section 14).

Every change is one transaction with its audit entry, and answered after its commit. Not here: judging keys
(named_keys.py), HTTP.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from app.core.errors import BadRequest, InvalidField, NotFound, QmError, StorageUnavailable
from app.core.jsonbody import refuse_unknown
from app.domain import field_checks
from app.domain.actor import Actor
from app.domain.operators import HOLDER_BYTES, OPERATORS_MAX, Operator, Verifiers, new_key
from app.domain.roles import Role
from app.infrastructure.access_store import AccessStore, Change
from app.infrastructure.audit_store import Entry
from app.services.access import NoCredential, needs
from app.services.people import People
from app.services.rooms import NotRecorded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROLES: Final = (Role.OWNER, Role.OPERATOR, Role.VIEWER)
IS_ID: Final = re.compile(r"[0-9a-f]{8}").fullmatch
_check_role: Final = field_checks.one_of(*(role.word for role in ROLES))


class NoOperator(NotFound):
    """404 ``no_operator``."""

    code = "no_operator"
    sentence = "No such operator"


class OperatorRevoked(QmError):
    """409 ``operator_revoked``: what is over cannot be changed (ADM-206)."""

    status = 409
    code = "operator_revoked"
    sentence = "This operator was revoked. Make a new one."


class TooManyOperators(QmError):
    """409 ``too_many_operators`` (ADM-215)."""

    status = 409
    code = "too_many_operators"
    sentence = f"There are {OPERATORS_MAX} operators already. Purge some that were revoked."


class Operators:
    """Use cases. Raises StorageUnavailable; NotRecorded when a change may have taken effect."""

    def __init__(self, *, store: AccessStore, people: People, verifiers: Verifiers, now: Callable[[], int]) -> None:
        """``now``: wall clock in epoch ms."""
        self._store = store
        self._people = people
        self._verifiers = verifiers
        self._now = now

    async def listed(self) -> list[dict[str, Any]]:
        """Every operator, revoked ones included, with the number of his links that still work (ADM-200)."""
        links = await self._store.links_by_maker(self._now())
        return [operator_json(one, links.get(one.id, 0)) for one in await self._store.operators()]

    async def create(self, body: dict[str, Any], actor: Actor) -> tuple[dict[str, Any], str]:
        """A new operator and his key, which is kept nowhere (ADM-201 … ADM-205)."""
        refuse_unknown(body, ("name", "role"))
        name, role = _name(body.get("name")), _role(body.get("role"))
        async with recorded(self._store, actor, least=Role.OWNER) as change:
            if await change.operator_count() >= OPERATORS_MAX:
                raise TooManyOperators
            ident, key = new_key()
            while await change.operator(ident) is not None:
                ident, key = new_key()
            made = Operator(
                id=ident,
                name=name,
                role=role,
                verifier=self._verifiers.make(key),
                verifier_before=None,
                holder=secrets.token_bytes(HOLDER_BYTES),
                created_at=self._now(),
                created_by=str(actor),
            )
            await change.add_operator(made)
            await change.note(Entry(made.created_at, actor, "operator.create", f"{name} ({role.word}, {ident})"))
        await self._people.tell_changed()
        return operator_json(made, 0), key

    async def change(self, ident: str, body: dict[str, Any], actor: Actor) -> tuple[dict[str, Any], list[str]]:
        """Another name or role; the operator as he is now and the names of what changed (ADM-206)."""
        refuse_unknown(body, ("name", "role"))
        if not body:
            raise BadRequest("Send name and/or role", code="nothing_to_change")
        values: dict[str, Any] = {}
        if "name" in body:
            values["name"] = _name(body["name"])
        if "role" in body:
            values["role"] = _role(body["role"])
        async with recorded(self._store, actor, least=Role.OWNER) as change:
            found = await _found(change, ident)
            if found.revoked_at is not None:
                raise OperatorRevoked
            changed = [name for name, value in values.items() if getattr(found, name) != value]
            after = replace(found, **values)
            if changed:
                await change.change_operator(ident, after.name, after.role)
                await change.note(Entry(self._now(), actor, "operator.update", _told(found, after)))
        if changed:
            await self._people.tell_changed()
        links = await self._store.links_by_maker(self._now())
        return operator_json(after, links.get(ident, 0)), changed

    async def revoke(self, ident: str, actor: Actor, *, purge: bool) -> tuple[dict[str, Any], int]:
        """Take his rights, or his whole record, and close his links; the operator, and how many links (ADM-207 …)."""
        async with recorded(self._store, actor, least=Role.OWNER) as change:
            found = await _found(change, ident)
            now = self._now()
            is_over = found.revoked_at is not None
            links = await change.revoke_links(now, str(actor), of=ident)
            if purge:
                await change.purge_operator(ident)
            elif not is_over:
                await change.revoke_operator(ident, now, str(actor))
                found = replace(found, revoked_at=now, revoked_by=str(actor))
            if purge or not is_over:
                action = "operator.purge" if purge else "operator.revoke"
                await change.note(Entry(now, actor, action, f"{found.name}; closed {_counted(links)}"))
        await self._people.tell_changed()
        return operator_json(found, 0), links


def operator_json(operator: Operator, live_links: int) -> dict[str, Any]:
    """The JSON object of an operator."""
    return {
        "id": operator.id,
        "name": operator.name,
        "role": operator.role.word,
        "createdAt": operator.created_at,
        "createdBy": operator.created_by,
        "lastUsedAt": operator.last_used_at,
        "lastUsedIp": operator.last_used_ip,
        "revokedAt": operator.revoked_at,
        "revokedBy": operator.revoked_by,
        "liveLinks": live_links,
    }


@asynccontextmanager
async def recorded(store: AccessStore, actor: Actor, *, least: Role) -> AsyncIterator[Change]:
    """A transaction of ``actor``, whose failure says that nothing may be relied on. ``least``: the role that it needs.

    Such changes come one after another, so whoever lost his rights while his request was on its way is refused here,
    as his next request would be: nothing that he hands out can outlive his revocation (ADM-210).
    """
    try:
        async with store.changing() as change:
            if actor.ident is not None:
                now = await change.operator(actor.ident)
                if now is None or now.revoked_at is not None:
                    raise NoCredential
                if now.role < least:
                    raise needs(least, has=now.role.word)
            yield change
    except StorageUnavailable as error:
        raise NotRecorded from error


async def _found(change: Change, ident: str) -> Operator:
    found = await change.operator(ident) if IS_ID(ident) else None
    if found is None:
        raise NoOperator
    return found


def _name(value: Any) -> str:
    try:
        return field_checks.name(value)
    except ValueError as error:
        raise InvalidField("name", f"name {error}") from None


def _role(value: Any) -> Role:
    try:
        return Role.of(_check_role(value))
    except ValueError as error:
        raise InvalidField("role", f"role {error}") from None


def _told(before: Operator, after: Operator) -> str:
    """What an audit line says of a change: the name under which he was known, and each change."""
    parts = [f"role {before.role.word} → {after.role.word}"] if before.role != after.role else []
    if before.name != after.name:
        parts.append(f"name → {after.name}")
    return f"{before.name}: {', '.join(parts)}"


def _counted(links: int) -> str:
    return "1 monitor link" if links == 1 else f"{links} monitor links"
