"""The guides over HTTP and in a browser, against the real blueprint on the stub."""

from __future__ import annotations

import gzip
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from app.domain.doc_pages import EXAMPLES, PAGES
from tests.pages.conftest import Stub
from tests.pages.stub import PUBLIC
from tests.pages.test_files import fetch, head


@pytest.mark.req("PAG-199", "PAG-197")
def test_it_sends_a_guide_once_and_304_to_who_has_it(stub: Stub) -> None:
    status, headers, body = fetch(f"{stub.url}/docs/operations")
    _, packed_headers, packed = fetch(f"{stub.url}/docs/operations", accept_encoding="gzip")
    again, again_headers, nothing = fetch(f"{stub.url}/docs/operations", if_none_match=headers["etag"])
    head_status, head_headers, no_body = head(f"{stub.url}/docs/operations")

    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (headers["cache-control"], headers["vary"]) == ("private, no-cache", "Accept-Encoding")
    assert packed_headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == body
    assert (again, nothing, again_headers["etag"]) == (304, b"", headers["etag"])
    assert (head_status, no_body, head_headers["content-length"]) == (200, b"", str(len(body)))
    assert f"those of this server: <code>{PUBLIC}</code>" in body.decode()
    assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.req("PAG-204", "PAG-203")
def test_it_knows_its_pages_and_no_other(stub: Stub) -> None:
    for path in (*PAGES, *EXAMPLES):
        assert fetch(stub.url + path)[0] == 200, path
    nowhere = ("nope", "th/nope", "operations.md", "..%2f..%2fpyproject.toml", "files/x", "nope/")
    for path in (f"/docs/{name}" for name in nowhere):
        status, headers, body = fetch(stub.url + path, accept="text/html")
        assert (status, headers["cache-control"]) == (404, "no-store"), path
        assert len(body) <= 2048
    for path in (*PAGES, *EXAMPLES):
        assert urlsplit(_last(f"{stub.url}{path}/")).path == path


def _last(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.url)


@pytest.mark.req("VIS-080", "CFG-071", "PAG-198")
def test_it_refuses_too_many_with_the_same_small_page(stub: Stub) -> None:
    stub.say(used=120)

    for path in ("/docs", "/docs/th/operations", "/progress", "/docs/nope"):
        status, headers, body = fetch(stub.url + path, accept="text/html")
        assert (status, headers["retry-after"], len(body) <= 1024) == (429, "12", True)
        assert b'http-equiv="refresh" content="12"' in body
        assert b"place" not in body, "a reader of the guides has none"
        assert fetch(stub.url + path)[2] == b"Too many requests. Try again in 12 s."


@pytest.mark.browser
@pytest.mark.req("PAG-205", "PAG-206")
@pytest.mark.parametrize("width", [320, 1440])
def test_it_reads_well_on_every_width_and_asks_nobody_else(
    chromium: Browser, open_page: Callable[..., Page], stub: Stub, width: int
) -> None:
    asked: list[str] = []

    def note(page: Page) -> None:
        page.on("request", lambda request: asked.append(request.url))

    page = open_page("/docs/th/operations", viewport={"width": width, "height": 800}, before=note)
    for path in ("/docs/th/operations", "/docs/integration", "/docs/settings", "/progress"):
        page.goto(stub.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate("getComputedStyle(document.querySelector('main')).lineHeight") != "normal"
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(stub.url).netloc}
    assert any("/assets/docs-" in url for url in asked)
    page.goto(f"{stub.url}/docs/operations")
    summary = page.locator("aside summary")
    if width < 1024:
        summary.click()
    page.locator("aside a", has_text="Flush, purge, eject").click()
    assert urlsplit(page.url).fragment == "flush-purge-eject"
    page.locator("header a[hreflang=th]").click()
    expect(page.locator("html")).to_have_attribute("lang", "th")


@pytest.mark.browser
@pytest.mark.req("PAG-199")
def test_it_copies_code_with_a_button_and_shows_all_of_it_without_script(chromium: Browser, stub: Stub) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{stub.url}/docs/integration")
    expect(page.locator("pre").first).to_contain_text(f"{PUBLIC}/api/admin/rooms")
    assert page.locator("button").count() == 0
    context.close()

    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{stub.url}/docs/integration")
    button: Any = page.locator("pre button").nth(1)
    button.focus()
    button.press("Enter")
    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith(f'<script src="{PUBLIC}/qm.js"')
    context.close()
