"""The list that follows the first room."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, sign_in

pytestmark = pytest.mark.browser

ENTRIES = [
    "Install the tag", "Open the waiting page yourself", "Issue a named key", "Set an outside monitor on /healthz",
    "Set the alert webhook", "Look at Diagnostics",
]  # fmt: skip


@pytest.mark.req("CON-233", "CON-240")
def test_each_entry_ticks_itself_off_when_its_fact_is_seen(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.reset("none")
    access = {"sso": False, "operators": 0, "monitorLinks": 0, "lockedAddresses": 0}
    stub.set(health={"access": access, "alerting": {"configured": False}})
    page = open_page()
    sign_in(page)
    steps = page.get_by_role("region", name="First steps")
    expect(page.get_by_role("button", name="Create the first room")).to_be_visible()
    expect(steps).to_have_count(0)
    page.get_by_role("button", name="Create the first room").click()
    page.get_by_label("Id", exact=True).fill("shop")
    page.get_by_label("Target URL").fill("https://shop.example")
    page.get_by_role("button", name="Create room").click()
    entries, done = steps.get_by_role("listitem"), steps.locator(".step-done")
    for number, text in enumerate(ENTRIES):
        expect(entries.nth(number)).to_contain_text(text)
    expect(entries).to_have_count(6)
    expect(done).to_have_count(0)
    assert steps.get_by_role("link", name="Open").get_attribute("href") == f"{stub.url}/w/shop"

    steps.get_by_role("button", name="Install: Install the tag").click()
    expect(page.get_by_role("dialog", name="Installation").get_by_role("button", name="Check")).to_be_visible()
    stub.set(install={"lastCheckAt": 1_788_253_200_000})
    page.keyboard.press("Escape")
    expect(done).to_contain_text(["Install the tag"])
    stub.room("shop", lastTicket=1)
    expect(done).to_contain_text(["Install the tag", "Open the waiting page yourself"])
    steps.get_by_role("button", name="Access: Issue a named key").click()
    expect(page.get_by_role("dialog", name="Access")).to_be_visible()
    stub.set(health={"access": {**access, "operators": 1}, "alerting": {"configured": False}})
    page.keyboard.press("Escape")
    expect(done).to_contain_text([*ENTRIES[:3]])
    page.reload()
    expect(done).to_contain_text([*ENTRIES[:3]])
    expect(done.first).to_contain_text("seen")

    expect(steps.get_by_role("link", name="Docs")).to_have_attribute("href", "/docs")
    steps.get_by_role("button", name="Done: Set an outside monitor on /healthz").click()
    expect(done).to_contain_text([*ENTRIES[:4]])
    stub.set(health={"access": access, "alerting": {"configured": True}})
    steps.get_by_role("button", name="Diagnostics: Look at Diagnostics").click()
    expect(page.get_by_role("dialog", name="Diagnostics")).to_be_visible()
    page.keyboard.press("Escape")
    expect(steps).to_have_count(0)
    names = ["tag", "page", "key", "monitor", "hook", "diagnostics"]
    assert sorted(page.evaluate("Object.keys(JSON.parse(localStorage['qm:first_steps']))")) == sorted(names)

    page.evaluate("localStorage['qm:first_steps'] = '{}'")
    page.reload()
    steps.get_by_role("button", name="Dismiss the first steps").click()
    expect(steps).to_have_count(0)
    page.reload()
    expect(page.get_by_role("article")).to_have_count(1)
    expect(steps).to_have_count(0)
