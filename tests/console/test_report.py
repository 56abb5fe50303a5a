"""Diagnostics: the report in words that people read, what is firing, and a test of the webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Stub, sign_in, wait_for
from tests.console.stub import CAN

pytestmark = pytest.mark.browser


def opened(page: Page) -> Locator:
    """The sheet."""
    page.get_by_role("button", name="Diagnostics").click()
    sheet = page.get_by_role("dialog", name="Diagnostics")
    expect(sheet.get_by_role("heading", name="Alerting")).to_be_visible()
    return sheet


def row(sheet: Locator, name: str) -> Locator:
    """The row of this name."""
    return sheet.locator(".diag-row").filter(has=sheet.page.locator("dt").get_by_text(name, exact=True))


@pytest.mark.req("OBS-042", "OBS-043", "CON-169", "CON-171", "ADM-268")
def test_it_shows_the_report_in_readable_form(signed_in: Callable[..., Page], stub: Stub) -> None:
    """Every row, in its order; what is wrong is named with its number and where it comes from."""
    stub.set(
        health={
            "warnings": ["ADMIN_KEY is short"],
            "counters": {"unknownRoomChecks": 2, "blockedReturnUrls": 3, "refusedOriginChecks": 7,
                         "refusedKeyChecks": 1, "rateLimitedChecks": 4, "checksWithoutUrl": 0},
            "checks": {"unknownRooms": [{"roomId": "chekout", "count": 2, "lastAt": 1_788_207_000_000}],
                       "refusedOrigins": [{"roomId": "shop", "origin": "https://landing.example", "count": 7,
                                           "lastAt": 1_788_207_000_000}]},
            "tokens": {"rejected": {"expired": 4, "future": 0, "bad_signature": 1}},
        },
    )  # fmt: skip
    stub.room("shop", blockedReturnUrls=3)
    page = signed_in()
    expect(page.get_by_text("insecure config")).to_be_visible()
    sheet = opened(page)

    assert sheet.locator("dl").first.locator("dt").all_inner_texts() == [
        "Status", "Incidents", "Warnings", "Version", "Rooms and visitors", "SSE streams", "Connections",
        "Rate limits", "Storage", "Valkey", "Proxy", "checks for unknown rooms", "blocked return URLs",
        "refused tag origins", "Other checks", "rejected tickets", "Protection", "Knocks at sites", "CPU",
        "Capacity", "Clock jumps", "Memory", "Access",
    ]  # fmt: skip
    expect(row(sheet, "Status")).to_contain_text("ok · ready")
    expect(row(sheet, "Version")).to_contain_text("1.0.0 · up 2h")
    expect(row(sheet, "Warnings")).to_contain_text("ADMIN_KEY is short")
    everybody = "3 rooms · 412 waiting · 7 in the pre-queue · 90 on site · 5 holding passes fleet"
    expect(row(sheet, "Rooms and visitors")).to_contain_text(everybody)
    expect(row(sheet, "SSE streams")).to_contain_text("350 of visitors, 3 of consoles · per address 64, in all 10,000")
    expect(row(sheet, "SSE streams")).to_contain_text("this instance")
    expect(row(sheet, "Rate limits")).to_contain_text("check 3,000/min · refused 17 · addresses kept 801")
    expect(row(sheet, "Rate limits")).to_contain_text("verify no limit · refused 0")
    expect(row(sheet, "checks for unknown rooms")).to_contain_text("chekout 2")
    expect(row(sheet, "blocked return URLs")).to_contain_text("Shop: 3")
    expect(row(sheet, "refused tag origins")).to_contain_text("Shop: https://landing.example 7")
    expect(row(sheet, "rejected tickets")).to_contain_text("5")
    expect(row(sheet, "rejected tickets")).to_contain_text("bad_signature 1")
    expect(row(sheet, "Memory")).to_contain_text("393 MiB / 2,048 MiB")
    expect(row(sheet, "Access")).to_contain_text("4 operators, 2 monitor links · no SSO · locked addresses 1")
    expect(row(sheet, "Knocks at sites")).to_contain_text(
        "3 sites, knocked at by the leader · no fresh answer known of 1"
    )
    figures = "2 usable · this instance uses 21 % · everybody on this machine 30.4 % · stolen by the host 0 % · "
    expect(row(sheet, "CPU")).to_contain_text(figures + "something waited 2 % of the time · loop delay 4 ms")
    expect(row(sheet, "Capacity")).to_contain_text("2 of 2 instances · 2 CPUs")
    text = sheet.inner_text()
    for hidden in ("4711", "9f86d081", '{"', "null", "undefined"):
        assert hidden not in text

    stub.set(server={"instance": "i:1", "instances": 1, "version": "1.0.0", "startedAt": 1, "insecureConfig": 0})
    expect(page.get_by_text("insecure config")).to_have_count(0)


@pytest.mark.req("BUD-099")
def test_it_shows_who_takes_the_cpu_and_what_is_missing(signed_in: Callable[..., Page], stub: Stub) -> None:
    who = "a process that is not Queue Manager uses 93 % of this machine"
    reason = "callers give up while a single instance restarts"
    codes = ("fleet_below_min", "cpu_contention", "cpus_below_min")
    stub.set(
        health={
            "incidents": [{"code": code, "severity": "warning", "roomId": None, "since": 1, "text": code}
                          for code in codes],
            "cpu": {"usable": 1.5, "self": 0.05, "host": 0.98, "steal": None, "throttled": 0.12, "pressure": None,
                    "loopLagP99Ms": 180, "contention": True, "who": who},
            "capacity": {"instancesDeclared": 2, "instances": 1, "cpusDeclared": 2, "cpusUsable": 1.5,
                         "reason": reason},
        },
    )  # fmt: skip
    sheet = opened(signed_in())

    cpu, capacity = row(sheet, "CPU"), row(sheet, "Capacity")
    figures = "1.5 usable · this instance uses 5 % · everybody on this machine 98 % · held back by the quota 12 % · "
    expect(cpu).to_contain_text(figures + "loop delay 180 ms")
    expect(cpu).to_contain_text(f"CPU contention: {who}.")
    expect(capacity).to_contain_text("1 of 2 instances · 1.5 of 2 CPUs")
    expect(capacity).to_contain_text(f"Do not lower this: {reason}")
    for marked in (cpu, capacity):
        expect(marked.locator("dt svg")).to_have_count(1)


@pytest.mark.req("OBS-159", "CON-172", "CON-174", "CON-175", "OBS-111")
@pytest.mark.req("CON-173")
@pytest.mark.req("CON-101")
def test_it_says_that_nobody_is_woken_and_shows_what_came_of_a_test(signed_in: Callable[..., Page], stub: Stub) -> None:
    message = "Shop: 412 waiting and the rate is 0/min"
    stub.set(firing=[{"event": "queue_frozen", "message": message, "since": 1_788_207_000_000, "roomId": "shop"}])
    page = signed_in()
    sheet = opened(page)

    expect(row(sheet, "Firing now")).to_contain_text(message)
    expect(row(sheet, "Firing now")).to_contain_text("since ")
    expect(row(sheet, "Firing now")).to_contain_text("nobody is being woken. This panel is the alert system.")
    expect(sheet.get_by_text("Have a monitor outside ask /healthz as well")).to_be_visible()
    expect(sheet.get_by_role("button", name="Send test alert")).to_be_disabled()
    note, button = sheet.locator("#alert-test-note"), sheet.get_by_role("button", name="Send test alert")
    expect(note).to_have_text("ALERT_WEBHOOK_URL is not set: there is nobody to tell.")
    page.keyboard.press("Escape")

    stub.set(hook="hooks.slack.com", firing=[])
    opened(page)
    expect(row(sheet, "Firing now").locator("dd")).to_have_text("none fleet")
    expect(row(sheet, "Webhook")).to_contain_text("hooks.slack.com")
    expect(row(sheet, "Webhook")).to_contain_text("Looked at every 10s; told after 2m, again every 30m.")
    expect(row(sheet, "Last deliveries")).to_contain_text("none")
    button.click()
    expect(note).to_have_text("Sent: HTTP 200 · 131 ms")
    expect(row(sheet, "Last deliveries")).to_contain_text("test firing · HTTP 200 · 131 ms")
    for status, told in ((500, "Not taken: HTTP 500 · http-500 · 131 ms"), (None, "Not taken: timeout · 131 ms")):
        stub.set(answers=status)
        button.click()
        expect(note).to_have_text(told)
    stub.set(refuse={"status": 429, "code": "rate_limited", "error": "Too many tests", "retryAfterSec": 9})
    button.click()
    expect(note).to_have_text("Not taken: Too many tests")


@pytest.mark.req("OBS-159", "CON-174")
@pytest.mark.req("CON-220")
def test_whoever_can_only_read_sees_the_button_and_why_it_is_off(signed_in: Callable[..., Page], stub: Stub) -> None:
    stub.set(hook="hooks.slack.com", can={**CAN, "write": False, "links": False})
    sheet = opened(signed_in())

    expect(sheet.get_by_role("button", name="Send test alert")).to_be_disabled()
    note = "Your key can read only; an operator can send a test."
    expect(sheet.locator("#alert-test-note")).to_have_text(note)


STANDS = {"event": "outflow_stalled", "message": "Shop: nobody let through", "since": 1, "roomId": "shop"}
FROZEN = {"event": "queue_frozen", "message": "Shop: the rate is 0/min", "since": 1, "roomId": "shop"}
SURGES = {"event": "surge", "message": "Spring drop: 600 joins in the last minute", "since": 1, "roomId": "spring-drop"}
TOLD = """() => { window.told = []; window.asks = 0;
  window.Notification = class {
    constructor(title, more) { told.push([title, more.body]); window.last = this; }
    close() {}
    static permission = "%s";
    static async requestPermission() { asks += 1; return (Notification.permission = "granted"); }
  };
}"""


@pytest.mark.req("OBS-137", "CON-161", "CON-162", "CON-163", "CON-164", "CON-165", "CON-166")
@pytest.mark.req("CON-101")
def test_it_notifies_of_an_alert_when_it_starts_and_again_only_after_its_end(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    page = open_page()
    page.clock.install()
    page.evaluate(TOLD % "denied")
    sign_in(page)
    stub.set(firing=[STANDS, FROZEN])
    assert page.evaluate("window.asks") == 0, "never on load"
    button = page.get_by_role("button", name="Alerts")
    expect(button).to_have_attribute("aria-pressed", "false")
    told = button.get_attribute("aria-describedby")
    expect(page.locator(f"[id='{told}']")).to_contain_text("only while it is open on this computer")
    expect(page.locator(f"[id='{told}']")).to_contain_text("For the night set a webhook: Diagnostics → Alerting.")

    button.click()
    expect(page.locator(".toast")).to_contain_text("Allow them for this site by the sign beside its address")
    expect(button).to_have_attribute("aria-pressed", "false")
    page.evaluate("window.Notification.permission = 'default'")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_have_text("Alerts: on")
    assert page.evaluate("[window.asks, localStorage.qm_alerts]") == [1, "1"]

    def look(*firing: dict[str, Any]) -> None:
        asked = stub.state()["asked"].count("GET /api/admin/alerts")
        stub.set(firing=list(firing))

        def has_looked() -> bool:
            page.clock.run_for(10_000)
            return stub.state()["asked"].count("GET /api/admin/alerts") > asked + 1

        wait_for(has_looked)  # twice: what the first of them found has been seen

    def notified(*told: list[str]) -> None:
        wait_for(lambda: page.evaluate("window.told") == list(told))

    wait_for(lambda: "GET /api/admin/alerts" in stub.state()["asked"])
    look(STANDS, FROZEN, SURGES)
    notified(["Spring drop", SURGES["message"]])
    look(SURGES, FROZEN)
    look(STANDS, SURGES)
    notified(["Spring drop", SURGES["message"]], ["Shop", STANDS["message"]])
    page.evaluate("window.last.onclick()")
    expect(page.get_by_role("heading", name="Shop", exact=True)).to_be_focused()

    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("localStorage.qm_alerts") is None
