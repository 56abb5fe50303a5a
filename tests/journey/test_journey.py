"""One visitor's whole journey in a real browser: shop, waiting page, the line moves, shop again.

Shop and queue stand under two registrable names, as a customer's site and the queue do, so that cookies and origins
behave as they will; two ports of 127.0.0.1 would be one site and hide faults of the tag.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, Page, async_playwright, expect

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

    async def visitor(self, **kw: Any) -> BrowserContext:
        """A fresh browser profile."""
        return await self.chromium.new_context(**kw)

    def save(self, **fields: Any) -> None:
        """Create or change the room."""
        create_room(self.server.url, self.server.admin_key, ROOM, targetUrl=f"{SHOP}/", **fields)

    def room(self) -> dict[str, Any]:
        """The room with its figures."""
        return read_room(self.server.url, self.server.admin_key, ROOM)


@asynccontextmanager
async def staged(*, workers: int) -> AsyncIterator[Stage]:
    OUTPUT.mkdir(exist_ok=True)
    shop_port = free_port(0)
    with Server(env={"STORE": "memory", "PUBLIC_URL": QUEUE}, workers=workers) as server:
        shop = subprocess.Popen([sys.executable, "-m", "loadtests.shop", str(shop_port), QUEUE, ROOM])
        names = {"www.littleshop.test": f"127.0.0.1:{shop_port}", "line.waitingroom.test": urlsplit(server.url).netloc}
        rules = ",".join(f"MAP {name}:80 {address}" for name, address in names.items())
        try:
            async with async_playwright() as playwright:
                chromium = await playwright.chromium.launch(
                    executable_path="/usr/bin/chromium", args=[*FLAGS, f"--host-resolver-rules={rules}"]
                )
                yield Stage(server, chromium)
                await chromium.close()
        finally:
            shop.terminate()
            shop.wait(timeout=10)


async def _is_told_number(page: Page, number: int) -> None:
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_contain_text(re.compile(rf"(?<!\d){number}(?!\d)"), timeout=30_000)


@pytest.mark.req("VIS-216")
async def test_it_takes_a_visitor_from_the_shop_through_the_line_and_back() -> None:
    async with staged(workers=2) as stage, shared_client(stage.server.url) as client:
        stage.save(name="The Little Shop", ratePerMinute=0)
        people = [Browser(client, ROOM) for _ in range(6)]
        for person in people:
            await person.join()
        page = await (await stage.visitor(viewport={"width": 390, "height": 844})).new_page()

        await page.goto(f"{SHOP}/checkout")
        await page.wait_for_url(re.compile(rf"{re.escape(QUEUE)}/w/{ROOM}\?qm_return="), timeout=30_000)
        await _is_told_number(page, 7)
        await page.screenshot(path=OUTPUT / "journey-waiting.png")

        for person in people[:3]:
            await person.leave()
        await _is_told_number(page, 4)
        await page.reload()
        await _is_told_number(page, 4)
        assert stage.room()["waiting"] == 4

        stage.save(ratePerMinute=6000)
        await page.wait_for_url(re.compile(rf"{re.escape(SHOP)}/checkout"), timeout=30_000)
        await expect(page.locator("#shop")).to_have_text("Checkout", timeout=30_000)
        await page.wait_for_url(f"{SHOP}/checkout", timeout=30_000)  # the token is gone from the address bar
        await page.screenshot(path=OUTPUT / "journey-inside.png")
        assert stage.room()["active"] == 1

        await page.goto(f"{SHOP}/")
        await _stays_at(page, f"{SHOP}/")
        assert stage.room()["active"] == 1

        token = await page.evaluate(f"localStorage.getItem('qm_{ROOM}')")
        await _a_copied_token_stays_outside(stage, token)

        stage.server.stop()
        await page.goto(f"{SHOP}/checkout")
        await expect(page.locator("#shop")).to_be_visible(timeout=30_000)  # the queue is gone: shown unqueued
        assert page.url == f"{SHOP}/checkout"


async def _stays_at(page: Page, url: str) -> None:
    """The tag shows a page after 2 s at the latest, whatever happens: wait for its check's answer instead."""
    await page.wait_for_load_state("networkidle")
    await expect(page.locator("#shop")).to_be_visible(timeout=30_000)
    assert page.url == url


async def _a_copied_token_stays_outside(stage: Stage, token: str) -> None:
    """A second browser of the same machine opens the shop with the first one's token in the address."""
    assert token
    stage.save(ratePerMinute=0)
    thief = await (await stage.visitor()).new_page()

    await thief.goto(f"{SHOP}/checkout?qm_token={token}")

    await thief.wait_for_url(re.compile(rf"{re.escape(QUEUE)}/w/{ROOM}"), timeout=30_000)
    await expect(thief.get_by_role("heading", level=1)).to_contain_text(re.compile(r"\d"), timeout=30_000)
    assert stage.room()["active"] == 1
