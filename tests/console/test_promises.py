"""Promises of the header, of frames beside a hand at work, of clocks and languages (06, sections 3, 4, 22 and 24)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from app.core.ids import reserved_reason
from blueprints.admin import ROUTER
from tests.console.conftest import ROOT, Stub, card, sign_in, stand_still, wait_for
from tests.console.test_page import CONSOLE, SOURCES, ask, words
from tests.console.test_visitors import WAITING, ticket

pytestmark = pytest.mark.browser

SOURCE = "\n".join(path.read_text("utf-8") for path in SOURCES)
STYLES = "\n".join(path.read_text("utf-8") for path in CONSOLE.glob("*.css"))


@pytest.mark.req("CON-015", "CON-034", "CON-037", "CON-038", "CON-042", "CON-226")
def test_the_header_sums_the_rooms_and_leads_to_what_is_wrong(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    names, worst = page.locator(".totals dt"), page.locator(".total-worst")
    expect(page.locator(".who").first).to_have_text("ADMIN_KEY")
    expect(names).to_have_text(["Waiting", "On site", "Joins/min", "Passes/min", "Worst est. wait"])
    expect(page.locator(".total dd:first-of-type")).to_have_text(["16,604", "2,618", "864", "208", "1h23m"])
    assert page.title() == "(16,604) Queue Manager"
    stub.room("news", preQueue=7, effectiveState="scheduled", opensAt=int(time.time() * 1000) + 3_600_000)
    expect(names).to_have_text(["Waiting", "In pre-queue", "On site", "Joins/min", "Passes/min", "Worst est. wait"])
    expect(page.locator(".total", has_text="In pre-queue").locator("dd").first).to_have_text("7")

    for room in ("support", "arena", "spring-drop"):
        stub.room(room, waiting=0, estWaitSec=0, estWaitInfinite=False)
    expect(worst.locator(".total-note")).to_have_text("Checkout")
    expect(worst).to_contain_text("≥3m")
    for room in ("shop", "checkout"):
        stub.room(room, waiting=0, estWaitSec=0)
    expect(worst.locator("dd").first).to_have_text("0s")
    expect(worst.locator(".total-note")).to_have_text("")
    wait_for(lambda: page.title() == "Queue Manager")

    text = "room_rebuilt — a room"
    stub.set(incident={"code": "clock_jump", "roomId": None, "text": text})
    expect(page.locator(".badge-more")).to_have_text("+1")
    said = page.locator("[role=alert].unseen")
    expect(said).to_have_text(text)
    assert page.locator(".card [aria-live], .totals [aria-live], .card [role=status]").count() == 0
    wait_for(lambda: page.title() == "⚠ Queue Manager")
    page.get_by_role("button", name=text).click()
    expect(page.get_by_role("dialog", name="Diagnostics")).to_be_visible()
    page.keyboard.press("Escape")
    card(page, "Shop").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").filter(has_text="Shop: paused")).to_have_count(1)


@pytest.mark.req("CON-040", "CON-041", "CON-051", "CON-052")
def test_a_restart_is_told_once_and_reloads_nothing(signed_in: Callable[..., Page], stub: Stub) -> None:
    server = {"instance": "i:1", "instances": 2, "version": "1.0.0", "startedAt": 1_790_000_000_000}
    stub.set(server={**server, "insecureConfig": 0})
    page = signed_in()
    page.evaluate("() => { window.stayed = true; }")
    expect(page.locator(".live-fleet")).to_have_text("2 instances")
    expect(page.get_by_text("insecure config")).to_have_count(0)

    stub.set(server={**server, "instances": 3, "startedAt": 1_780_000_000_000, "version": "0.9.9", "insecureConfig": 1})
    expect(page.locator(".live-fleet")).to_have_text("3 instances")
    expect(page.get_by_text("insecure config")).to_be_visible()
    assert page.locator(".toast").count() == 0, "another, older instance of the fleet"
    stub.set(server={**server, "startedAt": 1_790_000_060_000, "insecureConfig": 0})
    toast = page.locator(".toast").filter(has_text="The server restarted at 2:14:20 PM.")
    expect(toast).to_be_visible()
    expect(toast.get_by_role("button", name="Reload the console")).to_have_count(0)
    stub.set(server={**server, "startedAt": 1_790_000_120_000, "version": "1.0.1", "insecureConfig": 0})
    toast = page.locator(".toast").filter(has_text="Now 1.0.1, this page is 1.0.0.")
    expect(toast.get_by_role("button", name="Reload the console")).to_be_visible()
    assert page.evaluate("window.stayed") is True


@pytest.mark.req("CON-043", "CON-046", "CON-056", "CON-217", "CON-247")
def test_frames_breaks_and_restarts_leave_alone_what_a_hand_is_at(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(height=500)
    shop, numbers = card(page, "Shop"), iter(range(5001, 6000))

    def frame(**more: Any) -> None:
        number = next(numbers)
        stub.room("spring-drop", waiting=number, **more)
        expect(card(page, "Spring drop")).to_contain_text(f"{number:,}")

    page.mouse.wheel(0, 200)
    wait_for(lambda: page.evaluate("scrollY") == 200)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('article h2'))")
    frame()
    assert page.evaluate("[scrollY, String(getSelection())]") == [200, "Shop"]
    page.evaluate("getSelection().removeAllRanges()")
    page.get_by_role("button", name="Console").click()
    expect(page.get_by_role("menuitem", name="Reports")).to_be_focused()
    frame(rate=149)
    expect(page.get_by_role("menuitem", name="Reports")).to_be_focused()
    page.keyboard.press("Escape")
    knob = shop.get_by_role("slider")
    box = knob.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 60 / 300, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    frame()
    expect(knob).to_have_value("300")
    page.mouse.move(box["x"] + 8 + (box["width"] - 16) * 60 / 300, box["y"] + box["height"] / 2)
    page.mouse.up()

    shop.get_by_role("button", name="Visitors").click()
    stub.set(found={"5644": ticket("waiting", **WAITING)})
    page.get_by_label("Ticket number").fill("5644")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Eject").click()
    armed = page.get_by_role("button", name="Confirm eject")
    expect(armed).to_be_visible()
    asked = stub.state()["asked"].count("POST /api/admin/sse-ticket")
    stub.set(cut=True)
    wait_for(lambda: stub.state()["asked"].count("POST /api/admin/sse-ticket") > asked)
    server = {"instance": "i:1", "instances": 1, "version": "1.0.1", "startedAt": 1_790_000_000_000}
    stub.set(server={**server, "insecureConfig": 0})
    expect(page.locator(".toast")).to_contain_text("The server restarted")
    expect(armed).to_be_visible()
    expect(page.get_by_label("Ticket number")).to_have_value("5644")
    for _ in range(2):
        page.keyboard.press("Escape")
    page.evaluate("""() => { Object.defineProperty(document, "visibilityState", { value: "hidden" });
                             Object.defineProperty(document, "hidden", { value: true });
                             document.dispatchEvent(new Event("visibilitychange", { bubbles: true })); }""")
    frame()  # a hidden tab hears them all the same


@pytest.mark.req("CON-055")
def test_a_change_by_somebody_else_is_marked_with_his_name_for_ten_seconds(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    stand_still(page)
    mark = card(page, "Shop").get_by_text("60 → 90 · Night ops")
    stub.room("shop", rate=90, lastChange={"at": 1, "by": "Night ops", "kind": "rate", "text": "60 → 90"})
    expect(mark).to_be_visible()
    page.clock.run_for(9900)
    assert mark.is_visible()
    page.clock.run_for(200)
    expect(mark).to_have_count(0)
    card(page, "Shop").get_by_role("button", name="Pause").click()  # one's own is not
    expect(card(page, "Shop").locator(".badge")).to_have_text("PAUSED")
    assert card(page, "Shop").get_by_text("active → paused").count() == 0


LEAST = (1000, 2000, 4000, 8000, 16_000, 20_000, 20_000)


@pytest.mark.req("CON-049")
def test_it_tries_a_broken_stream_again_after_one_second_growing_to_twenty(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    page.clock.install()
    page.evaluate("""() => { window.delays = []; const plain = window.setTimeout;
      window.setTimeout = (act, ms, ...rest) => {
        if (act.name === "open") window.delays.push(ms);
        return plain(act, ms, ...rest); }; }""")
    stub.set(unsure=True, cut=True)

    def is_slow() -> bool:
        page.clock.run_for(5000)
        return len(page.evaluate("window.delays")) >= 7

    wait_for(is_slow, 30)
    delays = page.evaluate("window.delays")[:7]
    for delay, least in zip(delays, LEAST, strict=True):
        assert least <= delay <= 1.5 * least
    spread = [delay / least for delay, least in zip(delays, LEAST, strict=True)]
    assert max(spread) > 1.03, "not all of a fleet at once"


@pytest.mark.req("CON-025", "CON-057", "CON-073")
def test_times_are_the_servers_in_the_operators_zone(signed_in: Callable[..., Page], stub: Stub) -> None:
    bangkok, half_past_noon = 7 * 3600, 12.5 * 3600
    ahead = 86_400_000 + int((half_past_noon - bangkok - time.time()) % 86_400) * 1000
    stub.set(skew=ahead, expires_in=560_000)
    opens = int(time.time() * 1000) + ahead + (3 * 3600 + 5 * 60 + 30) * 1000
    stub.room("shop", effectiveState="scheduled", opensAt=opens)
    page = signed_in(language="th", zone="Asia/Bangkok")
    clock, notice = page.locator(".live-clock time"), card(page, "Shop").locator(".notice")

    def shown() -> bool:
        now = time.gmtime(time.time() + ahead / 1000 + bangkok)
        hours, minutes, _ = (clock.text_content() or "0:0:0").split(":")
        return abs(int(hours) * 60 + int(minutes) - now.tm_hour * 60 - now.tm_min) % 1439 <= 1

    wait_for(shown)
    opening = time.strftime("%H:%M", time.gmtime(opens / 1000 + bangkok))
    assert opening.startswith("15:")
    expect(notice).to_have_text(re.compile(rf"3h 5m · .*{opening}"))
    expect(page.locator(".strip")).to_contain_text("เซสชันจะสิ้นสุดเวลา")
    ends = re.search(r"(\d\d):(\d\d)", page.locator(".strip").inner_text())
    assert ends
    stub.set(sessions=[])  # the end of it

    expect(page.locator("#key")).to_be_visible()


@pytest.mark.req("CON-237", "CON-240", "CON-242")
def test_it_speaks_the_chosen_language_else_the_browsers_and_keeps_few_things(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    for stored, locale, heading in (
        ("ja", "th-TH", "Sign in"), ("", "de-DE", "Sign in"), ("", "th-TH", "เข้าสู่ระบบ"),
    ):  # fmt: skip
        page = open_page(language=stored, locale=locale)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        assert page.evaluate("localStorage.qm_lang ?? ''") == stored, "left as it is"
    old = ("qm_autotune", "qm_autotune_cfg", "qm_wait_samples")
    page.evaluate(f"{json.dumps(old)}.forEach((name) => localStorage.setItem(name, '1'))")
    page.reload()
    sign_in(page)
    assert page.evaluate("Object.keys(localStorage)") == []

    names = set(re.findall(r'"(qm[_:]\w+)"', SOURCE + (CONSOLE / "early.js").read_text("utf-8")))
    assert names - {"qm_admin_key", *old} <= {
        "qm_lang", "qm_theme", "qm_hidden_series", "qm_selected_room", "qm_alerts", "qm:first_steps",
    }  # fmt: skip
    for name in names:
        assert ":" in name or reserved_reason(name.removeprefix("qm_")), f"a room could be called so: {name}"
    assert "sessionStorage" not in SOURCE


@pytest.mark.req("CON-239")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_follows_the_systems_theme_unless_one_was_chosen(open_page: Callable[..., Page], theme: str) -> None:
    page = open_page(theme=theme)
    seen = "getComputedStyle(document.body).color"
    system = page.evaluate(seen)
    other = {"light": "dark", "dark": "light"}[theme]
    page.evaluate(f"localStorage.qm_theme = '{other}'")
    page.reload()
    expect(page.locator("#key")).to_be_visible()
    assert page.evaluate(seen) != system
    head = (CONSOLE / "console.html").read_text("utf-8")
    early = head.index("early.js")
    assert early < head.index("stylesheet"), "the choice is known before anything is painted"
    assert "async" not in head[:early]
    assert "defer" not in head[:early]


@pytest.mark.req("CON-235")
def test_a_reader_without_rooms_is_told_so_and_nothing_else(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.reset("none")
    stub.set(can={"write": False, "audit": True})
    page = open_page()
    sign_in(page)

    expect(page.locator("main")).to_have_text("No rooms yet.")


@pytest.mark.req("CON-179")
def test_every_field_says_what_it_does_and_what_it_is_by_default(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.get_by_role("button", name="New room").click()
    page.get_by_label("Serve this room inline").check()
    page.locator("#f-proxyOrigin").fill("http://10.0.0.5:3000")
    page.get_by_label("Switch the queue on by itself").check()
    page.get_by_label("Adjust the rate by itself").select_option("on")
    fields = page.locator(".form .field")
    expect(fields).to_have_count(28)
    for text in page.locator(".form .field .note").all_inner_texts():
        assert len(text) > 20
    asides = page.locator(".form .field-aside").all_inner_texts()
    assert sorted(asides) == sorted([
        "default 60", "default none", "default 600", "default 1800", "default 14400", "default 30", "default 16",
        "default 16", "default none", "default none", "default none", "default none", "default off", "default 120",
        "default 60", "default 300", "default server's setting", "default 1", "default 1000",
        "default server's setting", "default same as return origins", "default closed",
    ])  # fmt: skip
    units = page.locator(".form .field-unit").all_inner_texts()
    assert units == [
        "/min", "on site", "s", "s", "s", "s", "places", "places", "slots", "/min", "s", "s", "/min", "/min", "ms",
    ]  # fmt: skip


@pytest.mark.req("CON-002")
def test_the_page_holds_nothing_of_the_installation(stub: Stub) -> None:
    body = ask(stub, "/")[1].decode()
    base = re.search(r"/assets/console/\w+", body)
    assert base
    plain = (CONSOLE / "console.html").read_text("utf-8").replace("{{base}}", base[0]).replace("{{elsewhere}}", "")

    assert body == plain, "the same bytes for everybody, whatever rooms there are"


@pytest.mark.req("CON-009", "CON-114")
def test_it_asks_routes_that_every_script_may_ask_and_none_that_stops_the_server() -> None:
    asked = re.findall(r'\bask\(\s*"(GET|POST|DELETE)",\s*["`](/[^"`?]*)', SOURCE)
    asked += [("GET", path) for path in re.findall(r'useAnswer\("(/[\w-]+)"\)', SOURCE)]
    assert len(asked) > 12
    for method, path in asked:
        parts = re.sub(r"\$\{[^}]*\}", "…", path).strip("/").split("/")
        routes = [route.path.split("/") for route in ROUTER.routes if route.method == method]
        assert any(
            len(route) == len(parts) and all(a == b or b == "…" for a, b in zip(route, parts, strict=True))
            for route in routes
        ), path
    assert "/api/v1" not in SOURCE
    assert [path.name for path in SOURCES if re.search(r"\bfetch\(|new XMLHttpRequest", path.read_text())] == [
        "api.js", "i18n.js",
    ]  # fmt: skip
    assert "/shutdown" not in SOURCE


@pytest.mark.req("CON-087")
def test_paused_is_the_word_for_an_operators_own_pause_alone() -> None:
    said = {key for key, text in words("en").items() if "paused" in text.lower()}

    assert said == {"wait.infinite.paused", "done.paused", "section.threshold.what"}


@pytest.mark.req("CON-228")
def test_nothing_slides_or_blinks_where_motion_is_not_wanted() -> None:
    allowed = re.compile(r"@media \(prefers-reduced-motion: no-preference\) \{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}")
    still = allowed.sub("", STYLES)
    moving = re.findall(r"(?:animation|transition|scroll-behavior)[\w-]*\s*:[^;}]+", still)
    fades = re.compile(r"[\w-]+: *(none|auto)( !important)?|transition: [a-z-]*color [0-9]+ms")

    assert [one for one in moving if not fades.fullmatch(one)] == []
    assert len(allowed.findall(STYLES)) > 0
    assert ".animate(" not in SOURCE
    assert 'behavior: "smooth"' not in SOURCE


@pytest.mark.req("CON-045")
def test_a_control_waits_ten_seconds_for_its_answer_and_no_longer() -> None:
    api = (ROOT / "static/console/api.js").read_text("utf-8")

    assert "const TIMEOUT_MS = 10_000;" in api
    assert "signal: AbortSignal.timeout(TIMEOUT_MS)," in api
