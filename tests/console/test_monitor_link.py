"""Watching with a monitor link: its token decides, shows figures only, and signs nobody in or out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import KEY, Stub, card, sign_in, wait_for
from tests.console.stub import LINK

pytestmark = pytest.mark.browser

OVER = "This link no longer works. Ask for a new one."


def watch(page: Page, stub: Stub, token: str = LINK) -> None:
    """Paste the address of a link."""
    page.goto(f"{stub.url}/#monitor={token}")


@pytest.mark.req("CON-022", "CON-032")
@pytest.mark.req("CON-015", "CON-041", "CON-220", "CON-222", "CON-251")
def test_it_watches_by_the_token_alone_and_can_change_nothing(signed_in: Callable[..., Page], stub: Stub) -> None:
    """In a browser whose owner is signed in, and again after a reload."""
    page = signed_in()
    expect(page.get_by_role("button", name="New room")).to_be_visible()
    writes = len(stub.state()["asked"])

    watch(page, stub)
    for _ in range(2):
        expect(page.locator(".live-on")).to_be_visible()
        expect(card(page, "Shop")).to_be_visible()
        expect(page.locator(".who").first).to_have_text("Monitor link · read only")
        expect(page.get_by_role("button", name="New room")).to_have_count(0)
        expect(page.get_by_text("insecure config")).to_have_count(0)
        assert card(page, "Shop").get_by_role("button", name="Pause").count() == 0
        page.reload()
    expect(page.locator(".live-on")).to_be_visible()
    page.get_by_role("button", name="Console").click()
    expect(page.locator("[role=menuitem] span:first-child")).to_have_text(["Reports", "Language", "Theme"])
    page.keyboard.press("Escape")
    expect(page.locator(".bar button")).to_have_text(["Console", "Security"])
    expect(page.get_by_role("group", name="Series of the chart")).to_be_visible()

    asked = [line for line in stub.state()["asked"][writes:] if "/events" not in line]
    assert asked
    assert [" ".join(line.split()[:2]) for line in stub.state()["by_link"]] == asked
    assert {line.split()[2] for line in stub.state()["by_link"]} == {"-"}, "no cookie is sent beside the token"
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert LINK not in kept
    assert LINK not in page.content()


@pytest.mark.req("CON-023", "CON-024")
def test_a_link_that_is_over_says_so_and_signs_nobody_out(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()

    watch(page, stub, "token.that-was-revoked")

    expect(page.get_by_text(OVER)).to_be_visible()
    expect(page.locator("#key")).to_have_count(0)
    page.goto(stub.url + "/")
    expect(page.locator(".live-on")).to_be_visible()
    expect(page.get_by_role("button", name="New room")).to_be_visible()


@pytest.mark.req("CON-020")
@pytest.mark.parametrize("kind", ["link", "session"])
def test_who_is_revoked_sees_so_at_once_and_comes_back_to_nothing(
    open_page: Callable[..., Page], stub: Stub, kind: str
) -> None:
    page = open_page()
    page.clock.install()
    if kind == "link":
        watch(page, stub)
    else:
        page.reload()
        page.locator("#key").fill(KEY)
        page.keyboard.press("Enter")
    expect(page.locator(".live-on")).to_be_visible()
    tickets = stub.state()["asked"].count("POST /api/admin/sse-ticket")
    page.clock.run_for(500)

    stub.set(**{"links": []} if kind == "link" else {"sessions": []})

    expect(page.get_by_text(OVER) if kind == "link" else page.locator("#key")).to_be_visible()
    expect(page.locator("#key")).to_have_count(0 if kind == "link" else 1)
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    asked = stub.state()["asked"]
    assert asked.count("POST /api/admin/sse-ticket") == tickets, "told by the stream, and no new one is asked for"


@pytest.mark.req("CON-023")
def test_without_its_fragment_a_link_is_no_credential(open_page: Callable[..., Page], stub: Stub) -> None:
    page = open_page()
    watch(page, stub)
    expect(page.locator(".live-on")).to_be_visible()

    page.evaluate("location.hash = ''")

    expect(page.locator("#key")).to_be_visible()
    sign_in(page)
    page.evaluate("token => { location.hash = `#monitor=${token}` }", LINK)
    wait_for(lambda: page.locator(".who").first.text_content() == "Monitor link · read only")
