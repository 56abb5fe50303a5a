"""`make demo` as the README shows it: three links that work, people in line, and nothing left after Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.harness import is_open, is_running, wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(180)
def test_it_shows_a_shop_a_line_and_a_console_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-m", "loadtests.demo"]
    # Tests that run in the background of a shell have Ctrl-C ignored, and so would their children.
    in_front = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    demo = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=in_front)
    assert demo.stdout is not None
    too_late = threading.Timer(120, demo.kill)
    too_late.start()
    try:
        said = ""
        while "Ctrl-C ends everything" not in said:
            line = demo.stdout.readline()
            assert line, said
            said += line
        shop, page, console = (
            re.search(rf"The {name}\s+(http://\S+)", said)[1]  # type: ignore[index]
            for name in ("shop", "line", "console")
        )
        key = re.search(r"key: (\S+)", said)[1]  # type: ignore[index]
        started = psutil.Process(demo.pid).children(recursive=True)

        with httpx.Client(trust_env=False, timeout=60) as browser:
            tag = f'<script src="{console.rstrip("/")}/qm.js" data-room="shop">'
            assert tag in browser.get(shop).text
            assert browser.get(console + "qm.js").status_code == 200
            assert 'data-room="shop"' in browser.get(page).text
            assert 'id="app"' in browser.get(console).text
            assert urlsplit(shop).hostname != urlsplit(console).hostname, "two sites, as a customer's will be"
            owner = {"Authorization": f"Bearer {key}"}

            def room() -> dict[str, int]:
                return dict(browser.get(console + "api/admin/rooms/shop", headers=owner).json()["room"])

            wait_for(lambda: room()["waiting"] >= 20, 60)
            wait_for(lambda: room()["lastTicket"] > 40, 60)  # and more arrive
        demo.send_signal(signal.SIGINT)
        assert demo.stdout.read().strip().startswith("Ended")
        assert demo.wait(60) == 0
        assert [process for process in started if is_running(process.pid)] == []
        assert not [url for url in (shop, console) if is_open(urlsplit(url).port or 0)]
    finally:
        too_late.cancel()
        if demo.poll() is None:
            demo.terminate()
            demo.wait(30)
        demo.stdout.close()
