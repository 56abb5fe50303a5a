"""The browser tag in Chromium. The shop and the queue are played to it: what counts is what the tag does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

from tests.pages.conftest import CHROMIUM, FLAGS

pytestmark = pytest.mark.browser

TAG = (Path(__file__).parents[2] / "static" / "snippet" / "qm.js").read_text()
SHOP = "https://shop.example"
QUEUE = "https://queue.example"
TOKEN = "eyJyb29tIjoic2hvcCJ9.AAAA"
PASS = {"action": "pass", "roomId": "shop", "reason": "session", "recheckSec": 600}
QUEUED = {
    "action": "queue", "roomId": "shop", "reason": "new", "roomState": "active",
    "location": f"{QUEUE}/w/shop?qm_return=x",
}  # fmt: skip
CORS = {"access-control-allow-origin": SHOP, "access-control-allow-credentials": "true"}


class Stage:
    """One tab on a shop page with the tag; ``answers``: what the queue says, the last one again and again."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.answers: list[Any] = [PASS]
        self.asked: list[dict[str, Any]] = []
        self.requests: list[Any] = []
        self.attributes = 'data-room="shop"'
        self.csp = f"default-src 'none'; script-src {QUEUE}; connect-src {QUEUE}"
        self.visited: list[str] = []
        context.route("**/*", self._answer)
        self.page: Page = context.new_page()
        self.logs: list[str] = []
        self.page.on("console", lambda message: self.logs.append(f"{message.type}: {message.text}"))
        self.page.add_init_script(
            "window.seen = [];"
            "for (const n of ['pass', 'queued', 'failopen'])"
            " document.addEventListener('qm:' + n, e => { seen.push([n, e.detail.reason]);"
            "  if (window.keep) e.preventDefault(); });"
        )

    def open(self, path: str = "/checkout") -> Page:
        self.page.goto(SHOP + path, wait_until="commit")
        return self.page

    def storage(self) -> dict[str, str]:
        found = self.page.evaluate("Object.fromEntries(Object.entries(localStorage))")
        assert isinstance(found, dict)
        return found

    def until(self, script: str) -> None:
        """Ask the page until it is true. Not ``wait_for_function``: that needs ``eval``, which the policy forbids."""
        end = time.monotonic() + 30
        while not self.page.evaluate(f"Boolean({script})"):
            assert time.monotonic() < end, f"{script}: {self.logs}"
            self.page.wait_for_timeout(50)

    def until_at(self, start: str) -> str:
        self.page.wait_for_url(lambda url: url.startswith(start), timeout=30_000, wait_until="commit")
        return self.page.url

    def _answer(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        if url.netloc == "shop.example":
            script = f'<script src="{QUEUE}/qm.js" {self.attributes}></script>'
            html = f"<!doctype html><title>Shop</title>{script}<p id=content>Goods</p>"
            route.fulfill(body=html, content_type="text/html", headers={"content-security-policy": self.csp})
        elif url.path == "/qm.js":
            route.fulfill(body=TAG, content_type="application/javascript")
        elif url.path == "/api/check":
            self._check(route)
        else:
            self.visited.append(route.request.url)
            route.fulfill(body="<title>Waiting</title>", content_type="text/html")

    def _check(self, route: Route) -> None:
        self.requests.append(route.request)
        self.asked.append(json.loads(route.request.post_data or "null"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "silence":
            return
        if answer == "broken":
            route.abort()
        elif isinstance(answer, int):
            route.fulfill(status=answer, body="{}", headers=CORS)
        elif answer == "no cors":
            route.fulfill(json=QUEUED, headers={"access-control-allow-origin": "https://other.example"})
        elif isinstance(answer, str):
            route.fulfill(body=answer, headers=CORS)
        else:
            route.fulfill(json=answer, headers=CORS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def stage(chromium: Browser) -> Iterator[Stage]:
    context = chromium.new_context()
    yield Stage(context)
    context.close()


IS_VISIBLE = "getComputedStyle(document.getElementById('content')).visibility === 'visible'"


@pytest.mark.req("VIS-111", "VIS-113", "VIS-114")
def test_it_asks_once_and_shows_the_page(stage: Stage) -> None:
    stage.page.add_init_script(
        "const plain = fetch; window.inits = [];"
        "window.fetch = (url, init) => { inits.push(init.credentials); return plain(url, init); };"
    )
    page = stage.open("/checkout?a=1#frag")
    stage.until("window.seen && seen.length")

    assert page.evaluate("seen") == [["pass", "session"]]
    stage.until(IS_VISIBLE)
    assert stage.asked == [{"tag": "1.4.0", "url": f"{SHOP}/checkout?a=1#frag"}]
    request = stage.requests[0]
    assert (request.method, request.headers["content-type"]) == ("POST", "text/plain")
    assert request.url == f"{QUEUE}/api/check?room=shop"
    assert page.evaluate("[QM.version, QM.room]") == ["1.4.0", "shop"]
    assert page.evaluate("inits") == ["include"]
    assert page.evaluate("document.documentElement.getAttribute('style')") is None


@pytest.mark.req("VIS-114")
def test_it_moves_to_the_waiting_page_and_never_shows_the_content(stage: Stage) -> None:
    stage.open("/first")
    stage.until("window.seen && seen.length")
    stage.answers = ["silence"]
    stage.attributes += ' data-timeout-ms="10000"'
    page = stage.open()
    page.wait_for_selector("#content", state="attached")
    assert not page.evaluate(IS_VISIBLE)

    stage.answers = [QUEUED]
    stage.open()

    assert stage.until_at(QUEUE) == QUEUED["location"]
    stage.answers = [PASS]
    page.wait_for_load_state()  # a browser that is still on its way has no history to go back in
    page.go_back(wait_until="commit")
    assert page.url == f"{SHOP}/first", "the page that was not shown is no step back"


@pytest.mark.req("VIS-112")
def test_it_keeps_the_token_from_the_address_and_the_door_key(stage: Stage) -> None:
    stage.answers = [{**PASS, "reason": "admitted", "doorKey": "D" * 43}, PASS]
    page = stage.open(f"/checkout?a=%20b&qm_token={TOKEN}&c#frag")
    stage.until("window.seen && seen.length")

    assert page.url == f"{SHOP}/checkout?a=%20b&c#frag"
    assert stage.storage() == {"qm_shop": TOKEN, "qm_dk_shop": "D" * 43}
    assert stage.asked[0] == {"tag": "1.4.0", "token": TOKEN, "url": f"{SHOP}/checkout?a=%20b&c#frag"}
    assert page.evaluate("QM.check()") == {"result": "pass", "reason": "session"}
    assert stage.asked[1].items() >= {"token": TOKEN, "doorKey": "D" * 43}.items()


@pytest.mark.parametrize(("second", "kept"), [(PASS, "old.token"), (QUEUED, "old.token")])
def test_it_does_not_lose_its_token_to_a_planted_one(stage: Stage, second: dict[str, Any], kept: str) -> None:
    stage.open()
    stage.until("window.seen && seen.length")
    stage.page.evaluate("localStorage.setItem('qm_shop', 'old.token')")
    stage.asked.clear()
    stage.answers = [{**QUEUED, "reason": "bad_token"}, second]

    stage.open(f"/checkout?qm_token={TOKEN}")

    if second is PASS:
        stage.until("window.seen && seen.length")
    else:
        stage.until_at(QUEUE)
        stage.answers = [PASS]
        stage.open("/other")
    assert [ask["token"] for ask in stage.asked[:2]] == [TOKEN, "old.token"]
    assert stage.storage()["qm_shop"] == kept


@pytest.mark.req("PAG-021", "ENG-021", "VIS-116", "INL-186", "FLT-064")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("no cors", "unreachable"),
        (503, "http-503"), (404, "http-404"), (403, "http-403"), (401, "http-401"), (500, "http-500"),
        ("broken", "unreachable"), ("silence", "timeout"), ("no json", "invalid-response"), ("[]", "invalid-response"),
        ({"action": "queue"}, "invalid-response"), ({**QUEUED, "location": "javascript:x"}, "invalid-response"),
        ({"action": "other"}, "invalid-response"), ("null", "invalid-response"),
    ],
)  # fmt: skip
def test_it_shows_the_page_when_the_queue_fails(stage: Stage, answer: Any, reason: str) -> None:
    stage.answers = [answer]
    stage.attributes += ' data-timeout-ms="500"' if answer == "silence" else ""

    page = stage.open()
    stage.until("window.seen && seen.length")

    assert page.evaluate("seen") == [["failopen", reason]]
    stage.until(IS_VISIBLE)
    said = [log for log in stage.logs if log.startswith("warning")]
    assert said == [f"warning: [queue-manager] fail-open: {reason}"]
    assert stage.visited == []


@pytest.mark.req("VIS-117", "VIS-078")
def test_it_goes_to_the_waiting_page_when_the_queue_sheds_load(stage: Stage) -> None:
    stage.answers = [429]
    stage.open(f"/checkout?a=1&qm_token={TOKEN}")

    url = urlsplit(stage.until_at(QUEUE))

    assert url.path == "/w/shop"
    assert parse_qs(url.query) == {"qm_return": [f"{SHOP}/checkout?a=1"]}


@pytest.mark.req("PAG-023")
@pytest.mark.parametrize(
    ("reason", "kept"),
    [("expired", False), ("ejected", False), ("stale_generation", False), ("session_elsewhere", False),
     ("bad_token", False), ("waiting", True), ("paused", True), ("at_capacity", True)],
)  # fmt: skip
def test_it_forgets_a_ticket_that_is_over(stage: Stage, reason: str, kept: bool) -> None:
    stage.open()
    stage.until("window.seen && seen.length")
    stage.page.evaluate("localStorage.setItem('qm_shop', 'a.b'); localStorage.setItem('qm_dk_shop', 'd')")
    stage.answers = [{**QUEUED, "reason": reason}, PASS]
    stage.open()
    stage.until_at(QUEUE)

    stage.open()
    stage.until("window.seen && seen.length")

    assert stage.storage() == ({"qm_shop": "a.b", "qm_dk_shop": "d"} if kept else {})


@pytest.mark.req("PAG-024")
def test_it_opens_the_page_when_it_was_sent_away_in_circles(stage: Stage) -> None:
    stage.answers = [QUEUED]
    for _ in range(5):
        stage.open()
        stage.until_at(QUEUE)

    page = stage.open()
    stage.until("window.seen && seen.length")

    assert page.evaluate("seen") == [["failopen", "loop"]]
    assert len(stage.visited) == 5


def test_it_asks_again_when_the_path_changes_or_the_time_has_come(stage: Stage) -> None:
    stage.answers = [{**PASS, "recheckSec": 3}, {**PASS, "recheckSec": 600}, QUEUED]
    page = stage.open()
    stage.until("seen.length === 2")
    page.evaluate("history.pushState(null, '', '/checkout/step-2')")

    stage.until_at(QUEUE)

    assert [ask["url"] for ask in stage.asked] == [f"{SHOP}/checkout", f"{SHOP}/checkout", f"{SHOP}/checkout/step-2"]


def test_it_leaves_the_move_to_the_page_that_asks_for_it(stage: Stage) -> None:
    stage.answers = [QUEUED]
    stage.page.add_init_script("window.keep = true")

    page = stage.open()
    stage.until("window.seen && seen.length")
    stage.until(IS_VISIBLE)

    assert page.evaluate("seen") == [["queued", "new"]]
    assert stage.visited == []


@pytest.mark.req("PAG-013")
@pytest.mark.parametrize("attributes", ["", 'data-room=""', 'data-room="a b"', 'data-room="-x"'])
def test_it_does_nothing_without_a_room(stage: Stage, attributes: str) -> None:
    stage.attributes = attributes

    page = stage.open()
    page.wait_for_selector("#content")

    assert page.evaluate(IS_VISIBLE)
    assert stage.asked == []
    assert len([log for log in stage.logs if log.startswith("error: [queue-manager]")]) == 1


def test_it_waits_to_be_called_when_manual(stage: Stage) -> None:
    stage.attributes += ' data-manual="1"'
    page = stage.open()
    page.wait_for_selector("#content")

    assert page.evaluate(IS_VISIBLE)
    assert stage.asked == []
    assert page.evaluate("QM.check()") == {"result": "pass", "reason": "session"}


@pytest.mark.req("VIS-119", "VIS-112")
@pytest.mark.parametrize("missing", ["localStorage", "fetch", "history", "Promise"])
def test_it_breaks_no_page_that_lacks_something(stage: Stage, missing: str) -> None:
    getter = "throw 1" if missing == "localStorage" else "return undefined"
    stage.page.add_init_script(f"Object.defineProperty(window, '{missing}', {{get() {{ {getter} }}}})")

    page = stage.open(f"/checkout?qm_token={TOKEN}")
    stage.until("window.seen && seen.length")
    stage.until(IS_VISIBLE)

    assert page.evaluate("seen") in ([["pass", "session"]], [["failopen", "unreachable"]])
    if missing == "localStorage":
        assert page.evaluate("QM.check()")["result"] == "pass"
        assert [ask["token"] for ask in stage.asked] == [TOKEN, TOKEN], "kept in memory"


@pytest.mark.req("VIS-119")
def test_it_leaves_nothing_on_the_page_but_its_one_name(stage: Stage) -> None:
    names = "Object.getOwnPropertyNames(window)"
    stage.page.add_init_script(f"window.before = {names}.concat('before', 'seen')")

    page = stage.open()
    stage.until("window.seen && seen.length")

    # The policy of this page allows no eval and no script but the tag; either would be a message of the console.
    assert page.evaluate(f"{names}.filter(name => !before.includes(name) && isNaN(name))") == ["QM"]
    assert page.evaluate("[...document.scripts].map(script => script.src)") == [f"{QUEUE}/qm.js"]
    assert stage.logs == []


@pytest.mark.req("VIS-115")
@pytest.mark.parametrize(
    ("attributes", "hidden_ms"),
    [("", 2000), (' data-timeout-ms="700"', 700), (' data-timeout-ms="50"', 100), (' data-timeout-ms="60000"', 10_000),
     (' data-timeout-ms="soon"', 2000), (' data-hide="0"', 0)],
)  # fmt: skip
def test_it_hides_the_page_until_the_answer_and_no_longer(stage: Stage, attributes: str, hidden_ms: int) -> None:
    stage.answers = ["silence"]
    stage.attributes += attributes
    page = stage.page
    page.clock.install()
    page.clock.pause_at(4_000_000_000)
    stage.open()
    page.wait_for_selector("#content", state="attached")

    if hidden_ms:
        assert not page.evaluate(IS_VISIBLE)
        page.clock.run_for(hidden_ms - 1)
        assert not page.evaluate(IS_VISIBLE)
        page.clock.run_for(1)

    assert page.evaluate(IS_VISIBLE)


@pytest.mark.req("VIS-118")
def test_it_asks_again_in_time_and_after_a_change_of_path_while_somebody_looks(stage: Stage) -> None:
    stage.answers = [{**PASS, "recheckSec": 60}]
    stage.attributes += ' data-timeout-ms="10000"'  # the clock outruns the answers
    page = stage.page
    page.clock.install()
    page.clock.pause_at(4_000_000_000)
    page.add_init_script("Object.defineProperty(document, 'visibilityState', { get: () => window.looks || 'visible' })")
    stage.open()
    stage.until("seen.length === 1")

    page.clock.run_for(58_000)
    assert len(stage.asked) == 1
    page.clock.run_for(4000)
    stage.until("seen.length === 2")
    page.evaluate("window.looks = 'hidden'; document.dispatchEvent(new Event('visibilitychange'))")
    page.clock.run_for(200_000)
    assert len(stage.asked) == 2
    page.evaluate("window.looks = 'visible'; document.dispatchEvent(new Event('visibilitychange'))")
    page.clock.run_for(3000)
    stage.until("seen.length === 3")
    for step in range(1, 4):
        page.evaluate(f"history.pushState(null, '', '/checkout/{step}')")
    page.clock.run_for(5000)
    stage.until("seen.length >= 4")
    page.clock.run_for(5000)
    assert [ask["url"] for ask in stage.asked[3:]] == [f"{SHOP}/checkout/3"], "three steps within 2 s are one question"
    page.evaluate("history.replaceState(null, '', '/checkout/3?tab=2#x')")
    page.clock.run_for(5000)
    assert len(stage.asked) == 4, "the same path"
    stage.answers = [QUEUED]
    page.evaluate("history.pushState(null, '', '/pay')")
    page.clock.run_for(5000)

    assert stage.until_at(QUEUE) == QUEUED["location"]
