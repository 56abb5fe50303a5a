"""One visitor's whole journey in a real browser: shop, waiting page, the line moves, shop again.

Shop and queue stand under two registrable names, as a customer's site and the queue do, so that cookies and origins
behave as they will; two ports of 127.0.0.1 would be one site and hide faults of the tag.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from loadtests.browser import Browser, shared_client
from loadtests.demo import free_port
from tests.chaos.surge import create_room, read_room
from tests.harness import Server

pytestmark = pytest.mark.browser

SHOP = "http://www.littleshop.test"
QUEUE = "http://line.waitingroom.test"
ROOM = "shop"
OUTPUT = Path(__file__).parent.parent / "output"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Stage:
    """A running server, the shop, and a browser that reaches both by name."""

    server: Server
    chromium: Chromium

    def visitor(self, **kw: object) -> BrowserContext:
        """A fresh browser profile."""
        return self.chromium.new_context(**kw)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    OUTPUT.mkdir(exist_ok=True)
    shop_port = free_port(0)
    env = {"STORE": "memory", "PUBLIC_URL": QUEUE}
    with Server(env=env, workers=2) as server, sync_playwright() as playwright:
        shop = subprocess.Popen([sys.executable, "-m", "loadtests.shop", str(shop_port), QUEUE, ROOM])
        names = {"www.littleshop.test": f"127.0.0.1:{shop_port}", "line.waitingroom.test": urlsplit(server.url).netloc}
        rules = ",".join(f"MAP {name}:80 {address}" for name, address in names.items())
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=[*FLAGS, f"--host-resolver-rules={rules}"]
        )
        try:
            yield Stage(server, chromium)
        finally:
            chromium.close()
            shop.terminate()
            shop.wait(timeout=10)


def _people_ahead(server: Server, count: int) -> list[Browser]:
    """``count`` visitors who stand in line already."""

    async def run() -> list[Browser]:
        async with shared_client(server.url) as client:
            people = [Browser(client, ROOM) for _ in range(count)]
            for person in people:
                await person.join()
            return people

    return asyncio.run(run())


def _go_home(server: Server, people: list[Browser]) -> None:
    async def run() -> None:
        async with shared_client(server.url) as client:
            for person in people:
                person.client = client
                await person.leave()

    asyncio.run(run())


def _set(server: Server, **fields: object) -> None:
    create_room(server.url, server.admin_key, ROOM, **fields)


def _number(page: Page, number: int) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(rf"\b{number}\b"), timeout=15_000)


def test_it_takes_a_visitor_from_the_shop_through_the_line_and_back(stage: Stage) -> None:
    server = stage.server
    create_room(server.url, server.admin_key, ROOM, name="The Little Shop", targetUrl=f"{SHOP}/", ratePerMinute=0)
    ahead = [person for person in _people_ahead(server, 6) if person.ticket != 1] or []
    context = stage.visitor(viewport={"width": 390, "height": 844})
    page = context.new_page()

    page.goto(f"{SHOP}/checkout")
    page.wait_for_url(re.compile(rf"{re.escape(QUEUE)}/w/{ROOM}\?qm_return="), timeout=15_000)
    first = read_room(server.url, server.admin_key, ROOM)["waiting"]
    _number(page, first)
    page.screenshot(path=OUTPUT / "journey-waiting.png")

    _go_home(server, ahead[:3])
    _number(page, first - 3)
    page.reload()
    _number(page, first - 3)

    _set(server, ratePerMinute=6000)
    page.wait_for_url(re.compile(rf"{re.escape(SHOP)}/checkout"), timeout=30_000)
    expect(page.locator("#shop")).to_have_text("Checkout", timeout=15_000)
    page.wait_for_url(f"{SHOP}/checkout", timeout=10_000)  # the token is gone from the address bar
    page.screenshot(path=OUTPUT / "journey-inside.png")
    assert read_room(server.url, server.admin_key, ROOM)["active"] == 1

    page.goto(f"{SHOP}/")
    expect(page.locator("#shop")).to_have_text("The Little Shop", timeout=15_000)
    page.wait_for_timeout(2500)  # the tag shows the page after 2 s whatever happens: stay until it would have moved us
    assert page.url == f"{SHOP}/"

    token = page.evaluate(f"localStorage.getItem('qm_{ROOM}')")
    assert token
    _stolen_token_stays_outside(stage, token)
    assert read_room(server.url, server.admin_key, ROOM)["active"] == 1


def _stolen_token_stays_outside(stage: Stage, token: str) -> None:
    """A second browser of the same machine opens the shop with the first one's token in the address."""
    _set(stage.server, ratePerMinute=0)
    thief = stage.visitor().new_page()
    thief.goto(f"{SHOP}/checkout?qm_token={token}")
    thief.wait_for_url(re.compile(rf"{re.escape(QUEUE)}/w/{ROOM}"), timeout=15_000)
    expect(thief.get_by_role("heading", level=1)).to_contain_text(re.compile(r"\d"), timeout=15_000)
    thief.wait_for_timeout(3000)
    assert thief.url.startswith(QUEUE)
