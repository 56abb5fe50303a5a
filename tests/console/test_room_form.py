"""What a room does by itself, set in its form: doors, threshold activation, autotune, protection (CON-178, CON-190)."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from app.domain.room_fields import FIELDS, MEMBERS
from tests.console.conftest import Stub, card
from tests.console.test_rooms import open_form

pytestmark = pytest.mark.browser

ON_CARD = {"state"}
"""Settings that the card's own controls change."""
GROUPS = {
    "Site": ["id", "name", "targetUrl", "inline", "proxyOrigin", "onBackendDown"],
    "Pace": ["rate", "maxConcurrent"],
    "Clocks": ["passedTtlSec", "sessionTtlSec", "sessionMaxSec", "presenceSec"],
    "Fairness": ["queueMaxPerIp", "preQueueMaxPerIp", "sessionMaxPerIp"],
    "Doors": ["opensAt"],
    "Threshold activation": [
        "autoActivate-enabled", "autoActivate-joinsPerMin", "autoActivate-sustainSec", "autoActivate-releaseAfterSec",
    ],
    "Autotune": ["autotune-enabled", "autotune-minRate", "autotune-maxRate", "autotune-targetMs"],
    "URL targeting": ["rules"],
    "Origins": ["returnOrigins", "tagOrigins"],
    "Protection": ["protection-mode"],
}  # fmt: skip


def field(page: Page, name: str) -> Locator:
    return page.locator(f"#f-{name}")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_it_holds_every_setting_that_this_build_obeys_in_its_group(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.get_by_role("button", name="New room").click()
    page.get_by_label("Serve this room inline").check()
    page.get_by_label("Switch the queue on by itself").check()
    page.get_by_label("Adjust the rate by itself").select_option("on")
    page.get_by_label("Same as return origins").uncheck()
    shown: dict[str, list[str]] = page.evaluate("""() => Object.fromEntries(
      [...document.querySelectorAll(".form-body section[id]")].map((section) => [
        section.querySelector("h3").textContent,
        [...section.querySelectorAll("[id^=f-]:not(p)")].map((one) => one.id.slice(2))]))""")
    assert shown == GROUPS

    held = {name for names in shown.values() for name in names}
    for row in FIELDS:
        members = [f"{row.name}-{member}" for member in MEMBERS.get(row.name, ())] or [row.name]
        assert held.issuperset(members) is (row.built and row.name not in ON_CARD), row.name
    contents = page.get_by_role("navigation", name="Sections").get_by_role("button")
    expect(contents.locator("span:first-child")).to_have_text(list(GROUPS))
    contents.last.click()
    expect(contents.last).to_have_attribute("aria-current", "true")
    expect(page.locator("#section-protection")).to_be_in_viewport()
    expect(page.locator(".form .panel-head")).to_be_in_viewport(ratio=1)


@pytest.mark.req("CON-190")
def test_threshold_activation_shows_the_number_that_counts_and_what_it_never_does(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    section = page.locator("#section-threshold")
    expect(section).to_contain_text(
        "Only bypass ⇄ active is switched: never a paused room, and never back while somebody is in line."
    )
    expect(section.get_by_role("textbox")).to_have_count(0)
    section.get_by_label("Switch the queue on by itself").press("Space")
    expect(section.get_by_role("textbox")).to_have_count(3)
    now = section.locator(".joins-now")
    expect(now).to_contain_text("31/min")
    expect(now).to_contain_text("The number of the card is the one that counts.")
    beside, at = now.bounding_box(), field(page, "autoActivate-joinsPerMin").bounding_box()
    assert beside
    assert at
    assert beside["x"] >= at["x"] + at["width"]
    assert abs(beside["y"] - at["y"]) < 40

    field(page, "autoActivate-joinsPerMin").fill("90")
    stub.room("shop", joinsPerMin=77)
    expect(now).to_contain_text("77/min")
    expect(card(page, "Shop")).to_contain_text("77")
    expect(field(page, "autoActivate-joinsPerMin")).to_have_value("90")
    field(page, "autoActivate-releaseAfterSec").fill("0")
    save(page)
    body = {"enabled": True, "joinsPerMin": 90, "sustainSec": 60, "releaseAfterSec": 0}
    assert stub.sent("/rooms") == [{"id": "shop", "autoActivate": body}]

    open_form(page)
    section.get_by_label("Switch the queue on by itself").uncheck()
    save(page)
    assert stub.sent("/rooms")[1] == {"id": "shop", "autoActivate": {**body, "enabled": False}}, "its numbers stay"


@pytest.mark.req("CON-177", "CON-180", "CON-192")
def test_members_that_somebody_else_changed_stay_and_refusals_stand_at_theirs(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    armed = {"enabled": True, "joinsPerMin": 120, "sustainSec": 60, "releaseAfterSec": 300, "lastSwitchAt": None}
    stub.room("shop", autoActivate=armed)
    page = signed_in()
    open_form(page)
    field(page, "autoActivate-sustainSec").fill("30")
    stub.room("shop", autoActivate={**armed, "joinsPerMin": 200}, waiting=777)
    expect(page.locator("article").first).to_contain_text("777")
    save(page)
    body = {"enabled": True, "joinsPerMin": 200, "sustainSec": 30, "releaseAfterSec": 300}
    assert stub.sent("/rooms") == [{"id": "shop", "autoActivate": body}]

    open_form(page)
    field(page, "autoActivate-sustainSec").fill("10")
    stub.room("shop", autoActivate={**body, "sustainSec": 45}, waiting=778)
    expect(page.locator("article").first).to_contain_text("778")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Somebody else set this meanwhile: 45. Which one holds?")).to_be_visible()
    page.get_by_role("button", name="Take theirs").click()
    expect(field(page, "autoActivate-sustainSec")).to_have_value("45")
    expect(page.get_by_text("Nothing changed yet")).to_be_visible()

    # A refusal of a member stands at its field.
    field(page, "autoActivate-sustainSec").fill("30")
    refusal: dict[str, Any] = {"status": 400, "code": "invalid_auto_activate", "fields": ["autoActivate"]}
    sentence = "autoActivate cannot be used: sustainSec must be an integer from 60 to 3600"
    stub.set(refuse={**refusal, "error": sentence})
    page.get_by_role("button", name="Save").click()
    expect(field(page, "autoActivate-sustainSec-note")).to_have_text(sentence)
    expect(field(page, "autoActivate-sustainSec")).to_be_focused()
    expect(field(page, "autoActivate-sustainSec")).to_have_value("30")
    expect(field(page, "autoActivate-enabled")).to_be_checked()
    stub.set(refuse={**refusal, "error": "autoActivate must be an object or null"})
    page.get_by_role("button", name="Save").click()
    expect(field(page, "autoActivate-enabled-note")).to_have_text("autoActivate must be an object or null")


def test_autotune_and_protection_are_left_to_the_server_or_set_for_the_room(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    open_form(page)
    tune, mode = field(page, "autotune-enabled"), field(page, "protection-mode")
    expect(tune.locator("option:checked")).to_have_text("server's setting, now off")
    expect(mode.locator("option:checked")).to_have_text("server's setting, now monitor")
    tune.select_option("on")
    page.get_by_role("button", name="Save").click()
    expect(field(page, "autotune-maxRate")).to_be_focused()
    expect(field(page, "autotune-maxRate-note")).to_have_text("Needed")
    field(page, "autotune-minRate").fill("20")
    field(page, "autotune-maxRate").fill("10")
    expect(field(page, "autotune-maxRate-note")).to_have_text("Not below the lowest rate, 20")
    assert stub.sent("/rooms") == []
    field(page, "autotune-maxRate").fill("600")
    mode.select_option("enforce")
    expect(page.get_by_text("4 fields changed: adjust the rate by itself, lowest rate, highest rate,")).to_be_visible()
    save(page)
    tuned = {"enabled": True, "minRate": 20, "maxRate": 600, "targetMs": 1000}
    assert stub.sent("/rooms") == [{"id": "shop", "autotune": tuned, "protection": {"mode": "enforce"}}]
    expect(card(page, "Shop").locator(".tag")).to_have_text(["AUTOTUNE", "ENFORCE"])

    open_form(page)
    field(page, "autotune-minRate").fill("no number")
    tune.select_option("off")
    expect(field(page, "autotune-minRate")).to_have_count(0)
    mode.select_option("server")
    save(page)
    assert stub.sent("/rooms")[1] == {"id": "shop", "autotune": {**tuned, "enabled": False}, "protection": None}
    open_form(page)
    tune.select_option("server")
    save(page)
    assert stub.sent("/rooms")[2] == {"id": "shop", "autotune": None}


@pytest.mark.req("CON-106")
def test_doors_are_set_moved_and_opened_only_after_a_question(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(zone="Asia/Bangkok")
    open_form(page)
    opens = field(page, "opensAt")
    opens.fill("2020-09-01T09:00")
    expect(field(page, "opensAt-note")).to_have_text("This time is over")
    opens.press("Backspace")
    expect(field(page, "opensAt-note")).to_have_text("Day and time are both needed")
    page.get_by_role("button", name="Save").click()
    expect(opens).to_be_focused()
    assert stub.sent("/rooms") == []
    soon = datetime.fromtimestamp(time.time() + 86_400, UTC).replace(second=0, microsecond=0)
    at = int(soon.timestamp() * 1000)
    opens.fill(datetime.fromtimestamp(soon.timestamp() + 7 * 3600, UTC).strftime("%Y-%m-%dT%H:%M"))
    expect(field(page, "opensAt-note")).to_have_text(f"{soon:%Y-%m-%d %H:%M} UTC · entered in your zone, Asia/Bangkok")
    field(page, "preQueueMaxPerIp").fill("4")
    save(page)
    assert stub.sent("/rooms") == [{"id": "shop", "preQueueMaxPerIp": 4, "opensAt": at}]

    stub.room("shop", effectiveState="scheduled", preQueue=1234)
    expect(card(page, "Shop").locator(".badge")).to_have_text("SCHEDULED")
    open_form(page)
    expect(page.locator("#section-doors")).to_contain_text("1,234 in the pre-queue.")
    page.get_by_role("button", name="No opening time").click()
    expect(field(page, "opensAt-note")).to_contain_text("the doors open when this is saved")
    field(page, "rate").fill("90")
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Cancel the drop of Shop?")
    expect(dialog).to_contain_text("Open the doors now? 1,234 in the pre-queue will be drawn at once.")
    stub.room("shop", preQueue=1300)
    expect(dialog).to_contain_text("1,300 in the pre-queue")
    expect(dialog.get_by_role("button", name="Keep the drop")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(field(page, "rate")).to_have_value("90")
    assert len(stub.sent("/rooms")) == 1
    page.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name="Open the doors").dblclick()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert stub.sent("/rooms")[1:] == [{"id": "shop", "ratePerMinute": 90, "opensAt": None}]

    # A drop that is over stays as it is, and goes without a question.
    stub.room("shop", opensAt=int(time.time() * 1000) - 3_600_000, effectiveState="active")
    expect(card(page, "Shop").locator(".badge")).to_have_text("ACTIVE")
    open_form(page)
    field(page, "name").fill("Shop two")
    save(page)
    open_form(page, "Shop two")
    page.get_by_role("button", name="No opening time").click()
    save(page)
    assert stub.sent("/rooms")[2:] == [{"id": "shop", "name": "Shop two"}, {"id": "shop", "opensAt": None}]
