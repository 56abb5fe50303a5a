"""The stand-in server and one Chromium for the tests of the console, and a page that must not break its own rules."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
]  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
KEY = "test-key-of-the-stand-in"

expect.set_options(timeout=10_000)


class Stub:
    """The stand-in server, seen from a test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, path: str, body: dict[str, Any]) -> None:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).read()

    def reset(self, rooms: str = "pictured") -> None:
        self.post("/stub/reset", {"rooms": rooms})

    def set(self, **values: Any) -> None:
        """Set attributes of ``tests.console.stub.State``."""
        self.post("/stub/set", values)

    def room(self, room_id: str, **values: Any) -> None:
        """Change a room as the engine or somebody else would."""
        self.post(f"/stub/room/{room_id}", values)

    def state(self) -> dict[str, Any]:
        """``rooms``, ``asked`` (method and path of every admin request), ``sent`` (path and body of every write)."""
        answer: dict[str, Any] = json.load(urllib.request.urlopen(self.url + "/stub/state"))
        return answer

    def sent(self, path: str) -> list[dict[str, Any]]:
        """Bodies of the writes to ``path`` below /api/admin."""
        return [body for where, body in self.state()["sent"] if where == path]


@pytest.fixture(scope="package")
def stub_process() -> Iterator[str]:
    """Address of one stand-in server for the whole run."""
    command = [sys.executable, "-m", "tests.console.stub"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        try:  # a busy machine starts slowly
            wait_for(lambda: urllib.request.urlopen(url + "/stub/state").status == 200, 60)
            yield url
        finally:
            process.terminate()


@pytest.fixture
def stub(stub_process: str) -> Stub:
    """The stand-in with the pictured rooms, as at its start."""
    server = Stub(stub_process)
    server.reset()
    return server


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole run."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser, stub: Stub) -> Iterator[Callable[..., Page]]:
    """Opens consoles; afterwards none of them may have broken its policy, thrown, asked another origin, or told a key
    to the browser's console."""
    faults: list[str] = []
    contexts = []

    def note(message: Any) -> None:
        tells = KEY in message.text or "qmsu_" in message.text or "token.of" in message.text
        if tells or (message.type == "error" and "Failed to load resource" not in message.text):
            faults.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith((stub.url + "/", "blob:", "data:")):
            faults.append(f"asked {request.url}")

    def make(
        *,
        width: int = 1440,
        height: int = 900,
        theme: str = "light",
        language: str = "en",
        locale: str = "en-US",
        zone: str = "UTC",
        **more: Any,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,  # type: ignore[arg-type]
            locale=locale,
            timezone_id=zone,
            **more,
        )
        contexts.append(context)
        if language:
            context.add_init_script(f"localStorage.qm_lang ??= '{language}'")
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", asked)
        page.goto(stub.url + "/")
        return page

    yield make
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def signed_in(open_page: Callable[..., Page]) -> Callable[..., Page]:
    """Opens a console and signs in; resolves when the first frame is shown."""

    def make(**more: Any) -> Page:
        page = open_page(**more)
        sign_in(page)
        return page

    return make


def sign_in(page: Page, key: str = KEY) -> None:
    """Type ``key`` and wait for the first frame."""
    page.locator("#key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator(".live-on")).to_be_visible()


def card(page: Page, name: str) -> Any:
    """The card of the room called ``name``."""
    return page.get_by_role("article", name=name, exact=True)


def stand_still(page: Page) -> None:
    """Stop the clock of the page: from here on only ``run_for`` moves it. Timers set before still go by the machine."""
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)


class Held:
    """Questions of a page that are not answered yet: to ``path`` below /api/admin, by ``method``."""

    def __init__(self, page: Page, path: str, method: str) -> None:
        self.page, self.method, self.holds = page, method, True
        self.routes: list[Route] = []
        page.route(f"**/api/admin{path}", self._hold)

    def _hold(self, route: Route) -> None:
        if self.holds and route.request.method == self.method:
            self.routes.append(route)
        else:
            route.fallback()  # another one may hold it

    def wait(self) -> Route:
        """The oldest of them, which is then the test's to answer."""
        wait_for(lambda: self.page.evaluate("true") and len(self.routes) > 0)
        return self.routes.pop(0)

    def end(self) -> None:
        """Hold no further ones; taking the route away would let those go that are held."""
        self.holds = False

    def release(self) -> None:
        """Let all that are held go, and hold no further ones."""
        self.end()
        while self.routes:
            self.routes.pop(0).continue_()


def wait_for(condition: Callable[[], bool], within_sec: float = 10.0) -> None:
    """Poll until ``condition`` holds; an address that does not answer yet counts as not yet."""
    end = time.monotonic() + within_sec
    while True:
        try:
            if condition():
                return
        except OSError:
            pass
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)
