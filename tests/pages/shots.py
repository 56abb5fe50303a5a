"""Screenshots of every state: ``python -m tests.pages.shots [name …]`` writes them to tests/output.

They are for eyes, to be held beside the design's pictures; no test reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.pages.conftest import CHROMIUM, FLAGS, NOW, Stub, stub_process, visitor

OUTPUT = Path(__file__).resolve().parents[1] / "output"
SIZES = {320: 720, 390: 844, 1440: 900}
SEEN = "localStorage.qm_meta_shop ||= JSON.stringify({ticket: 48213, first: 2310})"
LOOKS = (("en", "light"), ("th", "dark"), ("th", "light"), ("en", "dark"))
Prepare = Callable[[Stub, Page], None]


def near(ahead: int) -> dict[str, Any]:
    return visitor("waiting", position=ahead + 1, ahead=ahead, estWaitSec=10 * ahead)


def steady(state: dict[str, Any], **join: Any) -> Prepare:
    return lambda stub, page: stub.show(state, **join)


def refused(status: int, code: str) -> Prepare:
    return lambda stub, page: stub.say(
        join={"status": status, "body": {"code": code}, "headers": {"Retry-After": "30"}}
    )


def lost(stub: Stub, page: Page) -> None:
    trouble = {"status": 503, "headers": {"Retry-After": "8"}, "body": {"code": "storage_unavailable"}}
    stub.say(status=trouble, join=trouble, events=trouble)
    page.wait_for_selector("html.lost")


def first_lost(stub: Stub, page: Page) -> None:
    trouble = {"status": 503, "headers": {"Retry-After": "8"}, "body": {"code": "storage_unavailable"}}
    stub.say(status=trouble, join=trouble, events=trouble)


def connecting(stub: Stub, page: Page) -> None:
    page.route("**/api/join", lambda route: None)


def turned(stub: Stub, page: Page) -> None:
    ends = {"claimUntil": NOW + 118_000, "passExpiresAt": NOW + 1_312_000}
    stub.show(visitor("passed", location=f"{stub.url}/nowhere", holdsSlot=True, **ends))


def active(stub: Stub, page: Page) -> None:
    stub.show(visitor("active", location=f"{stub.url}/nowhere"))


def looping(stub: Stub, page: Page) -> None:
    page.add_init_script(f"localStorage.setItem('qm_meta_shop', JSON.stringify({{moves: Array(4).fill({NOW})}}))")
    turned(stub, page)


def left(stub: Stub, page: Page) -> None:
    page.click("#leave")
    page.click("#leaveYes")


def told(stub: Stub, page: Page) -> None:
    page.context.grant_permissions(["notifications"])
    page.click("#tellButton")


def untold(stub: Stub, page: Page) -> None:
    page.add_init_script("localStorage.qm_notify_shop = 'sound'")
    page.reload()


def asking(stub: Stub, page: Page) -> None:
    page.click("#storesButton")
    page.click("#leave")


STATES: dict[str, Prepare] = {
    "waiting": steady(visitor("waiting", estWaitLowSec=820, estWaitHighSec=1080)),
    "near": steady(near(3)),
    "next": steady(near(0)),
    "big": steady(visitor("waiting", position=1204318, ahead=1204317, estWaitSec=30000)),
    "floor": steady(visitor("waiting", estWaitIsFloor=True, estWaitSec=4700)),
    "nobody": steady(visitor("waiting", estWaitSec=None)),
    "paused": steady(visitor("paused")),
    "doors": steady(visitor("scheduled")),
    "doors-far": steady(visitor("scheduled", opensAt=NOW + 93_784_000, preCount=1)),
    "doors-days": steady(visitor("scheduled", opensAt=NOW + 5 * 86_400_000)),
    "drawing": steady(visitor("scheduled", opensAt=NOW - 1000)),
    "doors-line": steady(
        visitor("scheduled", preQueued=False, ticket=7, ref="K7Q2MX", position=7, ahead=6, opensAt=NOW + 252_000)
    ),
    "full": steady(visitor("at_capacity")),
    "connecting": connecting,
    "lost": lost,
    "lost-first": first_lost,
    "turn": turned,
    "active": active,
    "loop": looping,
    "back": steady(
        visitor("waiting", position=2871, ahead=2870, ticket=51084, ref="9D3HVA"), reason="session_elsewhere"
    ),
    "back-expired": steady(visitor("waiting", position=2871, ahead=2870, ticket=51084, ref="9D3HVA"), reason="expired"),
    "cleared": steady(visitor("gone", rejoin=False, reason="ejected", by="purge")),
    "left": left,
    "asking": asking,
    "told": told,
    "untold": untold,
    "blocked": refused(403, "blocked_by_protection"),
    "mail": steady(visitor("waiting")),
    "network": refused(429, "queue_identity_limit"),
    "line-full": refused(503, "line_full"),
}


def contexts(browser: Browser, names: list[str]) -> Iterator[tuple[str, Page, str]]:
    """One fresh page per state, width, language and scheme."""
    for name in names:
        for width, height in SIZES.items():
            for lang, theme in LOOKS:
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    device_scale_factor=1 if width > 1000 else 1.3,
                    locale=lang,
                    color_scheme=theme,  # type: ignore[arg-type]
                    timezone_id="UTC",
                    reduced_motion="reduce",
                )
                page = context.new_page()
                page.clock.set_fixed_time(datetime.fromtimestamp(NOW / 1000, UTC))
                if not name.startswith("back"):
                    page.add_init_script(SEEN)
                yield name, page, f"{name}-{width}-{lang}-{theme}.png"
                context.close()


def main(names: list[str]) -> None:
    """Make the pictures of ``names``, or of all states."""
    OUTPUT.mkdir(exist_ok=True)
    with stub_process() as stub, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, page, file in contexts(browser, names or list(STATES)):
            stub.reset()
            page.on("console", lambda message, file=file: sys.stderr.write(f"{file}: {message.text}\n"))
            page.on("pageerror", lambda error, file=file: sys.stderr.write(f"{file}: {error}\n"))
            if name in ("lost", "left", "asking", "told", "untold"):
                stub.show(visitor("waiting"))
                page.goto(f"{stub.url}/w/shop", wait_until="commit")
                page.locator("#hero:not(:empty)").wait_for()
                STATES[name](stub, page)
            else:
                STATES[name](stub, page)
                page.goto(f"{stub.url}/w/{'mail' if name == 'mail' else 'shop'}", wait_until="commit")
            page.locator("#storesButton:not(:empty)").wait_for()
            page.evaluate("document.fonts.ready.then(() => 0)")
            page.wait_for_timeout(900 if name == "loop" else 250)
            page.screenshot(path=OUTPUT / file)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
