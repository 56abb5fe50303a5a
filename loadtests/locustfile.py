"""The visitor of the surge, for Locust: joins once, keeps cookies and token, polls, goes in when passed, leaves.

Run through `make load` (loadtests/surge.py), or by hand: `locust -f loadtests/locustfile.py --host http://127.0.0.1:8080`.
Every visitor has an address of his own by `X-Forwarded-For`, so the server must be told of the loopback proxy
(`TRUST_PROXY=1 TRUST_PROXY_IPS=127.0.0.1`). What was answered is written to `QM_LOAD_RECORD`, one JSON line an answer
that the verdict needs.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from typing import Any

import gevent
from locust import FastHttpUser, constant, task
from locust.exception import StopUser

from loadtests.browser import HEADERS

ROOM = os.environ.get("QM_LOAD_ROOM", "load-surge")
RECORD = os.environ.get("QM_LOAD_RECORD", os.devnull)
PAGE = "https://shop.example/checkout"
ON_SITE_SEC = 1.0
_numbers = itertools.count(1)
_record = open(RECORD, "a", buffering=1, encoding="utf-8")  # noqa: SIM115 - lives as long as the process


def note(event: str, **members: Any) -> None:
    """Write one line of what was seen."""
    _record.write(json.dumps({"event": event, "at": time.time(), **members}) + "\n")


class Visitor(FastHttpUser):
    """One person: one ticket, one visit."""

    wait_time = constant(0)

    def on_start(self) -> None:
        """Give this visitor an address of his own (TST-118)."""
        n = next(_numbers)
        self.own_headers = {**HEADERS, "X-Forwarded-For": f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"}

    def _ask(self, method: str, path: str, name: str, **kw: Any) -> dict[str, Any]:
        for _ in range(30):
            with self.rest(method, path, name=name, headers=self.own_headers, **kw) as answer:
                if answer.status_code == 200 and answer.js is not None:
                    return dict(answer.js)
                body = answer.js if isinstance(answer.js, dict) else {}
                note("refused", name=name, status=answer.status_code, code=body.get("code"))
            gevent.sleep(float(answer.headers.get("Retry-After", 1)) if answer.headers else 1)
        note("lost", name=name)
        raise StopUser

    @task
    def visit(self) -> None:
        """The whole visit."""
        state = self._ask("POST", "/api/join", "join", json={"roomId": ROOM})
        ticket = state.get("ticket")
        note("joined", ticket=ticket, state=state["state"])
        while state["state"] in ("waiting", "paused", "at_capacity"):
            gevent.sleep(state["pollMs"] / 1000)
            state = self._ask("GET", f"/api/status?room={ROOM}", "status")
        if state["state"] != "passed":
            note("ended", ticket=ticket, state=state["state"], reason=state.get("reason"))
            raise StopUser
        note("passed", ticket=state["ticket"], passed_at=state["passedAt"], slot=state["holdsSlot"])
        self._ask("GET", f"/api/status?room={ROOM}", "status")
        while (answer := self._ask("POST", f"/api/check?room={ROOM}", "check", json={"url": PAGE}))["action"] != "pass":
            note("door", ticket=ticket, reason=answer["reason"])
            gevent.sleep(2)
            self._ask("GET", f"/api/status?room={ROOM}", "status")
        note("admitted", ticket=ticket)
        gevent.sleep(ON_SITE_SEC)
        self._ask("POST", "/api/leave", "leave", json={"roomId": ROOM})
        note("left", ticket=ticket)
        raise StopUser
