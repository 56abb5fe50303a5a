"""The leader writes to visitors whose turn it is, once for each pass. Source: VIS-179, VIS-180, VIS-230.

Belongs here: whose turn it is, what the mail says, retries, deletion of addresses that are done with. Not here: SMTP
(infrastructure/mailer.py). All of it comes from the live store: with that away, nothing is sent.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from app.core import metrics
from app.core.clock import wall_ms
from app.core.errors import StorageUnavailable
from app.core.i18n import LANGUAGES, fill, load_locale
from app.core.ids import RoomId
from app.domain.room import Room
from app.domain.ticket_state import TicketState
from app.infrastructure.engine_errors import RoomFenced, RoomGone
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup, TicketFacts
from app.infrastructure.mailer import Letter, MaybeSent, NotSent
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.wishes import Wish, WishStore
from app.services.leadership import Term, TermOver
from app.services.notify import AddressDigest

EVERY_SEC: Final = 2.0
SWEEP_SEC: Final = 60.0
RETRY_MS: Final = (60_000, 300_000)
"""When a mail that has not left is tried again, after the first and after the second try."""
PIECE: Final = 50
"""Tickets looked at in one call."""
_TO_BE_TOLD: Final = frozenset({TicketState.WAITING, TicketState.PASSED})

log = structlog.get_logger(__name__)


class Sender(Protocol):
    """What is needed of Mailer."""

    async def send(self, letter: Letter) -> None:
        """Return once the mail was taken; raises NotSent or MaybeSent."""


class TurnMails:
    """The duty."""

    name = "turn_mails"

    def __init__(
        self,
        *,
        rooms: RoomDirectory,
        jobs: EngineJobs,
        lookup: EngineLookup,
        store: WishStore,
        mailer: Sender | None,
        digest: AddressDigest,
        public_url: str | None,
        book: MetricBook,
    ) -> None:
        """``mailer`` None: no mail can be sent any more; addresses that were left before are deleted as ever (ENG-273).
        ``book``: where it is counted what became of each mail."""
        self._rooms = rooms
        self._jobs = jobs
        self._lookup = lookup
        self._store = store
        self._mailer = mailer
        self._digest = digest
        self._public_url = public_url
        self._book = book
        self._cursors: dict[RoomId, int] = {}
        self._texts = {lang: load_locale("mail", lang) for lang in LANGUAGES}

    async def run(self, term: Term) -> None:
        """Look at every room with addresses every two seconds until the term is over; without mail once a minute."""
        while True:
            term.check()
            await self.look(term)
            await asyncio.sleep(EVERY_SEC if self._mailer else SWEEP_SEC)

    async def look(self, term: Term) -> None:
        """One look at all rooms. A room that cannot be read, or fails, is left for the next look. Raises TermOver."""
        rooms = self._rooms.all()
        counts = await self._store.count([(room.id, room.generation) for room in rooms])
        for room, count in zip(rooms, counts, strict=True):
            if count:
                try:
                    await self._look_at(room, term)
                except (RoomGone, RoomFenced, StorageUnavailable):
                    continue
                except TermOver:
                    raise
                except Exception:
                    log.exception("turn_mails_failed", room=room.id)

    async def _look_at(self, room: Room, term: Term) -> None:
        gen = room.generation
        header = await self._jobs.header(room.id)
        if header is None or header["gen"] != gen:
            return
        await self._move_drawn(room)
        due = await self._store.due(room.id, gen, int(header["head"]), wall_ms(), PIECE) if self._mailer else []
        for ticket in await self._facts(room.id, due):
            if ticket.state is TicketState.PASSED and self._mailer is not None:
                if not await self._write_to(self._mailer, room, ticket, term):
                    return
            elif ticket.state is not TicketState.WAITING:
                await self._delete(room, ticket)  # he went in, or his turn is over
        await self._sweep(room)

    async def _facts(self, room: RoomId, holders: list[str]) -> list[TicketFacts]:
        numbers = sorted({int(holder) for holder in holders if not holder.startswith("h")})
        found: list[TicketFacts] = []
        for at in range(0, len(numbers), PIECE):
            found += (await self._lookup.tickets(room, numbers[at : at + PIECE])).tickets
        return found

    async def _move_drawn(self, room: Room) -> None:
        """Addresses of places whose ticket is known by now go on with the ticket."""
        for holder in await self._store.places(room.id, room.generation, PIECE):
            ticket = await self._store.drawn(room.id, room.generation, bytes.fromhex(holder[1:]))
            wish = await self._store.get(room.id, room.generation, holder) if ticket else None
            if wish is not None:
                await self._store.move(room.id, room.generation, wish, ticket)

    async def _write_to(self, mailer: Sender, room: Room, ticket: TicketFacts, term: Term) -> bool:
        """Send the mail of one pass. False: the deployment has sent as many as it may in a minute."""
        gen, holder = room.generation, str(ticket.ticket)
        wish = await self._store.get(room.id, gen, holder)
        if wish is None:
            await self._store.drop(room.id, gen, [holder])
            return True
        if not await self._store.may_send(wall_ms()):
            return False
        term.check()
        # Whoever takes it off the list sends it, or nobody does: a mail is sent at most once.
        if not await self._store.claim(room.id, gen, holder):
            return True
        digest = self._digest.of(wish.address)
        if wish.tries == 0 and not await self._store.may_write(digest):
            await self._done(room, wish, digest, "limited")
            return True
        try:
            await mailer.send(self._letter(room, wish, ticket.pass_end))
        except NotSent as error:
            await self._failed(room, wish, digest, str(error), ticket.pass_end)
        except MaybeSent:
            await self._done(room, wish, digest, "unknown")
        else:
            await self._done(room, wish, digest, "sent")
        return True

    async def _failed(self, room: Room, wish: Wish, digest: str, error: str, pass_end: int) -> None:
        log.warning("turn_mail_not_sent", room=room.id, tries=wish.tries + 1, error=error)
        due = wall_ms() + RETRY_MS[wish.tries] if wish.tries < len(RETRY_MS) else None
        if due is None or due >= pass_end:
            await self._done(room, wish, digest, "failed")
            return
        self._count("retried")
        again = Wish(wish.holder, wish.address, wish.lang, wish.tries + 1)
        await self._store.retry(room.id, room.generation, again, due)

    async def _done(self, room: Room, wish: Wish, digest: str, result: str) -> None:
        await self._store.forget(room.id, room.generation, wish, digest)
        self._count(result)

    def _count(self, result: str) -> None:
        self._book.add(metrics.NOTIFY_MAILS, result)

    async def _sweep(self, room: Room) -> None:
        """Delete addresses of those who went in or whose ticket is over, some of them in each look."""
        gen = room.generation
        cursor, holders = await self._store.scan(room.id, gen, self._cursors.get(room.id, 0), PIECE)
        self._cursors[room.id] = cursor
        for ticket in await self._facts(room.id, holders):
            if ticket.state not in _TO_BE_TOLD:
                await self._delete(room, ticket)

    async def _delete(self, room: Room, ticket: TicketFacts) -> None:
        wish = await self._store.get(room.id, room.generation, str(ticket.ticket))
        if wish is not None:
            await self._store.forget(room.id, room.generation, wish, self._digest.of(wish.address))

    def _letter(self, room: Room, wish: Wish, pass_end: int) -> Letter:
        """Nothing in it is a visitor's text: not even the host that his browser named (VIS-230)."""
        texts = self._texts[wish.lang]
        name = " ".join(room.config.name.split())
        at_queue = self._public_url is not None and not room.config.is_inline  # else it is at the site's own URLs
        page = f"{self._public_url}/w/{room.id}" if at_queue else room.config.target_url
        until = datetime.fromtimestamp(pass_end / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        values = {"room": name, "until": until, "page": page}
        return Letter(wish.address, fill(texts["subject"], **values), fill(texts["text"], **values))
