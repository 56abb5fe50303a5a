"""Creating and editing rooms: what is sent, where mistakes are shown, what happens to unsaved text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card, sign_in

pytestmark = pytest.mark.browser


def open_form(page: Page, name: str = "Shop") -> None:
    card(page, name).get_by_role("button", name="Edit").click()
    expect(page.get_by_role("dialog", name=f"Edit {name}")).to_be_visible()


def test_it_asks_three_things_for_the_first_room_and_focuses_its_card(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.reset("none")
    page = open_page()
    sign_in(page)
    page.get_by_role("button", name="Create the first room").click()
    assert page.get_by_role("dialog").get_by_role("textbox").count() == 3
    page.locator("#f-id").fill("drop")
    page.locator("#f-targetUrl").fill("https://drop.example")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="drop")).to_be_focused()
    assert stub.sent("/rooms") == [{"id": "drop", "targetUrl": "https://drop.example"}]


@pytest.mark.req("CON-181")
@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("dk_shop", "Ids that start with dk_ are reserved"),
        ("theme", "theme is reserved"),
        ("a b", "Letters, digits, - and _"),
    ],
)
def test_it_says_while_typing_why_an_id_cannot_be(signed_in: Callable[..., Page], typed: str, reason: str) -> None:
    page = signed_in()
    page.get_by_role("button", name="New room").click()
    page.locator("#f-id").fill(typed)

    expect(page.get_by_text(reason)).to_be_visible()


@pytest.mark.req("CON-180")
def test_it_shows_a_mistake_at_its_field_and_focuses_it(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    page.get_by_role("button", name="New room").click()
    page.locator("#f-id").fill("drop")
    page.locator("#f-maxConcurrent").fill("many")
    page.locator("#f-targetUrl").fill("https://refused.example")
    page.get_by_role("button", name="Create room").click()
    expect(page.locator("#f-maxConcurrent")).to_be_focused()
    assert stub.sent("/rooms") == []

    page.locator("#f-maxConcurrent").fill("500")
    page.get_by_role("button", name="Create room").click()
    expect(page.locator("#f-targetUrl-note")).to_have_text("targetUrl must be an absolute http(s) URL")
    expect(page.locator("#f-targetUrl")).to_be_focused()
    expect(page.locator("#f-targetUrl")).to_have_value("https://refused.example")
    expect(page.locator("#f-maxConcurrent")).to_have_value("500")


@pytest.mark.req("CON-177")
def test_it_sends_only_what_was_changed_in_one_request(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-maxConcurrent").fill("")
    page.locator("#f-sessionTtlSec").fill("900")
    page.locator("#f-rate").fill("61")
    page.locator("#f-rate").fill("60")
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Rule 1, pattern").fill("/checkout*")
    page.locator("#f-returnOrigins").fill("https://a.example\n\nhttps://*.b.example\n")
    expect(page.get_by_text("4 fields changed: capacity, session idle, rules, return origins")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    rules = [{"action": "protect", "pattern": "/checkout*", "note": ""}]
    origins = ["https://a.example", "https://*.b.example"]
    body = {"id": "shop", "maxConcurrent": None, "sessionTtlSec": 900, "rules": rules, "returnOrigins": origins}
    assert stub.sent("/rooms") == [body]


def test_it_keeps_the_order_of_rules_that_were_moved(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    open_form(page, "Checkout")
    page.get_by_role("button", name="Add rule").click()
    page.get_by_label("Rule 2, action").select_option("skip")
    page.get_by_label("Rule 2, pattern").fill("/checkout/done")
    page.get_by_role("button", name="Move rule 2 up").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)

    first = {"action": "skip", "pattern": "/checkout/done", "note": ""}
    second = {"id": "r1", "action": "protect", "pattern": "/checkout*", "note": ""}
    assert stub.sent("/rooms") == [{"id": "checkout", "rules": [first, second]}]


@pytest.mark.req("CON-193")
def test_it_keeps_everything_typed_after_a_503_and_asks_before_closing(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-name").fill("Shop two")
    stub.set(
        refuse={
            "status": 503,
            "code": "storage_unavailable",
            "error": "The change could not be recorded.",
            "retryAfterSec": 5,
        }
    )
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("The change may have taken effect; it can be sent again.")

    page.keyboard.press("Escape")
    question = page.get_by_role("dialog", name="Close without saving?")
    expect(question.get_by_role("button", name="Go on editing")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(page.locator("#f-name")).to_have_value("Shop two")

    stub.set(refuse=None)
    page.get_by_role("button", name="Save").click()
    expect(card(page, "Shop two")).to_be_visible()


@pytest.mark.req("CON-192")
def test_it_asks_which_value_holds_when_somebody_else_changed_the_same_field(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-maxConcurrent").fill("600")
    stub.room("shop", maxConcurrent=450, presenceSec=45, waiting=777)
    expect(page.locator("article").first).to_contain_text("777")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Somebody else set this meanwhile: 450. Which one holds?")).to_be_visible()
    assert stub.sent("/rooms") == []

    page.get_by_role("button", name="Keep mine").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms") == [{"id": "shop", "maxConcurrent": 600}]
    assert stub.state()["rooms"]["shop"]["presenceSec"] == 45


@pytest.mark.req("CON-188")
@pytest.mark.req("CON-187")
def test_it_shows_warnings_until_they_are_dismissed(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.set(warnings=[{"code": "short_timing", "message": "presenceSec is 5, less than 15."}])
    page = signed_in()
    open_form(page)
    page.locator("#f-presenceSec").fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("presenceSec is 5, less than 15.")

    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("button", name="I have read them").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.req("CON-191")
def test_it_warns_before_fewer_places_per_address_are_saved(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    open_form(page)
    page.locator("#f-queueMaxPerIp").fill("4")

    expect(page.get_by_text("A low number hurts shared addresses")).to_be_visible()
    expect(page.get_by_text("Empty means no cap.").last).to_be_visible()


@pytest.mark.req("CON-252")
def test_it_shows_names_and_rules_as_text_whatever_they_hold(signed_in: Callable[..., Page], stub: Stub) -> None:
    name = "<img src=x onerror=alert(1)><b>&amp;"
    stub.room(
        "shop", name=name, rules=[{"id": "r1", "action": "skip", "pattern": "/<script>alert(2)</script>", "note": ""}]
    )
    page = signed_in()

    expect(page.get_by_role("heading", name=name)).to_be_visible()
    card(page, name).get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Rule 1, pattern")).to_have_value("/<script>alert(2)</script>")
    assert page.locator("img").count() == 0
