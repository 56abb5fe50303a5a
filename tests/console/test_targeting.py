"""The URLs panel and the Installation panel: what rules and tags meet, tried before anything is saved."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card

pytestmark = pytest.mark.browser


def rule(ident: str, action: str, pattern: str, hits: int | None = 0, at: int | None = None) -> dict[str, Any]:
    return {"id": ident, "action": action, "pattern": pattern, "note": "", "hits": hits, "lastMatchedAt": at}


LOST = {
    "code": "rule_origin_not_returnable",
    "message": "Rule r3 names an origin where nobody is sent back.",
}
AWAY = {"code": "page_origin_not_returnable", "message": "Released visitors are not sent back to pages of that."}
RULES = [
    rule("r1", "skip", "/account/*", 8123, int(time.time() * 1000) - 60_000),
    rule("r2", "protect", "/checkout*"),
    rule("r3", "protect", "https://old.example/*", None),
]


@pytest.mark.req("CON-130", "CON-131", "CON-132", "CON-133", "CON-134", "CON-135", "CON-219")
def test_it_shows_what_rules_meet_and_tries_an_address(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    button = card(page, "Shop").get_by_role("button", name="URLs")
    button.click()
    sheet = page.get_by_role("dialog", name="URL targeting")
    expect(sheet).to_contain_text("No rules: every page that asks is covered.")
    expect(sheet.locator(".warnings")).to_have_count(0)

    stub.set(rule_warnings=[LOST, AWAY])
    stub.room("shop", rules=RULES, etag="2", checksWithoutUrl=1240)
    items = sheet.locator(".urls li")
    expect(items.nth(0)).to_have_text(
        re.compile(r"1\s*skip\s*/account/\*\s*8,123 checks · last \w+ \d+, \d+:\d\d [AP]M")
    )
    expect(items.nth(1)).to_have_text(re.compile(r"2\s*protect\s*/checkout\*\s*never matched"))
    expect(items.nth(1).locator(".rule-met")).to_have_css("color", "rgb(130, 74, 0)")
    expect(items.nth(2).locator(".rule-met")).to_have_text("–")
    expect(items.nth(0).locator(".rule-never")).to_have_count(0)
    expect(sheet.locator(".warnings li")).to_have_text(
        [LOST["message"], re.compile("1,240 checks came without the address of their page.*older than qm.js 1.2.0")]
    )
    stub.room("shop", rules=[{**RULES[0], "hits": 8124}, *RULES[1:]])
    expect(items.nth(0)).to_contain_text("8,124 checks")

    field, verdict = sheet.get_by_label("Try an address"), sheet.locator(".verdict")
    field.fill("https://shop.example/checkout/pay")
    page.keyboard.press("Enter")
    expect(verdict).to_contain_text("Covered: its visitors queue. Rule 2 wins: protect /checkout*")
    expect(verdict).to_contain_text(AWAY["message"])
    field.fill("https://shop.example/account/me")
    expect(verdict).to_have_count(0)
    sheet.get_by_role("button", name="Try").click()
    expect(verdict).to_contain_text("Not covered: its visitors do not queue. Rule 1 wins: skip /account/*")
    field.fill("https://shop.example/about")
    page.keyboard.press("Enter")
    expect(verdict).to_contain_text("No rule matches.")
    field.fill("checkout")
    page.keyboard.press("Enter")
    expect(verdict).to_have_text("url must be a full http(s) address without credentials")

    sheet.get_by_role("button", name="Edit rules").click()
    form = page.get_by_role("dialog", name="Edit Shop")
    form.get_by_label("Rule 2, pattern").fill("/basket*")
    form.get_by_label("Try an address").fill("https://shop.example/basket")
    page.keyboard.press("Enter")
    expect(form.locator(".verdict")).to_contain_text("Rule 2 wins: protect /basket*")
    form.get_by_label("Rule 2, pattern").fill("basket")
    expect(form.locator(".verdict")).to_have_count(0)
    expect(form.get_by_role("button", name="Try")).to_be_disabled()
    form.get_by_label("Rule 2, pattern").fill("/basket*")
    form.get_by_role("textbox", name="Return origins").press("Enter")
    assert stub.sent("/rooms") == [], "nothing was saved by trying, nor from a field of several lines"
    form.get_by_role("button", name="Save").click()
    expect(items.nth(1)).to_contain_text("/basket*")
    tried = [body for body in stub.sent("/rooms/shop/rules/test") if "rules" in body]
    assert [one["pattern"] for one in tried[-1]["rules"]] == ["/account/*", "/basket*", "https://old.example/*"]
    page.keyboard.press("Escape")
    expect(button).to_be_focused()


@pytest.mark.req("CON-149", "CON-150", "CON-151")
def test_it_copies_the_tag_checks_a_page_and_lets_the_tag_run_there(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(permissions=["clipboard-read", "clipboard-write"])
    stub.room("shop", tagOrigins=["https://www.shop.example"])
    button = card(page, "Shop").get_by_role("button", name="Install")
    button.click()
    sheet = page.get_by_role("dialog", name="Installation")
    line = f'<script src="{stub.url}/qm.js" data-room="shop"></script>'
    expect(sheet.get_by_label("The tag", exact=True)).to_have_value(line)
    sheet.get_by_role("button", name="Copy").click()
    expect(sheet).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == line
    server = {"instance": "i:1", "instances": 1, "version": "1.0.0", "startedAt": 1, "insecureConfig": 0}
    stub.set(server={**server, "publicUrl": "https://queue.example"})
    expect(sheet.get_by_label("The tag", exact=True)).to_have_value(re.compile('src="https://queue.example/qm.js"'))

    url, origin = sheet.get_by_label("URL of the page"), sheet.get_by_label("Origin the tag runs on")
    url.fill("landing")
    page.keyboard.press("Enter")
    expect(sheet.get_by_role("status")).to_have_text("url must be a full http(s) address without credentials")
    url.fill("https://landing.example/buy")
    page.keyboard.press("Enter")
    facts = sheet.locator(".install-facts li")
    expect(facts).to_have_text([
        "The tag is refused on https://landing.example: its pages run unprotected.",
        "Visitors are not sent back there: they land on the target URL.",
        "The page is covered, by rule r1.",
        "No check from there has arrived yet.",
        "12 pages of this origin run unprotected",
    ])  # fmt: skip
    expect(sheet.locator(".warnings")).to_have_count(0)

    origin.fill("https://app.example")
    page.keyboard.press("Enter")
    expect(facts.first).to_contain_text("https://app.example")
    expect(sheet.locator(".caution")).to_contain_text("Writes only tagOrigins: adds https://app.example.")
    expect(sheet.locator(".caution")).to_contain_text("Where visitors may be sent stays as it is.")
    stub.room("shop", tagOrigins=["https://www.shop.example", "https://late.example"])
    seen = {"lastCheckAt": 1_788_253_200_000, "tagVersion": "1.3.0", "refusedChecks": 0}
    old = [{"code": "old_tag", "text": "Pages run version 1.3.0 of the tag."}]
    stub.set(install={**seen, "covered": False, "rule": None, "returnAllowed": True, "findings": old})
    sheet.get_by_role("button", name="Allow the tag there").click()
    expect(facts).to_have_text([
        "The tag may run on https://app.example.",
        "Visitors are sent back to this page when it is their turn.",
        "No rule covers the page: its visitors do not queue.",
        "Last check from there: Sep 1, 9:00 AM, tag 1.3.0.",
        "No check from there was refused.",
    ])  # fmt: skip
    expect(sheet.locator(".warnings")).to_have_text("Pages run version 1.3.0 of the tag.")
    expect(sheet.get_by_role("button", name="Allow the tag there")).to_have_count(0)
    origins = ["https://www.shop.example", "https://late.example", "https://app.example"]
    assert stub.sent("/rooms") == [{"id": "shop", "tagOrigins": origins}], "that alone, upon the list as it is now"
    page.keyboard.press("Escape")
    expect(button).to_be_focused()


@pytest.mark.req("CON-194")
def test_a_new_room_takes_the_focus_and_offers_its_installation(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    for ident, warnings in (("fresh", []), ("warned", [{"code": "x", "message": "Look at this."}])):
        stub.set(warnings=warnings)
        page.get_by_role("button", name="New room").click()
        page.get_by_label("Id", exact=True).fill(ident)
        page.get_by_label("Target URL").fill("https://fresh.example")
        page.get_by_role("button", name="Create room").click()
        if warnings:
            page.get_by_role("button", name="I have read them").click()
        expect(page.get_by_role("heading", name=ident)).to_be_focused()
        expect(page.locator(".toast").first).to_contain_text(f"{ident} was created.")
        page.locator(".toast").first.get_by_role("button", name="Install").click()
        sheet = page.get_by_role("dialog", name="Installation")
        expect(sheet.get_by_label("The tag", exact=True)).to_have_value(re.compile(f'data-room="{ident}"'))
        page.keyboard.press("Escape")
        expect(sheet).to_have_count(0)
