"""A scheduled room on its card: badge, countdown, the pre-queue instead of the line."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card, wait_for

pytestmark = pytest.mark.browser


def opens_in(seconds: int) -> int:
    return int(time.time() * 1000) + seconds * 1000


@pytest.mark.req("CON-059", "CON-072", "CON-074", "CON-082", "ADM-115")
@pytest.mark.req("CON-073")
def test_it_shows_when_the_doors_open_and_who_is_there(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", effectiveState="scheduled", opensAt=opens_in(3600), preQueue=1234, waiting=0)
    page = signed_in()
    shop = card(page, "Shop")

    expect(shop.locator(".badge")).to_have_text("SCHEDULED")
    expect(shop.locator(".notice")).to_have_text(re.compile(r"^Doors open in (59m \d+s|1h 0m) · .*\d:\d\d"))
    expect(shop.locator(".notice-warn")).to_have_count(0)
    expect(shop.get_by_role("tooltip", include_hidden=True).first).to_contain_text("hold a place in the pre-queue")
    expect(shop.locator(".figures dt").first).to_have_text("In pre-queue")
    expect(shop.locator(".figures dd").first).to_have_text("1,234")
    before = shop.locator(".notice").text_content()  # with the words of its tip, which are hidden
    wait_for(lambda: shop.locator(".notice").text_content() != before)

    stub.room("shop", state="paused", opensAt=opens_in(118))
    expect(shop.locator(".badge")).to_have_text(["PAUSED", "SCHEDULED"])
    expect(shop.locator(".notice-warn")).to_have_text(re.compile(r"^Doors open in (1m \d+s) · "))
    stub.room("shop", opensAt=opens_in(86_400 * 2 + 3600 * 3 + 60))
    expect(shop.locator(".notice")).to_have_text(re.compile(r"^Doors open in 2d 3h · \w+ \d+, "))


@pytest.mark.req("CON-075")
def test_it_says_that_the_doors_are_opening_when_they_are_late(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", effectiveState="scheduled", opensAt=opens_in(-60), preQueue=3)
    page = signed_in()

    expect(card(page, "Shop").locator(".notice-warn")).to_have_text("Opening…")
    stub.room("shop", effectiveState="active", preQueue=0, waiting=3)

    expect(card(page, "Shop").locator(".badge")).to_have_text("ACTIVE")
    expect(card(page, "Shop").locator(".notice")).to_have_text("shop.example")
