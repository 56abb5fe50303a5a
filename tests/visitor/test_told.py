"""What answers to visitors tell, and what they never tell (VIS-047, VIS-126)."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote

import pytest

from app.infrastructure.rate_limiter import RateLimiter
from app.services.visitor_counts import Counted
from tests.journal.house import SALT, House
from tests.visitor.site import SECRET, Answer, Browser, Site
from tests.visitor.test_streams import streamed

PAGE = "https://shop.example/checkout"
WWW = "https://www.shop.example/a?b=1"


def told(answer: Answer) -> str:
    """Everything that an answer says."""
    headers = [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\n".join([answer.reply.body.decode(), *answer.cookies, *headers])


def forms_of(secret: bytes) -> list[str]:
    """Ways in which bytes may be written."""
    return [
        secret.hex(),
        base64.b64encode(secret).decode().rstrip("="),
        base64.urlsafe_b64encode(secret).decode().rstrip("="),
        secret.decode("latin-1"),
    ]


@pytest.mark.req("VIS-047")
async def test_no_answer_tells_of_others_or_of_the_inside(site: Site, house: House) -> None:
    await site.create(rate_per_minute=0, queue_max_per_ip=None)
    others = [Browser(site, peer=f"203.0.113.{n + 1}", agent=f"Other/{n}.0") for n in range(37)]
    theirs = [(await other.join()).json for other in others[:4]]
    mine = Browser(site, peer="198.51.100.77")
    answers: list[Answer] = [await mine.join()]
    theirs += [(await other.join()).json for other in others[4:]]
    answers += [
        await mine.status(),
        await mine.check(url=PAGE),
        await mine.tag_check(url=PAGE),
        await mine.tag_check(origin="https://evil.example", url=PAGE),
        await mine.send("POST", "/api/check?room=shop", b"{"),
        await mine.send("POST", "/api/join", {"roomId": "shop", "x": 1}),
        await mine.status("nope"),
        await mine.send("GET", "/api/status?room=shop&token=" + theirs[0]["token"][:-2] + "AA", cookies=False),
        await Browser(site).status(),
    ]
    reader, _ = await streamed(mine)
    in_line = "\n".join(map(told, answers))
    await house.admin.eject("shop", 5, actor="op")  # type: ignore[arg-type]
    answers += [await mine.status(), await mine.join()]
    answers += [await mine.send("POST", "/api/leave", {"roomId": "shop"}), await mine.status()]

    everything = "\n".join([*map(told, answers), *(frame.decode() for frame in reader.frames)])
    assert len(answers) > 12
    assert len(reader.frames) > 0
    for number, state in enumerate(theirs):
        for hidden in (state["token"], state["ref"], f"203.0.113.{number + 1}", f"Other/{number}.0"):
            assert hidden not in everything, hidden
    for cookie in (value for other in others for value in other.jar.values()):
        assert cookie not in everything
    secrets = [SALT, SECRET.encode()]
    for record in await house.tickets("shop"):
        secrets += [record.cookie, record.strict, record.loose]
    for secret in secrets:
        if secret.strip(b"\0"):
            for form in forms_of(secret):
                assert form not in everything
    numbers = {int(found) for found in re.findall(r"(?<![\w.-])(\d{2})(?![\w.-])", in_line)}
    assert not numbers & {36, 37, 38}, "nobody learns how many wait behind him"
    inside = [house.prefix, "unix:", "/run/", "/tmp/", "postgres", "valkey", "redis", "traceback", 'file "', ".py"]
    assert [word for word in inside if word in everything.lower()] == []


@pytest.mark.req("VIS-126")
async def test_a_queue_answer_leads_to_the_waiting_page_and_of_an_inline_room_to_the_site(
    house: House, limiter: RateLimiter
) -> None:
    site = Site(house, limiter)
    public = Site(house, limiter, public_url="https://qm.example/")
    returns: dict[str, Any] = {"rate_per_minute": 0, "return_origins": ("https://www.shop.example",)}
    await site.create(**returns)
    await site.create("inline", proxy_origin="http://203.0.113.7:3000", **returns)
    for room in ("shop", "inline"):
        await public.rooms.refresh(room)  # type: ignore[arg-type]

    async def location(room: str, at: Site = site, **query: str) -> str:
        answer = (await Browser(at).check(room, **query)).json
        assert answer["action"] == "queue"
        return str(answer["location"])

    assert await location("shop") == "http://queue.example/w/shop"
    assert await location("shop", url=WWW) == "http://queue.example/w/shop?qm_return=" + quote(WWW, safe="")
    assert await location("shop", url="https://evil.example/") == "http://queue.example/w/shop"
    assert await location("shop", public, url=WWW) == "https://qm.example/w/shop?qm_return=" + quote(WWW, safe="")
    for at in (site, public):
        assert await location("inline", at, url=WWW) == WWW
        assert await location("inline", at, url="https://evil.example/") == "https://shop.example/"
        assert await location("inline", at) == "https://shop.example/"
    for each in (site, public):
        await each.stop()


@pytest.mark.req("VIS-153")
async def test_a_pass_leads_to_the_accepted_page_and_of_an_inline_room_without_a_token(site: Site) -> None:
    room: dict[str, Any] = {"rate_per_minute": 6000, "queue_max_per_ip": None, "return_origins": (WWW[:24],)}
    await site.create(**room)
    await site.create("inline", proxy_origin="http://203.0.113.7:3000", **room)

    async def passed(name: str, return_url: str | None) -> tuple[str, str, int]:
        """Location, token, and how often this visitor joined with the return URL."""
        browser, joins = Browser(site), 0
        state: dict[str, Any] = {"state": ""}
        while state["state"] != "passed":
            if joins:
                await browser.released(name)
            state = (await browser.join(name, **({} if return_url is None else {"returnUrl": return_url}))).json
            joins += 1
        return str(state["location"]), quote(state["token"], safe=""), joins

    for sent, expected, is_refused in (
        ("https://www.shop.example/a?qm_token=old&b=1#f", "https://www.shop.example/a?b=1&qm_token={}#f", False),
        ("https://evil.example/", "https://shop.example/?qm_token={}", True),
        ("/relative", "https://shop.example/?qm_token={}", True),
        (None, "https://shop.example/?qm_token={}", False),
    ):
        before = site.visitor.counts.totals[Counted.BLOCKED_RETURN_URLS]
        location, token, joins = await passed("shop", sent)
        assert location == expected.format(token), sent
        refused = site.visitor.counts.totals[Counted.BLOCKED_RETURN_URLS] - before
        assert refused == (joins if is_refused else 0), sent
    assert (await passed("inline", "https://www.shop.example/a#f"))[0] == "https://www.shop.example/a#f"
    assert (await passed("inline", "https://evil.example/"))[0] == "https://shop.example/"
