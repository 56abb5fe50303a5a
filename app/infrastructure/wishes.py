"""Addresses that visitors left to be told at their turn: in the live store alone, never in Postgres (VIS-179).

Belongs here: the keys and commands. Not here: who may leave one (services/notify.py), when one is written to
(services/turn_mails.py). A wish belongs to a *holder*: the ticket's number in digits, or ``h`` and the handle in hex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import ujson

from app.core.ids import RoomId
from app.infrastructure.keys import RoomKeys, mail_address_keys, mail_pace_key
from app.infrastructure.lua_loader import Commands

HOUR_SEC: Final = 3600
MAX_HOLDERS: Final = 3
"""Live tickets of the deployment that one address may stand with (VIS-230)."""
MAX_HOURLY: Final = 3
MAX_A_MINUTE: Final = 60
MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Wish:
    """One address left with a place."""

    holder: str
    address: str
    lang: str
    tries: int = 0


class WishStore:
    """Reads and writes wishes. Methods raise StorageUnavailable. ``digest``: the keyed digest of an address."""

    def __init__(self, valkey: Commands, prefix: str) -> None:
        self._valkey = valkey
        self._prefix = prefix

    async def put(self, room: RoomId, gen: int, wish: Wish, digest: str, old_digest: str | None) -> bool:
        """Keep a wish instead of the holder's earlier one. False: the address stands with too many tickets."""
        stands, _ = mail_address_keys(self._prefix, digest)
        member = _member(room, gen, wish.holder)
        _, _, count = await self._valkey.pipeline(
            [("SADD", stands, member), ("EXPIRE", stands, HOUR_SEC), ("SCARD", stands)]
        )
        if old_digest not in (None, digest):
            await self._valkey.execute("SREM", mail_address_keys(self._prefix, str(old_digest))[0], member)
        if count > MAX_HOLDERS:
            await self._valkey.execute("SREM", stands, member)
            await self.drop(room, gen, [wish.holder])
            return False
        await self._write(room, gen, wish)
        return True

    async def get(self, room: RoomId, gen: int, holder: str) -> Wish | None:
        """The wish of a holder."""
        text = await self._valkey.execute("HGET", RoomKeys(self._prefix, room).wishes(gen), holder)
        return None if text is None else _wish(holder, text)

    async def forget(self, room: RoomId, gen: int, wish: Wish, digest: str) -> None:
        """Delete a wish and what is counted of its address for it."""
        await self._valkey.execute("SREM", mail_address_keys(self._prefix, digest)[0], _member(room, gen, wish.holder))
        await self.drop(room, gen, [wish.holder])

    async def drop(self, room: RoomId, gen: int, holders: Sequence[str]) -> None:
        """Delete the wishes of these holders."""
        keys = RoomKeys(self._prefix, room)
        await self._valkey.pipeline(
            [
                ("HDEL", keys.wishes(gen), *holders),
                ("ZREM", keys.wish_order(gen), *holders),
                ("ZREM", keys.wish_retries(gen), *holders),
            ]
        )

    async def count(self, rooms: Sequence[tuple[RoomId, int]]) -> list[int]:
        """Wishes of each (room, generation)."""
        if not rooms:
            return []
        found = await self._valkey.pipeline([("HLEN", RoomKeys(self._prefix, room).wishes(gen)) for room, gen in rooms])
        return [int(number) for number in found]

    async def due(self, room: RoomId, gen: int, head: int, now_ms: int, most: int) -> list[str]:
        """Holders up to ticket ``head`` who wait for their first mail, and those to be tried again."""
        keys = RoomKeys(self._prefix, room)
        first, again = await self._valkey.pipeline(
            [
                ("ZRANGEBYSCORE", keys.wish_order(gen), 1, head, "LIMIT", 0, most),
                ("ZRANGEBYSCORE", keys.wish_retries(gen), 0, now_ms, "LIMIT", 0, most),
            ]
        )
        return [holder.decode() for holder in (*first, *again)]

    async def places(self, room: RoomId, gen: int, most: int) -> list[str]:
        """Holders of places in the pre-queue."""
        found = await self._valkey.execute(
            "ZRANGEBYSCORE", RoomKeys(self._prefix, room).wish_order(gen), 0, 0, "LIMIT", 0, most
        )
        return [holder.decode() for holder in found]

    async def scan(self, room: RoomId, gen: int, cursor: int, most: int) -> tuple[int, list[str]]:
        """Next cursor (0 = all were seen) and some holders."""
        key = RoomKeys(self._prefix, room).wishes(gen)
        after, found = await self._valkey.execute("HSCAN", key, cursor, "COUNT", most)
        return int(after), [holder.decode() for holder in found[::2]]

    async def claim(self, room: RoomId, gen: int, holder: str) -> bool:
        """Take one mail to send; True for one taker alone, also across a change of the leader."""
        keys = RoomKeys(self._prefix, room)
        taken = await self._valkey.pipeline(
            [("ZREM", keys.wish_order(gen), holder), ("ZREM", keys.wish_retries(gen), holder)]
        )
        return any(taken)

    async def retry(self, room: RoomId, gen: int, wish: Wish, due_ms: int) -> None:
        """Have a mail that has not left tried again."""
        keys = RoomKeys(self._prefix, room)
        await self._valkey.pipeline(
            [
                ("HSET", keys.wishes(gen), wish.holder, _text(wish)),
                ("ZADD", keys.wish_retries(gen), due_ms, wish.holder),
            ]
        )

    async def move(self, room: RoomId, gen: int, wish: Wish, ticket: int) -> None:
        """Give the wish of a drawn place to its ticket."""
        await self.drop(room, gen, [wish.holder])
        await self._write(room, gen, Wish(str(ticket), wish.address, wish.lang))

    async def drawn(self, room: RoomId, gen: int, handle: bytes) -> int:
        """Ticket that the place of ``handle`` got in the draw; 0 = none, or none yet."""
        keys = RoomKeys(self._prefix, room)
        place = await self._valkey.execute("HGET", keys.handles(gen), handle[:8])
        if place is None:
            return 0
        at = (int(place) - 1) * 4
        number = await self._valkey.execute("GETRANGE", keys.place_numbers(gen), at, at + 3)
        return int.from_bytes(number, "little") if len(number) == 4 else 0

    async def may_write(self, digest: str) -> bool:
        """Count one mail to an address; False when it had its three within the hour (VIS-230)."""
        _, sent = mail_address_keys(self._prefix, digest)
        _, number = await self._valkey.pipeline([("SET", sent, 0, "EX", HOUR_SEC, "NX"), ("INCR", sent)])
        return int(number) <= MAX_HOURLY

    async def may_send(self, now_ms: int) -> bool:
        """Tell whether fewer than 60 mails left this deployment within a minute, and note one more if so."""
        key = mail_pace_key(self._prefix)
        oldest = await self._valkey.execute("LINDEX", key, MAX_A_MINUTE - 1)
        if oldest is not None and now_ms - int(oldest) < MINUTE_MS:
            return False
        await self._valkey.pipeline(
            [("LPUSH", key, now_ms), ("LTRIM", key, 0, MAX_A_MINUTE - 1), ("PEXPIRE", key, 2 * MINUTE_MS)]
        )
        return True

    async def _write(self, room: RoomId, gen: int, wish: Wish) -> None:
        keys = RoomKeys(self._prefix, room)
        score = 0 if wish.holder.startswith("h") else int(wish.holder)
        await self._valkey.pipeline(
            [
                ("HSET", keys.wishes(gen), wish.holder, _text(wish)),
                ("ZREM", keys.wish_retries(gen), wish.holder),
                ("ZADD", keys.wish_order(gen), score, wish.holder),
            ]
        )


def _member(room: RoomId, gen: int, holder: str) -> str:
    return f"{room} {gen} {holder}"


def _text(wish: Wish) -> str:
    return ujson.dumps([wish.address, wish.lang, wish.tries])


def _wish(holder: str, text: bytes) -> Wish:
    address, lang, tries = ujson.loads(text)
    return Wish(holder, address, lang, tries)
