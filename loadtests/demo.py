"""`make demo`: the server, a little shop behind it, and visitors in line, until Ctrl-C.

The shop is a process and an origin of its own (`localhost`, while the queue is at `127.0.0.1`, so that a browser
treats them as two sites, as it will with a customer's site). Everything is thrown away at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys

import aiohttp
import httpx

from loadtests.browser import Browser, shared_client
from tests.harness import Server, is_open, wait_for

ROOM = "shop"
SETTINGS = {"ratePerMinute": 30, "maxConcurrent": 12, "queueMaxPerIp": None, "sessionTtlSec": 60}
ARRIVALS_PER_SEC = 1.2
IN_LINE_AT_START = 40
POLL_SEC = 5.0


def free_port(wanted: int) -> int:
    """``wanted`` if nobody has it, else any free port."""
    for port in (wanted, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


def create_room(server: Server, shop: str) -> None:
    """Create the demo's room, as the first `curl` of the guide does."""
    answer = httpx.post(
        f"{server.url}/api/admin/rooms",
        headers={"Authorization": f"Bearer {server.admin_key}"},
        json={"id": ROOM, "name": "The Little Shop", "targetUrl": f"{shop}/", **SETTINGS},
        trust_env=False,
    )
    answer.raise_for_status()


async def visit(client: aiohttp.ClientSession, shop: str) -> None:
    """One simulated visitor: waits his turn, shops for a while, leaves."""
    browser = Browser(client, ROOM)
    state = await browser.join()
    while state.get("state") in ("waiting", "paused", "at_capacity"):
        await asyncio.sleep(POLL_SEC)
        state = await browser.status()
    if state.get("state") == "passed":
        await browser.status()
        await browser.check(f"{shop}/checkout")
        await asyncio.sleep(10 + secrets.randbelow(20))
    await browser.leave()


async def crowd(url: str, shop: str) -> None:
    """A line at once, then a steady stream of visitors. One that meets an error just goes home."""
    async with shared_client(url, connections=40) as client:
        visitors: set[asyncio.Task[None]] = set()

        async def one() -> None:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                await visit(client, shop)

        def arrive() -> None:
            task = asyncio.create_task(one())
            visitors.add(task)
            task.add_done_callback(visitors.discard)

        for _ in range(IN_LINE_AT_START):
            arrive()
        while True:
            await asyncio.sleep(1 / ARRIVALS_PER_SEC)
            arrive()


def main() -> int:
    """Start everything, print the links, stay until interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    queue_port, shop_port = free_port(8080), free_port(8090)
    shop = f"http://localhost:{shop_port}"
    env: dict[str, str | None] = {"STORE": "memory", "PORT": str(queue_port)}
    with Server(env=env) as server, contextlib.suppress(KeyboardInterrupt):
        create_room(server, shop)
        command = [sys.executable, "-m", "loadtests.shop", str(shop_port), server.url, ROOM]
        shop_process = subprocess.Popen(command, process_group=0)
        try:
            wait_for(lambda: is_open(shop_port) or shop_process.poll() is not None, 20)
            if shop_process.poll() is not None:
                print("\n  The shop did not start; its own words stand above.")
                return 1
            print(
                f"\n  The shop      {shop}/            open it: you are held, and let in\n"
                f"  The line      {server.url}/w/{ROOM}\n"
                f"  The console   {server.url}/            key: {server.admin_key}\n\n"
                f"  {IN_LINE_AT_START} simulated visitors stand in line and more arrive. Ctrl-C ends everything.\n",
                flush=True,
            )
            asyncio.run(crowd(server.url, shop))
        finally:
            shop_process.terminate()
            shop_process.wait(timeout=10)
    print("\n  Ended. Nothing was kept.")
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    raise SystemExit(main())
