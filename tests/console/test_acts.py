"""The acts of a card: what acts at once, what asks first, and the eject that is armed before it acts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card, wait_for

pytestmark = pytest.mark.browser


@pytest.mark.req("CON-089")
@pytest.mark.req("CON-044")
@pytest.mark.req("CON-101")
def test_it_pauses_and_resumes_without_a_question(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    shop = card(page, "Shop")
    shop.get_by_role("button", name="Pause").click()
    expect(shop.locator(".badge")).to_have_text("PAUSED")
    shop.get_by_role("button", name="Resume").click()
    expect(shop.locator(".badge")).to_have_text("ACTIVE")
    card(page, "Newsroom").get_by_role("button", name="Queue on").click()
    expect(card(page, "Newsroom").locator(".badge")).to_have_text("ACTIVE")

    assert stub.sent("/rooms/shop/state") == [{"state": "paused"}, {"state": "active"}]


@pytest.mark.req("CON-089")
@pytest.mark.req("CON-105")
@pytest.mark.req("CON-113")
@pytest.mark.req("CON-102")
def test_it_asks_before_bypass_with_todays_number(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Bypass").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Turn the queue of Shop off?")
    expect(dialog).to_contain_text("Queue off: everyone walks in unqueued. 38 are waiting.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    stub.room("shop", waiting=41)
    expect(dialog).to_contain_text("41 are waiting.")

    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(card(page, "Shop").get_by_role("button", name="Bypass")).to_be_focused()
    assert stub.sent("/rooms/shop/state") == []

    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Turn queue off").dblclick()
    expect(card(page, "Shop").locator(".badge")).to_have_text("BYPASS")
    assert stub.sent("/rooms/shop/state") == [{"state": "bypass"}]


@pytest.mark.req("CON-094")
@pytest.mark.req("CON-103")
@pytest.mark.req("CON-104")
@pytest.mark.parametrize(
    ("act", "question", "verb"),
    [
        ("flush", "Let all 38 waiting visitors in now? The room holds 500, 388 places are free.", "Let them in"),
        ("purge", "Drop all 38 waiting visitors and 0 in the pre-queue? The room stays.", "Drop the line"),
    ],
)
@pytest.mark.req("CON-102")
def test_it_asks_before_a_whole_line_is_let_in_or_dropped(
    signed_in: Callable[..., Page], stub: Stub, act: str, question: str, verb: str
) -> None:
    page = signed_in()
    button = card(page, "Shop").get_by_role("button", name=act.capitalize())
    button.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_contain_text("the line of Shop")
    expect(dialog.locator(".box-body")).to_have_text(question)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert stub.sent(f"/rooms/shop/{act}") == []

    button.click()
    stub.room("shop", waiting=41)
    expect(dialog).to_contain_text("41 waiting visitors")
    dialog.get_by_role("button", name=verb).dblclick()
    expect(dialog).to_have_count(0)
    assert stub.sent(f"/rooms/shop/{act}") == [{}]


@pytest.mark.req("CON-045", "CON-248")
def test_it_never_shows_a_failed_act_as_done(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    stub.set(
        refuse={"status": 503, "code": "storage_unavailable", "error": "Storage is unavailable.", "retryAfterSec": 5}
    )
    card(page, "Shop").get_by_role("button", name="Pause").click()

    expect(page.locator(".toast")).to_contain_text("Shop: state not changed.Storage is unavailable. Still ACTIVE.")
    expect(card(page, "Shop").locator(".badge")).to_have_text("ACTIVE")


@pytest.mark.req("CON-101")
def test_it_copies_the_address_of_the_waiting_page(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(permissions=["clipboard-read", "clipboard-write"])
    card(page, "Spring drop").get_by_role("button", name="Copy link").click()

    expect(card(page, "Spring drop").get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == f"{stub.url}/w/spring-drop"


def test_it_shows_the_address_when_the_browser_refuses_the_clipboard(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    card(page, "Shop").get_by_role("button", name="Copy link").click()

    expect(page.get_by_role("dialog").get_by_role("textbox")).to_have_value(f"{stub.url}/w/shop")
    assert page.evaluate("String(getSelection())") == f"{stub.url}/w/shop"


@pytest.mark.req("CON-102", "CON-097")
def test_it_deletes_only_after_the_id_was_typed(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Edit").click()
    expect(page.locator(".form-body section").last.get_by_role("button")).to_have_text("Delete room")
    page.get_by_role("button", name="Delete room").click()
    dialog = page.get_by_role("dialog", name="Delete Shop?")
    expect(dialog).to_contain_text("38 in line are dropped. Settings are gone. This cannot be undone.")
    expect(dialog.get_by_role("button", name="Keep the room")).to_be_focused()
    delete = dialog.get_by_role("button", name="Delete", exact=True)
    for typed in ("", "sho", "Shop"):
        dialog.get_by_role("textbox").fill(typed)
        expect(delete).to_be_disabled()
    dialog.get_by_role("textbox").fill("shop")
    delete.click()

    expect(card(page, "Shop")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.evaluate("document.activeElement !== document.body")
    wait_for(lambda: "shop" not in stub.state()["rooms"])


def _press_until_gone(page: Page, key: str) -> None:
    """Press ``key`` until no dialog is left: the words stand there a moment before the page listens for keys."""
    for _ in range(100):
        page.keyboard.press(key)
        if page.get_by_role("dialog").count() == 0:
            return
        page.wait_for_timeout(50)


@pytest.mark.req("CON-054")
def test_it_says_that_the_room_of_an_open_panel_was_deleted_and_closes_on_a_key(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Visitors").click()
    page.evaluate("fetch('/api/admin/rooms/shop', {method: 'DELETE', headers: {'X-QM-CSRF': '1'}})")

    expect(page.get_by_role("dialog")).to_contain_text("This room was deleted.")
    _press_until_gone(page, "a")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(card(page, "Shop")).to_have_count(0)


@pytest.mark.req("CON-098")
def test_the_quiet_row_opens_the_panels_of_its_room(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    checkout = card(page, "Checkout")
    panels = {"Visitors": "Visitors", "URLs": "URL targeting", "Install": "Installation", "Schedule": "Schedule"}
    for button, title in panels.items():
        checkout.get_by_role("button", name=button).click()
        sheet = page.get_by_role("dialog", name=title)
        expect(sheet.locator(".panel-head")).to_contain_text("Checkout")
        page.keyboard.press("Escape")
        expect(checkout.get_by_role("button", name=button)).to_be_focused()
    checkout.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("region", name="Chart").get_by_role("combobox").first).to_have_value("checkout")
