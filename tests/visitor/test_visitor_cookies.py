"""Cookies of visitors: which answer sets which, which requests read which. Source: 03, chapter 4."""

from __future__ import annotations

import json
import logging

import pytest

from app.core.ids import RoomId
from tests.journal.house import until
from tests.visitor.site import Browser, Site
from tests.visitor.test_status import old_token
from tests.visitor.test_streams import opened

LASTING = "; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax"


def names(cookies: list[str]) -> list[str]:
    return [cookie.partition("=")[0] for cookie in cookies]


@pytest.mark.req("VIS-050")
async def test_it_sets_the_ticket_cookie_wherever_the_token_is_signed_anew(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    joined = await browser.join()
    set_by = {"join": joined.cookies}
    set_by["again"] = (await browser.join()).cookies
    browser.jar["qm_shop"] = old_token(site, 1, 43_300)
    set_by["status"] = (await browser.status()).cookies
    set_by["stream"] = [cookie.decode() for cookie in (await opened(browser)).cookies]
    await site.update(rate_per_minute=600)
    await browser.released()
    browser.jar["qm_shop"] = old_token(site, 1, 43_300)
    set_by["check"] = (await browser.check()).cookies

    for where, cookies in set_by.items():
        ticket = next(cookie for cookie in cookies if cookie.startswith("qm_shop="))
        assert ticket.endswith(LASTING), where
        assert ticket.count(".") in (1, 2), where


@pytest.mark.req("VIS-051")
async def test_it_gives_each_ticket_a_session_value_of_its_own_and_tells_it_in_cookies_alone(
    site: Site, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await site.create(rate_per_minute=0)
    answers = [await browser.join()]
    values = [browser.jar["qms_shop"]]
    answers.append(await browser.send("POST", "/api/leave", {"roomId": "shop"}))
    answers.append(await browser.join())
    values.append(browser.jar["qms_shop"])
    browser.jar["qm_shop"] = old_token(site, 2, 43_300)
    answers.append(renewed := await browser.status())
    await site.update(rate_per_minute=600)
    await browser.released()
    answers.append(await browser.check(url="https://shop.example/"))
    frame = (await opened(browser)).first.decode()

    assert values[0] != values[1]
    assert f"qms_shop={values[1]}{LASTING}" in renewed.cookies, "prolonged with the token, not changed"
    told = frame + caplog.text + "".join(answer.reply.body.decode() for answer in answers)
    assert not any(value in told for value in values)


@pytest.mark.req("VIS-052")
async def test_it_sets_the_door_key_at_an_admission_for_as_long_as_a_session_may_last(
    site: Site, browser: Browser
) -> None:
    await site.create(session_max_sec=7200)
    await browser.released()

    admitted = await browser.check()
    again = await browser.check()

    assert f"qm_dk_shop={admitted.json['doorKey']}; Path=/; Max-Age=7200; HttpOnly; SameSite=Lax" in admitted.cookies
    assert again.json["reason"] == "session"
    assert again.cookies == []


@pytest.mark.req("VIS-054")
async def test_it_sets_no_other_cookie_and_none_for_another_host(site: Site, browser: Browser) -> None:
    await site.create()
    await browser.released()
    cookies = []
    for _ in range(2):
        browser.jar["qm_shop"] = old_token(site, 1, 43_300)
        cookies += (await browser.join()).cookies
        browser.jar["qm_shop"] = old_token(site, 1, 43_300)
        cookies += (await browser.status()).cookies + (await browser.check()).cookies
        cookies += [cookie.decode() for cookie in (await opened(browser)).cookies]
    cookies += (await browser.send("POST", "/api/leave", {"roomId": "shop"})).cookies

    assert set(names(cookies)) == {"qm_shop", "qms_shop", "qm_dk_shop"}
    assert not any("domain" in cookie.lower() for cookie in cookies)
    assert all("; HttpOnly; SameSite=Lax" in cookie for cookie in cookies)


@pytest.mark.req("VIS-055")
async def test_it_clears_ticket_and_door_key_by_leaving_and_nothing_by_a_place_that_is_over(
    site: Site, browser: Browser
) -> None:
    await site.create()
    await browser.released()
    await browser.check()
    session = browser.jar["qms_shop"]

    left = await browser.send("POST", "/api/leave", {"roomId": "shop"})

    assert set(names(left.cookies)) == {"qm_shop", "qm_dk_shop"}
    assert all("; Max-Age=0" in cookie and "; Path=/" in cookie for cookie in left.cookies)
    assert browser.jar == {"qms_shop": session}
    await site.update(rate_per_minute=0)
    ticket = (await browser.join()).json["ticket"]
    old = browser.jar["qm_shop"]
    await site.house.admin.eject(RoomId("shop"), ticket, actor="test")
    gone = await browser.status()
    stream = await opened(browser)
    checked = await browser.check()

    assert (gone.json["state"], gone.cookies) == ("gone", [])
    assert (stream.is_over, stream.cookies) == (True, [])
    assert (checked.json["reason"], checked.cookies) == ("ejected", [])
    rejoined = await browser.join()
    assert rejoined.json.items() >= {"reason": "ejected", "created": True}.items()
    assert browser.jar["qm_shop"] == rejoined.json["token"] != old


@pytest.mark.req("VIS-057")
async def test_it_finds_the_ticket_behind_cookies_that_are_none(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    token = (await browser.join()).json["token"]
    keys = {f"qm_dk_r{n}": token for n in range(8)} | {"qm_meta_shop": token, "qm_console": token}

    async def asked(jar: dict[str, str]) -> tuple[int, str | None]:
        other = browser.twin()
        other.jar = jar
        answer = await other.send("GET", "/api/status")
        return answer.status, answer.json.get("state")

    assert await asked({**keys, "qm_shop": token}) == (200, "waiting")
    assert await asked({"qm_console": token}) == (400, None)
    bad = {f"qm_r{n}": "x.y" for n in range(8)}
    assert await asked({**dict(list(bad.items())[:7]), "qm_shop": token}) == (200, "waiting")
    assert await asked({**bad, "qm_shop": token}) == (400, None), "a ninth is not verified"


@pytest.mark.req("VIS-058")
async def test_it_reads_the_cookie_of_the_room_that_is_named_alone(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0)
    await site.create("other", rate_per_minute=0)
    token = (await browser.join()).json["token"]
    jar = {"qm_other": token, "qm_SHOP": token, "qm_dk_shop": token}

    for answer in [
        await browser.twin(headers={"cookie": _cookie(jar)}).status(),
        await browser.twin(headers={"cookie": _cookie(jar)}).check(),
    ]:
        assert answer.json["reason"] == "new"
    stream = await opened(browser.twin(headers={"cookie": _cookie(jar)}))
    assert json.loads(stream.first.partition(b"data: ")[2])["reason"] == "new"
    own = await browser.status()
    assert own.json["ticket"] == 1


def _cookie(jar: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in jar.items())


@pytest.mark.req("VIS-176")
async def test_it_takes_a_closed_page_for_absence_and_not_for_leaving(site: Site, browser: Browser) -> None:
    await site.create(rate_per_minute=0, presence_sec=5)
    await browser.join()
    opening = await opened(browser)
    assert not opening.is_over
    await site.advance(60)
    await site.update(rate_per_minute=600)
    other = browser.twin(peer="198.51.100.9")
    await other.join()

    async def other_is_through() -> bool:
        await site.house.jobs.tick(RoomId("shop"))
        return bool((await other.status()).json["state"] == "passed")

    await until(other_is_through)
    back = (await browser.status()).json

    assert back["ticket"] == 1
    assert back["state"] in ("passed", "at_capacity"), "passed over, and there again: his turn waits at the door"
