"""Taking readable visitor addresses out of old facts of the journal (FLT-150). No rebuild reads them."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.ids import EpochMs
from app.infrastructure.keys import blanked_key
from app.infrastructure.postgres import Postgres
from app.infrastructure.queries import QUERIES
from app.infrastructure.valkey import Valkey


@dataclass(frozen=True, slots=True)
class History:
    """The facts of one generation of a room."""

    room: str
    gen: int

    @property
    def name(self) -> str:
        """As the live store keeps it."""
        return f"{self.room} {self.gen}"


class AddressStore:
    """The steps. Every method raises StorageUnavailable."""

    def __init__(self, postgres: Postgres, valkey: Valkey, prefix: str) -> None:
        self._postgres = postgres
        self._valkey = valkey
        self._key = blanked_key(prefix)

    async def histories(self) -> list[History]:
        """Every generation that has facts."""
        return [History(*row) for row in await self._postgres.fetch(QUERIES["addresses_histories"])]

    async def blank(self, history: History, before: EpochMs) -> bool:
        """Blank what is older than ``before`` among the next 1000 facts; True = there is more.

        How far it came is only remembered in the live store: when that is lost, all is looked at once more.
        """
        done = int(await self._valkey.execute("HGET", self._key, history.name) or 0)
        upto = await self._postgres.fetchval(QUERIES["addresses_blank"], history.room, history.gen, done, before)
        if upto is None:
            return False
        await self._valkey.execute("HSET", self._key, history.name, upto)
        return True
