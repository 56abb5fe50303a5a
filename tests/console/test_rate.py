"""The rate control: by keys, by the field, by hand, and what a refusal shows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Held, Stub, card, stand_still, wait_for

pytestmark = pytest.mark.browser

RATE = "/rooms/shop/rate"


@pytest.mark.req("CON-212")
def test_it_moves_by_the_documented_steps(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    knob = card(page, "Shop").get_by_role("slider")
    knob.focus()

    steps = [("ArrowRight", 70), ("PageUp", 120), ("Shift+ArrowRight", 121), ("Shift+ArrowLeft", 120),
             ("ArrowLeft", 110), ("PageDown", 60), ("End", 300), ("Home", 0)]  # fmt: skip
    for key, value in steps:
        page.keyboard.press(key)
        expect(knob).to_have_value(str(value))

    wait_for(lambda: stub.sent(RATE)[-1:] == [{"ratePerMinute": 0}])


@pytest.mark.req("CON-091")
@pytest.mark.req("CON-044")
@pytest.mark.req("CON-101")
def test_it_sends_the_last_of_several_quick_changes(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    stand_still(page)
    field = card(page, "Shop").get_by_role("textbox")
    card(page, "Shop").get_by_role("slider").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert stub.sent(RATE) == []
    page.clock.run_for(400)
    wait_for(lambda: stub.sent(RATE) == [{"ratePerMinute": 100}])

    field.fill("150")
    page.keyboard.press("Enter")
    wait_for(lambda: stub.sent(RATE)[1:] == [{"ratePerMinute": 150}])

    field.fill("155")
    page.keyboard.press("Tab")
    wait_for(lambda: stub.sent(RATE)[2:] == [{"ratePerMinute": 155}])

    box = card(page, "Shop").get_by_role("slider").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 155 / 300, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    expect(card(page, "Shop").get_by_text("was 155")).to_be_visible()
    assert len(stub.sent(RATE)) == 3
    page.mouse.up()
    wait_for(lambda: stub.sent(RATE)[3:] == [{"ratePerMinute": 300}])


@pytest.mark.req("CON-092")
@pytest.mark.parametrize("typed", ["60.5", "-1", "100001", "many", ""])
def test_it_keeps_what_was_typed_and_sends_nothing_when_it_is_no_rate(
    signed_in: Callable[..., Page], stub: Stub, typed: str
) -> None:
    page = signed_in()
    field = card(page, "Shop").get_by_role("textbox")
    field.fill(typed)
    page.keyboard.press("Enter")

    expect(card(page, "Shop").get_by_text("Whole number, 0 to 100,000")).to_be_visible()
    expect(field).to_have_value(typed)
    assert stub.sent(RATE) == []


@pytest.mark.req("CON-093")
def test_it_says_that_nobody_is_let_in_at_rate_0(signed_in: Callable[..., Page]) -> None:
    page = signed_in()

    expect(card(page, "Arena tickets").get_by_text("Active, but nobody is let in")).to_be_visible()


@pytest.mark.req("CON-045", "CON-248")
def test_it_shows_the_servers_value_again_and_its_words_after_a_refusal(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    shop = card(page, "Shop")
    refusal = {"status": 503, "code": "storage_unavailable", "error": "Storage is unavailable.", "retryAfterSec": 5}
    stub.set(refuse=refusal)
    slow = Held(page, RATE, "POST")
    shop.get_by_role("textbox").fill("90")
    page.keyboard.press("Enter")

    expect(shop.get_by_text("Sending 90")).to_be_visible()
    slow.wait().continue_()
    slow.end()
    expect(shop.get_by_text("Refused: Storage is unavailable.")).to_be_visible()
    expect(shop.get_by_role("textbox")).to_have_value("60")
    expect(shop.get_by_role("slider")).to_have_value("60")
    expect(page.locator(".toast")).to_contain_text("Shop: rate not changed.Storage is unavailable. Still 60/min.")

    stub.set(refuse=None)
    page.get_by_role("button", name="Try again").click()
    expect(shop.get_by_role("textbox")).to_have_value("90")


@pytest.mark.req("CON-090")
def test_it_shows_every_rate_exactly_and_grows_its_range(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    knob, field = card(page, "Shop").get_by_role("slider"), card(page, "Shop").get_by_role("textbox")
    for rate, most in ((1200, "1500"), (100_000, "100000"), (299, "300"), (301, "600")):
        stub.room("shop", rate=rate)
        expect(field).to_have_value(str(rate))
        expect(knob).to_have_value(str(rate))
        expect(knob).to_have_attribute("max", most)


def test_it_keeps_typed_text_over_frames_and_gives_it_up_on_escape(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    shop = card(page, "Shop")
    shop.get_by_role("textbox").fill("77")
    stub.room("shop", waiting=999, rate=61)

    expect(shop.get_by_text("999")).to_be_visible()
    expect(shop.get_by_role("textbox")).to_have_value("77")
    page.keyboard.press("Escape")
    expect(shop.get_by_role("textbox")).to_have_value("61")
    assert stub.sent(RATE) == []


def test_it_marks_a_rate_set_by_somebody_else_with_the_name(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    stub.room("shop", rate=90, lastChange={"at": 1, "by": "Night ops", "kind": "rate", "text": "60 → 90"})

    expect(card(page, "Shop").get_by_text("60 → 90 · Night ops")).to_be_visible()
