"""What an open console asks by itself: little, whatever is open in it (CON-245)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, expect

from tests.console.conftest import Stub, card, stand_still, wait_for
from tests.console.test_visitors import WAITING, ticket

pytestmark = pytest.mark.browser

LISTEN = """() => { window.asked = []; const plain = window.fetch;
  window.fetch = (path, ...rest) => {
    window.asked.push([performance.now(), String(path)]); return plain(path, ...rest); }; }"""


class Flying:
    """Questions of a page that are not answered yet, but for its stream."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[Request] = []
        page.on("request", lambda request: "/events?" in request.url or self.requests.append(request))
        for event in ("requestfinished", "requestfailed"):
            page.on(event, self._end)

    def _end(self, request: Request) -> None:
        if request in self.requests:
            self.requests.remove(request)

    def wait(self) -> None:
        """Until all are answered."""
        wait_for(lambda: self.page.evaluate("true") and not self.requests)
        self.page.evaluate("true")  # and what they brought is read


def passing(page: Page, flying: Flying, seconds: int, step: int = 10) -> list[tuple[float, str]]:
    """What is asked in so many seconds of the page's clock, but for its stream."""
    page.evaluate("window.asked.length = 0")
    for _ in range(seconds // step):
        page.clock.run_for(step * 1000)
        flying.wait()
    asked: list[tuple[float, str]] = page.evaluate("window.asked")
    return [(at, path.removeprefix("/api/admin/")) for at, path in asked if "sse-ticket" not in path]


def most_in(asked: list[tuple[float, str]], seconds: float) -> int:
    """The most questions in any stretch of so many seconds."""
    times = [at for at, _ in asked]
    return max((sum(begin <= at < begin + seconds * 1000 - 5 for at in times) for begin in times), default=0)


@pytest.mark.req("CON-245")
def test_all_that_is_asked_again_shares_one_question_in_ten_seconds(signed_in: Callable[..., Page], stub: Stub) -> None:
    access = {"sso": False, "operators": 0, "monitorLinks": 0, "lockedAddresses": 0}
    stub.set(health={"access": access, "alerting": {"configured": False}}, found={"5644": ticket("waiting", **WAITING)})
    page = signed_in(permissions=["notifications"])
    page.evaluate("() => { localStorage['qm:first_steps'] = '{}'; localStorage.qm_alerts = '1'; }")
    stand_still(page)
    page.reload()
    page.clock.run_for(100)  # what comes after the first painting
    flying = Flying(page)
    expect(page.get_by_role("region", name="First steps")).to_be_visible()
    expect(page.get_by_role("button", name="Alerts").first).to_have_attribute("aria-pressed", "true")
    page.evaluate(LISTEN)
    flying.wait()
    page.clock.run_for(20_000)
    flying.wait()

    asked = passing(page, flying, 200)
    assert most_in(asked, 10) == 1
    kinds = Counter(path.split("?")[0] for _, path in asked)
    assert sum(kinds.values()) > 15
    for kind in ("history", "timeline", "health", "rooms/shop/install-check", "alerts"):
        assert kinds[kind] >= 2, f"each has its turn: {kinds}"

    for name, more in (("Diagnostics", 2), ("Security", 1)):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("dialog", name=name)).to_be_visible()
        page.clock.run_for(20_000)
        flying.wait()
        assert most_in(passing(page, flying, 20), 10) == 1 + more
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name=name)).to_have_count(0)
        page.clock.run_for(20_000)
        flying.wait()
    card(page, "Shop").get_by_role("button", name="Visitors").click()
    page.get_by_label("Ticket number").fill("5644")
    page.keyboard.press("Enter")
    expect(page.locator(".visit-state")).to_have_text("waiting")
    page.clock.run_for(100)  # the list of first steps looks when a panel opens
    flying.wait()
    looked = passing(page, flying, 12, 1)
    assert most_in([one for one in looked if "/tickets" in one[1]], 2) == 1
    assert most_in([one for one in looked if "/tickets" not in one[1]], 10) == 1
