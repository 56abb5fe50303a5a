"""A real browser on an inline host in front of a Node shop: the line at the customer's own URL, and back to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.inline.conftest import Front
from tests.inline.readers import site
from tests.inline.test_streaming import memory_of_worker
from tests.journey.test_journey import FLAGS

MIB = 1 << 20


@pytest.fixture
def shop(the_front: Front) -> Iterator[Front]:
    """Room ``mall`` in front of the shop; nobody is let in yet."""
    with site("shop") as address:
        fields = {"proxyOrigin": address, "targetUrl": "http://www.mall.test/", "state": "active", "rate": 0}
        the_front.room("mall", **fields, queueMaxPerIp=None)
        yield the_front


async def told(page: Page, text: str | re.Pattern[str]) -> None:
    await expect(page.get_by_role("heading", level=1)).to_have_text(text, timeout=30_000)


@pytest.mark.browser
@pytest.mark.req(
    "INL-059", "INL-109", "INL-110", "INL-116", "INL-143", "INL-147", "INL-148", "INL-210", "INL-212", "INL-213",
    "INL-214", "VIS-059",
)  # fmt: skip
@pytest.mark.req("PAG-160", "PAG-113")
async def test_it_keeps_a_browser_in_line_at_the_url_that_it_asked_for(shop: Front) -> None:
    rules = f"MAP www.mall.test:80 {urlsplit(shop.server.url).netloc}"
    asked: list[str] = []
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=[*FLAGS, f"--host-resolver-rules={rules}"]
        )
        page = await (await chromium.new_context()).new_page()
        page.on("request", lambda request: asked.append(request.url))
        url = "http://www.mall.test/shelf?x=1#top"

        await page.goto(url)
        await told(page, re.compile("You are next"))
        assert page.url == url
        files = [urlsplit(each) for each in asked if each != url.partition("#")[0]]
        assert {part.hostname for part in files} == {"www.mall.test"}
        assert all(part.path.startswith("/__qm/") for part in files), asked
        stored = "JSON.stringify([Object.keys(localStorage), Object.keys(sessionStorage)])"
        kept, for_now = json.loads(await page.evaluate(stored))
        assert set(kept) <= {"qm_lang", "qm_theme"}
        assert [key for key in for_now if key.startswith("qm_")] == []
        assert await page.evaluate("document.cookie") == ""

        shop.room("mall", proxyOrigin=_origin(shop), targetUrl="http://www.mall.test/", rate=6000)
        await told(page, "The shop")
        assert page.url == url
        assert await page.evaluate("cart()") == "full"
        assert await page.evaluate("echo('over the wall')") == "over the wall"
        assert await page.evaluate("events()") == "one,two,three"

        await _eject(shop, page)
        assert await page.evaluate("cart()") == "queued"
        await told(page, re.compile("You are next"))
        await expect(page.locator("#notice")).to_be_visible()
        shop.admin("POST", "rooms", {"id": "mall", "rate": 6000})
        await told(page, "The shop")

        await _eject(shop, page)
        await page.get_by_role("button", name="Order").click()
        await told(page, re.compile("You are next"))
        await expect(page.locator("#notice")).to_contain_text("the form was not sent")
        assert page.url == "http://www.mall.test/order"
        shop.admin("POST", "rooms", {"id": "mall", "rate": 6000})
        await told(page, "The shop")  # by GET: the form was not sent again
        assert page.url == "http://www.mall.test/order"
        assert not [each for each in asked if "qm_token" in each or "token=" in each]
        await chromium.close()


@pytest.mark.browser
@pytest.mark.req("INL-219", "INL-214")
async def test_it_says_that_cookies_are_needed_instead_of_turning_in_circles(shop: Front, tmp_path: Path) -> None:
    """Everybody is let in at once here; this browser keeps no cookie, so each load would be another newcomer's."""
    shop.room("mall", proxyOrigin=_origin(shop), targetUrl="http://www.mall.test/", rate=6000)
    blocked = {"profile": {"default_content_setting_values": {"cookies": 2}}}
    (tmp_path / "Default").mkdir()
    (tmp_path / "Default/Preferences").write_text(json.dumps(blocked))
    rules = f"MAP www.mall.test:80 {urlsplit(shop.server.url).netloc}"
    asked: list[str] = []
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            tmp_path, executable_path="/usr/bin/chromium", args=[*FLAGS, f"--host-resolver-rules={rules}"], locale="en"
        )
        page = await context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        await page.goto("http://www.mall.test/shelf")
        label = page.locator("#label")
        await expect(label).to_have_text("This site needs cookies", timeout=30_000)
        await expect(page.locator("#sub")).to_contain_text("Allow cookies for this site, then load the page again.")
        assert asked.count("http://www.mall.test/shelf") == 1, "it was not loaded again by itself"
        assert not [each for each in asked if "token" in each]
        await page.add_init_script("Object.defineProperty(navigator, 'cookieEnabled', { get: () => false })")
        await page.reload()  # as a browser that says so itself: it is not even asked for a place
        await expect(label).to_have_text("This site needs cookies", timeout=30_000)
        joins = [each for each in asked if each.endswith("/api/join")]
        assert len(joins) == 1
        assert not [each for each in asked if "token" in each]
        await context.close()
    assert shop.admin("GET", "rooms/mall")[1]["room"]["waiting"] == 0


def _origin(front: Front) -> str:
    return str(front.admin("GET", "rooms/mall")[1]["room"]["proxyOrigin"])


async def _eject(front: Front, page: Page) -> None:
    """Send this browser to the back, and let nobody in."""
    front.admin("POST", "rooms", {"id": "mall", "rate": 0})
    state = await page.evaluate("fetch('/__qm/api/status?room=mall').then(r => r.json())")
    assert front.admin("POST", "rooms/mall/eject", {"ref": state["ref"]})[0] == 200


@pytest.mark.req("INL-144", "INL-145", "INL-131")
@pytest.mark.parametrize("size", [64 * MIB, pytest.param(1024 * MIB, marks=pytest.mark.slow)])
def test_it_passes_large_bodies_of_a_node_server_in_little_memory(shop: Front, size: int) -> None:
    shop.admin("POST", "rooms", {"id": "mall", "state": "bypass"})
    memory = memory_of_worker(shop)
    with shop.connect(timeout=60.0) as client:
        before = memory()
        client.send(f"POST /upload HTTP/1.1\r\nHost: www.mall.test\r\nContent-Length: {size}\r\n\r\n".encode())
        digest, piece, most = hashlib.sha256(), bytes(range(256)) * 4096, 0
        for _ in range(size // len(piece)):
            client.send(piece)
            digest.update(piece)
            most = max(most, memory())
        assert client.answer().body.decode() == digest.hexdigest()
        client.send(f"GET /download?{size} HTTP/1.1\r\nHost: www.mall.test\r\n\r\n".encode())
        assert client.head().header("content-length") == str(size)
        left = size - len(client.buffer)
        while left:
            data = client.socket.recv(MIB)
            assert data == b"q" * len(data)
            left -= len(data)
            most = max(most, memory())
        assert most - before < 8 * MIB
