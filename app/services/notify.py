"""``/api/notify``: an address to be told at one's turn. Source: VIS-177 … VIS-179, VIS-230.

Belongs here: who may leave one, and the digest it is counted by. Not here: the mail (turn_mails.py), HTTP.
"""

from __future__ import annotations

import hmac

from app.core.clock import wall_ms
from app.core.errors import InvalidField, NoTicket
from app.core.mail_kinds import is_email_address
from app.core.secret import Secret
from app.domain.keyring import hkdf
from app.infrastructure.engine import Engine
from app.infrastructure.wishes import Wish, WishStore
from app.services.visitor import holds_ticket
from app.services.visitor_proof import Identifier, Visitor
from app.services.visitor_room import VisitorRoom, VisitorRooms


class AddressDigest:
    """Names an address in counts by a keyed digest, so that the counts alone tell no address."""

    def __init__(self, secret: Secret) -> None:
        self._key = hkdf(secret.reveal().encode(), b"qm:mail", 32)

    def of(self, address: str) -> str:
        """32 hexadecimal digits; capital letters make no other address."""
        return hmac.digest(self._key, address.casefold().encode(), "sha256").hex()[:32]


class NotifyService:
    """Keeps and removes addresses for owners of live places. Methods raise NoRoom, NoTicket, StorageUnavailable."""

    def __init__(
        self,
        *,
        engine: Engine,
        rooms: VisitorRooms,
        identifier: Identifier,
        store: WishStore,
        digest: AddressDigest,
    ) -> None:
        self._engine = engine
        self._rooms = rooms
        self._identifier = identifier
        self._store = store
        self._digest = digest

    async def keep(self, room_id: str, visitor: Visitor, address: str, lang: str) -> None:
        """Keep ``address`` for the visitor's place; a second one replaces the first. Raises 400 ``invalid_email``.

        An address that stands with three live tickets already is not kept, and nobody is told so: the answer would
        say something about other visitors.
        """
        if not is_email_address(address):
            raise InvalidField("email", "This is no e-mail address")
        room, gen, holder = await self._holder(room_id, visitor)
        before = await self._store.get(room.room.id, gen, holder)
        old = None if before is None else self._digest.of(before.address)
        await self._store.put(room.room.id, gen, Wish(holder, address, lang), self._digest.of(address), old)

    async def remove(self, room_id: str, visitor: Visitor) -> None:
        """Delete the address that was left for the visitor's place, if there is one."""
        room, gen, holder = await self._holder(room_id, visitor)
        wish = await self._store.get(room.room.id, gen, holder)
        if wish is not None:
            await self._store.forget(room.room.id, gen, wish, self._digest.of(wish.address))

    async def _holder(self, room_id: str, visitor: Visitor) -> tuple[VisitorRoom, int, str]:
        room = await self._rooms.find(room_id)
        return await self._rooms.current(room, lambda current: self._ask(current, visitor))

    async def _ask(self, room: VisitorRoom, visitor: Visitor) -> tuple[VisitorRoom, int, str]:
        identity = self._identifier.identify(room, visitor, wall_ms())
        if identity.others:
            identity = await self._identifier.settle(room, visitor, identity)
        view = await self._engine.status(room.room, identity.proof, told=False, seen=True)
        if not holds_ticket(view):
            raise NoTicket("There is no place in this line to tell you about")
        holder = str(view.ticket) if view.ticket else "h" + view.handle.hex()
        return room, identity.proof.generation, holder
