"""Signing in and out, and what happens when the server ends a session."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import KEY, Stub, card, sign_in, stand_still, wait_for

pytestmark = pytest.mark.browser


@pytest.mark.req("CON-011")
def test_it_refuses_a_wrong_key_and_keeps_the_focus_in_the_emptied_field(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.locator("#key").fill("wrong")
    page.keyboard.press("Enter")

    expect(page.get_by_text("This key is not valid.")).to_be_visible()
    expect(page.locator("#key")).to_have_value("")
    expect(page.locator("#key")).to_be_focused()


@pytest.mark.req("CON-014")
def test_it_says_where_a_key_comes_from_and_nothing_of_this_installation(open_page: Callable[..., Page]) -> None:
    page = open_page()

    expect(page.locator(".sources li")).to_have_text(
        [
            "ADMIN_KEY of the deployment",
            "a key that an owner has issued to you",
            "the start line of the server, when ADMIN_KEY was never set",
        ]
    )


@pytest.mark.req("CON-012")
def test_it_counts_down_and_keeps_the_button_off_when_the_address_is_locked(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    stub.set(locked=3)
    page = open_page()
    stand_still(page)
    page.locator("#key").fill("wrong")
    page.keyboard.press("Enter")

    expect(page.locator("#answer")).to_have_text("Too many failed sign-ins from this address. Try again in 3 s.")
    expect(page.get_by_role("button", name="Sign in")).to_be_disabled()
    for left in (2, 1):
        page.clock.run_for(1100)
        expect(page.locator("#answer")).to_contain_text(f"Try again in {left} s.")
    page.clock.run_for(1100)
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()


@pytest.mark.req("ADM-059", "CON-010")
@pytest.mark.req("CON-251")
def test_it_keeps_the_key_nowhere_after_signing_in(signed_in: Callable[..., Page]) -> None:
    page = signed_in()

    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.length])"
    )
    assert KEY not in kept
    assert KEY not in page.content()


@pytest.mark.req("CON-018")
@pytest.mark.parametrize("key", [KEY, "wrong"])
def test_it_uses_the_key_of_an_old_console_once_and_forgets_it(
    open_page: Callable[..., Page], stub: Stub, key: str
) -> None:
    page = open_page()
    page.evaluate("key => { localStorage.qm_admin_key = key; localStorage.qm_autotune = '1' }", key)
    page.reload()

    expect(page.locator(".live-on" if key == KEY else "#key")).to_be_visible()
    assert page.evaluate("[localStorage.qm_admin_key, localStorage.qm_autotune]") == [None, None]


@pytest.mark.req("CON-017")
def test_it_needs_no_key_after_a_reload(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    page.reload()

    expect(page.locator(".live-on")).to_be_visible()


@pytest.mark.req("CON-013")
def test_it_tries_again_by_itself_while_the_server_cannot_check_keys(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    page.clock.install()
    stub.set(unsure=True)
    page.reload()
    expect(page.get_by_text("The server cannot check keys at the moment.")).to_be_visible()

    stub.set(unsure=False)
    page.clock.run_for(5000)
    expect(page.locator(".live-on")).to_be_visible(timeout=15_000)


@pytest.mark.req("CON-019")
@pytest.mark.req("CON-017")
def test_it_signs_every_tab_of_the_session_out(signed_in: Callable[..., Page]) -> None:
    page = signed_in()
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator(".live-on")).to_be_visible()

    page.get_by_role("button", name="Console").click()
    page.get_by_role("menuitem", name="Sign out").click()

    expect(page.locator("#key")).to_be_visible()
    expect(other.locator("#key")).to_be_visible()


def test_it_shows_the_sign_in_page_and_asks_no_more_when_the_session_is_revoked(
    signed_in: Callable[..., Page], stub: Stub
) -> None:
    page = signed_in()
    stub.set(sessions=[])

    expect(page.locator("#key")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1500)
    assert asked == []


@pytest.mark.req("CON-021")
def test_it_gives_an_open_form_back_to_the_same_person_after_a_401(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Edit").click()
    page.locator("#f-name").fill("Shop of the night")
    stub.set(refuse={"status": 401, "code": "unauthorized", "error": "A valid key is required."})
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#key")).to_be_visible()

    stub.set(refuse=None)
    sign_in(page)
    expect(page.locator("#f-name")).to_have_value("Shop of the night")


@pytest.mark.req("CON-015")
def test_it_gives_an_open_form_to_nobody_else(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    card(page, "Shop").get_by_role("button", name="Edit").click()
    page.locator("#f-name").fill("Shop of the night")
    other = {"kind": "operator", "via": "session", "role": "operator", "name": "Night ops", "operatorId": "535dddaa"}
    stub.set(sessions=[], me=other)
    expect(page.locator("#key")).to_be_visible()

    sign_in(page)
    expect(page.get_by_text("Night ops · operator").first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.req("ADM-290")
@pytest.mark.req("CON-220", "CON-222")
def test_it_hides_every_control_that_changes_something_from_readers(open_page: Callable[..., Page], stub: Stub) -> None:
    reader = {"kind": "operator", "via": "session", "role": "viewer", "name": "Shop desk", "operatorId": "91ab03cd"}
    stub.set(me=reader, can={"write": False, "deleteRoom": False})
    page = open_page()
    sign_in(page)

    expect(page.get_by_text("Shop desk · read only").first).to_be_visible()
    for name in ("Pause", "Bypass", "New room", "Visitors"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
    expect(page.locator("article").get_by_role("slider")).to_have_count(0)
    expect(card(page, "Shop").get_by_text("60 /min")).to_be_visible()
    assert stub.sent("/rooms") == []


@pytest.mark.req("ADM-290")
@pytest.mark.req("CON-016", "CON-097")
def test_it_offers_an_operator_no_deletion_that_would_be_refused(open_page: Callable[..., Page], stub: Stub) -> None:
    ops = {"kind": "operator", "via": "session", "role": "operator", "name": "Night ops", "operatorId": "535dddaa"}
    for may_delete in (True, False):
        stub.set(me=ops, can={"write": True, "visitors": True, "deleteRoom": may_delete})
        page = open_page()
        sign_in(page)
        card(page, "Shop").get_by_role("button", name="Edit").click()
        expect(page.get_by_role("button", name="Save")).to_be_visible()
        expect(page.get_by_role("button", name="Delete room")).to_have_count(int(may_delete))


@pytest.mark.req("CON-002")
def test_it_stays_at_the_sign_in_page_until_asked(open_page: Callable[..., Page], stub: Stub) -> None:
    page = open_page()
    expect(page.locator("#key")).to_be_focused()
    wait_for(lambda: stub.state()["asked"] == ["GET /api/admin/me"])
