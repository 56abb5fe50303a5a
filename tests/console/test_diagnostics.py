"""The Diagnostics sheet: warnings in full, and what it says of proxies in front of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub
from tests.console.stub import NO_PROXY

pytestmark = pytest.mark.browser


@pytest.mark.req("CFG-115", "CFG-118", "CFG-123")
@pytest.mark.req("CON-040")
def test_it_says_who_stands_in_front_and_what_to_set(signed_in: Callable[..., Page], stub: Stub) -> None:
    """From the badge of the header to the line that mends it."""
    half = "TRUST_PROXY=1 is set without TRUST_PROXY_IPS: forwarding headers are not believed"
    notice = {"code": "unknown_variable", "message": "QM_NEW is not a variable of this release"}
    warned: dict[str, Any] = {
        "warnings": [half], "configWarnings": [{"code": "half_set_proxy", "message": half}, notice],
        "hardening": ["EDGE_SECRET is not set"],
        "proxy": {**NO_PROXY, "ok": False, "trustProxy": 1, "incomplete": True},
    }  # fmt: skip
    stub.set(health=warned)
    page = signed_in()
    badge = page.get_by_role("button", name="insecure config")
    rows = page.get_by_role("dialog", name="Diagnostics").locator(".diag-row")

    def shown(**health: Any) -> None:
        stub.set(health=health)
        badge.click()

    shown(**warned)
    expect(rows.filter(has_text="Warnings")).to_be_focused()
    expect(rows.filter(has_text="Warnings").locator("li")).to_have_text([half, notice["message"]])
    expect(rows.filter(has_text="Could be closed")).to_contain_text("EDGE_SECRET is not set")
    proxy = rows.filter(has=page.get_by_text("Proxy", exact=True))
    expect(proxy.locator("dd")).to_contain_text("1 trusted, from – · INCOMPLETE")
    page.keyboard.press("Escape")

    line = "TRUST_PROXY_IPS=10.0.0.0/8,192.0.2.50"
    peers = {"forwardedFromUndeclaredPeer": True, "undeclaredPeers": ["192.0.2.50"], "suggestion": line}
    shown(proxy={**NO_PROXY, "ok": False, "trustProxy": 1, "trustProxyIps": ["10.0.0.0/8"], **peers})
    expect(proxy.locator("dd")).to_contain_text("1 trusted, from 10.0.0.0/8")
    expect(proxy.locator("dd")).not_to_contain_text("INCOMPLETE")
    expect(proxy.locator(".note")).to_have_text(
        f"An undeclared proxy is in front: 192.0.2.50. Check that it is your own, then set {line}"
    )
    page.keyboard.press("Escape")

    shown(waitingPage={"exemptAddresses": 1})
    expect(proxy.locator("dd")).to_contain_text("none declared")
    expect(proxy.locator(".note")).to_contain_text("An undeclared proxy is in front")
    page.keyboard.press("Escape")

    shown()
    expect(proxy.locator("dd")).to_have_text("none declared this instance")
    expect(proxy.locator(".note")).to_have_count(0)
