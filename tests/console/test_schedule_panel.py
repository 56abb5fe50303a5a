"""The Schedule panel: opening time and places of the pre-queue, each sent alone, and the drop that is called off."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card

pytestmark = pytest.mark.browser

PATH = "/rooms/shop/schedule"


@pytest.mark.req("CON-095", "CON-096", "CON-101", "CON-106")
def test_a_drop_is_set_adjusted_and_called_off(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(zone="Asia/Bangkok")
    shop = card(page, "Shop")
    button = shop.get_by_role("button", name="Schedule")
    button.click()
    sheet = page.get_by_role("dialog", name="Schedule")
    time_field, cap = sheet.get_by_label("Opening time (Asia/Bangkok)"), sheet.get_by_label("Pre-queue places")
    expect(sheet).to_contain_text("No opening time is set")
    expect(cap).to_have_value("16")
    expect(sheet.get_by_role("button", name="Cancel drop")).to_have_count(0)

    sheet.get_by_role("button", name="Set").click()
    expect(sheet.get_by_role("alert")).to_have_text("Send opensAt and/or preQueueMaxPerIp")
    time_field.fill("2020-09-01T09:00")
    expect(sheet).to_contain_text("2020-09-01 02:00 UTC")
    sheet.get_by_role("button", name="Set").click()
    expect(sheet.get_by_role("alert")).to_have_text("opensAt is in the past")
    expect(time_field).to_have_value("2020-09-01T09:00")

    year = datetime.now(UTC).year + 1
    time_field.fill(f"{year}-03-01T06:30")
    expect(sheet).to_contain_text(f"{year}-02-28 23:30 UTC")
    page.keyboard.press("Enter")
    expect(sheet).to_have_count(0)
    expect(button).to_be_focused()
    expect(shop.locator(".badge")).to_have_text("SCHEDULED")
    opens = int(datetime(year, 2, 28, 23, 30, tzinfo=UTC).timestamp() * 1000)
    assert stub.sent(PATH) == [{}, {"opensAt": 1_598_925_600_000}, {"opensAt": opens}]

    stub.room("shop", preQueue=1234)
    button.click()
    expect(sheet).to_contain_text("Doors open Mar 1, 6:30 AM. 1,234 in the pre-queue.")
    expect(time_field).to_have_value(f"{year}-03-01T06:30")
    cap.fill("4")
    stub.room("shop", preQueue=1235)
    expect(sheet).to_contain_text("1,235 in the pre-queue")
    expect(cap).to_have_value("4")
    sheet.get_by_role("button", name="Set").click()
    expect(sheet).to_have_count(0)
    assert stub.sent(PATH)[3:] == [{"preQueueMaxPerIp": 4}], "the drop stays as it is"

    button.click()
    cap.fill("")
    sheet.get_by_role("button", name="Cancel drop").click()
    dialog = page.get_by_role("dialog", name="Cancel the drop of Shop?")
    expect(dialog).to_contain_text("Open the doors now? 1,235 in the pre-queue will be drawn at once.")
    stub.room("shop", preQueue=1300)
    expect(dialog).to_contain_text("1,300 in the pre-queue")
    expect(dialog.get_by_role("button", name="Keep the drop")).to_be_focused()
    page.keyboard.press("Escape")
    expect(sheet.get_by_role("button", name="Cancel drop")).to_be_focused()
    assert len(stub.sent(PATH)) == 4

    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Open the doors").dblclick()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()
    expect(shop.locator(".badge")).to_have_text("ACTIVE")
    assert stub.sent(PATH)[4:] == [{"opensAt": None}]


def test_the_panel_of_a_drop_that_is_over_offers_nothing_to_cancel(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", opensAt=int(time.time() * 1000) - 3_600_000, preQueueMaxPerIp=None)
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Schedule").click()
    sheet = page.get_by_role("dialog", name="Schedule")

    expect(sheet).to_contain_text("Doors opened")
    expect(sheet.get_by_label("Pre-queue places")).to_have_value("")
    expect(sheet.get_by_role("button", name="Cancel drop")).to_have_count(0)
