"""Page files during a rolling deploy: every instance serves every hash that any instance still hands out.

Each instance puts its files into the shared store before it is ready and says once an hour that it still hands them
out; a hash that is not of this build is looked for there. Source: VIS-107, PAG-167, FLT-137, FLT-138, FLT-151.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

import structlog

from app.core.clock import mono
from app.core.errors import StorageUnavailable
from app.infrastructure.page_files import PageFiles
from app.services.asset_file import Asset, compress, content_hash
from app.services.assets import Assets

RENEW_SEC: Final = 3600.0
AGAIN_SEC: Final = 2.0
LOOKUPS_PER_SEC: Final = 20
"""Names of no known file that one instance looks for in a second, over its processes."""
MISS_SEC: Final = 60.0
MOST_MISSES: Final = 1000
_NAME: Final = re.compile(r"(?:waiting|docs)-(?P<hash>[A-Za-z0-9_-]{22})\.(?P<suffix>css|js|svg|[A-Za-z-]{2,8}\.json)")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json; charset=utf-8",
}

log = structlog.get_logger(__name__)


class AssetShare:
    """Files of this build and, through the store, of others. The owner calls ``stop`` before the process ends."""

    def __init__(self, assets: Assets, store: PageFiles, *, workers: int) -> None:
        """``workers``: web processes of this instance, which share its look-ups."""
        self._assets = assets
        self._store = store
        self._found: dict[str, Asset] = {}
        self._missed: dict[str, float] = {}
        self._per_sec = max(1, LOOKUPS_PER_SEC // workers)
        self._second, self._asked = 0, 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Put this build's files into the store; a store that is away gets them when it is back."""
        is_put = await self._put()
        self._task = asyncio.create_task(self._keep(is_put), name="page files")

    async def stop(self) -> None:
        """End the renewing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def find(self, name: str) -> Asset | None:
        """The file served as ``/assets/<name>``, of whichever build. None: nobody has it, or nobody can say."""
        known = self._assets.get(name) or self._found.get(name)
        if known is not None:
            return known
        match = _NAME.fullmatch(name)
        if match is None or self._missed.get(name, 0.0) > mono() or not self._may_ask():
            return None
        try:
            body = await self._store.get(name)
            if body is not None and content_hash(body) != match["hash"]:
                log.warning("page_file_forged", name=name)
                await self._store.drop(name)
                body = None
        except StorageUnavailable:
            return None
        if body is None:
            self._miss(name)
            return None
        kind = match["suffix"].rpartition(".")[2]
        asset = self._found[name] = Asset(name, _TYPES[kind], body, compress(body))
        return asset

    def _may_ask(self) -> bool:
        second = int(mono())
        if second != self._second:
            self._second, self._asked = second, 0
        self._asked += 1
        return self._asked <= self._per_sec

    def _miss(self, name: str) -> None:
        if len(self._missed) >= MOST_MISSES:
            self._missed.clear()
        self._missed[name] = mono() + MISS_SEC

    async def _put(self) -> bool:
        try:
            await self._store.put(self._assets.bodies())
        except StorageUnavailable:
            return False
        return True

    async def _keep(self, is_put: bool) -> None:
        while True:
            await asyncio.sleep(RENEW_SEC if is_put else AGAIN_SEC)
            is_put = await self._put()
