"""How often the page asks, and when it tries again: by the page's own clock, on answers given inside the browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.pages.conftest import Stub, until, visitor

pytestmark = pytest.mark.browser

PLAYED = """
  window.asked = []; window.chance = 0; Math.random = () => chance;
  window.play = {}; const plain = fetch;
  window.fetch = async (url, init = {}) => {
    const path = new URL(url, location).pathname;
    if (!/^.(api|events)/.test(path)) return plain(url, init);
    asked.push([Date.now(), path, init.body || '']);
    const answer = play[path] || { state: %s };
    if (answer === 'lost') throw new TypeError('lost');
    return new Response(JSON.stringify(answer.state || answer), answer.init);
  };
"""


def played(page: Page) -> None:
    """Freeze the page's clock and answer its questions inside it, at once: everywhere the place, no stream."""
    page.clock.install(time=1_788_273_128)
    page.clock.pause_at(1_788_273_129)
    page.add_init_script(PLAYED % json.dumps({**visitor("waiting"), "token": "tok.en"}))
    page.add_init_script("play['/events'] = 'lost'")


def times(page: Page, path: str) -> list[float]:
    """Seconds between the questions to ``path``."""
    found = [at for at, asked, _ in page.evaluate("asked") if asked == path]
    return [(later - sooner) / 1000 for sooner, later in pairwise(found)]


@pytest.mark.req("VIS-095", "PAG-134", "PAG-135")
@pytest.mark.req("FLT-132")
@pytest.mark.req("PAG-120")
def test_it_asks_every_five_seconds_while_no_stream_opens_and_tries_one_again_ever_later(
    open_page: Callable[..., Page], stub: Stub
) -> None:
    page = open_page(before=played)
    expect(page.locator("#hero")).to_have_text("1,204")

    page.clock.run_for(120_000)

    assert len(times(page, "/api/status")) >= 20
    assert all(gap <= 5.0 for gap in times(page, "/api/status")[2:])
    assert [round(gap) for gap in times(page, "/events")[:7]] == [2, 4, 8, 16, 20, 20, 20]
    assert len([path for _, path, _ in page.evaluate("asked") if path == "/api/join"]) == 1
    page.evaluate("chance = 0.999")
    begun = len(times(page, "/api/status"))
    page.clock.run_for(30_000)
    found = times(page, "/api/status")[begun + 1 :]
    # Two minutes and a half later: nothing is counted down by the page itself.
    expect(page.locator("#valueText")).to_have_text("About 17\u00a0min")
    assert max(found) == pytest.approx(4.5, abs=0.01), "up to 10 % sooner, never later; at once after a broken stream"


@pytest.mark.req("PAG-113")
def test_it_moves_on_within_a_second_of_the_turn(open_page: Callable[..., Page], stub: Stub) -> None:
    page = open_page("/w/shop?qm_return=https%3A%2F%2Fevil.example%2F", before=played)
    expect(page.locator("#hero")).to_have_text("1,204")
    turn = visitor("passed", location=f"{stub.url}/landed?qm_token=t")
    page.evaluate("turn => { play['/api/status'] = { state: turn }; asked = []; }", turn)

    for _ in range(30):  # the page's next question is due within five seconds
        page.clock.run_for(200)
        if page.inner_text("#label") == "It is your turn":
            break
    expect(page.get_by_role("link", name="Continue to the site")).to_be_focused()
    until(lambda: len([path for _, path, _ in page.evaluate("asked") if path == "/api/status"]) > 1)
    page.clock.run_for(1_000)

    page.wait_for_url(f"{stub.url}/landed?qm_token=t")


@pytest.mark.req("PAG-139")
@pytest.mark.parametrize(
    "act",
    [
        "document.dispatchEvent(new Event('visibilitychange'))",
        "dispatchEvent(new Event('online'))",
        "dispatchEvent(new Event('pagehide')); dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))",
    ],
)
def test_it_asks_at_once_when_somebody_comes_back_to_it(open_page: Callable[..., Page], stub: Stub, act: str) -> None:
    page = open_page(before=played)
    expect(page.locator("#hero")).to_have_text("1,204")
    page.clock.run_for(6_000)
    before = len([path for _, path, _ in page.evaluate("asked") if path == "/api/status"])

    page.evaluate(act)
    page.clock.run_for(10)

    assert len([path for _, path, _ in page.evaluate("asked") if path == "/api/status"]) > before


@pytest.mark.req("VIS-099", "PAG-138")
@pytest.mark.parametrize(
    ("answer", "gaps"),
    [
        ({"state": {"code": "storage_unavailable"}, "init": {"status": 503}}, [5, 10, 20, 40, 50, 50]),
        ("lost", [5, 10, 20, 40, 50, 50]),
        ({"state": {"code": "rate_limited"}, "init": {"status": 429, "headers": {"Retry-After": "7"}}}, [7] * 6),
    ],
)
def test_it_keeps_the_token_and_tries_again_ever_later_while_there_is_trouble(
    open_page: Callable[..., Page], stub: Stub, answer: Any, gaps: list[float]
) -> None:
    page = open_page(before=played)
    expect(page.locator("#hero")).to_have_text("1,204")
    page.evaluate("answer => { play['/api/status'] = play['/api/join'] = answer; asked = []; }", answer)

    page.clock.run_for(240_000)
    page.evaluate("chance = 1")
    page.clock.run_for(240_000)

    found = times(page, "/api/status")
    assert [round(gap) for gap in found[:6]] == gaps
    assert found[-1] == gaps[-1] * 1.2, "up to a fifth more"
    assert max(found) <= 60
    expect(page.locator("#note")).to_contain_text("Your place is kept.")
    expect(page.locator("#hero")).to_have_text("1,204")
    assert "paused" not in page.inner_text("body").lower()
    assert page.evaluate("localStorage.qm_shop") == "tok.en"
    assert {path for _, path, _ in page.evaluate("asked")} <= {"/api/status", "/events"}, "never a second join"


@pytest.mark.req("VIS-100")
@pytest.mark.parametrize(
    ("status", "code", "title", "again"),
    [
        (429, "queue_identity_limit", "Many places are held from this network", 30.0),
        (503, "line_full", "The line is full just now", 30.0),
        (403, "blocked_by_protection", "This browser was not given a place", None),
    ],
)
def test_it_says_why_it_has_no_place_and_tries_again_where_that_may_help(
    open_page: Callable[..., Page], stub: Stub, status: int, code: str, title: str, again: float | None
) -> None:
    refused = {"state": {"code": code}, "init": {"status": status, "headers": {"Retry-After": "30"} if again else {}}}
    page = open_page(
        before=lambda page: (played(page), page.add_init_script(f"play['/api/join'] = {json.dumps(refused)}"))
    )
    expect(page.locator("#label")).to_have_text(title)

    page.clock.run_for(100_000)

    assert [round(gap) for gap in times(page, "/api/join")] == ([again] * 3 if again else [])
    page.evaluate("play['/api/join'] = undefined")
    page.get_by_role("button", name="Try now" if again else "Try again").click()
    page.clock.run_for(10)
    expect(page.locator("#hero")).to_have_text("1,204")


@pytest.mark.req("VIS-177", "PAG-128", "VIS-104", "PAG-159")
def test_it_takes_an_address_only_where_the_server_offers_it(open_page: Callable[..., Page], stub: Stub) -> None:
    stub.show(visitor("waiting"))
    plain = open_page()
    expect(plain.locator("#hero")).to_have_text("1,204")
    assert plain.locator("#mail").count() == 0

    page = open_page("/w/mail", before=lambda page: page.add_init_script("localStorage.qm_lang ||= 'th'"))
    page.get_by_role("combobox").select_option("en")
    box, said = page.get_by_label("E-mail me when it is my turn"), page.locator("#mailSaid")
    expect(page.locator("#mailWhy")).to_contain_text("It can arrive late, so keep this page open.")
    box.fill("ann@shop.example")
    page.get_by_role("button", name="Save").click()
    expect(said).to_have_text("Saved. We will write to this address.")
    assert page.evaluate("localStorage.qm_email_mail") == "ann@shop.example"
    for status, sentence in ((400, "Please check the address."), (429, "Please try again later.")):
        stub.say(notify={"status": status})
        page.get_by_role("button", name="Save").click()
        expect(said).to_have_text(sentence)
    stub.say(notify={})
    page.reload()
    expect(box).to_have_value("ann@shop.example")
    box.fill("")
    page.get_by_role("button", name="Save").click()
    expect(said).to_have_text("The address was removed.")

    calls = stub.calls("/api/notify")
    assert [call["method"] for call in calls] == ["POST", "POST", "POST", "DELETE"]
    assert json.loads(calls[0]["body"]) == {
        "roomId": "mail", "token": "tok.en", "email": "ann@shop.example", "lang": "en"
    }  # fmt: skip
    assert json.loads(calls[3]["body"]) == {"roomId": "mail", "token": "tok.en"}
    page.get_by_role("button", name="Tell me when it is my turn").click()
    keys = {"qm_mail", "qm_meta_mail", "qm_notify_mail", "qm_lang"}
    assert set(page.evaluate("Object.keys(localStorage)")) - {"qm_notify_mail"} == keys - {"qm_notify_mail"}
