"""Which origin of an inline host a request is sent to: the one place that chooses.

A host has one origin in this build; pools of several come behind this interface.
"""

from __future__ import annotations

from app.domain.inline.hosts import InlineHost
from app.infrastructure.origin_pool import OriginLink as OriginLink
from app.infrastructure.origin_pool import OriginPool


class OriginChoice:
    """Gives out connections."""

    def __init__(self, pool: OriginPool) -> None:
        self._pool = pool

    def idle(self, host: InlineHost, *, is_repeatable: bool) -> OriginLink | None:
        """A connection that is open already. ``is_repeatable``: the request may be sent again (INL-132)."""
        return self._pool.take_idle(host.origin, is_repeatable=is_repeatable)

    async def fresh(self, host: InlineHost) -> OriginLink:
        """A new connection. Raises OriginFailed."""
        return await self._pool.connect(host.origin)

    def give_back(self, link: OriginLink) -> None:
        """Return one that may be used again."""
        self._pool.give_back(link)
