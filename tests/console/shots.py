"""Pictures of the console: ``python -m tests.console.shots [name … | all]``.

That of the readme is made anew; the named ones go to tests/output.

They are for eyes; no test reads them.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product

from playwright.sync_api import Browser, Page, sync_playwright

from tests.console.conftest import CHROMIUM, FLAGS, ROOT, Stub, sign_in, wait_for
from tests.console.measured import STEP_MS, sample_history
from tests.console.rooms import new_room

OUTPUT = ROOT / "tests/output"
README = ROOT / "docs/images/console.png"
LOOKS = tuple(product((360, 1280), ("light", "dark"), ("en", "th")))


@contextmanager
def stand_in() -> Iterator[Stub]:
    """A stand-in server of its own."""
    command = [sys.executable, "-m", "tests.console.stub"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stub = Stub(f"http://127.0.0.1:{process.stdout.readline().strip()}")
        wait_for(lambda: bool(stub.state()))
        yield stub
        process.terminate()


def evening(stub: Stub) -> None:
    """Three rooms of a shop on the evening of a sale, with what happened in the last hour."""
    now = int(time.time() * 1000)
    sale = new_room(
        id="shop", name="The Little Shop", targetUrl="https://shop.example", rate=90, maxConcurrent=400, waiting=356,
        active=371, occupancy=371, joinsPerMin=128, passedLastMinute=88, estWaitSec=160, lastTicket=5644,
        waitP50Sec=89, waitP90Sec=139, protection={"mode": "enforce"},
        autoActivate={"enabled": True, "joinsPerMin": 120, "sustainSec": 60, "releaseAfterSec": 300,
                      "lastSwitchAt": None, "lastSwitch": None},
    )  # fmt: skip
    drop = new_room(
        id="drop", name="Spring drop", targetUrl="https://drop.shop.example", rate=150, maxConcurrent=2500,
        effectiveState="scheduled", opensAt=now + 252_000, preQueue=1234, joinsPerMin=97,
    )  # fmt: skip
    help_desk = new_room(
        id="support", name="Support chat", targetUrl="https://help.shop.example", state="bypass", rate=30,
        joinsPerMin=9, active=41, occupancy=41,
    )  # fmt: skip
    points = sample_history(now, sale)
    for place, point in enumerate(points):
        point["passesPerMin"] = round((87 if place > 300 else 57) + 2 * math.sin(place / 9))
    marks = [
        (35, "rate", "rate 60 → 90/min", "Night ops"), (24, "activation", "bypass → active: 131 joins/min", "system"),
        (9, "flush", "flush of 40", "Dana"),
    ]  # fmt: skip
    stub.set(
        rooms={room["id"]: room for room in (sale, drop, help_desk)},
        histories={"shop": points},
        marks=[
            {"id": kind, "ts": now // STEP_MS * STEP_MS - ago * 60_000, "roomId": "shop", "kind": kind, "text": text,
             "actor": actor}
            for ago, kind, text, actor in marks
        ],
    )  # fmt: skip
    server = {"instance": "i:7f3a9c", "version": "1.0.0", "startedAt": 1, "publicUrl": None, "instances": 2}
    stub.set(server={**server, "insecureConfig": 0, "autotune": False, "protectionMode": "monitor"})


def opened(browser: Browser, stub: Stub, width: int, height: int, theme: str, language: str) -> Page:
    """A signed-in console."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,  # type: ignore[arg-type]
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.add_init_script(f"localStorage.qm_lang = '{language}'")
    page = context.new_page()
    page.goto(stub.url + "/")
    sign_in(page)
    page.locator("canvas").first.wait_for()
    page.evaluate("document.fonts.ready.then(() => 0)")
    page.wait_for_timeout(600)
    return page


def form(page: Page, section: str) -> None:
    """The room form at a section."""
    page.locator(".acts-edit").first.click()
    page.locator("#f-autotune-enabled").select_option("on")
    page.locator("#f-autotune-maxRate").fill("600")
    page.evaluate("(name) => document.querySelector(`#section-${name}`).scrollIntoView()", section)


SHOTS: dict[str, Callable[[Page], None]] = {
    "overview": lambda page: None,
    "form-site": lambda page: form(page, "site"),
    "form-doors": lambda page: form(page, "doors"),
    "form-autotune": lambda page: form(page, "autotune"),
}


def main(names: list[str]) -> None:
    """The picture of the readme, and the named ones (``all``: every one) in every look."""
    OUTPUT.mkdir(exist_ok=True)
    with stand_in() as stub, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        stub.reset()
        evening(stub)
        opened(browser, stub, 1280, 880, "light", "en").screenshot(path=README)
        for name, (width, theme, language) in product(SHOTS if names == ["all"] else names, LOOKS):
            page = opened(browser, stub, width, 900, theme, language)
            SHOTS[name](page)
            page.wait_for_timeout(200)
            page.screenshot(
                path=OUTPUT / f"console-{name}-{width}-{theme}-{language}.png", full_page=name == "overview"
            )
            page.context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
