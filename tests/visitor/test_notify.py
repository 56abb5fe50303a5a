"""``/api/notify``: an address is left, kept and taken back. Source: VIS-177 … VIS-179."""

from __future__ import annotations

import pytest

from app.core.secret import Secret
from app.core.settings import Refused
from app.core.settings_rules import load
from app.domain.room import RoomState
from app.infrastructure.rate_limiter import RateLimiter
from tests.journal.house import House
from tests.visitor.post import MAIL_SETTINGS, SENDER, SHOP, Post, leave_address
from tests.visitor.site import Browser, Site


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


@pytest.mark.req("FLT-123", "FLT-011", "CFG-080", "CFG-044")
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


async def test_it_limits_addresses_left_by_one_client(house: House, limiter: RateLimiter) -> None:
    site = Site(house, limiter, notify_limit_per_min=2)
    await site.create(rate_per_minute=0, state=RoomState.PAUSED)
    browser = Browser(site)

    answers = [await leave_address(browser, "a@b.example") for _ in range(3)]

    assert [answer.status for answer in answers] == [404, 404, 429]
    await site.stop()
