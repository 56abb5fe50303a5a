"""``/api/notify`` and the mail at one's turn, through a real mail server. Source: VIS-177 … VIS-180, VIS-230."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.core import metrics
from app.core.errors import StorageUnavailable
from app.core.i18n import fill, load_locale
from app.core.ids import EpochMs, Generation, RoomId
from app.core.secret import Secret
from app.core.settings import Refused
from app.core.settings_rules import load
from app.domain.room import Room, RoomConfig, RoomState
from app.infrastructure.engine_jobs import EngineJobs
from app.infrastructure.engine_lookup import EngineLookup
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.mailer import Letter, Mailer, NotSent
from app.infrastructure.metric_book import MetricBook
from app.infrastructure.rate_limiter import RateLimiter
from app.infrastructure.room_directory import RoomDirectory
from app.infrastructure.valkey import Valkey
from app.infrastructure.wishes import Wish, WishStore
from app.services import turn_mails as module
from app.services.draws import draw_room
from app.services.leadership import Term
from app.services.notify import MAIL_LANGUAGES, AddressDigest
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


@pytest.fixture
async def post(house: House, limiter: RateLimiter) -> AsyncIterator[Post]:
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


@pytest.mark.req("VIS-177", "CFG-080")
async def test_it_is_offered_only_where_mail_can_be_sent(house: House, limiter: RateLimiter) -> None:
    url = Secret("smtps://mail.example")
    for settings in ({}, {"email_notify": True}, {"email_notify": True, "smtp_url": url}, {"smtp_from": SENDER}):
        site = Site(house, limiter, **settings)
        if not site.rooms.copies and not await house.live_rooms():
            await site.create(rate_per_minute=0)
        browser = Browser(site)

        for method in ("POST", "DELETE"):
            answer = await browser.send(method, "/api/notify", {"roomId": "shop", "email": "a@b.example"})
            assert (answer.status, answer.code) == (404, "notify_disabled")
        await site.stop()

    loaded = load({"EMAIL_NOTIFY": "1"})
    assert [(w.code, w.variable) for w in loaded.warnings] == [("smtp_unset", "EMAIL_NOTIFY")]
    assert not loaded.settings.offers_mail
    ready = load({"EMAIL_NOTIFY": "1", "SMTP_URL": "smtps://u:p@mail.example", "SMTP_FROM": SENDER})
    assert (ready.settings.offers_mail, ready.warnings) == (True, ())


@pytest.mark.parametrize(
    "url",
    ["mail.example", "http://mail.example", "smtp://:25", "smtp://mail.example:99999", "smtp://mail.example/x",
     "smtp://mail.example?starttls=never", "smtps://127.0.0.1?starttls=never", "smtp://127.0.0.1?tls=no"],
)  # fmt: skip
def test_it_refuses_to_start_with_a_mail_server_it_cannot_use(url: str) -> None:
    with pytest.raises(Refused) as refused:
        load({"SMTP_URL": url})

    assert url not in refused.value.block()


@pytest.mark.req("VIS-178")
async def test_it_keeps_one_address_a_place_of_its_owner(post: Post) -> None:
    await post.create()
    browser = await post.waiting("ann@shop.example")
    token = browser.jar["qm_shop"]
    assert (await leave_address(browser, "Ben@shop.example", lang="th")).json == {"ok": True}
    assert await post.kept() == {b"1": b'["Ben@shop.example","th",0]'}

    for bad in ("", "no", "@b.example", "a@", "a b@c.example", "a@b.example,c@d.example", "a@b.example;x",
                "<a@b.example>",
                "a@b.example\nBcc: c@d.example", "x" * 250 + "@b.example", None):  # fmt: skip
        answer = await leave_address(browser, bad)
        assert (answer.status, answer.code) == (400, "invalid_email"), bad
    wrong = await leave_address(browser, "a@b.example", lang="xx")
    stranger = browser.twin(peer="203.0.113.9", agent="Other/1.0")
    refused = [
        await leave_address(stranger, "a@b.example", token=token),
        await leave_address(stranger, "a@b.example"),
        await stranger.send("DELETE", "/api/notify", {"roomId": "shop", "token": token}),
    ]
    assert (wrong.status, wrong.code) == (400, "invalid_lang")
    assert [(answer.status, answer.code) for answer in refused] == [(404, "no_ticket")] * 3
    assert await post.kept() == {b"1": b'["Ben@shop.example","th",0]'}
    cross = await browser.send("DELETE", "/api/notify", {"roomId": "shop"}, headers={"sec-fetch-site": "cross-site"})
    assert (cross.status, cross.code) == (403, "cross_site")
    removed = await browser.send("DELETE", "/api/notify", {"roomId": "shop", "token": token})
    again = await browser.send("DELETE", "/api/notify", {"roomId": "shop"})
    assert [answer.json for answer in (removed, again)] == [{"ok": True}] * 2
    assert await post.kept() == {}


@pytest.mark.req("VIS-180")
async def test_it_writes_once_at_the_turn_and_says_what_is_needed(post: Post) -> None:
    await post.create()
    await post.site.update(name="The\nLittle Shop")
    ann = await post.waiting("ann@shop.example")
    ben = await post.waiting("ben@shop.example", 2, lang="ja")
    await post.look()
    assert post.server.taken == []

    await post.let_in(ann, ben)
    passed = (await ann.status()).json
    await post.look()
    await post.look()
    await post.leader().look(post.term)

    assert [(mail.sender, mail.to) for mail in post.server.taken] == [
        (SENDER, ["ann@shop.example"]), (SENDER, ["ben@shop.example"])
    ]  # fmt: skip
    first, second = (mail.message for mail in post.server.taken)
    text = first.get_content()
    assert first["Subject"] == "It is your turn · The Little Shop"
    assert "https://queue.example/w/shop" in text
    assert "UTC" in text
    for secret in (ann.jar["qm_shop"], passed["ref"], f" {passed['ticket']} ", "qm_token"):
        assert secret not in text
    assert "順番が来ました" in second["Subject"]
    assert await post.kept() == {}
    assert post.results() == {"sent": 2}
    rows = await post.house.postgres.fetch("SELECT body FROM events")
    assert not any(b"@shop.example" in row["body"] for row in rows)


@pytest.mark.req("VIS-180")
async def test_it_tries_again_after_a_refusal_and_never_when_the_mail_may_have_left(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = module.wall_ms()
    monkeypatch.setattr(module, "wall_ms", lambda: now)
    await post.create(passed_ttl_sec=1200)
    await post.let_in(ann := await post.waiting("ann@shop.example"))
    post.server.refuses = 2

    await post.look()
    await post.look()
    now += 59_000
    await post.look()
    assert post.server.connections == 1
    now += 1000
    await post.look()
    assert post.server.connections == 2
    now += 299_000
    await post.look()
    assert (post.server.connections, post.server.taken) == (2, [])
    now += 1000
    await post.look()
    assert [mail.to for mail in post.server.taken] == [["ann@shop.example"]]
    assert post.results() == {"retried": 2, "sent": 1}
    post.server.hangs_up = True
    assert (await leave_address(ann, "ann@shop.example")).status == 200
    await post.look()
    now += 600_000
    await post.look()
    assert len(post.server.taken) == 2
    assert post.results() == {"retried": 2, "sent": 1, "unknown": 1}
    post.server.refuses, post.server.hangs_up = 9, False
    await leave_address(ann, "ann@shop.example")
    for _ in range(4):
        await post.look()
        now += 300_000
    assert post.results()["failed"] == 1
    assert await post.kept() == {}


async def test_it_keeps_nobody_waiting_for_an_address_that_no_mail_can_carry(post: Post) -> None:
    await post.create()
    odd = [await post.waiting(address, n) for n, address in enumerate(("ü@shop.example", "a@["), 1)]
    ann = await post.waiting("ann@shop.example", 9)
    await post.let_in(*odd, ann)

    await post.look()

    assert [mail.to for mail in post.server.taken] == [["ann@shop.example"]]
    assert post.results() == {"retried": 2, "sent": 1}


async def test_it_writes_to_the_holders_of_one_room_when_another_room_fails(post: Post) -> None:
    await post.site.create("broken", rate_per_minute=0)
    await post.directory.reload(RoomId("broken"))
    await post.house.valkey.execute("HSET", f"{post.house.prefix}{{broken}}:1:em", "no number", "no wish")
    await post.create()
    await post.let_in(await post.waiting("ann@shop.example"))
    assert [room.id for room in post.directory.all()] == ["broken", SHOP]

    await post.look()

    assert [mail.to for mail in post.server.taken] == [["ann@shop.example"]]


@pytest.mark.req("VIS-180")
@pytest.mark.parametrize("lang", MAIL_LANGUAGES)
async def test_it_writes_in_the_language_left_and_names_no_host_a_visitor_chose(post: Post, lang: str) -> None:
    inline = RoomConfig(SHOP, "Shop", "https://www.shop.example/start", proxy_origin="http://203.0.113.7:3000")
    texts = load_locale("mail", lang)
    wish, pass_end = Wish("1", "ann@shop.example", lang, 0), 1_790_000_000_000
    letters = {}
    for public_url in ("https://queue.example", None):
        post.duty._public_url = public_url
        for config in (inline, replace(inline, proxy_origin=None)):
            room = Room(config, Generation(1), b"s" * 16, 1, EpochMs(1), EpochMs(1))
            letters[public_url, config.is_inline] = post.duty._letter(room, wish, pass_end)

    site, page = "https://www.shop.example/start", "https://queue.example/w/shop"
    for key, letter in letters.items():
        where = page if key == ("https://queue.example", False) else site
        assert letter.subject == fill(texts["subject"], room="Shop")
        assert letter.text == fill(texts["text"], room="Shop", until="2026-09-21 14:13 UTC", page=where), key
    assert "Your place does not depend on it" in load_locale("waiting", "en")["mailWhy"]


@pytest.mark.req("VIS-180")
async def test_it_sends_nothing_while_the_live_store_is_down(post: Post) -> None:
    await post.create()
    ann = await post.waiting("ann@shop.example")
    await post.let_in(ann)
    away = Valkey("unix:///nonexistent.sock", timeout_ms=100)
    store, post.duty._store = post.duty._store, WishStore(away, post.house.prefix)
    with pytest.raises(StorageUnavailable):
        await post.look()
    assert post.server.taken == []
    post.duty._store = store
    await post.house.lose_everything()
    await post.look()

    assert post.server.taken == []
    await away.close()


async def journaled_text(house: House) -> str:
    """Everything that Postgres has."""
    names = await house.postgres.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    parts = []
    for (name,) in names:
        rows = await house.postgres.fetch(f"SELECT t::text FROM {name} t")
        parts += [row[0] for row in rows]
    return "\n".join(parts)


@pytest.mark.req("VIS-179", "ENG-273")
@pytest.mark.parametrize("mails", [True, False])
async def test_it_deletes_an_address_when_the_place_is_over(post: Post, mails: bool) -> None:
    """Also where mail was switched off while people waited for theirs."""
    post.duty = post.leader(mails=mails)
    await post.create()
    gone, _ejected, inside, stays = [await post.waiting(f"{n}@shop.example", n) for n in range(1, 5)]
    stored = await journaled_text(post.house)
    assert "https://shop.example" in stored
    assert "@shop.example" not in stored
    assert b"1@shop.example".hex() not in stored
    await gone.send("POST", "/api/leave", {"roomId": "shop"})
    await post.house.admin.eject(SHOP, 2, actor="test")

    await post.look()

    assert set(await post.kept()) == {b"3", b"4"}
    await post.let_in(inside, stays)
    await inside.check(url="https://shop.example/")
    await post.site.advance(700)
    await post.house.jobs.tick(SHOP)
    await post.look()
    await post.look()
    assert await post.kept() == {}
    assert post.server.taken == []
    assert not await post.house.valkey.execute("EXISTS", f"{post.house.prefix}{{shop}}:1:em")
    await post.site.update(rate_per_minute=0)
    await post.waiting("5@shop.example", 5)
    await post.site.delete()

    assert await post.kept() == {}


@pytest.mark.req("FLT-123", "FLT-011")
async def test_an_address_is_in_the_live_store_alone_and_no_longer_than_it_may(
    post: Post, limiter: RateLimiter
) -> None:
    """Any instance can be asked to forget it; nothing that is recorded has it; a place that is over takes it along."""
    await post.create()
    first, second, third = [await post.waiting(f"victim{n}@shop.example", n) for n in range(1, 4)]
    other = Site(post.house, limiter, **{name: getattr(post.site.settings, name) for name in MAIL_SETTINGS})
    await other.rooms.refresh(SHOP)
    first.site = other
    assert (await first.send("DELETE", "/api/notify", {"roomId": "shop"})).status == 200
    await other.stop()
    assert set(await post.kept()) == {b"2", b"3"}

    await post.let_in(second, third)
    await third.send("DELETE", "/api/notify", {"roomId": "shop"})
    await leave_address(third, "victim3@shop.example")
    post.server.refuses = 9
    await post.look()
    assert await post.kept(), "it is tried again"
    tables = await post.house.postgres.fetch(
        "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema()"
    )
    assert len(tables) > 5
    for row in tables:
        told = await post.house.postgres.fetch(f"SELECT t::text AS text FROM {row['name']} t")
        for word in ("victim", b"victim".hex()):
            assert not any(word in one["text"] for one in told), row["name"]
    await post.site.advance(700)
    await post.house.jobs.tick(SHOP)
    await post.look()
    assert await post.kept() == {}, "the entry window is over"


@pytest.mark.req("VIS-230")
async def test_it_is_no_mail_cannon(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    now = module.wall_ms()
    monkeypatch.setattr(module, "wall_ms", lambda: now)
    await post.create()
    same = [await post.waiting("Victim@shop.example", n) for n in range(1, 6)]
    assert set(await post.kept()) == {b"1", b"2", b"3"}, "one address stands with three live tickets"
    await same[0].send("DELETE", "/api/notify", {"roomId": "shop"})
    assert (await leave_address(same[3], "victim@SHOP.example")).status == 200
    assert set(await post.kept()) == {b"2", b"3", b"4"}
    keys = await post.house.valkey.execute("KEYS", post.house.prefix + "mail:*")
    assert keys
    assert not any(b"ictim" in key for key in keys)
    assert 0 < await post.house.valkey.execute("TTL", keys[0]) <= 3600

    await post.let_in(*same)
    await post.look()
    assert len(post.server.taken) == 3
    await leave_address(same[0], "victim@shop.example")
    await post.look()
    assert len(post.server.taken) == 3, "the fourth within an hour is stored and not mailed"
    assert post.results()["limited"] == 1
    rest = [await post.waiting(f"{n}@shop.example", n) for n in range(10, 80)]
    await post.let_in(*rest)
    for _ in range(3):
        await post.look()
    assert len(post.server.taken) == 60 - 1, "sixty a minute, of which one was counted and not sent"
    now += 60_000
    for _ in range(3):
        await post.look()
    assert len(post.server.taken) == 73


async def test_it_follows_a_place_of_the_pre_queue_to_its_ticket(post: Post) -> None:
    await post.create()
    await post.site.update(opens_at=module.wall_ms() + 60_000)
    browser = await post.waiting("ann@shop.example")
    assert next(iter(await post.kept())).startswith(b"h")
    await post.site.advance(61)
    await post.house.jobs.tick(SHOP, module.wall_ms() + 61_000)
    assert await draw_room(post.house.jobs, SHOP) is not None

    await post.let_in(browser)
    await post.look()
    await post.look()

    assert [mail.to for mail in post.server.taken] == [["ann@shop.example"]]
    assert await post.kept() == {}


async def test_it_sends_nothing_to_a_server_without_tls_unless_told_so() -> None:
    async with MailServer() as server:
        with pytest.raises(NotSent):
            await Mailer(server.url, SENDER).send(Letter("a@b.example", "s", "t"))
        assert server.taken == []


async def test_it_limits_addresses_left_by_one_client(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, notify_limit_per_min=2)
    await site.create(rate_per_minute=0, state=RoomState.PAUSED)
    browser = Browser(site)

    answers = [await leave_address(browser, "a@b.example") for _ in range(3)]

    assert [answer.status for answer in answers] == [404, 404, 429]
    await site.stop()
