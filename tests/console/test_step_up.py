"""The key once more, asked in the dialog of the act, as a server asks for it on an inline host (ADM-298)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from blueprints.admin.console import console_site
from tests.console.conftest import KEY, Held, Stub, card, sign_in, wait_for
from tests.console.test_inline import ORIGIN, SWITCH
from tests.console.test_people import opened
from tests.console.test_rooms import open_form

pytestmark = pytest.mark.browser


def question(box: Locator) -> Locator:
    """The question in this dialog, with the focus in its field."""
    asked = box.get_by_role("form", name="Your key once more")
    expect(asked.get_by_label("Key")).to_be_focused()
    return asked


def writes(stub: Stub, line: str) -> int:
    return stub.state()["asked"].count(line)


@pytest.mark.req("ADM-298", "WHK-114", "CON-251", "CON-253")
def test_it_asks_for_the_key_in_the_dialog_of_the_act_and_then_does_it(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    stub.set(guarded=True)
    page = signed_in()
    page.clock.install()
    open_form(page)
    form = page.get_by_role("dialog")
    form.locator("#f-rate").fill("70")
    form.get_by_label(SWITCH).check()
    form.locator("#f-proxyOrigin").fill(ORIGIN)
    form.get_by_role("button", name="Save").click()

    asked = question(form)
    field, answer = asked.get_by_label("Key"), asked.get_by_role("alert")
    expect(field).to_have_attribute("type", "password")
    expect(field).to_have_attribute("autocomplete", "current-password")
    expect(field).to_have_accessible_description("This act needs your key, not only your session. After that no key is "
                                                 "asked for in this tab for 5 minutes.")  # fmt: skip
    for key, told in (
        ("guess", "This key is not valid."),
        ("key-of-somebody-else", "This is the key of somebody else. Enter your own."),
    ):
        field.fill(key)
        page.keyboard.press("Enter")
        expect(answer).to_have_text(told)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_value("")
        expect(field).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('.step-up') !== null"), "Tab stays with the question"
    stub.set(locked=42)
    field.fill("guess")
    page.keyboard.press("Enter")
    expect(answer).to_have_text("Too many failed sign-ins from this address. Try again in 42 s.")
    stub.set(locked=0)
    assert stub.sent("/rooms") == []
    field.fill(KEY)
    slow = Held(page, "/step-up", "POST")
    asked.get_by_role("button", name="Go on").dblclick()
    slow.wait().continue_()  # not before the second press, which then would go to the page behind
    slow.end()

    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms") == [{"id": "shop", "ratePerMinute": 70, "proxyOrigin": ORIGIN}]
    assert page.locator("#key").count() == 0, "a wrong key here signs nobody out"
    expect(card(page, "Shop").get_by_role("button", name="Edit")).to_be_focused()
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert KEY not in kept + page.content()
    assert "qmsu_" not in kept + page.content()

    delete(page, "Checkout")  # the token still holds
    expect(card(page, "Checkout")).to_have_count(0)
    page.clock.run_for(301_000)
    delete(page, "Newsroom")
    box = page.get_by_role("dialog", name="Delete Newsroom?")
    question(box).get_by_label("Key").fill(KEY)
    page.keyboard.press("Enter")
    expect(card(page, "Newsroom")).to_have_count(0)
    wait_for(lambda: len(stub.state()["rooms"]) == 4)


def delete(page: Page, name: str) -> None:
    room = name.lower() if name != "Newsroom" else "news"
    card(page, name).get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Delete room").click()
    box = page.get_by_role("dialog", name=f"Delete {name}?")
    box.get_by_role("textbox").fill(room)
    box.get_by_role("button", name="Delete", exact=True).click()


@pytest.mark.req("ADM-298", "CON-214")
def test_without_the_key_nothing_is_done_and_the_dialog_is_as_it_was(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    stub.set(guarded=True)
    page = signed_in()
    delete(page, "Shop")
    box = page.get_by_role("dialog", name="Delete Shop?")
    question(box)
    for leave in ("Escape", "Cancel", "outside"):
        if leave == "Escape":
            page.keyboard.press("Escape")
        elif leave == "Cancel":
            question(box).get_by_role("button", name="Cancel").click()
        else:
            page.mouse.click(4, 4)
        expect(box.get_by_role("form", name="Your key once more")).to_have_count(0)
        expect(box.get_by_role("alert")).to_have_text("Not done: this act needs your key.")
        expect(box.get_by_role("button", name="Delete", exact=True)).to_be_focused()
        expect(box.get_by_role("textbox")).to_have_value("shop")
        page.keyboard.press("Enter")
        question(box)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(page.get_by_role("button", name="Delete room")).to_be_focused()
    assert "shop" in stub.state()["rooms"]


@pytest.mark.req("ADM-298", "WHK-114")
def test_it_asks_whoever_changes_people_and_forgets_the_key_with_the_session(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    stub.set(guarded=True)
    page = signed_in()
    sheet = opened(page, "Access")
    sheet.get_by_label("Name").fill("Night ops")
    sheet.get_by_role("button", name="Issue a key").click()
    question(sheet).get_by_label("Key").fill(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="I have kept it").click()
    sheet.get_by_label("Role of Night ops").select_option("owner")
    expect(sheet.get_by_role("listitem").first).to_contain_text("owner · issued")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Console").click()
    page.get_by_role("menuitem", name="Sign out").click()
    sign_in(page)

    sheet = opened(page, "Access")
    sheet.get_by_label("Role of Night ops").select_option("viewer")
    question(sheet)
    stub.set(sessions=[])
    expect(page.locator("#key")).to_be_visible()
    sign_in(page)

    expect(page.get_by_role("form", name="Your key once more")).to_have_count(0)
    assert stub.sent("/operators/00000000") == [{"role": "owner"}]


WATCHED = "Object.defineProperty(navigator, 'serviceWorker', { value: { controller: {} } })"


@pytest.mark.req("CON-253")
def test_below_a_site_it_says_who_may_see_a_key_and_where_nobody_does(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    """The page as an inline host serves it, over the stand-in's own routes."""
    page = open_page()
    expect(page.locator("#key")).to_be_visible()
    expect(page.locator(".caution")).to_have_count(0)
    site = console_site("/__qm", "https://q.example/")

    def below(route: Route) -> None:
        path = urlsplit(route.request.url).path.removeprefix("/__qm")
        if path == "/":
            route.fulfill(
                body=site.page.body, headers={"Content-Type": "text/html", "Content-Security-Policy": site.policy}
            )
        else:
            route.continue_(url=stub.url + path)

    page.context.route("**/__qm/**", below)
    for is_watched, told in (
        (False, "Scripts of this site share this page's origin. Sign in at q.example instead"),
        (True, "A service worker of this site controls this page: it can read a key that is typed here. Sign in at "
               "q.example instead"),
    ):  # fmt: skip
        if is_watched:
            page.context.add_init_script(WATCHED)
        page.goto(stub.url + "/__qm/")
        expect(page.locator(".caution")).to_have_text(told)
        expect(page.get_by_role("link", name="Sign in at q.example instead")).to_have_attribute(
            "href", "https://q.example/"
        )
