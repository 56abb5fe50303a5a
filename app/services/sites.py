"""How the sites of rooms answered their latest knocks, as every instance reads it. Not here: the knocks (prober.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.core.clock import mono, wall_ms
from app.domain.origins import Origin
from app.domain.room import Room
from app.infrastructure.site_store import SiteShown, SiteStore
from app.services.prober import site_of

FRESH_SEC: Final = 1.5
"""How long a reading serves; the console's frames come every 2 s."""
MISSED: Final = 3
"""Knocks that may stay away before nothing is said of a site any more (MSH-037)."""


class Sites:
    """One process's reading."""

    def __init__(self, store: SiteStore, *, every_ms: int, timeout_ms: int) -> None:
        """``every_ms``, ``timeout_ms``: MESH_KNOCK_MS and MESH_TIMEOUT_MS."""
        self._store = store
        self._life_ms = MISSED * every_ms + timeout_ms
        self._known: dict[Origin, tuple[float, SiteShown | None]] = {}

    async def refresh(self, rooms: Sequence[Room]) -> None:
        """Read the sites of ``rooms`` anew that were not read a moment ago. Raises StorageUnavailable."""
        now = mono()
        sites = {site for room in rooms if (site := site_of(room)) is not None}
        due = [site for site in sites if site not in self._known or self._known[site][0] <= now - FRESH_SEC]
        found = await self._store.shown(due)
        if len(self._known) > 2 * len(sites):
            self._known = {site: entry for site, entry in self._known.items() if entry[0] > now - FRESH_SEC}
        self._known.update((site, (now, found.get(site))) for site in due)

    def of(self, room: Room) -> SiteShown | None:
        """The site of a room as last read; None: not known, or the last knock is too long ago to say anything."""
        site = site_of(room)
        shown = None if site is None else self._known.get(site, (0.0, None))[1]
        if shown is None or wall_ms() - shown.checked_at > self._life_ms:
            return None
        return shown
