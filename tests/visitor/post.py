"""A site that offers mail, the leader that writes it, and a real mail server, for tests of addresses and of mails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.core import metrics
from app.core.ids import RoomId
from app.core.secret import Secret
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.mailer import Mailer
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.wishes import WishStore
from app.services.leadership import Term
from app.services.notify import AddressDigest
from app.services.turn_mails import TurnMails
from tests.journal.house import House, until
from tests.visitor.site import Answer, Browser, Site
from tests.visitor.smtp import MailServer

SHOP = RoomId("shop")
SENDER = "line@shop.example"
MAIL_SETTINGS = ("email_notify", "smtp_url", "smtp_from", "public_url")


@dataclass
class Post:
    """A site that offers mail, the leader that writes it, and the mail server."""

    site: Site
    house: House
    server: MailServer
    directory: RoomDirectory
    term: Term
    duty: TurnMails
    book: MetricBook = field(default_factory=MetricBook.alone)

    def leader(self, *, mails: bool = True) -> TurnMails:
        """Another leader's duty, with nothing remembered; without ``mails`` of a server that cannot send any."""
        loader = LuaLoader(self.house.valkey)
        return TurnMails(
            rooms=self.directory,
            jobs=EngineJobs(self.house.prefix, loader),
            lookup=EngineLookup(self.house.prefix, loader),
            store=WishStore(self.house.valkey, self.house.prefix),
            mailer=Mailer(self.server.url + "?starttls=never", SENDER) if mails else None,
            digest=AddressDigest(self.site.settings.secret),
            public_url=self.site.settings.public_url,
            book=self.book,
        )

    async def create(self, **config: Any) -> None:
        await self.site.create(**{"rate_per_minute": 0, **config})
        await self.directory.reload(SHOP)

    async def waiting(self, address: str | None, n: int = 1, **more: str) -> Browser:
        """Somebody in line who left ``address``."""
        browser = Browser(self.site, peer=f"198.51.100.{n}")
        await browser.join()
        if address is not None:
            assert (await leave_address(browser, address, **more)).status == 200
        return browser

    async def let_in(self, *browsers: Browser) -> None:
        """Give passes to everybody who waits."""
        await self.site.update(rate_per_minute=6000, max_concurrent=None)
        await self.directory.reload(SHOP)

        async def are_passed() -> bool:
            await self.house.jobs.tick(SHOP)
            return all([(await each.status()).json["state"] == "passed" for each in browsers])

        await until(are_passed)

    async def look(self) -> None:
        await self.duty.look(self.term)

    async def kept(self) -> dict[bytes, bytes]:
        """What the live store keeps of wishes."""
        found = await self.house.valkey.execute("HGETALL", f"{self.house.prefix}{{shop}}:1:em")
        return dict(zip(found[::2], found[1::2], strict=True))

    def results(self) -> dict[str, int]:
        """What ``qm_notify_mails_total`` says."""
        kinds = ("sent", "failed", "retried", "unknown", "limited")
        return {kind: count for kind in kinds if (count := self.book.total(metrics.NOTIFY_MAILS, kind))}


@asynccontextmanager
async def open_post(house: House, limiter: RateLimiter) -> AsyncIterator[Post]:
    """Everything of it on the stores of ``house``."""
    async with MailServer() as server:
        url = Secret(server.url + "?starttls=never")
        site = Site(
            house, limiter, email_notify=True, smtp_url=url, smtp_from=SENDER, public_url="https://queue.example"
        )
        directory = RoomDirectory(
            postgres=house.postgres, live=house.admin, valkey=house.valkey, prefix=house.prefix, resync_ms=60_000
        )
        await directory.start()
        lease = LeaderLease(
            loader=LuaLoader(house.valkey), postgres=house.postgres, prefix=house.prefix, holder="a", lease_ms=60_000
        )
        assert await lease.take()
        made = Post(site, house, server, directory, Term(lease), None)  # type: ignore[arg-type]
        made.duty = made.leader()
        yield made
        await directory.stop()
        await site.stop()


async def leave_address(browser: Browser, address: Any, **more: Any) -> Answer:
    return await browser.send("POST", "/api/notify", {"roomId": "shop", "email": address, **more})
