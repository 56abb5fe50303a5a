"""A stub server and one Chromium for the tests of the waiting page."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NOW = 1788273128000
"""14:32:08 UTC on 1 September 2026, the time of the design's pictures."""


def visitor(state: str, **members: Any) -> dict[str, Any]:
    """A visitor state as 03, section 17 describes it."""
    place = {"ticket": 48213, "ref": "K7Q2MX", "position": 1204, "ahead": 1203, "joinedAt": NOW - 900_000}
    common = {"roomId": "shop", "name": "Shop", "roomState": "active", "now": NOW, "pollMs": 5000}
    wait = {"estWaitSec": 1010, "estWaitIsFloor": False}
    shapes: dict[str, dict[str, Any]] = {
        "waiting": {**place, **wait},
        "paused": {**place, "estWaitSec": None, "estWaitIsFloor": False, "roomState": "paused"},
        "passed": {"ticket": 48213, "ref": "K7Q2MX", "passedAt": NOW, "passExpiresAt": NOW + 600_000},
        "at_capacity": {
            "ticket": 48213,
            "ref": "K7Q2MX",
            "passedAt": NOW,
            "passExpiresAt": NOW + 600_000,
            "doorAhead": 2,
        },
        "active": {"ticket": 48213, "ref": "K7Q2MX", "sessionExpiresAt": NOW + 600_000},
        "scheduled": {
            "roomState": "scheduled",
            "preQueued": True,
            "preCount": 1234,
            "opensAt": NOW + 252_000,
            "position": None,
            "ahead": None,
            "ref": "5TN0QW",
            "joinedAt": NOW - 900_000,
        },
        "bypass": {"roomState": "bypass"},
        "gone": {"reason": "expired", "rejoin": True},
    }
    return {"state": state, **common, **shapes[state], **members}


class Stub:
    """The stub server, seen from a test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def say(self, **script: Any) -> None:
        """Set parts of the script: see ``tests.pages.stub.Script``."""
        self._send(json.dumps(script).encode())

    def show(self, state: dict[str, Any], **join: Any) -> None:
        """Let join, status and stream tell one state; ``join`` adds members of the join's answer."""
        self.say(
            join={"body": {"created": True, "reason": "new", "token": "tok.en", **state, **join}},
            status={"body": state},
        )

    def calls(self, path: str = "") -> list[dict[str, Any]]:
        """What was asked since the last reset, oldest first."""
        with urllib.request.urlopen(f"{self.url}/stub") as answer:
            return [call for call in json.load(answer) if call["path"].startswith(path)]

    def reset(self) -> None:
        """Forget what was asked and answer as at first."""
        self.say(calls=[], events="on", used=0, join={}, status={}, bearer={}, notify={})

    def _send(self, body: bytes) -> None:
        request = urllib.request.Request(f"{self.url}/stub", data=body, headers={"content-type": "application/json"})
        urllib.request.urlopen(request).close()


def until(claim: Any, seconds: float = 15.0) -> None:
    """Wait until ``claim()`` is true; fail after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def stub_process() -> Iterator[Stub]:
    """Run the stub server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", "tests.pages.stub", str(port)], stdout=subprocess.DEVNULL)
    try:
        until(lambda: _answers(port), 60)  # a busy machine starts slowly
        yield Stub(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="package")
def stub_server() -> Iterator[Stub]:
    with stub_process() as stub:
        yield stub


@pytest.fixture
def stub(stub_server: Stub) -> Stub:
    stub_server.reset()
    return stub_server


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, stub: Stub) -> Iterator[Callable[..., Page]]:
    """Open the page of the room; fails the test on any error or refused load that the console reports."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def note(text: str) -> None:
        # Chromium reports every answer of 400 and above; those are part of the tests.
        if not text.startswith("Failed to load resource: the server responded with a status of"):
            faults.append(text)

    def opened(path: str = "/w/shop", *, before: Callable[[Page], None] | None = None, **options: Any) -> Page:
        context = chromium.new_context(**{"locale": "en-GB", "viewport": {"width": 390, "height": 844}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: note(message.text) if message.type in ("error", "warning") else None)
        if before:
            before(page)
        page.goto(stub.url + path, wait_until="commit")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []
