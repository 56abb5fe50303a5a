"""Keys of named operators and tokens of monitor links: whose they are, judged by the records of today.

Not here: the order of checks and what a failure costs (access.py), the records (people.py). Source: ADM-041, ADM-042,
ADM-218, ADM-219, ADM-224, ADM-297. Needs a second reviewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from app.core.errors import RateLimited, StorageUnavailable
from app.domain.client_address import Client
from app.domain.keyring import Keyring
from app.domain.monitor_tokens import MonitorTokens
from app.domain.operators import Operator, Verifiers, operator_of_key
from app.domain.principal import Principal, monitor, operator
from app.infrastructure.access_store import AccessStore
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.rate_limiter import RateLimiter
from app.services.people import People

LINK_PER_MIN: Final = 300
"""Requests of one monitor link in a minute, over the whole fleet (ADM-297)."""
GROUP: Final = "links"

log = structlog.get_logger(__name__)


class NamedKeys:
    """Judges them. Raises StorageUnavailable when a record cannot be confirmed, RateLimited for a greedy link."""

    def __init__(
        self,
        *,
        keyring: Keyring,
        people: People,
        records: AccessStore,
        store: AdminStore,
        limiter: RateLimiter,
        now: Callable[[], int],
    ) -> None:
        """``now``: wall clock in epoch ms. ``store``: where the requests of links are counted."""
        self.verifiers = Verifiers(keyring)
        self.tokens = MonitorTokens(keyring)
        self._people = people
        self._records = records
        self._store = store
        self._limiter = limiter
        self._now = now

    async def holder(self, key: str, client: Client) -> Principal | None:
        """Whoever holds ``key``; None when it is wrong, revoked, expired or no such key at all."""
        ident = operator_of_key(key)
        if ident is None:
            return await self._by_token(key)
        record = await self._people.operator(ident)
        if not self.verifiers.judge(key, record) or record is None or record.revoked_at is not None:
            return None
        await self._renew(key, record)
        self._people.note_operator_used(record.id, client.address)
        return operator(record)

    async def count(self, principal: Principal) -> None:
        """Count a request of a monitor link. Raises RateLimited when it has no more in this minute."""
        if not principal.link_id:
            return
        try:
            count, left_ms = await self._store.link_requests(principal.link_id)
            is_over, wait = count > LINK_PER_MIN, -(-left_ms // 1000)
        except StorageUnavailable:
            budget = self._limiter.take(GROUP, principal.link_id.encode(), LINK_PER_MIN)
            is_over, wait = not budget.allowed, budget.retry_after_sec
        if is_over:
            raise RateLimited("This monitor link asks too often.", headers={"Retry-After": str(max(1, wait))})

    def note_used(self, principal: Principal, client: Client) -> None:
        """Keep that the holder was seen."""
        if principal.operator_id:
            self._people.note_operator_used(principal.operator_id, client.address)

    async def _by_token(self, token: str) -> Principal | None:
        ident = self.tokens.read(token, self._now())
        record = None if ident is None else await self._people.link(ident)
        if record is None or record.state(self._now()) != "live":
            return None
        principal = monitor(record)
        await self.count(principal)
        self._people.note_link_used(record.id)
        return principal

    async def _renew(self, key: str, record: Operator) -> None:
        """Bring the stored verifier to the present SECRET, within the request that proves the key (CFG-152)."""
        verifier = self.verifiers.renewed(key, record)
        if verifier is None:
            return
        try:
            if await self._records.renew(record, verifier):
                await self._people.tell_changed()
                log.info("operator_verifier_renewed", operator=record.id)
        except StorageUnavailable:
            log.warning("operator_verifier_not_renewed", operator=record.id)
