"""What the leader's knocks found, kept in the live store for every instance and for the next leader.

One hash: ``s`` + address of a site → what is shown of it, ``k`` + address → its run of knocks, ``epoch`` → the latest
leader that wrote (FLT-026). Not here: what a run of knocks means (domain/site_health.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ujson

from app.domain.origins import Origin, origin_text
from app.domain.site_health import Knocked, SiteHealth
from app.infrastructure.engine_auto import Overtaken
from app.infrastructure.keys import autotune_key, sites_key
from app.infrastructure.lua_loader import Commands, LuaLoader


@dataclass(frozen=True, slots=True)
class SiteShown:
    """One site as a room object shows it. ``is_up`` None: not known."""

    is_up: bool | None
    checked_at: int
    http_status: int | None
    ms: int | None
    failure: str
    by: str
    """Name of the instance that knocked."""


@dataclass(frozen=True, slots=True)
class TuneRound:
    """Autotune's latest round of one room. ``at``: wall ms of the live store."""

    at: int
    passes_outstanding: int


class SiteStore:
    """Reads and writes. Raises StorageUnavailable; writing raises Overtaken when a later leader has written."""

    def __init__(self, valkey: Commands, prefix: str, loader: LuaLoader) -> None:
        self._valkey = valkey
        self._loader = loader
        self._sites, self._rounds = sites_key(prefix), autotune_key(prefix)

    async def now_ms(self) -> int:
        """The live store's clock, by which knocks are dated (MSH-108)."""
        seconds, micros = await self._valkey.execute("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    async def shown(self, sites: Sequence[Origin]) -> dict[Origin, SiteShown]:
        """What is known of sites; those never knocked at are left out."""
        found = await self._fields("s", sites)
        return {site: SiteShown(*ujson.loads(text)) for site, text in found.items()}

    async def healths(self, sites: Sequence[Origin]) -> dict[Origin, SiteHealth]:
        """Runs of knocks at sites; those never knocked at are left out."""
        found = await self._fields("k", sites)
        return {site: _health(text) for site, text in found.items()}

    async def put(self, epoch: int, healths: Mapping[Origin, SiteHealth], *, by: str, gone: Iterable[str] = ()) -> None:
        """Write sites after a knock, and drop those whose addresses (``origin_text``) are ``gone``."""
        pairs: list[str] = []
        for site, health in healths.items():
            name = origin_text(site)
            pairs += ["s" + name, _shown_text(health, by), "k" + name, _health_text(health)]
        for name in gone:
            pairs += ["s" + name, "", "k" + name, ""]
        await self._write(self._sites, epoch, pairs)

    async def known(self) -> set[str]:
        """Addresses of all sites that are kept."""
        names = await self._valkey.execute("HKEYS", self._sites)
        return {name.decode()[1:] for name in names if name.startswith(b"s")}

    async def rounds(self) -> dict[str, TuneRound]:
        """Latest rounds of autotune by room id."""
        flat = await self._valkey.execute("HGETALL", self._rounds)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return {room.decode(): TuneRound(*ujson.loads(text)) for room, text in pairs if room != b"epoch"}

    async def put_rounds(self, epoch: int, rounds: Mapping[str, TuneRound], *, gone: Iterable[str] = ()) -> None:
        """Write rounds of autotune, and drop rooms that are ``gone``."""
        pairs: list[str] = []
        for room, latest in rounds.items():
            pairs += [room, ujson.dumps([latest.at, latest.passes_outstanding])]
        for room in gone:
            pairs += [room, ""]
        await self._write(self._rounds, epoch, pairs)

    async def _write(self, key: str, epoch: int, pairs: Sequence[str]) -> None:
        for start in range(0, len(pairs), 400):
            reply = await self._loader.call("leader_put", key, epoch, *pairs[start : start + 400])
            if reply[1] != 1:
                raise Overtaken

    async def _fields(self, kind: str, sites: Sequence[Origin]) -> dict[Origin, Any]:
        if not sites:
            return {}
        texts = await self._valkey.execute("HMGET", self._sites, *(kind + origin_text(site) for site in sites))
        return {site: text for site, text in zip(sites, texts, strict=True) if text is not None}


def _shown_text(health: SiteHealth, by: str) -> str:
    last = health.knocks[-1]
    answered = last.status > 0
    return ujson.dumps(
        [health.is_up, last.at, last.status if answered else None, last.ms if answered else None, last.failure, by],
        ensure_ascii=False,
    )


def _health_text(health: SiteHealth) -> str:
    knocks = [[knock.at, knock.ms, knock.status, knock.failure] for knock in health.knocks]
    return ujson.dumps([health.is_up, health.streak, knocks])


def _health(text: bytes) -> SiteHealth:
    is_up, streak, knocks = ujson.loads(text)
    return SiteHealth(is_up, streak, tuple(Knocked(*knock) for knock in knocks))
