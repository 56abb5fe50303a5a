"""Step-up: whoever presented his key once more may do for five minutes what a session alone may not.

A script that shares a console's origin can use its session, but knows no key (ADM-298). What the store keeps of a
token is its SHA-256, for whom and for which session it was made, and a proof of his second secret (ADM-301, WHK-114).
Not here: judging the key (access.py), which routes ask for a step-up (blueprints/admin). Needs a second reviewer.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Final

from app.core.errors import Forbidden
from app.domain.principal import Principal
from app.infrastructure.admin_store import AdminStore
from app.services.holder_proof import HolderProofs
from app.services.people import People

STEP_UP_MS: Final = 300_000
"""Life of a token, for any number of acts (WHK-114)."""
_PREFIX: Final = "qmsu_"
_LENGTH: Final = len(_PREFIX) + 43


class StepUpRequired(Forbidden):
    """403 ``step_up_required``: no token, or one that is over or another's (WHK-115)."""

    code = "step_up_required"
    sentence = "This act needs your key once more."


class StepUps:
    """Makes and judges tokens. Both methods raise StorageUnavailable when a store cannot tell."""

    def __init__(self, *, store: AdminStore, people: People, proofs: HolderProofs, now: Callable[[], int]) -> None:
        """``now``: wall clock in epoch ms."""
        self._store = store
        self._people = people
        self._proofs = proofs
        self._now = now

    async def begin(self, caller: Principal) -> tuple[str, int]:
        """A token for ``caller``, who has just presented his key, and when it ends (epoch ms)."""
        token = _PREFIX + secrets.token_urlsafe(32)
        until = self._now() + STEP_UP_MS
        record = await self._people.operator(caller.operator_id) if caller.operator_id else None
        bound = _bound(caller)
        kept = {"bound": bound, "until": until, "proof": self._proofs.make(record, _proven(token, bound))}
        await self._store.put_step_up(token, json.dumps(kept).encode(), STEP_UP_MS)
        return token, until

    async def fits(self, token: str, caller: Principal) -> bool:
        """Tell whether ``caller``, whose credential was found good, made ``token`` in this very session."""
        if len(token) != _LENGTH or not token.isascii() or not token.startswith(_PREFIX):
            return False
        value = await self._store.step_up(token)
        kept = {} if value is None else json.loads(value)
        bound = _bound(caller)
        if kept.get("bound") != bound or self._now() >= kept["until"]:
            return False
        record = await self._people.operator(caller.operator_id) if caller.operator_id else None
        if caller.operator_id and (record is None or record.revoked_at is not None):
            return False
        return self._proofs.fits(record, _proven(token, bound), kept["proof"])


def _bound(caller: Principal) -> str:
    """Person and session, as one text; a Bearer has no session."""
    return f"{caller.kind}:{caller.operator_id}:{caller.session_id}"


def _proven(token: str, bound: str) -> str:
    """What the proof is of: longer than any session id, so that no proof of one kind passes for the other."""
    return f"step-up {token} {bound}"
