"""Inline rooms on the console: the switch and its address, whose they are, and a site that does not answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card
from tests.console.stub import CAN
from tests.console.test_rooms import open_form

pytestmark = pytest.mark.browser

ORIGIN = "http://10.0.0.5:3000"
INLINE = {"mode": "inline", "proxyOrigin": ORIGIN}
SWITCH = "Serve this room inline"
FAILING = {"status": "failing", "checkedAt": None, "httpStatus": None, "ms": None}


def operator(stub: Stub) -> None:
    """Whoever signs in next is no owner."""
    person = {"kind": "operator", "via": "session", "role": "operator", "name": "Night ops", "operatorId": "op1"}
    stub.set(me={**person, "linkId": None}, can={**CAN, "inline": False, "deleteRoom": False})


@pytest.mark.req("INL-020", "CON-182", "CON-183")
def test_it_makes_a_room_inline_by_a_tick_and_an_address(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    open_form(page)
    expect(page.locator("#f-proxyOrigin")).to_have_count(0)
    page.get_by_label(SWITCH).check()
    expect(page.locator("#f-inline-note")).to_contain_text("Every request of shop.example passes the queue")
    expect(page.locator("#f-inline-note")).to_contain_text("/__qm")
    expect(page.get_by_label("Internal address of the site behind the queue")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#f-proxyOrigin")).to_be_focused()
    page.locator("#f-proxyOrigin").fill("http://10.0.0.5:3000/path")
    expect(page.locator("#f-proxyOrigin-note")).to_contain_text("Scheme, host and port only")
    page.locator("#f-proxyOrigin").fill(ORIGIN + "/")
    page.locator("#f-onBackendDown").select_option("open")
    stub.set(refuse={"status": 400, "code": "proxy_origin_private", "error": "Set PROXY_ALLOW_PRIVATE=1",
                     "fields": ["proxyOrigin"]})  # fmt: skip
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#f-proxyOrigin-note")).to_have_text("Set PROXY_ALLOW_PRIVATE=1")
    loop = {"status": 400, "code": "proxy_origin_loop", "error": "It points back at shop.example",
            "fields": ["proxyOrigin"]}  # fmt: skip
    stub.set(refuse=loop)
    page.locator("#f-name").fill("Shop two")
    expect(page.locator("#f-proxyOrigin-note")).to_have_text("Set PROXY_ALLOW_PRIVATE=1")
    page.get_by_role("button", name="Save").click()  # another field may have been the cause: the server judges again
    expect(page.locator("#f-proxyOrigin-note")).to_have_text("It points back at shop.example")
    expect(page.locator("#f-proxyOrigin")).to_be_focused()
    stub.set(refuse=None)
    page.locator("#f-name").fill("Shop")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms")[-1] == {"id": "shop", "proxyOrigin": ORIGIN, "onBackendDown": "open"}

    page.get_by_role("button", name="New room").click()
    expect(page.get_by_label(SWITCH)).to_be_visible()


@pytest.mark.req("INL-020", "INL-023", "CON-110", "CON-184", "CON-185")
def test_it_asks_before_a_room_becomes_a_snippet_room(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", **INLINE)
    page = signed_in()
    open_form(page)
    page.get_by_label(SWITCH).click()
    question = page.get_by_role("dialog", name="Stop serving Shop inline?")
    expect(question).to_contain_text("It becomes a snippet room")
    expect(question).to_contain_text("the last inline room of shop.example, which answers 404 here until its DNS")
    expect(question.get_by_role("button", name="Keep it inline")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(page.get_by_label(SWITCH)).to_be_checked()
    expect(page.locator("#f-proxyOrigin")).to_have_value(ORIGIN)

    page.get_by_label(SWITCH).click()
    question.get_by_role("button", name="Make it a snippet room").click()
    expect(page.get_by_label(SWITCH)).not_to_be_checked()
    expect(page.locator("#f-proxyOrigin")).to_have_count(0)
    assert stub.sent("/rooms") == [], "nothing is changed before it is saved"
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms") == [{"id": "shop", "proxyOrigin": None}]


@pytest.mark.req("INL-023", "CON-185", "CON-107")
def test_it_warns_when_the_host_of_this_very_page_goes(signed_in: Callable[..., Page], stub: Stub) -> None:
    """The stand-in is at 127.0.0.1, as is the site of the room here."""
    stub.room("shop", **INLINE, targetUrl="http://127.0.0.1:9/")
    stub.room("news", **INLINE, targetUrl="http://127.0.0.1:8/")
    page = signed_in()
    open_form(page)
    warning = page.get_by_text("This console is open on 127.0.0.1 and will be gone from there.")
    page.locator("#f-targetUrl").fill("https://shop.example/")
    expect(warning).to_have_count(0)  # another room is still served there
    stub.room("news", proxyOrigin=None, mode="snippet")
    expect(card(page, "Newsroom").get_by_text("INLINE")).to_have_count(0)
    page.locator("#f-targetUrl").fill("https://shop2.example/")
    expect(warning).to_be_visible()
    page.locator("#f-targetUrl").fill("https://")  # not an address yet
    expect(warning).to_have_count(0)
    page.locator("#f-targetUrl").fill("http://127.0.0.1:9/")
    expect(warning).to_have_count(0)
    page.get_by_role("button", name="Delete room").click()
    expect(page.get_by_role("dialog", name="Delete Shop?")).to_contain_text("which answers 404 here until its DNS")
    page.keyboard.press("Escape")

    page.locator("#f-targetUrl").fill("https://shop.example/")
    stub.set(warnings=[{"code": "inline_host_left", "message": "gone", "console": stub.url + "/?moved"}])
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/?moved")

    expect(page.locator(".live-on")).to_be_visible()  # and so does the deletion of that room
    open_form(page)
    page.get_by_role("button", name="Delete room").click()
    box = page.get_by_role("dialog", name="Delete Shop?")
    box.get_by_role("textbox").fill("shop")
    stub.set(warnings=[{"code": "inline_host_left", "message": "gone", "console": stub.url + "/?moved-again"}])
    box.get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/?moved-again")
    open_form(page, "Newsroom")  # where it is cannot be told without PUBLIC_URL
    page.get_by_role("button", name="Delete room").click()
    box = page.get_by_role("dialog", name="Delete Newsroom?")
    box.get_by_role("textbox").fill("news")
    stub.set(warnings=[{"code": "inline_host_left", "message": "PUBLIC_URL is unset", "console": None}])
    box.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog", name="Saved, with warnings")).to_contain_text("PUBLIC_URL is unset")


@pytest.mark.req("INL-021", "CON-189")
def test_it_leaves_an_operator_everything_but_where_traffic_goes(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", **INLINE)
    operator(stub)
    page = signed_in()
    open_form(page)
    for field in (page.get_by_label(SWITCH), page.locator("#f-proxyOrigin"), page.locator("#f-targetUrl")):
        expect(field).to_be_disabled()
    expect(page.locator("#f-inline-note")).to_contain_text("Only an owner can change where an inline room takes")
    enabled = page.locator(".form-body :is(input, select, textarea):disabled")
    expect(enabled).to_have_count(3)
    page.locator("#f-onBackendDown").select_option("open")
    page.locator("#f-name").fill("Shop two")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms") == [{"id": "shop", "name": "Shop two", "onBackendDown": "open"}]

    open_form(page, "Checkout")  # a snippet room: its target is an operator's to change
    expect(page.get_by_label(SWITCH)).to_be_disabled()
    expect(page.locator("#f-targetUrl")).to_be_enabled()
    expect(page.locator("#f-inline-note")).to_contain_text("Only an owner can serve a room inline")


@pytest.mark.req("INL-179", "INL-180", "INL-182", "CON-076", "CON-077", "CON-078", "CON-099", "OBS-046")
def test_it_tells_one_story_of_a_site_that_does_not_answer(signed_in: Callable[..., Page], stub: Stub) -> None:
    """Badge, card and hint: the queue is up, the site is not. Another room has the longer line."""
    page = signed_in()
    shop = card(page, "Shop")
    expect(shop.get_by_text("site · up")).to_be_visible()
    expect(shop.get_by_text("INLINE")).to_have_count(0)
    text = "origin down — Shop: 17 of 17 requests failed in the last minute"
    stub.room("shop", **INLINE, site=FAILING, origin={"errorPages": 17, "windowSec": 300, "lastAt": 1})
    stub.set(incident={"code": "origin_down", "roomId": "shop", "text": text})

    expect(shop.get_by_text("INLINE")).to_be_visible()
    expect(shop.get_by_text("site · failing")).to_be_visible()
    expect(shop.locator(".notice-bad")).to_have_text("Site not answering — 17 visitors got an error page")
    expect(shop.locator(".dial-hint")).to_have_text("Changing the rate does not help.")
    badge = page.locator(".badge-bad")
    expect(badge).to_have_text("origin down — Shop")
    expect(badge.locator("svg.sign-alarm")).to_be_visible()
    expect(badge.locator("span")).to_have_attribute("title", text)
    badge.click()
    expect(page.get_by_role("heading", name="Shop", exact=True)).to_be_focused()
    page.evaluate(
        "() => { navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }; }"
    )
    shop.get_by_role("button", name="Copy link").click()
    expect(shop.get_by_text("Copied").last).to_be_visible()
    assert page.evaluate("window.copied") == "https://shop.example/", "the site itself, where its line is (CON-099)"
    for word in ("paused", "PAUSED"):
        expect(shop.get_by_text(word)).to_have_count(0)

    stub.room("shop", site={**FAILING, "status": "up"})
    expect(shop.locator(".notice-bad")).to_have_count(0)
    stub.room("news", site={**FAILING, "status": "down"})
    expect(card(page, "Newsroom").get_by_text("site · down")).to_be_visible()


@pytest.mark.req("INL-181", "INL-182", "OBS-042")
def test_it_shows_what_passed_the_gate_and_what_failed_behind_it(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    page.get_by_role("button", name="Diagnostics").click()
    panel = page.get_by_role("dialog", name="Diagnostics")
    expect(panel.locator("dt")).to_contain_text(["Status", "Incidents", "Warnings", "Version", "Storage", "Valkey"])
    expect(panel.get_by_text("Inline rooms")).to_have_count(0)
    page.keyboard.press("Escape")
    none = dict.fromkeys(("timeout", "connect", "dns", "tls", "reset", "bad_response", "blocked_address"), 0)
    stub.set(
        incident={"code": "origin_down", "roomId": "shop", "text": "origin down — Shop: it failed"},
        inline={
            "rooms": 1, "hosts": ["shop.example"], "indexFrom": "valkey", "gatedTotal": 120_394,
            "bypassedTotal": 842_113, "originErrorsTotal": 12, "clientAbortsTotal": 41,
            "originErrors": {"shop": {**none, "connect": 10, "timeout": 2}},
        },
    )  # fmt: skip
    page.get_by_role("button", name="Diagnostics").click()
    rows = panel.locator(".diag-row")
    checked = rows.filter(has_text="Inline rooms")
    expect(checked).to_contain_text("120,394 checked, 842,113 passed by as files (12.5 % checked)")
    errors = rows.filter(has_text="Origin errors")
    expect(errors.locator("dd")).to_contain_text("12")
    expect(errors).to_contain_text("Shop: timeout 2, connect 10")
    expect(errors).to_contain_text("Visitors who hung up: 41, not counted above")
    expect(errors).to_contain_text(
        "The queue is up, the site behind it did not answer. Changing the rate does not help."
    )
    expect(rows.filter(has_text="Incidents")).to_contain_text("origin down — Shop: it failed")
