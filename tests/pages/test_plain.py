"""The waiting page without script, on a real server: who gets a place, what is told, and the way in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from app.core.i18n import LANGUAGES, load_locale
from tests.harness import Server
from tests.pages.plain_site import PlainSite, heading, landing, refresh, until

pytestmark = pytest.mark.timeout(180)
JOINS, PAGES = 8, 14
SHOP = "https://www.shop.example"
INLINE = "plain.test"
LEAD = "You are about to join the line Another site has opened this page, so no place was taken for you yet."


@pytest.fixture(scope="module")
def site() -> Iterator[PlainSite]:
    limits = {"JOIN_LIMIT_PER_MIN": str(JOINS), "WAITING_LIMIT_PER_MIN": str(PAGES), "PROXY_ALLOW_PRIVATE": "1"}
    with Server(dict(limits), workers=1) as server:
        made = PlainSite(server)
        made.room("shop")
        with made.visitor() as first:  # the one credit of a new room
            first.post("/api/join", json={"roomId": "shop"})
        yield made
        made.close()


@pytest.mark.req("PAG-152", "PAG-153", "PAG-155", "PAG-168")
@pytest.mark.browser
def test_a_browser_without_script_goes_the_whole_way(site: PlainSite, chromium: Browser) -> None:
    with landing() as there:
        site.room("way", targetUrl=there, presenceSec=20)
        with site.visitor() as first:
            first.post("/api/join", json={"roomId": "way"})
            context = chromium.new_context(java_script_enabled=False, locale="ko-KR")
            page = context.new_page()
            asked: list[str] = []
            page.on("request", lambda request: asked.append(request.url))

            page.goto(f"{site.url}/w/way?qm_return={quote(there + '/cart?x=1', safe='')}")

            page.wait_for_url("**/w/way/plain**")
            expect(page.locator("h1")).to_contain_text(load_locale("waiting", "ko")["number"])
            here = page.url
            page.locator("a.main").click()
            expect(page.locator("dl")).to_be_visible()
            assert parse_qs(urlsplit(page.url).query)["qm_return"] == [f"{there}/cart?x=1"]
            assert "qm_tried" not in here
            assert {urlsplit(url).netloc for url in asked} == {urlsplit(site.url).netloc}

            site.admin("POST", "rooms/way/rate", {"ratePerMinute": 6000})

            until(lambda: context.request.get(f"{site.url}/api/status?room=way").json()["state"] == "passed")
            page.locator("a.main").click()
            page.wait_for_url(f"{there}/**")
            landed = urlsplit(page.url)
            assert (landed.path, set(parse_qs(landed.query))) == ("/cart", {"x", "qm_token"})
            expect(page.locator("h1")).to_have_text("landed")
            context.close()


@pytest.mark.req("PAG-152", "PAG-156")
def test_it_joins_once_and_tells_place_estimate_ref_and_ticket(site: PlainSite) -> None:
    visitor = site.visitor(referer=f"{site.url}/w/shop?qm_return={quote(SHOP + '/a b', safe='')}&qm_from=junk")
    before = site.waiting("shop")

    first = visitor.get("/w/shop/plain")
    seconds, address = refresh(first)
    again = visitor.get(address)

    assert (first.status_code, first.headers["cache-control"]) == (200, "no-store")
    assert parse_qs(urlsplit(address).query) == {
        "qm_return": [f"{SHOP}/a b"], "qm_from": ["junk"], "qm_tried": ["1"],
    }  # fmt: skip
    assert heading(again) == f"You are number {before + 1} in line, {before} " + (
        "person ahead of you" if before == 1 else "people ahead of you"
    )
    assert heading(first) == heading(again)
    assert refresh(again) == (seconds, address)
    state = visitor.get("/api/status?room=shop").json()
    for said in (state["ref"], str(state["ticket"]), "No estimate", f"<title>{before + 1} · In line for shop</title>"):
        assert said in again.text
    assert site.waiting("shop") == before + 1
    assert visitor.get("/w/shop/plain", headers={"accept": "*/*"}).headers["x-ratelimit-limit"] == str(PAGES)


@pytest.mark.req("PAG-154")
def test_it_asks_twice_in_the_time_after_which_somebody_counts_as_absent(site: PlainSite) -> None:
    found = {}
    for presence in (3, 24, 120):
        visitor = site.visitor()
        site.room(f"every{presence}", presenceSec=presence)
        visitor.post("/api/join", json={"roomId": f"every{presence}"})
        found[presence] = refresh(site.visitor().get(f"/w/every{presence}/plain"))[0]

    assert found == {3: 5, 24: 12, 120: 30}


@pytest.mark.req("PAG-156", "PAG-220")
def test_it_gives_a_place_to_nobody_who_did_not_come_by_himself(site: PlainSite) -> None:
    before = site.waiting("shop")
    visitor = site.visitor()
    others = [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe"},
    ]

    for headers in others:
        answer = visitor.get("/w/shop/plain?qm_return=%2Fcart", headers=headers)
        assert (answer.status_code, heading(answer)) == (200, LEAD)
        assert '<a class="main" href="/w/shop/plain?qm_return=%2Fcart">' in answer.text
        assert refresh(answer) == (0, "")
    for name in ("sec-purpose", "purpose", "x-moz"):
        early = visitor.get("/w/shop/plain", headers={name: "prefetch;prerender"})
        assert (early.status_code, early.headers["cache-control"]) == (503, "no-store")
    head = visitor.head("/w/shop/plain")
    assert (head.status_code, head.content) == (200, b"")
    assert not visitor.cookies
    assert site.waiting("shop") == before

    for headers in ({"sec-fetch-site": "none"}, dict.fromkeys(("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"))):
        newcomer = site.visitor()
        for name, value in headers.items():
            newcomer.headers[name] = value or ""
            if value is None:
                del newcomer.headers[name]
        assert "You are number" in newcomer.get("/w/shop/plain").text
    assert site.waiting("shop") == before + 2


@pytest.mark.req("PAG-152", "PAG-155", "PAG-220")
def test_who_comes_back_from_another_site_finds_his_place_and_his_turn(site: PlainSite) -> None:
    site.room("back", presenceSec=60)
    back = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with site.visitor() as first, site.visitor() as second:
        first.post("/api/join", json={"roomId": "back"})
        second.post("/api/join", json={"roomId": "back"})

        assert heading(second.get("/w/back/plain", headers=back)) == "You are number 2 in line, 1 person ahead of you"
        assert site.waiting("back") == 2

        site.admin("POST", "rooms/back/rate", {"ratePerMinute": 6000})
        until(lambda: second.get("/api/status?room=back").json()["state"] == "passed")
        turn = second.get("/w/back/plain", headers=back)
        assert turn.status_code == 303
        assert turn.headers["location"].startswith(SHOP)
        assert turn.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.req("PAG-157")
def test_an_address_that_was_passed_on_does_not_speak_of_cookies_on_the_way_in(site: PlainSite) -> None:
    answer = site.visitor().get("/w/shop/plain?qm_tried=1&qm_return=%2Fcart", headers={"sec-fetch-site": "cross-site"})

    assert heading(answer) == LEAD
    assert '<a class="main" href="/w/shop/plain?qm_return=%2Fcart">' in answer.text


@pytest.mark.req("PAG-157")
def test_it_says_that_it_needs_a_cookie_and_takes_no_further_place(site: PlainSite) -> None:
    before = site.waiting("shop")
    visitor = site.visitor()
    _, address = refresh(visitor.get("/w/shop/plain"))

    for _ in range(3):
        visitor.cookies.clear()
        answer = visitor.get(address)

        assert (answer.status_code, heading(answer).startswith("A cookie is needed")) == (200, True)
        assert refresh(answer) == (0, "")
    assert site.waiting("shop") == before + 1
    assert '<a class="main" href="/w/shop/plain">Start again</a>' in answer.text


@pytest.mark.req("PAG-156", "PAG-102")
@pytest.mark.req("PAG-184")
def test_it_obeys_the_caps_and_budgets_of_a_join(site: PlainSite) -> None:
    site.room("capped", queueMaxPerIp=1)
    one, other = site.visitor("127.0.1.1"), site.visitor("127.0.1.1")
    one.get("/w/capped/plain")
    one.cookies.clear()
    refusals = [other.get("/w/capped/plain") for _ in range(3)]

    assert refusals[-1].status_code == 429
    assert heading(refusals[-1]).startswith("Many places are held from this network")
    assert (refresh(refusals[-1])[0], refusals[-1].headers["retry-after"]) == (30, "30")

    site.room("guarded", protection={"mode": "enforce"})
    bot = site.visitor(user_agent="curl/8.5.0").get("/w/guarded/plain")
    assert (bot.status_code, refresh(bot)) == (403, (0, ""))
    assert heading(bot).startswith("This browser was not given a place")
    assert site.waiting("guarded") == 0

    many = site.visitor()
    codes = []
    for _ in range(PAGES + 1):
        answer = many.get("/w/shop/plain")
        many.cookies.clear()
        codes.append(answer.status_code)
    assert codes == [200] * JOINS + [429] * (PAGES + 1 - JOINS)
    assert len(answer.content) <= 1024
    assert 'http-equiv="refresh"' in answer.text
    assert many.get("/w/shop/plain", headers={"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}).text.startswith(
        "Too many requests"
    )
    assert many.get("/api/status?room=shop").status_code == 200
    call = site.visitor().get("/w/nope/plain", headers={"sec-fetch-mode": "cors", "sec-fetch-dest": "empty"})
    assert (call.status_code, call.json()) == (404, {"error": "No such room", "code": "no_room"})


@pytest.mark.req("PAG-142")
def test_it_speaks_the_language_of_the_browser(site: PlainSite) -> None:
    visitor = site.visitor()
    page = visitor.get("/w/shop").text.rpartition("<noscript>")[2]
    for lang in LANGUAGES:
        link = f'<p lang="{lang}"><a href="/w/shop/plain">{load_locale("plain", lang)["noScript"]}</a></p>'
        assert link in page
        answer = visitor.get("/w/shop/plain", headers={"accept-language": lang})
        assert f'<html lang="{lang}">' in answer.text
        assert heading(answer).startswith(load_locale("waiting", lang)["number"])
        assert visitor.get("/w/nope/plain", headers={"accept-language": lang}).status_code == 404


def test_it_says_why_an_earlier_ticket_was_not_continued_until_that_is_dismissed(site: PlainSite) -> None:
    visitor = site.visitor()
    visitor.get("/w/shop/plain")
    cookies = dict.fromkeys(("qm_shop", "qms_shop"), "forged")
    stranger = site.visitor()
    stranger.cookies.update(cookies)

    answer = stranger.get("/w/shop/plain")

    assert load_locale("waiting", "en")["unverifiedWhy"] in answer.text
    assert "qm_why=bad_token" in refresh(answer)[1]
    dismissed = re.search(r'<a href="([^"]+)">Dismiss</a>', answer.text)
    assert dismissed
    assert "qm_why" not in dismissed[1]


def test_it_joins_a_cleared_line_only_for_a_person(site: PlainSite) -> None:
    site.room("cleared")
    with site.visitor() as first:
        first.post("/api/join", json={"roomId": "cleared"})
    visitor = site.visitor()
    _, address = refresh(visitor.get("/w/cleared/plain"))
    site.admin("POST", "rooms/cleared/purge")

    until(lambda: visitor.get("/api/status?room=cleared").json()["state"] == "gone")
    answer = visitor.get(address)
    assert heading(answer).startswith("The line was cleared")
    assert refresh(answer) == (0, "")
    button = re.search(r'<a class="main" href="([^"]+)">Join again</a>', answer.text)
    assert button
    assert heading(visitor.get(button[1])).startswith("You are")


@pytest.mark.req("PAG-155", "PAG-116")
def test_it_sends_nobody_to_where_the_room_does_not_allow(site: PlainSite) -> None:
    site.room("free", state="bypass")
    wanted = {
        f"{SHOP}/cart": f"{SHOP}/cart", "https://evil.example/": f"{SHOP}/", "javascript:alert(1)": f"{SHOP}/",
        "//evil.example": f"{SHOP}/", "https://me:pw@www.shop.example/": f"{SHOP}/", "/cart": f"{SHOP}/",
    }  # fmt: skip

    for asked, place in wanted.items():
        answer = site.visitor().get(f"/w/free/plain?qm_return={quote(asked, safe='')}")
        assert (answer.status_code, answer.headers["location"]) == (303, place)
    assert site.visitor().get("/w/free/plain").headers["location"] == f"{SHOP}/"
    until(lambda: site.admin("GET", "rooms/free")["room"]["blockedReturnUrls"] == len(wanted) - 1)


@pytest.mark.req("PAG-153", "PAG-155", "PAG-100", "PAG-198")
@pytest.mark.req("PAG-094", "PAG-164", "PAG-182", "PAG-183", "PAG-185")
def test_it_leads_to_the_url_asked_for_on_an_inline_host(site: PlainSite) -> None:
    with landing() as origin:
        site.room("inline", targetUrl=f"http://{INLINE}/", proxyOrigin=origin)
        visitor = site.visitor(host=INLINE, referer=f"http://{INLINE}/cart?x=1")
        until(lambda: visitor.get("/__qm/api/version").status_code == 200)
        page = visitor.get("/cart?x=1")
        assert page.status_code == 503
        noscript = '<noscript><meta http-equiv="refresh" content="0;url=/__qm/w/inline/plain"></noscript>'
        assert noscript in page.text
        assert '"/__qm/assets/waiting-' in page.text
        for file in re.findall(r'"(/__qm/assets/waiting-[^"]+)"', page.text):
            assert visitor.get(file).status_code == 200
        assert visitor.get("/__qm/fonts/geist-latin.woff2").headers["content-type"] == "font/woff2"

        first = visitor.get("/__qm/w/inline/plain")
        if first.status_code == 200:
            assert refresh(first)[1] == "/__qm/w/inline/plain?qm_return=%2Fcart%3Fx%3D1&qm_tried=1"
        site.admin("POST", "rooms/inline/rate", {"ratePerMinute": 6000})

        until(lambda: visitor.get("/__qm/api/status?room=inline").json()["state"] == "passed")
        turn = visitor.get("/__qm/w/inline/plain?qm_tried=1&qm_return=%2Fcart%3Fx%3D1")
        assert (turn.status_code, turn.headers["location"]) == (303, f"http://{INLINE}/cart?x=1")
        for evil in ("//evil.example", "/\\evil.example", "https://evil.example/", "/a\r\nSet-Cookie: x=1", "/__qm/"):
            answer = visitor.get(f"/__qm/w/inline/plain?qm_return={quote(evil, safe='')}")
            assert answer.headers["location"] == f"http://{INLINE}/"
        for path in ("/cart?x=1", "/robots.txt", "/favicon.ico"):
            assert visitor.get(path).text == "<h1>landed</h1>", "the site's own"
        for path in ("/w/inline", "/w/inline/plain"):
            outside = site.visitor().get(path)
            assert (outside.status_code, outside.headers["location"]) == (302, f"http://{INLINE}/")
        own = visitor.get("/__qm/w/inline")
        assert (own.status_code, own.headers["location"]) == (302, "/")
        assert _operators_pages(site) == [(200, PAGES - 1), (200, PAGES - 2), (404, None)]


def _operators_pages(site: PlainSite) -> list[tuple[int, int | None]]:
    """Status and what is left of the budget, of pages below /__qm, and of /progress where no console is."""
    reader, other = site.visitor(host=INLINE), site.visitor(host="elsewhere.test")
    answers = [reader.get("/__qm/docs"), reader.get("/__qm/progress"), other.get("/progress")]
    assert 'href="/__qm/docs/operations"' in answers[0].text
    assert f"<code>http://{INLINE}/__qm</code>" in answers[0].text
    assert answers[2].content == b"", "where the console is withheld"
    assert other.get("/docs").status_code == 200
    return [
        (one.status_code, int(left) if (left := one.headers.get("x-ratelimit-remaining")) else None) for one in answers
    ]


@pytest.mark.browser
@pytest.mark.req("PAG-205", "PAG-206", "PAG-207")
@pytest.mark.req("PAG-178")
def test_no_page_asks_anybody_else(site: PlainSite, chromium: Browser) -> None:
    """In a browser, with what its policy lets through; pages of later builds join the list."""
    asked: list[str] = []
    refused: list[str] = []
    context = chromium.new_context(extra_http_headers={"X-Forwarded-For": "203.0.113.5"})
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: refused.append(message.text) if "Security Policy" in message.text else None)
    paths = (
        "/",
        "/w/shop",
        "/w/shop/plain",
        "/offline.html",
        "/origin-down.html",
        "/docs",
        "/docs/th",
        "/progress",
        "/x",
    )

    for path in (*paths, "/connectors"):
        answer = page.goto(site.url + path)
        assert answer is not None
        page.wait_for_load_state("networkidle") if path == "/" else page.wait_for_load_state()
        assert answer.status == 200 or path in ("/connectors", "/x"), path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'"), path
        assert not re.search(r"https?:(?!//www\.shop\.example)|\*|unsafe", policy), path

    context.close()
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {urlsplit(site.url).netloc}
    assert refused == []


@pytest.mark.req("PAG-206")
def test_no_source_of_a_page_names_a_foreign_address() -> None:
    asks = re.compile(
        r"""(?:src=|url\(|@import|preconnect|prefetch|fetch\(|EventSource\(|WebSocket\(|stylesheet"[^>]*href=)"""
        r"""\s*["'`]?\s*(?:https?:)?//"""
    )
    static = Path(__file__).resolve().parents[2] / "static"
    sources = [path for path in static.rglob("*") if path.suffix in (".html", ".css", ".js", ".mjs", ".svg")]

    assert len(sources) > 50
    assert [path.name for path in sources if asks.search(path.read_text(encoding="utf-8"))] == []


def test_it_needs_no_file_but_itself() -> None:
    source = (Path(__file__).resolve().parents[2] / "static/waiting/plain.html").read_text()
    assert not re.search(r"<script|<link|<img|src=", source)
