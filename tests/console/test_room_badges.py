"""The tags of a card: what the server does with a room by itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Stub, card

pytestmark = pytest.mark.browser

MINUTE = 60_000
ARMED = {"enabled": True, "joinsPerMin": 1200, "sustainSec": 60, "releaseAfterSec": 300}
TUNED = {"enabled": True, "minRate": 1, "maxRate": 600, "targetMs": 1000}


def switched(minutes_ago: float, what: str = "opened") -> dict[str, object]:
    return {**ARMED, "lastSwitchAt": int(time.time() * 1000 - minutes_ago * MINUTE), "lastSwitch": what}


@pytest.mark.req("CON-083", "CON-084", "CON-085", "CON-088", "CON-227")
def test_it_tells_what_the_server_does_by_itself(signed_in: Callable[..., Page], stub: Stub) -> None:
    page = signed_in()
    shop = card(page, "Shop")
    tags = shop.locator(".tag")
    expect(shop.locator(".badge")).to_be_visible()
    expect(tags).to_have_count(0)
    stub.room("shop", autoActivate={**ARMED, "enabled": False, "lastSwitchAt": None, "lastSwitch": None})
    stub.room("shop", mode="inline")
    expect(tags).to_have_text(["INLINE"])

    stub.room("shop", autoActivate={**ARMED, "lastSwitchAt": None, "lastSwitch": None}, joinsPerMin=131)
    expect(tags).to_have_text(["INLINE", "AUTO ≥1,200/MIN"])
    stub.room("shop", autotune=TUNED, protection={"mode": "enforce"})
    expect(tags).to_have_text(["INLINE", "AUTO ≥1,200/MIN", "AUTOTUNE", "ENFORCE"])

    stub.room("shop", autoActivate=switched(14), autotune=None, protection=None, mode="snippet")
    expect(tags).to_have_text(["AUTO · SELF"])
    expect(tags).to_have_css("color", "rgb(130, 74, 0)")
    tags.focus()
    tip = shop.get_by_role("tooltip")
    expect(tip).to_have_text(
        re.compile(r"turned the queue on by itself at \d+:\d\d:\d\d .M: 1,200 joins/min or more for 1m\. Now 131/min")
    )
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    stub.room("shop", autoActivate=switched(1, "closed"))
    expect(shop.get_by_role("tooltip", include_hidden=True)).to_contain_text("turned the queue off by itself")
    expect(shop.get_by_role("tooltip", include_hidden=True)).to_contain_text("below 1,200 joins/min for 5m")
    stub.room("shop", autoActivate=switched(15 - 1 / 60))
    expect(tags).to_have_text(["AUTO ≥1,200/MIN"])  # the 15 minutes are over, without a frame about this room


@pytest.mark.req("CON-085")
def test_a_room_without_settings_of_its_own_has_the_servers(signed_in: Callable[..., Page], stub: Stub) -> None:
    server = {"instance": "i:1", "instances": 1, "version": "1.0.0", "startedAt": 1, "insecureConfig": 0}
    stub.set(server={**server, "autotune": True, "protectionMode": "enforce"})
    stub.room("shop", autotune={**TUNED, "enabled": False}, protection={"mode": "monitor"})
    page = signed_in()

    expect(card(page, "Newsroom").locator(".tag")).to_have_text(["AUTOTUNE", "ENFORCE"])
    expect(card(page, "Shop").locator(".tag")).to_have_count(0)
