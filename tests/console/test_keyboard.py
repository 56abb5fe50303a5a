"""Everything by keyboard: skip links, menus, dialogs, and where the focus goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card

pytestmark = pytest.mark.browser

FOCUSED = "document.activeElement.innerText || document.activeElement.getAttribute('aria-label')"


@pytest.mark.req("CON-210", "CON-211")
def test_it_goes_down_the_list_with_one_enter_per_room(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    for name in ("Skip to rooms", "Skip to chart"):
        link = page.get_by_role("link", name=name)
        expect(link).not_to_be_in_viewport()
        page.keyboard.press("Tab")
        expect(link).to_be_focused()
        expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Chart")).to_be_focused()
    page.get_by_role("link", name="Skip to rooms").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    for name, following in (("Shop", "Spring drop"), ("Spring drop", "Checkout")):
        link = page.get_by_role("link", name=f"Skip past {name} to the next room")
        expect(link).to_be_focused()
        expect(link).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=following)).to_be_focused()
        page.get_by_role("link", name=f"Skip past {following} to the next room").focus()

    rooms = stub.state()["rooms"]
    link = page.get_by_role("link", name="Skip past Shop to the next room")
    link.focus()
    stub.set(rooms={name: rooms[name] for name in ("shop", "checkout")})
    expect(page.get_by_role("article")).to_have_count(2)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Checkout")).to_be_focused()
    page.get_by_role("link", name="Skip past Checkout").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Chart")).to_be_focused()


@pytest.mark.req("CON-100")
def test_it_has_few_tab_stops_per_card(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    stops = card(page, "Checkout").locator("a[href], button, input").count()

    assert 8 <= stops <= 20


@pytest.mark.req("CON-213")
def test_it_opens_and_walks_the_menu(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    opener = page.get_by_role("button", name="Console")
    for key in ("Enter", "ArrowDown"):
        opener.focus()
        page.keyboard.press(key)
        walked = []
        for step in ("ArrowDown", "ArrowDown", "End", "ArrowDown", "ArrowUp", "Home"):
            page.keyboard.press(step)
            walked.append(page.evaluate(FOCUSED).split("\n")[0])
        assert walked == ["Access", "Docs", "Sign out", "Reports", "Sign out", "Reports"]
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()
        expect(page.get_by_role("menu")).to_have_count(0)

    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("menu")).to_have_count(0)


@pytest.mark.req("CON-030")
def test_it_moves_nothing_when_the_menu_opens(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    boxes = "[...document.querySelectorAll('article, .bar .button, .total')]"
    places = boxes + ".map(e => JSON.stringify(e.getBoundingClientRect()))"
    before = page.evaluate(places)
    page.get_by_role("button", name="Console").click()
    expect(page.get_by_role("menu")).to_be_visible()

    assert page.evaluate(places) == before


@pytest.mark.req("CON-214")
@pytest.mark.req("CON-216")
def test_it_keeps_tab_inside_a_window_and_gives_the_focus_back_step_by_step(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    edit = card(page, "Shop").get_by_role("button", name="Edit")
    edit.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for key in ("Tab", "Shift+Tab"):
        for _ in range(40):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.closest('dialog') !== null")

    delete = page.get_by_role("button", name="Delete room")
    delete.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Delete Shop?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(delete).to_be_focused()
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()

    for leave in (page.get_by_role("button", name="Close").click, lambda: page.mouse.click(4, 4)):
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        leave()
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(edit).to_be_focused()


@pytest.mark.req("CON-215")
def test_it_never_loses_the_focus_when_the_opener_is_gone(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Checkout").get_by_role("button", name="Visitors").click()
    stub.set(rooms={k: v for k, v in stub.state()["rooms"].items() if k != "checkout"})
    expect(page.get_by_role("dialog")).to_contain_text("This room was deleted.")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Support chat")).to_be_focused()

    card(page, "Newsroom").get_by_role("button", name="Visitors").click()
    stub.set(rooms={})
    expect(page.get_by_role("dialog")).to_contain_text("This room was deleted.")
    page.keyboard.press("Enter")

    expect(page.locator("#rooms")).to_be_focused()


KEY_WITH_THE_MESSAGE = """() => new MutationObserver((_, observer) => {
  if (!document.querySelector(".gone")) return;
  observer.disconnect();
  dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
}).observe(document.body, { childList: true, subtree: true })"""


@pytest.mark.req("CON-054", "CON-215")
def test_it_hears_a_key_from_the_moment_it_says_that_the_room_is_gone(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    card(page, "Newsroom").get_by_role("button", name="Visitors").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate(KEY_WITH_THE_MESSAGE)
    stub.set(rooms={})

    expect(page.locator("#rooms")).to_be_focused()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.req("CON-028", "CON-239", "CON-031", "PAG-195")
def test_it_changes_language_and_theme_in_place_and_remembers_them(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.evaluate("() => { window.stayed = true; }")
    page.get_by_role("button", name="Console").click()
    docs = page.get_by_role("menuitem", name="Docs")
    assert (docs.get_attribute("href"), docs.get_attribute("target")) == ("/docs", "_blank")
    page.get_by_role("menuitem", name="Language").click()
    assert page.get_by_role("menuitem", name="คู่มือ").get_attribute("href") == "/docs/th"
    expect(page.get_by_role("menuitem", name="ธีม")).to_be_visible()
    expect(card(page, "Shop").get_by_text("กำลังรอ")).to_be_visible()
    page.get_by_role("menuitem", name="ธีม").click()
    page.get_by_role("menuitem", name="ธีม").click()
    root = "document.documentElement"
    seen = f"[{root}.dataset.theme, getComputedStyle({root}).colorScheme, window.stayed]"
    assert page.evaluate(seen) == ["dark", "dark", True]

    page.reload()
    expect(page.locator(".live-on")).to_be_visible()
    assert page.evaluate("[document.documentElement.lang, document.documentElement.dataset.theme]") == ["th", "dark"]


BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } })"
FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); }"


@pytest.mark.req("CON-241")
@pytest.mark.parametrize("storage", [BLOCKED, FULL], ids=["blocked", "full"])
def test_it_works_with_storage_blocked_or_full(open_page: Callable[..., Page], storage: str) -> None:
    page = open_page()
    page.context.add_init_script(storage)
    other = page.context.new_page()
    other.goto(page.url)
    other.get_by_role("button", name="Theme").click()
    other.get_by_role("button", name="ไทย").click()

    expect(other.get_by_role("heading", name="เข้าสู่ระบบ")).to_be_visible()
    assert other.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("language", ["en", "th"])
@pytest.mark.parametrize("width", [360, 390, 720, 1024, 1440])
def test_it_never_scrolls_sideways(signed_in: Callable[..., Page], width: int, language: str) -> None:
    page = signed_in(width=width, height=800, language=language)
    assert page.evaluate("document.documentElement.scrollWidth") == width

    page.locator(".acts-edit").first.click()
    panels = "[...document.querySelectorAll('.panel, .form-body')].map(e => e.scrollWidth - e.clientWidth)"
    assert max(page.evaluate(panels)) <= 0


@pytest.mark.parametrize("width", [390, 1440])
def test_it_gives_every_control_24_pixels(signed_in: Callable[..., Page], width: int) -> None:
    page = signed_in(width=width)
    small = page.evaluate("""() => [...document.querySelectorAll('button, input, a[href]:not(.skip)')]
      .filter(e => e.getClientRects().length)
      .map(e => [e, e.matches('.explained') ? getComputedStyle(e, '::after') : e.getBoundingClientRect()])
      .map(([e, box]) => [e.className, parseFloat(box.width), parseFloat(box.height)])
      .filter(([, width, height]) => width < 24 || height < 24)""")

    assert small == []
