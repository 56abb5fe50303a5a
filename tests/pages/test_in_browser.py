"""The waiting page in a real Chromium, against canned answers of a real HTTP server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from app.core.i18n import LANGUAGES, load_locale
from app.services.assets import STATIC_DIR
from app.services.plain_words import estimate
from tests.pages.conftest import NOW, Stub, until, visitor

pytestmark = pytest.mark.browser

TROUBLE = {"status": 503, "headers": {"Retry-After": "5"}, "body": {"code": "storage_unavailable"}}


def hero(page: Page) -> Any:
    return expect(page.locator("#hero"))


# ---- states ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("PAG-109", "VIS-103")
def test_it_shows_where_how_long_and_what_to_do(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))

    page = open_page()

    expect(page.get_by_role("heading", level=1)).to_have_text("You are number 1,204 in line, 1,203 people ahead of you")
    expect(page.locator("#valueText")).to_have_text("About 17\u00a0min")
    expect(page.locator("#keep")).to_contain_text("Keep this page open.")
    expect(page.locator("#ref")).to_have_text("K7Q2MX")
    expect(page.locator("#ticket")).to_have_text("48,213")
    expect(page.locator("#statusText")).to_contain_text("Updated")
    expect(page).to_have_title("1,204 · In line for Shop")
    assert page.get_by_role("progressbar").get_attribute("aria-valuetext") == "Number 1,204, started at 1,204"


@pytest.mark.req("PAG-108", "VIS-091", "VIS-094", "VIS-139", "VIS-059")
def test_it_joins_with_the_token_it_kept_and_the_page_it_came_from(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"), token="new.token")

    page = open_page(
        "/w/shop?qm_return=https%3A%2F%2Fshop.example%2Fa%3Fb&qm_from=seen.there",
        before=lambda page: page.add_init_script("localStorage.qm_shop ||= 'old.token'"),
    )
    hero(page).to_have_text("1,204")

    join = json.loads(stub.calls("/api/join")[0]["body"])
    assert join == {
        "roomId": "shop",
        "token": "old.token",
        "returnUrl": "https://shop.example/a?b",
        "from": "seen.there",
    }
    assert page.evaluate("localStorage.qm_shop") == "new.token"
    until(lambda: "qm_from" not in page.url)
    assert page.url.endswith("/w/shop?qm_return=https%3A%2F%2Fshop.example%2Fa%3Fb")
    until(lambda: stub.calls("/events"))
    assert "return=https%3A%2F%2Fshop.example%2Fa%3Fb" in stub.calls("/events")[0]["query"]


@pytest.mark.req("VIS-234")
def test_it_never_puts_the_token_into_an_address_while_cookies_work(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))

    page = open_page()
    until(lambda: stub.calls("/events"))
    stub.say(events="off")
    until(lambda: stub.calls("/api/status"))

    hero(page).to_have_text("1,204")
    assert all("tok.en" not in call["query"] for call in stub.calls())


@pytest.mark.req("PAG-109")
@pytest.mark.req("PAG-107", "PAG-112", "PAG-117")
@pytest.mark.req("CON-069")
def test_it_moves_through_the_states_as_they_are_told(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")

    stub.say(status={"body": visitor("waiting", position=4, ahead=3, estWaitSec=20)})
    hero(page).to_have_text("4")
    expect(page.locator("#from")).to_have_text("The last 8 places")
    expect(page.locator("#dots i")).to_have_count(3)
    expect(page.locator("#valueText")).to_have_text("Less than a minute")

    stub.say(status={"body": visitor("paused", position=4, ahead=3)})
    expect(page.locator("#label")).to_have_text("You are still number")
    expect(page.locator("#valueText")).to_have_text("The line is paused")
    expect(page.locator("#note")).to_have_text(re.compile("Your place is kept. There is no estimate"))
    hero(page).to_have_text("4")
    expect(page).to_have_title("Paused · Shop")

    stub.say(status={"body": visitor("waiting", position=1, ahead=0, estWaitSec=None)})
    expect(page.locator("#label")).to_have_text("You are next")
    expect(page.locator("#valueText")).to_have_text("No estimate")

    stub.say(status={"body": visitor("at_capacity")})
    expect(page.locator("#label")).to_have_text("The site is full just now")
    expect(page.locator("#valueText")).to_have_text("2 people go in before you")
    expect(page.locator("#sub")).to_have_text(re.compile("You keep your turn.*the oldest ticket goes first"))
    expect(page.locator("#note")).to_have_text(re.compile("Your turn is kept as long as this page stays open"))
    expect(page.locator("#bar")).to_be_hidden()
    expect(page.locator("#hero")).to_be_hidden()

    stub.say(status={"body": visitor("passed", location=f"{stub.url}/landed")})
    expect(page).to_have_title("landed")


@pytest.mark.req("VIS-091", "VIS-097", "ENG-141")
@pytest.mark.req("PAG-113")
def test_it_asks_once_more_at_the_turn_and_then_goes_where_the_server_says(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    page = open_page("/w/shop?qm_return=https%3A%2F%2Fevil.example%2F")
    hero(page).to_have_text("1,204")
    stub.say(calls=[])

    stub.say(status={"body": visitor("passed", location=f"{stub.url}/landed")})
    link = page.get_by_role("link", name="Continue to the site")
    expect(link).to_be_focused()

    expect(page).to_have_title("landed")
    assert stub.calls("/api/status") != []


@pytest.mark.req("PAG-114")
def test_it_keeps_the_link_and_the_time_when_the_move_does_not_happen(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    ends = {"holdsSlot": True, "claimUntil": NOW + 118_000, "passExpiresAt": NOW + 600_000}
    stub.show(visitor("passed", location=f"{stub.url}/nowhere", **ends))

    page = open_page()

    expect(page.locator("#key")).to_have_text("Your place is held for")
    expect(page.locator("#valueText")).to_have_text(re.compile(r"1:[0-5]\d"))  # it counts down
    expect(page.get_by_role("link", name="Continue to the site")).to_be_visible()
    expect(page).to_have_title("Your turn · Shop")


@pytest.mark.req("VIS-101", "PAG-115")
def test_it_stops_sending_a_visitor_round_in_a_loop(open_page: Callable[..., Page], stub: Stub) -> None:
    state = visitor("passed", location=f"{stub.url}/w/shop", passExpiresAt=NOW + 600_000)
    stub.show(state)

    page = open_page()
    expect(page.locator("#sub")).to_contain_text("We have sent you to the site a few times.", timeout=20_000)

    assert len(stub.calls("/api/join")) == 4 + 1
    expect(page.locator("#ref")).to_have_text("K7Q2MX")
    expect(page.get_by_role("link", name="Continue to the site")).to_be_visible()
    stub.show(visitor("waiting"))
    hero(page).to_have_text("1,204")


@pytest.mark.parametrize("was_in_line", [False, True])
@pytest.mark.req("PAG-130")
def test_it_lets_everybody_in_at_once_when_the_room_is_bypassed(
    open_page: Callable[..., Page], stub: Stub, was_in_line: bool
) -> None:
    free = visitor("bypass", location=f"{stub.url}/landed")
    if was_in_line:
        stub.show(visitor("waiting"))
    else:
        stub.say(join={"body": {**free, "created": False, "token": "tok.en"}})

    page = open_page()
    if was_in_line:
        hero(page).to_have_text("1,204")
        stub.say(status={"body": free})

    expect(page).to_have_title("landed")


def test_it_never_goes_to_an_address_that_is_no_web_address(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("bypass", location="javascript:document.title='owned'"))

    page = open_page()

    expect(page.locator("#label")).to_have_text("Taking you to the site…")
    assert page.locator("#go").get_attribute("href") is None


@pytest.mark.req("VIS-098", "PAG-118")
@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("expired", "Your turn was not used in time"),
        ("ejected", "The organiser moved you"),
        ("stale_generation", "The line was restarted"),
        ("session_elsewhere", "Your earlier place is in use"),
        ("bad_token", "We could not confirm"),
    ],
)
@pytest.mark.req("PAG-126")
def test_it_rejoins_by_itself_and_says_why(
    open_page: Callable[..., Page], stub: Stub, reason: str, sentence: str
) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")

    back = visitor("waiting", position=2871, ahead=2870, ticket=51084)
    rejoined = {"body": {**back, "created": True, "reason": reason, "token": "b"}, "then": {"body": back}}
    stub.say(join=rejoined, status={"body": visitor("gone", reason=reason)})
    hero(page).to_have_text("2,871")

    expect(page.locator("#notice")).to_contain_text(sentence)
    expect(page.locator("#from")).to_have_text("You started at 2,871")
    stub.show(back, created=False, reason="new")
    page.reload()
    expect(page.locator("#notice")).to_contain_text(sentence)
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#h1")).to_be_focused()


@pytest.mark.req("VIS-098")
@pytest.mark.req("PAG-126")
def test_it_offers_a_button_when_the_line_was_cleared(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")

    stub.say(status={"body": visitor("gone", reason="ejected", by="purge", rejoin=False)})
    expect(page.locator("#label")).to_have_text("The line was cleared")
    joins = len(stub.calls("/api/join"))
    stub.show(visitor("waiting", position=7, ahead=6))
    page.get_by_role("button", name="Join again").click()

    hero(page).to_have_text("7")
    assert (joins, len(stub.calls("/api/join"))) == (1, 2)


def test_it_leaves_the_line_at_the_second_press_only(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()

    page.get_by_role("button", name="Leave the line").click()
    expect(page.get_by_role("button", name="Stay in line")).to_be_focused()
    page.get_by_role("button", name="Stay in line").click()
    page.get_by_role("button", name="Leave the line").click()
    assert stub.calls("/api/leave") == []
    page.get_by_role("button", name="Leave", exact=True).click()

    expect(page.locator("#label")).to_have_text("You have left the line")
    assert json.loads(stub.calls("/api/leave")[0]["body"]) == {"roomId": "shop", "token": "tok.en"}
    assert page.evaluate("localStorage.qm_shop") is None


def test_it_does_not_join_again_when_the_place_was_left_in_another_tab(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")
    other = page.context.new_page()
    other.goto(f"{stub.url}/w/shop")

    other.get_by_role("button", name="Leave the line").click()
    other.get_by_role("button", name="Leave", exact=True).click()

    expect(page.locator("#label")).to_have_text("You have left the line")


@pytest.mark.req("PAG-208")
def test_it_asks_for_a_permission_only_after_a_press_and_then_tells_once(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    spy = """class Spy { constructor(...told) { (window.told ||= []).push(told); }
      static permission = 'default';
      static async requestPermission() { window.asked = true; return Spy.permission = 'granted'; } }
      window.Notification = Spy;"""
    stub.show(visitor("waiting"))
    page = open_page(before=lambda page: page.add_init_script(spy))
    hero(page).to_have_text("1,204")
    assert page.evaluate("window.asked") is None

    page.get_by_role("button", name="Tell me when it is my turn").click()
    expect(page.locator("#tell")).to_contain_text("You will be told on this device")
    page.get_by_label("Play a sound too").check()
    stub.say(status={"body": visitor("passed", location=f"{stub.url}/nowhere", passExpiresAt=NOW + 600_000)})

    expect(page).to_have_title("Your turn · Shop")
    told = [["It is your turn", {"body": "Shop", "tag": "qm_shop"}]]
    assert page.evaluate("window.told") == told
    assert page.evaluate("localStorage.qm_notify_shop") == "sound"


# ---- contact --------------------------------------------------------------------------------------------------------


@pytest.mark.req("PAG-125")
def test_it_keeps_number_token_and_calm_when_contact_is_lost(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")

    stub.say(join=TROUBLE, status=TROUBLE, events=TROUBLE)
    expect(page.locator("#valueText")).to_have_text("We cannot reach the line right now")
    expect(page.locator("#note")).to_contain_text("Your place is kept.")
    expect(page.locator("#label")).to_contain_text("you were number")
    hero(page).to_have_text("1,204")
    expect(page.locator("#seconds")).to_contain_text("Trying again in")
    expect(page).to_have_title("Reconnecting · Shop")
    assert "paused" not in page.inner_text("body").lower()
    assert page.evaluate("localStorage.qm_shop") == "tok.en"

    stub.show(visitor("waiting", position=1200, ahead=1199))
    stub.say(events="on")
    page.get_by_role("button", name="Try now").click()

    hero(page).to_have_text("1,200")
    expect(page.locator("#valueText")).to_have_text("About 17\u00a0min")


@pytest.mark.req("PAG-125")
@pytest.mark.req("PAG-101")
def test_it_promises_no_place_to_somebody_who_never_had_one(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.say(join=TROUBLE)

    page = open_page()

    expect(page.locator("#valueText")).to_have_text("We cannot reach the line right now")
    assert "Your place is kept" not in page.inner_text("main")
    assert page.inner_text("#hero") == ""


@pytest.mark.req("VIS-087", "CFG-178")
def test_it_polls_when_the_stream_is_refused_and_shows_no_fault(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    stub.say(events={"status": 429, "headers": {"Retry-After": "30"}, "body": {"code": "sse_limit"}})
    page = open_page()
    hero(page).to_have_text("1,204")

    stub.say(status={"body": visitor("waiting", position=900, ahead=899)})

    hero(page).to_have_text("900", timeout=8000)
    expect(page.locator("#seconds")).to_be_hidden()


def test_it_polls_when_a_proxy_holds_the_frames_back(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    stub.say(events="mute")
    page = open_page()
    hero(page).to_have_text("1,204")

    stub.say(status={"body": visitor("waiting", position=900, ahead=899)})

    hero(page).to_have_text("900", timeout=12_000)


@pytest.mark.req("PAG-133")
def test_it_stops_polling_once_a_stream_speaks(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    until(lambda: stub.calls("/events"))

    for position in (1203, 1202, 1201):
        stub.say(status={"body": visitor("waiting", position=position, ahead=position - 1)})
        hero(page).to_have_text(f"{position:,}")

    assert len(stub.calls("/events")) == 1
    assert stub.calls("/api/status") == []


@pytest.mark.req("VIS-096")
@pytest.mark.req("FLT-133")
def test_it_opens_a_new_stream_at_once_when_told_to(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()
    hero(page).to_have_text("1,204")
    until(lambda: len(stub.calls("/events")) == 1)

    stub.say(events="refresh")

    until(lambda: len(stub.calls("/events")) == 2)
    hero(page).to_have_text("1,204")
    assert stub.calls("/api/status") == []


@pytest.mark.req("PAG-141")
def test_it_ignores_a_frame_older_than_the_last(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting", now=NOW + 2000))
    page = open_page()
    hero(page).to_have_text("1,204")

    newer = visitor("waiting", position=1000, ahead=999, now=NOW + 4000)
    older = visitor("waiting", position=5000, ahead=4999, now=NOW)
    # In one piece, so that nothing is shown between them.
    stub.say(frames=[newer, newer, older])

    hero(page).to_have_text("1,000")
    expect(page.locator("#from")).to_have_text("You started at 1,204")


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ({"status": 429, "body": {"code": "queue_identity_limit"}}, "Many places are held from this network"),
        ({"status": 503, "body": {"code": "line_full"}}, "The line is full just now"),
    ],
)
def test_it_says_why_no_place_is_given_and_tries_again(
    open_page: Callable[..., Page], stub: Stub, answer: dict[str, Any], title: str
) -> None:
    stub.say(join={**answer, "headers": {"Retry-After": "30"}})
    page = open_page()
    expect(page.locator("#label")).to_have_text(title)
    expect(page.locator("#sub")).to_contain_text("We try again in")

    stub.show(visitor("waiting"))
    page.get_by_role("button", name="Try now").click()

    hero(page).to_have_text("1,204")


@pytest.mark.req("VIS-234")
def test_it_puts_the_token_into_addresses_when_no_cookie_comes_back(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    kept = {"body": visitor("waiting", position=1200, ahead=1199)}
    stub.say(status={"body": visitor("gone", reason="new")}, bearer=kept)

    page = open_page()

    hero(page).to_have_text("1,200")
    assert len(stub.calls("/api/join")) == 1
    until(lambda: "token=tok.en" in stub.calls("/events")[-1]["query"])


def test_it_says_that_cookies_are_needed_instead_of_joining_for_ever(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    stub.say(status={"body": visitor("gone", reason="bad_token")})

    page = open_page()

    expect(page.locator("#label")).to_have_text("This site needs cookies", timeout=20_000)
    assert len(stub.calls("/api/join")) == 4


# ---- looks ----------------------------------------------------------------------------------------------------------

BOXES = """() => ['label', 'hero', 'sub', 'bar', 'two', 'valueText', 'note', 'keep', 'row', 'proof']
  .map(id => [id, document.getElementById(id).getBoundingClientRect()]).map(([id, box]) => [id, box.top, box.height])"""


@pytest.mark.parametrize("width", [320, 390, 1440])
@pytest.mark.parametrize("lang", ["en", "th"])
def test_it_moves_nothing_when_the_number_changes(
    open_page: Callable[..., Page], stub: Stub, width: int, lang: str
) -> None:
    first = visitor("waiting", position=98765, ahead=98764)
    stub.show(first)
    page = open_page(locale=lang, viewport={"width": width, "height": 900})
    hero(page).to_have_text("98,765 " if lang == "th" else "98,765")
    boxes = page.evaluate(BOXES)

    # A place of nine is near the front and says another sentence below; the fixed blocks stand where they stood.
    for position, fixed in ((1204, len(boxes)), (10, len(boxes)), (9, 7)):
        stub.say(status={"body": visitor("waiting", position=position, ahead=position - 1)})
        hero(page).to_contain_text(f"{position:,}")
        assert page.evaluate(BOXES)[:fixed] == boxes[:fixed]


@pytest.mark.parametrize("lang", ["en", "th"])
def test_it_needs_no_sideways_scrolling_and_offers_big_targets_at_320_px(
    open_page: Callable[..., Page], stub: Stub, lang: str
) -> None:
    stub.show(visitor("waiting", position=1_204_318, ahead=1_204_317))
    page = open_page(locale=lang, viewport={"width": 320, "height": 720})
    hero(page).to_contain_text("1,204,318")

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for box in page.evaluate("[...document.querySelectorAll('button, select')].map(e => e.getBoundingClientRect())"):
        assert box["height"] == 0 or box["height"] >= 44


@pytest.mark.req("PAG-144")
def test_it_speaks_thai_to_a_thai_browser_and_changes_in_place(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page(locale="th-TH")
    expect(page.locator("#label")).to_contain_text("คุณอยู่ลำดับที่")
    assert page.get_attribute("html", "lang") == "th"

    page.get_by_role("combobox").select_option("en")

    expect(page.locator("#label")).to_have_text("You are number")
    assert page.get_attribute("html", "lang") == "en"
    assert page.evaluate("localStorage.qm_lang") == "en"
    page.reload()
    expect(page.locator("#label")).to_have_text("You are number")


def test_it_keeps_the_language_that_was_chosen_last_when_an_earlier_one_comes_late(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    held: list[Any] = []
    page = open_page(
        locale="th-TH", before=lambda page: page.route("**/waiting-*.th.json", lambda route: held.append(route))
    )
    until(lambda: page.evaluate("1") and held)  # asking lets the route be told

    page.get_by_role("combobox").select_option("en")
    expect(page.locator("#label")).to_have_text("You are number")
    with page.expect_response("**/waiting-*.th.json"):
        held[0].continue_()
    page.get_by_role("combobox").select_option("ja")
    expect(page.locator("html")).to_have_attribute("lang", "ja")

    assert page.evaluate("localStorage.qm_lang") == "ja"
    expect(page.locator("#label")).to_have_text(load_locale("waiting", "ja")["number"])


@pytest.mark.req("PAG-142", "PAG-143", "PAG-144")
def test_it_has_five_languages_and_takes_the_kept_one_before_the_browsers(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    page = open_page(locale="zh-TW")
    box = page.get_by_role("combobox")
    expect(page.locator("#label")).to_have_text(load_locale("waiting", "zh-Hans")["number"])

    for lang in LANGUAGES:
        box.select_option(lang)

        expect(page.locator("html")).to_have_attribute("lang", lang)
        texts = load_locale("waiting", lang)
        expect(page.locator("#keepBold")).to_contain_text(texts["keep"].split()[0])
        assert page.title() == texts["docWaiting"].replace("{n}", "1,204").replace("{room}", "Shop")
        assert page.evaluate("localStorage.qm_lang") == lang
        assert page.get_by_role("combobox", name=texts["language"]).count() == 1
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", LANGUAGES[-1])


@pytest.mark.req("PAG-150")
def test_it_follows_the_system_s_scheme_until_a_choice_is_made(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    hero(page).to_have_text("1,204")
    assert page.evaluate(background) == "rgb(20, 26, 24)"

    toggle = page.get_by_role("button", name="Dark appearance")
    assert toggle.get_attribute("aria-pressed") == "true"
    toggle.click()

    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert toggle.get_attribute("aria-pressed") == "false"
    assert page.evaluate("localStorage.qm_theme") == "light"
    page.reload()
    hero(page).to_have_text("1,204")
    assert page.evaluate(background) == "rgb(255, 255, 255)"


def test_it_announces_states_at_once_and_no_countdown(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting", estWaitLowSec=820, estWaitHighSec=1080))
    page = open_page()
    say = page.get_by_role("status")
    expect(say).to_have_text("You are number 1,204 in line. About 14 to 18\u00a0minutes.")

    stub.say(status={"body": visitor("waiting", position=1203, ahead=1202)})
    hero(page).to_have_text("1,203")
    expect(say).to_contain_text("1,204")

    stub.say(status={"body": visitor("paused", position=1203, ahead=1202)})
    expect(say).to_contain_text("The line is paused. Your place is kept.")


@pytest.mark.req("PAG-145", "PAG-186", "PAG-189", "PAG-193")
def test_it_asks_nobody_but_its_own_origin(open_page: Callable[..., Page], stub: Stub) -> None:
    asked: list[str] = []
    stub.show(visitor("waiting"))

    for locale in ("en-GB", "th-TH"):
        page = open_page(
            locale=locale, before=lambda page: page.on("request", lambda request: asked.append(request.url))
        )
        hero(page).to_contain_text("1,204")
        page.evaluate("document.fonts.ready.then(() => 0)")
        # Two of the four, whatever the language: Thai is in the system's fonts.
        fonts = {url.rpartition("/")[2] for url in asked if "/fonts/" in url}
        assert fonts == {"geist-latin.woff2", "geist-mono-latin.woff2"}

    assert [url for url in asked if not url.startswith(stub.url + "/")] == []
    style = (STATIC_DIR / "shared/fonts.css").read_text()
    assert style.count("font-display:swap") == style.count("src:url(") == 3
    assert max(int(end, 16) for end in re.findall(r"[U+0-9A-F]+-([0-9A-F]+)", style)) < 0x2200


@pytest.mark.req("PAG-162")
def test_it_works_where_storage_is_blocked(open_page: Callable[..., Page], stub: Stub) -> None:
    blocked = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })"
    )
    stub.show(visitor("waiting"))

    page = open_page(before=lambda page: page.add_init_script(blocked))

    hero(page).to_have_text("1,204")


QUICK = """const real = setTimeout;
  window.setTimeout = (act, ms) => { if (ms >= 3000) sessionStorage.delays = (sessionStorage.delays || '') + ms + ' ';
    return real(act, ms / 100); }"""
"""Waits that are noted and a hundredth of themselves."""


@pytest.mark.req("PAG-168")
@pytest.mark.parametrize(("kind", "misses"), [("js", 1), ("css", 3), ("js", 99)])
def test_it_heals_a_page_whose_file_is_missing_or_leads_to_the_one_that_needs_none(
    open_page: Callable[..., Page], stub: Stub, kind: str, misses: int
) -> None:
    stub.show(visitor("waiting"))
    missed: list[str] = []

    def miss(route: Any) -> None:
        missed.append(route.request.url)
        route.fulfill(status=404) if len(missed) <= misses else route.continue_()

    def prepare(page: Page) -> None:
        page.add_init_script(QUICK)
        page.route(f"**/assets/waiting-*.{kind}", miss)

    page = open_page("/w/shop?qm_return=%2Fcart", before=prepare)

    if misses > 3:
        page.wait_for_url("**/w/shop/plain", wait_until="commit")
    else:
        hero(page).to_have_text("1,204", timeout=15_000)
        expect(page.locator("body")).to_have_css("display", "flex")
    assert len(missed) == min(misses + 1, 4)
    if misses == 1:
        (delay, *_) = page.evaluate("sessionStorage.delays").split()
        assert 3000 <= float(delay) <= 8000


def test_it_shows_the_room_s_name_as_text(open_page: Callable[..., Page], stub: Stub) -> None:
    name = '<script>alert("x")</script>'
    stub.show(visitor("waiting", name=name))

    page = open_page("/w/evil")

    expect(page.locator("#room")).to_have_text(name)
    assert page.locator("header script").count() == 0


@pytest.mark.req("PAG-131")
def test_it_tells_where_it_stores_what(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    page = open_page()

    page.get_by_role("button", name="What this page stores").click()

    for key in ("qm_shop", "qms_shop", "qm_dk_shop", "qm_meta_shop", "qm_notify_shop", "qm_lang", "qm_theme"):
        expect(page.locator("#stores")).to_contain_text(key)
    for said in ("shortened fingerprints", "the address of each join", "nobody else can take your place"):
        expect(page.locator("#stores")).to_contain_text(said)
    expect(page.locator("#stores")).to_contain_text("No tracking, no other sites, nothing is passed on.")


ESTIMATES = (
    (0, "Less than a minute"), (59, "Less than a minute"), (61, "About 2 min"), (3540, "About 59 min"),
    (4790, "About 1 h 20 min"), (7200, "About 2 hours"), (35_900, "About 10 hours"), (45_000, "About 13 hours"),
)  # fmt: skip


@pytest.mark.req("PAG-121", "PAG-122", "PAG-123", "PAG-120")
def test_it_says_the_server_s_estimate_in_words_as_the_page_without_script_does(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    texts = load_locale("waiting", "en")
    stub.show(visitor("waiting"))
    page = open_page()
    shown = expect(page.locator("#valueText"))

    for sec, words in ESTIMATES:
        stub.say(status={"body": visitor("waiting", estWaitSec=sec)})
        shown.to_have_text(re.compile(f"^{words}$".replace(" ", r"\s")))
        assert estimate(texts, sec, is_floor=False).replace("\u00a0", " ") == words
    stub.say(status={"body": visitor("waiting", estWaitSec=600, estWaitIsFloor=True)})
    shown.to_have_text(re.compile(r"^At least 10\smin$"))
    assert estimate(texts, 600, is_floor=True).replace("\u00a0", " ") == "At least 10 min"
    stub.say(status={"body": visitor("waiting", estWaitSec=None)})
    shown.to_have_text("No estimate")
    assert estimate(texts, None, is_floor=False) == "No estimate"


@pytest.mark.req("PAG-124")
def test_it_shows_ref_and_ticket_to_be_read_out_and_copies_the_ref(
    chromium: Browser, open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#ref")).to_have_text("K7Q2MX")
    expect(page.locator("#ticket")).to_have_text("48,213")
    for name in ("ref", "ticket"):
        assert page.evaluate(f"getComputedStyle(document.getElementById('{name}')).userSelect") in ("auto", "text")

    page.get_by_role("button", name="Copy reference").click()

    expect(page.locator("#refKey")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "K7Q2MX"
    stub.say(status={"body": visitor("scheduled", now=NOW + 1000)})
    expect(page.locator("#ref")).to_have_text("5TN0QW")
    expect(page.locator("#number")).to_be_hidden()


@pytest.mark.req("PAG-149")
def test_it_says_in_words_what_the_line_shows_and_stands_still_where_that_is_asked_for(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.show(visitor("waiting"))
    page = open_page(reduced_motion="reduce")
    hero(page).to_have_text("1,204")
    bar = page.get_by_role("progressbar", name="Your way to the front")

    assert bar.get_attribute("aria-valuetext") == "Number 1,204, started at 1,204"
    assert bar.get_attribute("aria-valuenow") == "0"
    expect(page.locator("#statusText")).to_contain_text("Updated")  # beside the dot's colour
    moving = "[...document.querySelectorAll('*')].filter(e => parseFloat(getComputedStyle(e).transitionDuration))"
    assert page.evaluate(f"{moving}.length") == 0
    assert page.evaluate("document.getAnimations().length") == 0
