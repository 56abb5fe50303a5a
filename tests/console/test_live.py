"""Frames: what they change, what they must never move, and how old figures are marked."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import KEY, ROOT, Stub, card, wait_for
from tests.console.rooms import new_room

pytestmark = pytest.mark.browser

BOXES = """() => [...document.querySelectorAll('#app *')]
  .filter(e => !e.closest('svg, .unseen, .skip, .toasts, .swap, .tip') && e.getClientRects().length)
  .filter(e => e.matches('button, input, article, dt, .dial, .notice, .flow, .figures, .total, .live-block'))
  .map(e => { const r = e.getBoundingClientRect(); return [e.tagName, r.x, r.y, r.width, r.height].join(' '); })"""
"""Places and sizes of everything that has a place of its own."""
WIDEST = {
    "waiting": 104_118, "active": 12_500, "occupancy": 12_500, "maxConcurrent": 20_000, "passesOutstanding": 1234,
    "joinsPerMin": 10_400, "passedLastMinute": 10_000, "estWaitSec": 392_400,
}  # fmt: skip

WAITS = {
    0.2: "1s", 39.1: "40s", 59: "59s", 60: "1m", 89: "1m", 90: "2m", 180: "3m", 3590: "1h", 4800: "1h20m", 7200: "2h",
    35_940: "9h59m", 36_000: "10h", 37_800: "11h", 392_400: "109h",
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "th"])
@pytest.mark.parametrize("width", [1440, 1280, 1024, 390])
def test_it_moves_no_box_when_the_figures_get_their_widest(
    signed_in: Callable[..., Page], stub: Stub, width: int, language: str
) -> None:
    stub.room("shop", **dict.fromkeys(WIDEST, 1))
    page = signed_in(width=width, language=language)
    waiting = page.locator("article").first.locator(".figure-xl")
    expect(waiting).to_have_text("1")
    expect(page.locator(".legend")).to_be_visible()
    page.evaluate("document.fonts.ready")
    before = page.evaluate(BOXES)

    stub.room("shop", **WIDEST)
    expect(waiting).to_have_text("104,118")

    assert page.evaluate(BOXES) == before
    assert len(before) > 100


@pytest.mark.parametrize("language", ["en", "th"])
@pytest.mark.req("CON-088", "CON-238")
def test_it_moves_no_box_when_state_and_rate_change(signed_in: Callable[..., Page], stub: Stub, language: str) -> None:
    page = signed_in(language=language)
    expect(page.locator(".legend")).to_be_visible()
    page.evaluate("document.fonts.ready")
    before = page.evaluate(BOXES)
    badge = page.locator("article").first.locator(".badge")

    for state, rate in (("paused", 60), ("active", 0), ("bypass", 100_000)):
        stub.room("shop", state=state, rate=rate)
        expect(badge).to_have_text(state.upper())
        assert page.evaluate(BOXES) == before


@pytest.mark.req("CON-047", "ENG-025")
@pytest.mark.req("CON-217")
def test_it_adds_and_removes_cards_in_the_servers_order(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("textbox").focus()
    rooms = stub.state()["rooms"]
    stub.set(
        rooms={
            **{k: v for k, v in rooms.items() if k != "checkout"},
            "late": new_room(id="late", targetUrl="https://late.example"),
        }
    )

    expect(page.get_by_role("article")).to_have_count(6)
    expect(card(page, "late")).to_be_visible()
    names = ["Shop", "Spring drop", "Support chat", "Arena tickets", "Newsroom", "late"]
    expect(page.locator("article h2")).to_have_text(names)
    stub.room("late", waiting=90_000, state="paused")
    expect(card(page, "late")).to_contain_text("90,000")
    expect(page.locator("article h2")).to_have_text(names)
    stub.set(cut=True)  # a new stream begins with whole lists
    stub.room("news", waiting=95_000)
    expect(card(page, "Newsroom")).to_contain_text("95,000")
    expect(page.locator("article h2")).to_have_text(names)
    expect(card(page, "Shop").get_by_role("textbox")).to_be_focused()


@pytest.mark.req("CON-050", "CON-249")
def test_it_marks_figures_as_old_when_frames_stop_and_lets_the_strip_wait_for_the_hand(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    page.clock.install()
    card(page, "Shop").get_by_role("textbox").focus()
    stub.set(silent=True)
    page.clock.run_for(7000)
    expect(page.get_by_text("Not live", exact=True)).to_be_visible(timeout=15_000)
    assert "const OLD_MS = 6000;" in (ROOT / "static/console/stream.js").read_text("utf-8")
    expect(page.locator("html[data-old]")).to_have_count(1)
    page.clock.run_for(1500)
    expect(page.locator(".strip-warn")).to_have_count(0)

    page.locator("#rooms").focus()
    page.clock.run_for(1500)
    expect(page.locator(".strip-warn")).to_contain_text("Figures are old.")
    expect(card(page, "Shop").get_by_role("button", name="Pause")).to_be_enabled()

    stub.set(silent=False)
    expect(page.locator(".live-on")).to_be_visible()
    expect(page.locator(".strip-warn")).to_have_count(0)


@pytest.mark.req("CON-048")
@pytest.mark.req("FLT-132", "FLT-134")
def test_it_comes_back_with_a_new_ticket_after_a_break(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    before = stub.state()["asked"].count("POST /api/admin/sse-ticket")
    stub.set(cut=True)
    wait_for(lambda: stub.state()["asked"].count("POST /api/admin/sse-ticket") == before + 1)

    stub.room("shop", waiting=4321)
    expect(card(page, "Shop")).to_contain_text("4,321")
    stub.set(cut=True, headless=True)  # a delta without a full frame before it says nothing: the console comes again
    wait_for(lambda: stub.state()["asked"].count("POST /api/admin/sse-ticket") == before + 3)
    stub.room("shop", waiting=5432)
    expect(card(page, "Shop")).to_contain_text("5,432")


@pytest.mark.req("CON-080")
@pytest.mark.req("CON-053", "CON-086", "CON-250")
def test_it_shows_unknown_figures_as_a_dash_and_recovering_rooms_as_such(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    known = stub.state()["rooms"]["shop"]
    figures = dict.fromkeys(
        ["waiting", "active", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute", "estWaitSec"]
    )
    stub.room("shop", **figures, recovering=True)
    shop = card(page, "Shop")
    expect(shop.locator(".badge")).to_have_text("RECOVERING")
    expect(shop.locator("dd").first).to_have_text("–")
    assert "0" not in "".join(shop.locator(".figure dd").all_inner_texts()).replace("/500", "").replace("500", "")
    expect(shop.get_by_role("button", name="Pause")).to_be_disabled()

    others = [room for room in stub.state()["rooms"] if room != "shop"]
    for other in others:
        stub.room(other, **figures, recovering=True)
    totals = page.locator(".total dd:first-of-type")
    expect(totals).to_have_text(["–", "–", "–", "–", "–"])
    wait_for(lambda: page.title() == "Queue Manager")
    stub.room("shop", **known)
    expect(totals.first).to_have_text("38")
    expect(shop.get_by_text("Rebuilt from the journal. Check state and rate.")).to_be_visible()
    shop.get_by_role("button", name="Dismiss").click()
    expect(shop.get_by_text("shop.example")).to_be_visible()


@pytest.mark.req("CON-250")
def test_nothing_is_a_figure_before_the_first_frame(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.set(silent=True)
    page = open_page()
    page.locator("#key").fill(KEY)
    page.keyboard.press("Enter")

    expect(page.locator(".total dd:first-of-type")).to_have_text(["–"] * 5)
    assert page.title() == "Queue Manager"


@pytest.mark.req("CON-050", "CON-249")
def test_it_keeps_the_last_known_figures_of_a_room_that_cannot_be_read_and_names_their_time(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    unread = dict.fromkeys(["waiting", "occupancy", "joinsPerMin", "estWaitSec"])
    stub.room("shop", **unread, stale=True, staleSince=1_790_000_000_000)

    expect(card(page, "Shop").locator(".notice")).to_have_text("Figures of 2:13:20 PM")
    expect(card(page, "Shop").locator("dd").first).to_have_text("38")
    expect(card(page, "Shop")).to_contain_class("card-old")


@pytest.mark.req("CON-064")
@pytest.mark.req("CON-065")
def test_it_writes_waits_short_and_never_cut(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    shown = card(page, "Shop").locator(".figure-l").first

    for sec, text in WAITS.items():
        stub.room("shop", estWaitSec=sec)
        expect(shown).to_have_text(text)


@pytest.mark.req("CON-066")
@pytest.mark.req("CON-067", "CON-069")
@pytest.mark.req("CON-068")
@pytest.mark.req("CON-227")
def test_it_explains_lower_bounds_and_endless_waits_on_focus(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    bound = card(page, "Checkout").get_by_role("button", name="at least 3m")
    bound.focus()
    expect(bound).to_have_text("≥3m")
    expect(bound).to_have_accessible_description(re.compile("A higher rate will not help"))
    expect(card(page, "Checkout").get_by_role("tooltip", name="", exact=False).filter(visible=True)).to_contain_text(
        "A higher rate will not help."
    )

    paused = card(page, "Support chat").get_by_role("button", name="no end at the present setting")
    paused.focus()
    expect(paused).to_have_text("∞")
    expect(card(page, "Support chat").get_by_text("PAUSED", exact=True)).to_have_count(1)
    expect(page.get_by_text("the room is paused. A number comes back when it is resumed.")).to_be_visible()
    card(page, "Arena tickets").get_by_role("button", name="no end at the present setting").focus()
    expect(page.get_by_text("the rate is 0. A number comes back when the rate is raised.")).to_be_visible()

    card(page, "Support chat").get_by_role("button", name="Resume").click()
    expect(card(page, "Support chat").locator(".figure-l").first).to_have_text("4m")
    stub.room("arena", rate=60, estWaitInfinite=False, estWaitSec=3871)
    expect(card(page, "Arena tickets").locator(".figure-l").first).to_have_text("1h5m")
    stub.room("support", state="paused", waiting=0, estWaitInfinite=False, estWaitSec=0)
    expect(card(page, "Support chat").locator(".figure-l").first).to_have_text("0s")


@pytest.mark.req("CON-060")
@pytest.mark.req("CON-062")
@pytest.mark.req("CON-061", "CON-063", "CON-070", "CON-071", "CON-081")
def test_it_gives_capacity_a_denominator_and_names_holders_of_passes(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    stub.room("shop", active=112, occupancy=115, waiting=10_000, passedLastMinute=57)
    page = signed_in()

    expect(card(page, "Checkout").locator(".figure-cap")).to_contain_text("25/25")
    expect(card(page, "Checkout").locator(".figure-note")).to_have_text("+5 holding passes")
    expect(card(page, "Newsroom").locator(".figure-cap")).to_contain_text("0/∞")
    expect(card(page, "Newsroom").locator(".figure-note")).to_have_text("")
    expect(card(page, "Shop").locator(".figure-cap")).to_contain_text("115/500")
    expect(card(page, "Shop").locator(".figures dd").first).to_have_text("10,000")
    expect(card(page, "Spring drop").locator(".figure-cap")).to_contain_text("2,481/2,500")
    expect(card(page, "Shop").locator(".flow-figures")).to_have_text("Joins/min31Passes/min57")
    explained = card(page, "Checkout").get_by_role("button", name="Capacity")
    explained.focus()
    expect(card(page, "Checkout").get_by_role("tooltip").filter(visible=True)).to_contain_text(
        "Rising at the cap is normal; rising below the cap means passes are given faster than people walk in."
    )


@pytest.mark.req("CFG-116")
def test_it_tells_of_the_worst_incident_and_of_a_restart(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    stub.set(
        incident={
            "code": "room_recovering",
            "roomId": "support",
            "text": "Support chat is being rebuilt from the journal",
        }
    )
    page.locator(".badge-bad").click()
    expect(page.get_by_role("heading", name="Support chat")).to_be_focused()
    expect(page.locator(".badge-more")).to_have_text("+1")
    assert page.title() == "⚠ (16,604) Queue Manager"

    expect(page.get_by_text("insecure config")).to_be_visible()
    stub.set(
        server={
            "instance": "i:7f3a9c",
            "instances": 1,
            "version": "1.0.1",
            "startedAt": 1_790_000_000_000,
            "insecureConfig": 0,
        }
    )
    expect(page.locator(".toast")).to_contain_text("The server restarted at")
    expect(page.locator(".toast")).to_contain_text("Now 1.0.1, this page is 1.0.0.")
    expect(page.get_by_text("insecure config")).to_have_count(0)


@pytest.mark.req("CON-035")
@pytest.mark.req("CON-036")
def test_it_leaves_rooms_that_stand_still_out_of_the_worst_wait(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    worst = page.locator(".total-worst")
    expect(worst).to_contain_text("1h23m")
    expect(worst).to_contain_text("excludes 2 at ∞")

    for room_id in stub.state()["rooms"]:
        stub.room(room_id, waiting=3, estWaitSec=None, estWaitInfinite=True)
    expect(worst).to_contain_text("∞")
    expect(worst).to_contain_text("6 not admitting")
