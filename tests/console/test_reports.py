"""The panels Security and Reports, and where they stand for whom."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Stub, wait_for
from tests.console.stub import CAN, LINK

pytestmark = pytest.mark.browser

VIEWER = {**dict.fromkeys(CAN, False), "audit": True, "diagnostics": True, "reports": True, "security": True}
COLUMNS = [
    "roomId", "bucket", "start", "startIso", "joins", "passes", "netUnserved", "peakDepth", "avgDepth", "peakActive",
    "waitP50Sec", "waitP90Sec", "waitMaxSec", "waitAvgSec", "measuredWaits", "blocked", "warned", "samples",
    "partial", "coveredSec", "missingSec",
]  # fmt: skip


def reports(page: Page) -> Locator:
    """The open sheet of reports."""
    page.get_by_role("button", name="Console").click()
    page.get_by_role("menuitem", name="Reports").click()
    return page.get_by_role("dialog", name="Reports")


@pytest.mark.req("CON-026", "CON-027", "CON-033")
def test_bar_and_menu_have_what_the_role_may_use(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    bar = page.locator(".bar > .button, .bar > .tip-host > .button")
    entries = page.locator("[role=menuitem] span:first-child, a[role=menuitem]")
    expect(bar).to_have_text(["Alerts", "Share monitor", "Security", "Diagnostics", "New room"])
    page.get_by_role("button", name="Console").click()
    expect(entries).to_have_text(["Reports", "Access", "Docs", "Language", "Theme", "Sign out"])

    stub.set(can=VIEWER)
    page.reload()
    expect(bar).to_have_text(["Alerts", "Security", "Diagnostics"])
    page.get_by_role("button", name="Console").click()
    expect(entries).to_have_text(["Reports", "Access", "Docs", "Language", "Theme", "Sign out"])


@pytest.mark.req("CON-195", "CON-196", "CON-197")
def test_security_shows_what_protection_does(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    page.get_by_role("button", name="Security").click()
    sheet = page.get_by_role("dialog", name="Security")

    expect(sheet.locator(".mode")).to_have_text("monitorwarns from 40, refuses above 70 of 100")
    expect(sheet.locator(".security-totals > div")).to_have_text(
        ["Scored20,417", "Warned120", "Would block9", "Blocked3", "Crawlers14", "Allow-listed2"]
    )
    expect(sheet.locator(".security-list > div")).to_have_text(
        ["cookieless_repeat88", "declared_automation12", "Spring dropenforce"]
    )
    rows = sheet.locator("tbody tr")
    expect(rows).to_have_count(2)
    for text in ("Spring drop", "92", "blocked", "declared_automation", "203.0.113.9", "python-requests/2.31"):
        expect(rows.first).to_contain_text(text)
    expect(rows.nth(1)).to_contain_text("<b>Mozilla</b>")
    expect(rows.nth(1)).to_contain_text("cookieless_repeat, no_accept_language")
    for sentence in ("Begin with monitor", "enforce refuses only a ticket", "never the way into the site",
                     "Addresses that many people share", "do not reach the threshold by themselves"):  # fmt: skip
        expect(sheet).to_contain_text(sentence)

    page.goto(f"{stub.url}/#monitor={LINK}")
    page.get_by_role("button", name="Security").click()
    expect(rows).to_have_count(2)
    expect(sheet.locator("th")).to_have_text(["When", "Room", "Score", "Outcome", "Signals"])
    for hidden in ("203.0.113.9", "python-requests", "198.51.100.7"):
        expect(sheet).not_to_contain_text(hidden)


@pytest.mark.req("CON-198", "CON-199", "CON-200", "CON-201")
def test_reports_show_rows_for_a_room_and_a_span(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = reports(page)
    rows = sheet.locator("tbody tr")
    expect(rows).to_have_count(2)
    assert sheet.locator("thead th").all_inner_texts() == COLUMNS
    cells = dict(zip(COLUMNS, rows.first.locator("td").all_inner_texts(), strict=True))
    assert {name: cells[name] for name in ("joins", "netUnserved", "avgDepth", "partial", "missingSec")} == {
        "joins": "20,417", "netUnserved": "412", "avgDepth": "310.5", "partial": "no", "missingSec": "0",
    }  # fmt: skip
    gap = dict(zip(COLUMNS, rows.nth(1).locator("td").all_inner_texts(), strict=True))
    ends = {name: gap[name][-1:] for name in COLUMNS[4:-2]}
    least = {"joins", "passes", "measuredWaits", "blocked", "warned"}
    assert {name for name, end in ends.items() if end == "+"} == least
    assert gap["netUnserved"] == "–"
    expect(rows.nth(1).locator("td").first).to_have_text("⚠shop")
    assert gap["partial"] == "75 % covered"
    expect(rows.first).not_to_contain_text("⚠")
    notes = sheet.locator(".report-notes li")
    for place, text in enumerate(("estimates from at most 256 waits", "not people on the site", "joins minus passes",
                                  "numbers with + are at least that much")):  # fmt: skip
        expect(notes.nth(place)).to_contain_text(text)
    order = "(s) => s.querySelector('.report-notes').compareDocumentPosition(s.querySelector('table'))"
    assert sheet.evaluate(order) & 4, "the table follows"

    sheet.get_by_label("Room").select_option("Spring drop")
    sheet.get_by_label("Rows").select_option("by day")
    sheet.get_by_label("Time").select_option("Last 30 days")
    expect(rows).to_have_count(2)
    begins = (time.time() - 30 * 86_400) * 1000

    def is_asked() -> bool:
        last = stub.state()["queries"][-1]
        found = re.fullmatch(r"/reports\?bucket=day&roomId=spring-drop&from=(\d+)", last)
        return found is not None and abs(int(found[1]) - begins) < 60_000

    wait_for(is_asked)
    sheet.get_by_label("Time").select_option("Chosen days")
    expect(sheet.get_by_role("button", name="Download CSV")).to_be_disabled()
    sheet.get_by_label("From").fill("2026-08-01")
    sheet.get_by_label("To, included").fill("2026-08-02")
    expect(rows).to_have_count(2)
    asked = "/reports?bucket=day&roomId=spring-drop&from=1785542400000&to=1785715200000"
    wait_for(lambda: stub.state()["queries"][-1] == asked)
    with page.expect_download() as saved:
        sheet.get_by_role("button", name="Download CSV").click()
    assert saved.value.suggested_filename == "qm-report-day.csv"
    assert stub.state()["queries"][-1] == asked + "&format=csv"

    stub.set(storage_down=True)
    sheet.get_by_label("Rows").select_option("by hour")
    expect(sheet.get_by_role("alert")).to_contain_text("Storage is unavailable.")
    expect(sheet.get_by_role("table")).to_have_count(0)
    expect(sheet).not_to_contain_text("Nothing was counted")
    stub.set(storage_down=False)
    sheet.get_by_role("button", name="Try again").click()
    expect(rows).to_have_count(2)
    page.goto(f"{stub.url}/#monitor={LINK}")
    expect(reports(page).locator("tbody tr")).to_have_count(2)
