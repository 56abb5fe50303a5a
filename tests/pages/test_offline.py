"""``offline.html``: what a CDN shows when no instance answers."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from app.services.assets import Assets
from tests.pages.conftest import Stub
from tests.pages.test_files import fetch, head

OFFLINE = Assets().offline.file.body.decode()
PAUSED = ("paused", "พักคิว", "一時停止", "暂停", "일시정지", "일시 중지")


@pytest.mark.req("VIS-109", "PAG-170", "PAG-171", "PAG-175", "PAG-177")
def test_it_is_one_file_that_asks_for_nothing(stub: Stub) -> None:
    status, headers, body = fetch(f"{stub.url}/offline.html")
    text = body.decode()

    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert text == OFFLINE
    assert (headers["cache-control"], headers["x-robots-tag"]) == ("no-cache", "noindex")
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert len(body) <= 32 * 1024
    assert '<meta name="robots" content="noindex">' in text
    assert not re.search(r"<link|<img|\ssrc=|url\(|@import|fetch\(|XMLHttpRequest|https?://", text)
    assert not any(word in text.lower() for word in PAUSED)
    same, _, nothing = fetch(f"{stub.url}/offline.html", if_none_match=headers["etag"])
    assert (same, nothing) == (304, b"")
    assert head(f"{stub.url}/offline.html")[1]["content-length"] == str(len(body))
    assert Assets().offline.etag == headers["etag"]


def offline(chromium: Browser, document: str = OFFLINE, **options: object) -> tuple[Page, list[str]]:
    """The page, shown by a CDN at the address of a waiting page, whose clock stands; what was asked for since."""
    context = chromium.new_context(**{"locale": "en-GB", **options})
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(f"{route.request.method} {route.request.url}")
        route.fulfill(body=document, content_type="text/html", status=503)

    context.route("**/*", answer)
    page = context.new_page()
    page.clock.install(time=1_788_273_128)
    page.clock.pause_at(1_788_273_129)
    page.add_init_script("Math.random = () => window.chance || 0")
    page.goto("https://queue.example/w/shop?qm_return=x#top")
    return page, asked


@pytest.mark.req("PAG-173", "PAG-179", "PAG-180", "PAG-161")
def test_it_tries_again_by_itself_ever_later_and_forgets_after_ten_minutes(chromium: Browser) -> None:
    page, asked = offline(chromium)
    for tries, sec in enumerate((20, 40, 60, 60), 1):
        expect(page.locator("#next")).to_have_text(f"Trying again in {sec} s")
        page.clock.run_for((sec - 5) * 1000)
        assert len(asked) == tries
        page.clock.run_for(6000)
    expect(page.locator("#next")).to_have_text("Trying again in 60 s")
    assert len(asked) == 5
    assert set(asked) == {"GET https://queue.example/w/shop?qm_return=x"}
    assert page.evaluate("Object.keys(sessionStorage)") == ["qm_offline_attempts"]
    assert page.evaluate("localStorage.length") == 0
    page.evaluate("sessionStorage.setItem('qm_offline_attempts', `9 ${Date.now() - 600001}`)")
    page.reload()
    expect(page.locator("#next")).to_have_text("Trying again in 20 s")
    page.context.close()


@pytest.mark.req("PAG-173", "PAG-174")
def test_it_offers_to_try_now_and_shows_no_number_of_a_place(chromium: Browser) -> None:
    page, asked = offline(chromium)
    expect(page.locator("h1")).to_have_text("One moment, please")
    digits = re.sub(r"Trying again in \d+ s", "", page.inner_text("body"))
    assert not re.search(r"\d", digits)

    page.get_by_role("button", name="Try now").click()

    expect(page.get_by_role("button", name="Try now")).to_be_disabled()
    assert len(asked) == 2
    page.clock.run_for(5000)
    expect(page.get_by_role("button", name="Try now")).to_be_enabled()
    page.context.close()


@pytest.mark.req("PAG-172", "PAG-143")
@pytest.mark.parametrize(
    ("locale", "kept", "title"),
    [("en-US", None, "One moment, please"), ("th-TH", None, "ขอเวลาสักครู่"), ("ja-JP", None, "少々お待ちください"),
     ("zh-TW", None, "请稍候"), ("ko-KR", None, "잠시만 기다려 주세요"), ("de-DE", None, "One moment, please"),
     ("en-US", "th", "ขอเวลาสักครู่")],
)  # fmt: skip
def test_it_speaks_five_languages(chromium: Browser, locale: str, kept: str | None, title: str) -> None:
    page, _ = offline(chromium, locale=locale)
    if kept:
        page.evaluate(f"localStorage.setItem('qm_lang', '{kept}')")
        page.reload()

    expect(page.locator("h1")).to_have_text(title)
    expect(page).to_have_title(title)
    assert page.get_attribute("html", "lang") == (kept or {"zh-TW": "zh-Hans", "de-DE": "en"}.get(locale, locale[:2]))
    page.context.close()


@pytest.mark.req("PAG-158")
def test_it_tries_again_without_script(chromium: Browser) -> None:
    page, _ = offline(chromium, java_script_enabled=False)

    assert '<noscript><meta http-equiv="refresh" content="60"></noscript>' in OFFLINE
    expect(page.locator("#now")).to_be_hidden()
    expect(page.locator("#text")).to_be_visible()
    page.context.close()


@pytest.mark.req("INL-175", "INL-172")
def test_the_page_of_a_silent_site_sends_no_form_again_by_itself(chromium: Browser) -> None:
    """Beside it the one after a GET, which does try again."""
    shown, form = (page.file.body.decode() for page in Assets().origin_down)
    page, asked = offline(chromium, shown)
    expect(page.locator("h1")).to_have_text("The site is not answering")
    expect(page.locator("#next")).to_have_text(re.compile("in 15 s"))
    page.clock.run_for(16_000)
    expect(page.locator("#next")).to_have_text(re.compile("in 30 s"))
    assert len(asked) == 2
    page.context.close()

    page, asked = offline(chromium, form)
    expect(page.locator("#text")).to_contain_text("What you sent did not arrive and is not sent again by itself.")
    page.clock.run_for(600_000)
    assert len(asked) == 1
    page.get_by_role("button", name="Try now").click()
    page.wait_for_function("sessionStorage.length")
    assert asked[1:] == ["GET https://queue.example/w/shop?qm_return=x"]
    assert not any(word in (shown + form).lower() for word in PAUSED)
    page.context.close()
