"""The Visitors panel: what a look-up tells, and the eject that is armed before it acts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Stub, card, sign_in, stand_still, wait_for

pytestmark = pytest.mark.browser

EJECT = "/rooms/shop/eject"


def ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


def ticket(state: str, **more: Any) -> dict[str, Any]:
    """A look-up's answer as file 05, section 11 gives it."""
    return {
        "roomId": "shop", "generation": 1, "ticket": 5644, "ref": "K7Q2MX", "state": state, "position": None,
        "joinedAt": ago(3000), "passedAt": None, "passExpiresAt": None, "sessionExpiresAt": None, "holdsSlot": False,
        "atDoor": False, "onSite": False, "present": False, "lastSeenAt": None,
        "bound": {"cookie": False, "fingerprint": False}, **more,
    }  # fmt: skip


WAITING = {"position": 37, "waitingSec": 212, "present": True, "bound": {"cookie": True, "fingerprint": True}}


def sheet_of(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Visitors")


def look_up(page: Page, text: str) -> Locator:
    """Open the panel unless it is open, and ask."""
    if sheet_of(page).count() == 0:
        card(page, "Shop").get_by_role("button", name="Visitors").click()
    page.get_by_label("Ticket number or Ref").fill(text)
    page.keyboard.press("Enter")
    return sheet_of(page)


def rows(sheet: Locator) -> dict[str, str]:
    """Names and values, read at one moment."""
    found: dict[str, str] = sheet.evaluate("""(sheet) => Object.fromEntries([...sheet.querySelectorAll("dt")].map(
      (name) => [name.innerText, name.parentElement.querySelector("dd").innerText]))""")
    return found


@pytest.mark.req("CON-136", "CON-137", "CON-138", "CON-139", "CON-140", "CON-146", "CON-148", "CON-219")
def test_it_follows_a_visitor_from_the_line_to_the_site(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    page.clock.install()

    def turns(answer: dict[str, Any]) -> None:
        """The visitor is found so from now on, and the next refresh is due."""
        stub.set(found={"k7q-2mx": answer})
        page.clock.run_for(2000)

    asked = " k7q-2mx "
    stub.set(found={"k7q-2mx": ticket("prequeued", ticket=None, waitingSec=30, present=True)})
    sheet = look_up(page, asked)
    state = sheet.locator(".visit-state")
    expect(state).to_have_text("in pre-queue")
    expect(sheet.locator(".visit-head")).to_contain_text("K7Q-2MX")
    expect(sheet.get_by_role("button", name="Eject")).to_be_disabled()

    turns(ticket("waiting", **WAITING, lastSeenAt=ago(2)))
    expect(state).to_have_text("waiting")
    shown = rows(sheet)
    assert (shown["TICKET"], shown["Position"], shown["waiting"]) == ("5,644", "37", "3m 32s")
    assert re.fullmatch(r".*\d+:\d\d:\d\d [AP]M", shown["joined"])
    assert (shown["passed"], shown["on site"], shown["On the site now"]) == ("not yet", "not yet", "no")
    assert shown["Bound to a client"] == "cookie and fingerprint"
    assert re.fullmatch(r"\d+s ago, page open", shown["Last seen"])
    assert "waited" not in shown
    turns(ticket("waiting", **{**WAITING, "waitingSec": 215, "position": 36}))
    expect(sheet).to_contain_text("3m 35s")

    done = {"waitedSec": 2375, "passedAt": ago(600)}
    turns(ticket("passed", **done, passExpiresAt=ago(-223), bound={"cookie": True}))
    expect(state).to_have_text("passed")
    shown = rows(sheet)
    assert shown["waited"] == "39m 35s"
    assert "waiting" not in shown
    assert "session expires in" not in shown
    assert re.fullmatch(r"3m [0-4]?\ds", shown["pass expires in"])
    page.clock.run_for(1000)
    expect(sheet.locator(".trip-dash dd")).not_to_have_text(shown["pass expires in"])
    assert (shown["Slot"], shown["Bound to a client"]) == ("holds a pass without a slot", "cookie")
    turns(ticket("active", **done, sessionExpiresAt=ago(-1738), onSite=True, holdsSlot=True))
    expect(state).to_have_text("on site")
    shown = rows(sheet)
    assert re.fullmatch(r"28m \d+s", shown["session expires in"])
    assert "pass expires in" not in shown
    assert (shown["waited"], shown["on site"], shown["On the site now"]) == ("39m 35s", "now", "yes")
    assert (shown["Slot"], shown["Bound to a client"]) == ("holds a slot", "no")

    assert {body for where, body in stub.state()["sent"]} == set(), "looking changes nothing"
    questions = [one for one in stub.state()["asked"] if "/tickets" in one]
    assert set(questions) == {"GET /api/admin/rooms/shop/tickets"}
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    again: list[str] = []
    page.on("request", lambda request: again.append(request.url))
    page.clock.run_for(6000)
    page.evaluate("true")
    assert not any("/tickets" in one for one in again), "a closed panel asks no more"


@pytest.mark.req("CON-138", "CON-139", "CON-140", "CON-141", "CON-142", "CON-143", "CON-144", "CON-145")
def test_it_tells_what_is_over_and_guesses_nothing(signed_in: Callable[..., Page], stub: Stub) -> None:
    found = {
        "1": ticket("expired", passedAt=ago(1200), waitedSec=381, ticket=1),
        "2": ticket("expired", passedAt=None, waitedSec=None, passedUnknown=True),
        "3": ticket("expired", passedAt=None, waitedSec=None),
        "4": ticket("expired", joinedAt=None, passedAt=None, waitedSec=None, passedUnknown=True, recordDropped=True),
        "5": ticket("ejected", joinedAt=None, waitedSec=None),
        "6": ticket("passed", joinedAt=ago(3600), passedAt=ago(60), waitedSec=900, passExpiresAt=ago(-60)),
        "9ZT4AB": {"ref": "9ZT4AB", "state": "previous_generation", "generation": 2, "ticket": 77, "hint": "…"},
        "K7Q2MX": {"candidates": [{"ticket": 1, "state": "expired"}, {"ticket": 40311, "state": "waiting"},
                                  {"ticket": None, "state": "prequeued", "place": 17, "joinedAt": ago(300)}]},
        "K7Q2MX@17": ticket("prequeued", **WAITING | {"ticket": None, "position": None}, ref="K7Q2MX"),
        "40311": ticket("waiting", **WAITING, ticket=40311),
    }  # fmt: skip
    stub.set(found=found)
    page = signed_in()
    page.clock.install()

    def told(text: str, state: str) -> dict[str, str]:
        sheet = look_up(page, text)
        expect(sheet.locator(".visit-state").first).to_have_text(state)
        eject = expect(sheet.get_by_role("button", name="Eject"))
        (eject.to_be_enabled if state == "passed" else eject.to_be_disabled)()
        return rows(sheet)

    shown = told("1", "expired")
    assert (shown["waited"], shown["on site"]) == ("6m 21s", "no")
    assert "waiting" not in shown
    assert re.search(r"\d:\d\d:\d\d", shown["joined"] + shown["passed"])
    look_up(page, "2")
    expect(sheet_of(page).locator(".trip")).to_contain_text("unknown")
    shown = rows(sheet_of(page))
    assert shown["passed"] == "unknown"
    assert "waited" not in shown
    look_up(page, "3")
    expect(sheet_of(page).locator(".trip")).to_contain_text("never")
    look_up(page, "4")
    expect(sheet_of(page)).to_contain_text("Its times are no longer kept")
    assert rows(sheet_of(page))["joined"] == "–"
    assert "passed" not in told("5", "ejected")
    assert told("6", "passed")["waited"] == "15m 0s", "of the first release, as the server says, not passed − joined"

    shown = told("9ZT4AB", "earlier generation")
    expect(sheet_of(page)).to_contain_text("Ticket 77 of generation 2: the room was made anew since")
    expect(sheet_of(page)).to_contain_text("has to join again")
    look_up(page, "ABC-DEF")
    expect(sheet_of(page)).to_contain_text("Nobody found for ABC-DEF.")
    expect(sheet_of(page)).to_contain_text("3 generations of the room, the first 50,000 tickets of each")
    expect(sheet_of(page)).to_contain_text("Ask for the ticket number.")
    look_up(page, "?!")
    expect(sheet_of(page).get_by_role("alert")).to_have_text("Send a ticket number, or a ref such as K7Q-2MX")

    sheet = look_up(page, "K7Q2MX")
    expect(sheet.locator(".candidates li")).to_have_text(
        [
            re.compile("Ticket 1.*expired", re.S),
            re.compile("Ticket 40,311.*waiting", re.S),
            re.compile("No number yet, came .*in pre-queue", re.S),
        ]
    )
    expect(sheet.get_by_role("button", name="Eject")).to_be_disabled()
    sheet.get_by_role("button", name="No number yet").click()
    expect(sheet.locator(".visit-head .visit-state")).to_have_text("in pre-queue")
    expect(sheet.locator(".visit-head")).to_contain_text("K7Q-2MX")
    expect(sheet.get_by_role("button", name="Eject")).to_be_disabled()
    look_up(page, "K7Q2MX")
    sheet.get_by_role("button", name="Ticket 40,311").click()
    expect(sheet.locator(".visit-head")).to_contain_text("40,311")
    stub.set(found={**found, "40311": ticket("waiting", **WAITING, ticket=40311, generation=2, ref="AAAAAA")})
    page.clock.run_for(2000)
    expect(sheet.locator(".visit-state")).to_have_text("earlier generation")
    expect(sheet).to_contain_text("Ticket 40,311 of generation 1")
    expect(sheet.locator(".visit-head")).to_contain_text("K7Q-2MX")
    expect(sheet.get_by_role("button", name="Eject")).to_be_disabled()


@pytest.mark.req("CON-108", "CON-113", "CON-147")
def test_it_ejects_once_on_the_second_press_and_not_on_a_double_click(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    stub.set(found={"5644": ticket("waiting", **WAITING)})
    page = signed_in()
    sheet = look_up(page, "5644")
    expect(sheet.locator(".visit-state")).to_have_text("waiting")
    stand_still(page)  # so that both presses of the double click come at one time
    page.get_by_role("button", name="Eject").dblclick()
    expect(page.get_by_text("Eject ticket 5644?")).to_be_visible()
    expect(page.get_by_text("The pass is cancelled and the visitor goes to the back of the line.")).to_be_visible()
    assert stub.sent(EJECT) == []
    page.evaluate("window.armed = document.querySelector('[data-armed]')")
    stub.room("shop", lastTicket=5650)
    expect(page.get_by_text("Last ticket given: 5,650.")).to_be_visible()
    assert page.evaluate("window.armed !== null && window.armed === document.querySelector('[data-armed]')")

    page.clock.run_for(450)
    stub.set(found={"5644": ticket("ejected", joinedAt=None, waitedSec=None)})
    button = page.get_by_role("button", name="Confirm eject")
    button.focus()
    page.keyboard.down("Enter")
    page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    wait_for(lambda: stub.sent(EJECT) == [{"ticket": 5644}])
    expect(sheet.locator(".visit-state")).to_have_text("ejected")
    expect(page.get_by_role("button", name="Eject", exact=True)).to_be_disabled()
    assert stub.sent(EJECT) == [{"ticket": 5644}]


@pytest.mark.req("CON-108", "CON-109")
def test_it_disarms_on_escape_keep_time_another_visitor_and_another_state(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    found = {"5644": ticket("waiting", **WAITING), "12": ticket("waiting", **WAITING, ticket=12)}
    stub.set(found=found)
    page = signed_in()
    stand_still(page)
    sheet = look_up(page, "5644")
    rest, armed = (
        sheet.get_by_role("button", name="Eject", exact=True),
        sheet.get_by_role("button", name="Confirm eject"),
    )

    rest.click()
    expect(armed).to_be_visible()
    page.keyboard.press("Escape")
    expect(rest).to_be_visible()
    expect(page.get_by_label("Ticket number or Ref")).to_be_focused()
    rest.click()
    sheet.get_by_role("button", name="Keep").click()
    expect(rest).to_be_visible()

    rest.click()
    page.clock.run_for(100)  # what comes after the painting: the seconds begin to be counted
    expect(page.get_by_text("disarms in 30 s")).to_be_visible()
    page.clock.run_for(6000)
    expect(page.get_by_text("disarms in 24 s")).to_be_visible()
    expect(armed).to_be_visible()
    page.clock.run_for(25_000)
    expect(rest).to_be_visible()

    rest.click()
    look_up(page, "12")
    expect(sheet.locator(".visit-head")).to_contain_text("12")
    page.clock.run_for(100)
    expect(rest).to_be_visible()
    rest.click()
    expect(armed).to_be_visible()
    stub.set(found={**found, "12": ticket("passed", ticket=12, passedAt=ago(1), waitedSec=3, passExpiresAt=ago(-60))})
    page.clock.run_for(2100)
    expect(sheet.locator(".visit-state")).to_have_text("passed")
    page.clock.run_for(100)
    expect(rest).to_be_visible()

    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(card(page, "Shop").get_by_role("button", name="Visitors")).to_be_focused()
    assert stub.sent(EJECT) == []


@pytest.mark.req("CON-147", "CON-148", "CON-220", "CON-221")
def test_a_reader_looks_up_and_ejects_nobody(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.set(can={"diagnostics": True, "visitors": True, "audit": True}, found={"5644": ticket("waiting", **WAITING)})
    page = open_page()
    sign_in(page)
    sheet = look_up(page, "5644")
    expect(sheet.locator(".visit-state")).to_have_text("waiting")
    expect(sheet.get_by_role("button", name="Eject")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(card(page, "Shop").locator(".acts")).to_have_count(0)
    expect(card(page, "Shop").get_by_role("button", name="Schedule")).to_have_count(0)
    expect(card(page, "Shop").locator(".rate-number")).to_contain_text("60 /min")
    expect(page.get_by_role("button", name="Diagnostics")).to_be_visible()
    page.get_by_role("button", name="Console").click()
    page.get_by_role("menuitem", name="Access").click()
    expect(page.get_by_role("dialog", name="Access").get_by_role("heading", name="Audit trail")).to_be_visible()

    stub.set(can={})
    page.reload()
    expect(page.locator(".live-on")).to_be_visible()
    expect(card(page, "Shop").get_by_role("button", name="Visitors")).to_have_count(0)
