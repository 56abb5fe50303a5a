"""A slow computer, or a slow server: what somebody presses and types meanwhile goes where he means it, and stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Held, Stub, card
from tests.console.test_people import opened
from tests.console.test_rooms import open_form

pytestmark = pytest.mark.browser

PAINTS_NO_MORE = "() => { window.requestAnimationFrame = () => 0; }"
PAINTED = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
PRESS = """async (button) => { button.click(); for (let turn = 0; turn < 20; turn += 1) await null;
  const focused = document.activeElement;
  return [document.querySelector("dialog:last-of-type").matches(":modal"), focused.id || focused.textContent]; }"""
"""Presses a button; whether its dialog is modal before the page does anything else, and what has the focus."""

REFUSED: dict[str, Any] = {
    "status": 400, "code": "proxy_origin_private", "error": "Not so", "fields": ["targetUrl"],
}  # fmt: skip


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").click()


@pytest.mark.parametrize(
    ("opener", "focused"), [("Edit", "f-name"), ("Purge", "Cancel"), ("Visitors", "ticket"), ("Flush", "Cancel")]
)
def test_a_dialog_has_the_keys_from_the_press_on_that_opens_it(
    signed_in: Callable[..., Page], opener: str, focused: str
) -> None:
    """Else a second press on the same button opens two."""
    page = signed_in()

    assert card(page, "Shop").get_by_role("button", name=opener).evaluate(PRESS) == [True, focused]


@pytest.mark.req("CON-202")
def test_a_name_is_selected_before_it_can_be_typed_over(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    sheet = opened(page, "Access")
    sheet.get_by_label("Name").fill("Dana")
    sheet.get_by_role("button", name="Issue").click()
    page.get_by_role("button", name="I have kept it").click()

    sheet.get_by_role("button", name="Rename Dana").evaluate(PRESS)

    assert page.evaluate("String(getSelection())") == "Dana"


@pytest.mark.req("CON-180")
def test_the_focus_goes_to_a_mistake_with_its_words_and_not_after_them(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    page.evaluate(PAINTS_NO_MORE)
    page.locator("#f-targetUrl").fill("no address")
    save(page)
    expect(page.locator("#f-targetUrl")).to_be_focused()

    page.locator("#f-targetUrl").fill("https://shop.example/")
    page.locator("#f-name").fill("Shop two")
    stub.set(refuse=REFUSED)
    save(page)
    expect(page.locator("#f-targetUrl-note")).to_have_text("Not so")
    assert page.evaluate("document.activeElement.id") == "f-targetUrl"


@pytest.mark.req("CON-046", "CON-180")
def test_a_refusal_leaves_the_focus_to_who_types_in_another_field(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-targetUrl").fill("https://shop2.example/")
    stub.set(refuse=REFUSED)
    slow = Held(page, "/rooms", "POST")
    save(page)
    route = slow.wait()
    page.locator("#f-name").fill("Shop t")
    route.continue_()
    expect(page.locator("#f-targetUrl-note")).to_have_text("Not so")
    page.evaluate(PAINTED)
    page.keyboard.type("wo")

    expect(page.locator("#f-name")).to_have_value("Shop two")
    expect(page.locator("#f-targetUrl")).to_have_value("https://shop2.example/")


@pytest.mark.req("CON-180")
def test_a_refusal_does_not_stand_at_a_field_that_holds_something_else_by_now(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-targetUrl").fill("https://shop2.example/")
    stub.set(refuse=REFUSED)
    slow = Held(page, "/rooms", "POST")
    save(page)
    route = slow.wait()
    page.locator("#f-targetUrl").fill("https://shop3.example/")
    route.continue_()

    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("Not so")
    expect(page.locator("#f-targetUrl")).to_have_attribute("aria-invalid", "false")
    expect(page.locator("#f-targetUrl-note")).not_to_have_text("Not so")


@pytest.mark.req("CON-177")
def test_what_is_typed_while_a_room_is_saved_stays_in_the_form(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-name").fill("Shop two")
    slow = Held(page, "/rooms", "POST")
    save(page)
    route = slow.wait()
    slow.end()
    page.locator("#f-rate").fill("70")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(1)
    route.continue_()

    expect(page.get_by_text("1 field changed: ")).to_be_visible()
    expect(page.locator("#f-rate")).to_have_value("70")
    expect(page.locator("#f-rate")).to_be_focused()
    save(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms") == [{"id": "shop", "name": "Shop two"}, {"id": "shop", "ratePerMinute": 70}]


@pytest.mark.req("CON-177", "CON-194")
def test_what_is_typed_while_a_room_is_made_becomes_a_change_of_it(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    page.get_by_role("button", name="New room").click()
    page.locator("#f-id").fill("late")
    page.locator("#f-targetUrl").fill("https://late.example/")
    slow = Held(page, "/rooms", "POST")
    page.get_by_role("button", name="Create").click()
    route = slow.wait()
    slow.end()
    page.locator("#f-name").fill("Late")
    route.continue_()

    expect(page.get_by_role("dialog", name="Edit")).to_be_visible()
    expect(page.locator("#f-id")).to_have_count(0)
    expect(page.locator("#f-name")).to_be_focused()
    save(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms")[1] == {"id": "late", "name": "Late"}


@pytest.mark.req("CON-045", "CON-102")
def test_a_question_stays_until_its_act_is_answered(signed_in: Callable[..., Page], stub: Stub) -> None:
    """Closed before, it would look as if nothing was done, and a refusal would be told nowhere."""
    page = signed_in()
    slow = Held(page, "/rooms/shop/purge", "POST")
    card(page, "Shop").get_by_role("button", name="Purge").click()
    box = page.get_by_role("dialog")
    box.get_by_role("button", name="Drop").click()
    route = slow.wait()
    page.keyboard.press("Escape")
    box.get_by_role("button", name="Cancel").click()
    stub.set(refuse={"status": 503, "code": "storage_unavailable", "error": "Not now"})
    route.continue_()

    expect(box.get_by_role("alert")).to_have_text("Not now")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)


@pytest.mark.req("CON-152")
def test_a_label_stays_until_its_link_is_made_and_makes_one(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Share monitor")
    slow, listing = (Held(page, "/monitor-tokens", method) for method in ("POST", "GET"))
    stub.set(refuse={"status": 503, "code": "storage_unavailable", "error": "Not now"})
    label = sheet.get_by_label("For whom")
    label.fill("Agency")
    for _ in range(2):
        page.keyboard.press("Enter")
    slow.wait().continue_()
    expect(page.locator(".toast")).to_contain_text("Not now")
    expect(label).to_have_value("Agency")

    stub.set(refuse=None)
    page.keyboard.press("Enter")  # the list is read anew meanwhile
    slow.wait().continue_()
    listing.release()
    expect(sheet.get_by_role("listitem")).to_contain_text("Agency")
    expect(label).to_have_value("")
    assert stub.sent("/monitor-tokens") == [{"label": "Agency"}] * 2
