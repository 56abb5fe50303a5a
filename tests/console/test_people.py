"""The sheets Share monitor and Access: links and keys are given, copied and taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Stub, stand_still

pytestmark = pytest.mark.browser


def opened(page: Page, name: str) -> Locator:
    """The sheet of this name, opened from the bar or the menu."""
    if name == "Access":
        page.get_by_role("button", name="Console").click()
        page.get_by_role("menuitem", name="Access").click()
    else:
        page.get_by_role("button", name=name).click()
    sheet = page.get_by_role("dialog", name=name)
    expect(sheet).to_be_visible()
    return sheet


def minted(sheet: Locator, label: str) -> None:
    sheet.get_by_label("For whom").fill(label)
    sheet.get_by_role("button", name="Mint a new link").click()
    expect(sheet.get_by_role("button", name=f"Copy the link {label}")).to_be_visible()


@pytest.mark.req("CON-152", "CON-153", "CON-154", "CON-155", "CON-158", "CON-159")
@pytest.mark.req("CON-101")
def test_it_shows_links_first_and_gives_the_same_one_again(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in(permissions=[])
    sheet = opened(page, "Share monitor")
    expect(sheet.get_by_text("No link works at present.")).to_be_visible()
    assert stub.sent("/monitor-tokens") == [], "opening makes none"
    expect(sheet.get_by_text("a second link does not end the first")).to_be_visible()
    expect(sheet.get_by_text("no visitors, no audit trail, no operators, no internal addresses")).to_be_visible()
    expect(sheet.get_by_text("Links end by themselves after 7 days. Revoking acts at once.")).to_be_visible()

    minted(sheet, "Agency")
    field = sheet.get_by_label("Address of the link")
    expect(field).to_have_value("https://q.example/#monitor=token.m_00000000")
    page.keyboard.press("Escape")
    sheet = opened(page, "Share monitor")
    expect(sheet.get_by_label("Address of the link")).to_have_count(0)
    sheet.get_by_role("button", name="Copy the link Agency").click()

    expect(sheet.get_by_label("Address of the link")).to_have_value("https://q.example/#monitor=token.m_00000000")
    assert stub.sent("/monitor-tokens") == [{"label": "Agency"}]
    assert len(stub.sent("/monitor-tokens/m_00000000/reveal")) == 1


@pytest.mark.req("CON-153")
@pytest.mark.parametrize("is_allowed", [True, False])
def test_it_copies_the_address_or_selects_it_and_says_so(signed_in: Callable[..., Page], is_allowed: bool) -> None:
    page = signed_in(permissions=["clipboard-read", "clipboard-write"])
    if not is_allowed:
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')) }")
    sheet = opened(page, "Share monitor")

    minted(sheet, "Agency")

    address = "https://q.example/#monitor=token.m_00000000"
    if is_allowed:
        expect(sheet.get_by_text("Copied", exact=True)).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == address
    else:
        expect(sheet.get_by_text("The browser refused the clipboard.")).to_be_visible()
        assert page.evaluate("getSelection().toString()") == address


@pytest.mark.req("CON-112", "CON-156", "CON-157")
def test_it_revokes_one_or_all_and_shows_what_is_over(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Share monitor")
    for label in ("one", "two", "three"):
        minted(sheet, label)
    row = sheet.get_by_role("listitem").filter(has_text="two")
    expect(row).to_contain_text("by ADMIN_KEY · made")
    expect(row).to_contain_text("ends")
    expect(row).to_contain_text("last used never")

    rest, armed = row.get_by_role("button", name="Revoke two"), row.get_by_role("button", name="Confirm revoke")
    stand_still(page)  # so that both presses of the double click come at one time
    rest.dblclick()
    expect(armed).to_be_focused()
    expect(row).to_contain_text("Whoever watches with it loses the view at once.")
    expect(sheet.get_by_role("button", name="Confirm revoke")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(rest).to_be_focused()
    rest.click()
    row.get_by_role("button", name="Keep").click()
    expect(armed).to_have_count(0)
    assert not any(one.startswith("DELETE") for one in stub.state()["asked"])
    rest.click()
    page.clock.run_for(450)
    armed.click()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)
    expect(sheet.get_by_role("listitem").last).to_contain_text("two")
    sheet.get_by_role("button", name="Revoke all").click()
    dialog = page.get_by_role("dialog", name="Revoke all links?")
    expect(dialog).to_contain_text("2 links that work now will be closed.")
    expect(dialog.get_by_role("button", name="Keep")).to_be_focused()
    dialog.get_by_role("button", name="Revoke").click()

    expect(sheet.get_by_role("button", name="Copy the link")).to_have_count(0)
    expect(sheet.get_by_text("No link works at present.")).to_be_visible()


@pytest.mark.req("CON-160", "CON-206")
def test_sheets_are_there_for_whoever_may(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    minted(opened(page, "Share monitor"), "Agency")
    page.keyboard.press("Escape")
    sheet = opened(page, "Access")
    links = sheet.get_by_role("region", name="Monitor links")
    expect(links.get_by_role("listitem")).to_contain_text("Agency")
    links.get_by_role("button", name="Copy the link Agency").click()
    expect(links.get_by_label("Address of the link")).to_have_value("https://q.example/#monitor=token.m_00000000")
    links.get_by_role("button", name="Revoke Agency").click()
    links.get_by_role("button", name="Keep").click()

    stub.set(can={"audit": True})
    page.reload()
    expect(page.locator(".live-on")).to_be_visible()
    expect(page.get_by_role("button", name="Share monitor")).to_have_count(0)
    sheet = opened(page, "Access")

    expect(links.get_by_role("listitem")).to_contain_text("Agencyby ADMIN_KEY · made")
    expect(links.get_by_role("listitem")).to_contain_text("last used never")
    expect(links.get_by_role("button")).to_have_count(0)
    expect(sheet.get_by_role("button", name="Issue a key")).to_have_count(0)


@pytest.mark.req("CON-203")
@pytest.mark.req("CON-209", "CON-251")
def test_it_shows_a_new_key_once_and_closes_by_its_own_button(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Access")
    expect(sheet.get_by_text("There is no SSO and no second factor.")).to_be_visible()
    sheet.get_by_label("Name").fill("Night ops")
    sheet.get_by_label("Role", exact=True).select_option("viewer")
    sheet.get_by_role("button", name="Issue a key").click()

    box = page.get_by_role("dialog", name="Key of Night ops")
    expect(box.get_by_text("shown only this once")).to_be_visible()
    expect(box.get_by_role("textbox")).to_have_value("qmo_00000000_secret")
    page.keyboard.press("Escape")
    page.mouse.click(5, 5)
    expect(box).to_be_visible()
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    field = box.get_by_role("textbox")
    field.evaluate("field => field.setSelectionRange(0, 0)")
    box.get_by_role("button", name="Copy").click()
    chosen = field.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert chosen == "qmo_00000000_secret"
    box.get_by_role("button", name="I have kept it").click()

    expect(box).to_have_count(0)
    assert "qmo_00000000_secret" not in page.content()
    assert stub.sent("/operators") == [{"name": "Night ops", "role": "viewer"}]
    expect(sheet.get_by_role("listitem")).to_contain_text("viewer · issued")


@pytest.mark.req("CON-111", "CON-204", "CON-205")
def test_it_revokes_an_operator_with_his_links_and_removes_one(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Access")
    sheet.get_by_label("Name").fill("Night ops")
    sheet.get_by_role("button", name="Issue a key").click()
    page.get_by_role("button", name="I have kept it").click()
    sheet.get_by_label("Role of Night ops").select_option("owner")
    expect(sheet.get_by_role("listitem")).to_contain_text("owner · issued")

    sheet.get_by_role("button", name="Revoke Night ops").click()
    box = page.get_by_role("dialog", name="Revoke Night ops?")
    expect(box).to_contain_text("Monitor links that will be closed: 2.")
    expect(box.get_by_role("button", name="Keep")).to_be_focused()
    box.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Monitor links closed: 2").first).to_be_visible()
    expect(sheet.get_by_role("button", name="Remove Night ops")).to_be_hidden()
    sheet.get_by_text("Revoked (1)").click()
    sheet.get_by_role("button", name="Remove Night ops").click()
    page.get_by_role("dialog", name="Remove Night ops?").get_by_role("button", name="Remove").click()

    expect(sheet.get_by_text("Revoked (1)")).to_have_count(0)
    assert stub.sent("/operators/00000000")[0] == {"role": "owner"}


@pytest.mark.req("CON-202", "ADM-030")
def test_it_renames_an_operator_and_says_what_the_shared_key_is(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Access")
    expect(sheet.get_by_text("is one secret that everybody shares and that bears nobody's name")).to_be_visible()
    sheet.get_by_label("Name").fill("Night ops")
    sheet.get_by_role("button", name="Issue a key").click()
    page.get_by_role("button", name="I have kept it").click()

    sheet.get_by_role("button", name="Rename Night ops").click()
    box = page.get_by_role("dialog", name="Rename Night ops")
    field = box.get_by_role("textbox")
    expect(field).to_have_value("Night ops")
    stub.set(refuse={"status": 400, "code": "invalid_name", "error": "name must be text"})
    field.fill("Day <ops>")
    page.keyboard.press("Enter")
    expect(box.get_by_role("alert")).to_contain_text("name must be text")
    stub.set(refuse=None)
    box.get_by_role("button", name="Save").click()

    expect(sheet.get_by_role("button", name="Rename Day <ops>")).to_be_visible()
    expect(box).to_have_count(0)
    assert stub.sent("/operators/00000000") == [{"name": "Day <ops>"}] * 2


@pytest.mark.req("CON-207", "CON-208")
@pytest.mark.req("CON-252")
def test_it_shows_who_did_what_and_gives_all_of_it_as_a_file(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    sheet = opened(page, "Access")
    rows = sheet.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(51)
    expect(rows.nth(1)).to_contain_text("Night ops")
    expect(rows.nth(1)).to_contain_text("room.rate")
    expect(rows.nth(3)).to_contain_text("refused")
    expect(rows.nth(4).locator(".trail-system")).to_have_text("system")
    expect(rows.nth(6)).to_contain_text("previous run: not closed cleanly")
    expect(rows.nth(7)).to_contain_text("<b>not markup</b>")
    sheet.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(71)
    expect(sheet.get_by_role("button", name="Show older")).to_have_count(0)

    sheet.get_by_label("Room").select_option("shop")
    expect(rows).to_have_count(21)
    sheet.get_by_label("Action").select_option("room.rate")
    expect(rows).to_have_count(11)
    sheet.get_by_label("Time").select_option("day")
    sheet.get_by_label("Who").select_option("system")
    expect(sheet.get_by_text("Nothing was done that fits.")).to_be_visible()
    query = parse_qs(stub.state()["trail"][-1])
    assert query.keys() == {"roomId", "actor", "action", "from", "limit"}
    assert 86_000_000 < time.time() * 1000 - int(query["from"][0]) < 87_000_000
    sheet.get_by_label("Who").select_option("")
    with page.expect_download() as saving:
        sheet.get_by_role("button", name="Download CSV").click()

    assert saving.value.suggested_filename == "qm-audit.csv"
    assert saving.value.path().read_text().count("room.rate") == 10
    assert "format=csv" in stub.state()["trail"][-1]

    stub.set(busy=True)
    sheet.get_by_role("button", name="Download CSV").click()
    expect(sheet.get_by_role("alert")).to_contain_text("at work on other exports")
    stub.set(busy=False)
    with page.expect_download():
        sheet.get_by_role("button", name="Try again").click()
    expect(sheet.get_by_role("alert")).to_have_count(0)


def test_it_says_what_could_not_be_read_and_tries_again(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    stub.set(unsure=True)
    sheet = opened(page, "Access")
    expect(sheet.get_by_role("alert")).to_have_count(3)  # people, links and the trail

    stub.set(unsure=False)
    for left in (2, 1):
        sheet.get_by_role("button", name="Try again").first.click()
        expect(sheet.get_by_role("alert")).to_have_count(left)
    sheet.get_by_role("button", name="Try again").click()

    expect(sheet.get_by_role("alert")).to_have_count(0)
