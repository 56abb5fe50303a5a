"""The waiting page before the doors open, and at the draw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.pages.conftest import NOW, Stub, visitor

pytestmark = pytest.mark.browser


def stands_still(page: Page) -> None:
    """The page's clock stands until it is run."""
    page.clock.install(time=NOW / 1000)
    page.clock.pause_at(NOW / 1000 + 1)


def run_until(page: Page, spot: str, text: str) -> None:
    """Let seconds pass until a spot says this; an answer meanwhile sets the page back to the server's time."""
    for _ in range(30):
        page.clock.run_for(1000)
        if page.locator(spot).inner_text() == text:
            return
    expect(page.locator(spot)).to_have_text(text)


@pytest.mark.req("PAG-110", "VIS-102")
def test_it_counts_down_by_the_server_s_clock_and_shows_no_number(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("scheduled"))

    page = open_page(before=stands_still, timezone_id="Asia/Bangkok")

    expect(page.locator("#label")).to_have_text("The doors open in")
    expect(page.locator("#hero")).to_have_text("4:12")
    expect(page.locator("#sub")).to_have_text("Sep 1, 2026, 21:36. 1,234 people are here.")
    expect(page.locator("#note")).to_contain_text("Being early is no advantage")
    expect(page.locator("#ref")).to_have_text("5TN0QW")
    expect(page.locator("#number")).to_be_hidden()
    expect(page.locator("#bar")).to_be_hidden()
    expect(page).to_have_title("Opens 21:36 · Shop")
    text = page.locator("body").inner_text()
    for word in ("You are number", "ahead of you", "Estimated wait", "NaN", "undefined"):
        assert word not in text
    run_until(page, "#hero", "4:10")


@pytest.mark.req("PAG-111")
def test_it_says_that_the_order_is_drawn_until_it_has_a_number(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("scheduled", opensAt=NOW + 1200))
    stub.say(events="off")
    page = open_page(before=stands_still)
    expect(page.locator("#label")).to_have_text("The doors open in")

    run_until(page, "#label", "Drawing the order…")
    asked = len(stub.calls("/api/status"))
    stub.say(status={"body": visitor("waiting", position=7, ahead=6, token="ticket.token")})

    page.clock.resume()
    expect(page.locator("#hero")).to_have_text("7", timeout=8000)
    assert len(stub.calls("/api/status")) > asked
    assert page.evaluate("localStorage.qm_shop") == "ticket.token"
    expect(page.locator("#from")).to_have_text("The last 8 places")


def test_it_keeps_the_place_of_somebody_who_was_in_line_before(open_page: Callable[..., Page], stub: Stub) -> None:
    place = {"ticket": 7, "ref": "K7Q2MX", "position": 7, "ahead": 6}
    stub.show(visitor("scheduled", preQueued=False, **place))

    page = open_page(before=stands_still)

    expect(page.get_by_role("heading", level=1)).to_have_text("You are still number 7 in line, 6 people ahead of you")
    expect(page.locator("#key")).to_have_text("The doors open in")
    expect(page.locator("#valueText")).to_have_text("4:12")
    assert "paused" not in page.locator("body").inner_text().lower()


def test_it_says_why_an_address_gets_no_further_place(open_page: Callable[..., Page], stub: Stub) -> None:
    refused = {"status": 429, "headers": {"Retry-After": "30"}, "body": {"code": "prequeue_identity_limit"}}
    stub.say(join=refused)

    page = open_page()

    expect(page.locator("#label")).to_have_text("Many places are held from this network")
