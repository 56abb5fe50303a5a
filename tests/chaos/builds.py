"""Another build of the server beside this one, and visitors who load its pages over a fleet of both."""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.harness import ROOT

PARTS = ("app", "blueprints", "workers", "static", "locales")
VERSION = "0.2.0"
FILES = re.compile(r'"((?:/__qm)?/assets/[^"]+)"')


def next_build(folder: Path) -> Path:
    """The release after this one, with a style, a script, an engine library and a version of its own."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    changed = {
        "static/waiting/waiting.css": "\nbody{--next:1}\n",
        "static/waiting/main.js": "\nwindow.next = 1;\n",
        "app/infrastructure/lua/fn/status.lua": "\n-- The next release.\n",
    }
    for name, more in changed.items():
        with (folder / name).open("a") as file:
            file.write(more)
    version = folder / "app/core/version.py"
    version.write_text(re.sub(r'"\d+\.\d+\.\d+"', f'"{VERSION}"', version.read_text()))
    return folder


class PageLoads:
    """Visitors who open a page at one instance and its files at others, as a balancer without stickiness has it.

    ``urls``: addresses of the instances in rotation, asked for each request. One that takes no connection any more, or
    ends one, is left for another, as a balancer does; every answer counts.
    """

    def __init__(self, urls: Callable[[], Sequence[str]], path: str, *, seed: int = 1) -> None:
        self._urls, self._path, self._dice = urls, path, random.Random(seed)
        self._lock = threading.Lock()
        self.statuses: Counter[int] = Counter()
        self.pages = 0
        self.files: dict[str, set[str]] = {}
        """Path of each file → addresses of the instances that served it."""
        self.strange: list[str] = []
        """Answers that nobody may get."""

    def run(self, enough: Callable[[PageLoads], bool], *, visitors: int = 2, pause_sec: float = 0.02) -> None:
        """Load until ``enough`` says so, each visitor a page after each pause; raises what went wrong."""
        with ThreadPoolExecutor(visitors) as pool:
            for done in [pool.submit(self._visit, enough, pause_sec) for _ in range(visitors)]:
                done.result()

    def _visit(self, enough: Callable[[PageLoads], bool], pause_sec: float) -> None:
        with httpx.Client(timeout=60) as client:
            while not enough(self):
                time.sleep(pause_sec)
                _, page = self._get(client, self._path)
                files = FILES.findall(page.text)
                if page.status_code == 200 and len(files) < 2:
                    self.strange.append(f"a page with {len(files)} files")
                for path in files:
                    url, answer = self._get(client, path)
                    with self._lock:
                        self.files.setdefault(path, set()).add(url)
                        if not answer.content:
                            self.strange.append(f"{path} is empty")
                with self._lock:
                    self.pages += 1

    def _get(self, client: httpx.Client, path: str) -> tuple[str, httpx.Response]:
        while True:
            with self._lock:
                url = self._dice.choice(self._urls())
            try:
                answer = client.get(url + path, headers={"Accept": "text/html"})
            except httpx.TransportError:
                continue
            with self._lock:
                self.statuses[answer.status_code] += 1
                if answer.status_code != 200:
                    self.strange.append(f"{answer.status_code} for {path} at {url}")
            return url, answer
