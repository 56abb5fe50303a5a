"""The mail at one's turn, through a real mail server. Source: VIS-179, VIS-180, VIS-230."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.errors import StorageUnavailable
from app.core.i18n import LANGUAGES, fill, load_locale
from app.core.ids import EpochMs, Generation, RoomId
from app.domain.room import Room, RoomConfig
from app.infrastructure.mailer import Letter, Mailer, NotSent
from app.infrastructure.valkey import Valkey
from app.infrastructure.wishes import Wish, WishStore
from app.services import turn_mails as module
from app.services.draws import draw_room
from tests.journal.house import House
from tests.visitor.post import SENDER, SHOP, Post, leave_address
from tests.visitor.smtp import MailServer


@pytest.mark.req("VIS-180", "CFG-080", "CFG-022")
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
async def test_it_writes_in_the_language_left_and_names_no_host_a_visitor_chose(post: Post) -> None:
    snippet = RoomConfig(SHOP, "Shop", "https://www.shop.example/start")
    site, page = "https://www.shop.example/start", "https://queue.example/w/shop"
    for lang in LANGUAGES:
        texts = load_locale("mail", lang)
        for public_url, origin, where in (
            ("https://queue.example", None, page), (None, None, site),
            ("https://queue.example", "http://203.0.113.7:3000", site), (None, "http://203.0.113.7:3000", site),
        ):  # fmt: skip
            post.duty._public_url = public_url
            config = replace(snippet, proxy_origin=origin)
            room = Room(config, Generation(1), b"s" * 16, 1, EpochMs(1), EpochMs(1))

            letter = post.duty._letter(room, Wish("1", "ann@shop.example", lang, 0), 1_790_000_000_000)

            assert letter.subject == fill(texts["subject"], room="Shop")
            assert letter.text == fill(texts["text"], room="Shop", until="2026-09-21 14:13 UTC", page=where)
    assert len({load_locale("mail", lang)["subject"] for lang in LANGUAGES}) == 5
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
