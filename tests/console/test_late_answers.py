"""Answers that are late, overtake each other or break off: nothing older is shown for it, and nothing is thrown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Held, Stub, card, sign_in
from tests.console.test_people import opened
from tests.console.test_visitors import EJECT, WAITING, look_up, ticket

pytestmark = pytest.mark.browser

AGAIN = "The server did not answer."
BUSY_BETWEEN = """async (button) => {
  const [first, second] = Array.from({ length: 2 }, () => new MouseEvent("click", { bubbles: true }));
  button.dispatchEvent(first);
  await new Promise((drawn) => setTimeout(drawn));
  for (const end = performance.now() + 500; performance.now() < end; );
  button.dispatchEvent(second);
}"""
"""Two presses at the same time, between which the page is busy for longer than a double click takes."""


@pytest.mark.req("CON-045")
def test_an_answer_that_breaks_off_is_none(signed_in: Callable[..., Page]) -> None:
    """A proxy's page in the place of an answer, or the end of the time between the first bytes and the last."""
    page = signed_in()
    page.route("**/api/admin/health", lambda route: route.fulfill(status=200, body='{"status":'))
    page.route("**/api/admin/alerts", lambda route: route.fulfill(status=200, body="<p>Sign in to the Wi-Fi</p>"))
    page.route("**/api/admin/timeline?**", lambda route: route.fulfill(status=200, body=""))
    page.get_by_role("button", name="Diagnostics").click()
    panel = page.get_by_role("dialog", name="Diagnostics")
    expect(panel.get_by_text(AGAIN)).to_have_count(2)

    for path in ("health", "alerts"):
        page.unroute(f"**/api/admin/{path}")
    panel.get_by_role("button", name="Try again").first.click()
    expect(panel.get_by_text("Incidents")).to_be_visible()
    panel.get_by_role("button", name="Try again").click()
    expect(panel.get_by_text("Alerting")).to_be_visible()
    expect(panel.get_by_text(AGAIN)).to_have_count(0)

    page.keyboard.press("Escape")
    slow = Held(page, "/history?**", "GET")
    card(page, "Newsroom").get_by_role("button", name="Chart").click()
    chart = page.get_by_role("region", name="Chart")
    expect(chart).to_contain_text(AGAIN)
    slow.wait().continue_()
    expect(chart.locator(".legend")).to_be_visible()
    expect(chart).to_contain_text(AGAIN)  # the marks are still not known


@pytest.mark.req("CON-202")
def test_a_list_that_comes_after_a_newer_one_is_not_shown(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    old = Held(page, "/operators", "GET")
    sheet = opened(page, "Access")
    route = old.wait()
    old.end()
    sheet.get_by_label("Name").fill("Dana")
    sheet.get_by_role("button", name="Issue").click()
    page.get_by_role("button", name="I have kept it").click()
    expect(sheet.get_by_role("listitem").filter(has_text="Dana")).to_be_visible()

    with page.expect_response("**/operators"):
        route.fulfill(status=200, body=json.dumps({"operators": []}))

    page.evaluate("new Promise((shown) => setTimeout(shown))")
    expect(sheet.get_by_role("listitem").filter(has_text="Dana")).to_have_count(1)


@pytest.mark.req("CON-021")
def test_a_refusal_of_before_the_sign_in_signs_nobody_out(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    slow = Held(page, "/history?**", "GET")
    card(page, "Newsroom").get_by_role("button", name="Chart").click()
    route = slow.wait()
    slow.end()
    stub.set(sessions=[])
    sign_in(page)

    with page.expect_response("**/history?**"):
        route.fulfill(status=401, body='{"code": "unauthorized", "error": "A valid key is required."}')

    page.evaluate("new Promise((shown) => setTimeout(shown))")
    assert page.locator("#key").count() == 0
    expect(page.locator(".live-on")).to_be_visible()


@pytest.mark.req("CON-021")
@pytest.mark.parametrize("panel", ["Install", "URLs", "Visitors", "Schedule", "Edit"])
def test_a_panel_that_is_there_again_after_the_sign_in_waits_for_its_room(
    signed_in: Callable[..., Page], stub: Stub, panel: str
) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name=panel).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    stub.set(sessions=[], silent=True)
    page.locator("#key").fill("test-key-of-the-stand-in")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    stub.set(silent=False)

    expect(page.locator(".live-on")).to_be_visible()
    expect(page.get_by_role("dialog")).to_contain_text("Shop")


@pytest.mark.req("CON-091", "CON-248")
def test_a_rate_that_waits_for_the_one_before_it_stays_under_the_hand(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    slow = Held(page, "/rooms/shop/rate", "POST")
    field = card(page, "Shop").get_by_role("textbox")
    for rate in ("70", "80"):
        field.fill(rate)
        page.keyboard.press("Enter")
        expect(field).to_have_value(rate)
    expect(card(page, "Shop").get_by_role("slider")).to_have_value("80")
    expect(card(page, "Shop")).to_contain_text("Sending 80")

    slow.wait().continue_()
    slow.end()

    expect(card(page, "Shop")).not_to_contain_text("Sending")
    assert [body["ratePerMinute"] for body in stub.sent("/rooms/shop/rate")] == [70, 80]


@pytest.mark.req("CON-108", "CON-113")
def test_a_double_click_that_is_told_late_is_one_all_the_same(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.set(found={"5644": ticket("waiting", **WAITING)})
    page = signed_in()
    expect(look_up(page, "5644").locator(".visit-state")).to_have_text("waiting")

    page.get_by_role("button", name="Eject").evaluate(BUSY_BETWEEN)

    expect(page.get_by_role("button", name="Confirm eject")).to_be_enabled()
    assert stub.sent(EJECT) == []


@pytest.mark.req("CON-057", "CON-073")
def test_a_countdown_goes_on_after_the_servers_time_was_told_back(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.room("shop", effectiveState="scheduled", opensAt=int(time.time() * 1000) + 600_000)
    page = signed_in()
    page.clock.install()
    page.reload()  # timers of before are not the clock's
    expect(page.locator(".live-on")).to_be_visible()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)
    stub.set(silent=True)
    page.evaluate("() => { const now = Date.now(); window.plain = Date.now; Date.now = () => now; }")
    page.clock.run_for(10_000)  # ticks that tell the same time
    page.evaluate("() => { Date.now = window.plain; }")
    notice = card(page, "Shop").locator(".notice")
    shown = {notice.text_content()}
    for _ in range(4):
        page.clock.run_for(1100)
        shown.add(notice.text_content())

    assert len(shown) == 5


@pytest.mark.req("CON-133")
def test_a_verdict_about_another_address_is_not_shown(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="URLs").click()
    sheet = page.get_by_role("dialog")
    slow = Held(page, "/rooms/shop/rules/test", "POST")
    sheet.get_by_role("textbox").fill("https://shop.example/checkout")
    sheet.get_by_role("button", name="Try", exact=True).click()
    route = slow.wait()
    sheet.get_by_role("textbox").fill("https://shop.example/imprint")

    with page.expect_response("**/rules/test"):
        route.continue_()

    page.evaluate("new Promise((shown) => setTimeout(shown))")
    expect(sheet.locator(".verdict")).to_have_count(0)


@pytest.mark.req("CON-028")
def test_the_language_that_was_chosen_last_holds(open_page: Callable[..., Page]) -> None:
    page = open_page()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    late: list[Route] = []
    page.route("**/console.th.json", lambda route: late.append(route))
    page.get_by_role("button", name="ไทย").click()
    while not late:
        page.wait_for_timeout(10)
    page.get_by_role("button", name="English").click()
    page.evaluate("new Promise((shown) => setTimeout(shown))")

    with page.expect_response("**/console.th.json"):
        late[0].continue_()

    page.evaluate("new Promise((shown) => setTimeout(shown))")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.route("**/console.th.json", lambda route: route.abort())
    page.get_by_role("button", name="ไทย").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
