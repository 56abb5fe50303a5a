"""Alerts of a running server: its admin routes, and a receiver that is really told."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.admin.callers import TARGET, Caller, Callers, code
from tests.harness import Server, wait_for

FLAT = {"source", "event", "status", "severity", "roomId", "message", "ts", "since", "text"}


class Hook(http.server.ThreadingHTTPServer):
    """A receiver in a thread; ``status``: what it answers."""

    status = 200

    def __init__(self) -> None:
        self.notices: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.shutdown()
        self.thread.join()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Hook)
        self.server.notices.append(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(hook: Hook) -> Iterator[Server]:
    env: dict[str, str | None] = {
        "ALERT_WEBHOOK_URL": f"http://user:geheim@127.0.0.1:{hook.server_port}/hooks/T0SECRET",
        "ALERT_EVERY_MS": "1000",
        "ALERT_HOLD_SEC": "1",
        "TRUST_PROXY": "1",
        "TRUST_PROXY_IPS": "127.0.0.1",
        "QM_INSTANCE_ID": "one",
    }
    with Server(env=env, workers=2) as made:
        yield made
        assert "T0SECRET" not in made.stderr
        assert "geheim" not in made.stderr


def operator_key(owner: Caller, role: str) -> str:
    return str(owner("POST", "/api/admin/operators", {"name": f"an {role}", "role": role}).json()["key"])


@pytest.mark.req(
    "OBS-154", "OBS-155", "OBS-156", "OBS-139", "ADM-273", "CFG-081", "CFG-082", "OBS-081", "OBS-105", "OBS-111",
    "ADM-241",
)  # fmt: skip
def test_it_tells_the_receiver_and_every_reader(owner: Caller, callers: Callers, hook: Hook) -> None:
    made = owner("POST", "/api/admin/rooms", {"id": "shop", "name": "The shop", "targetUrl": TARGET, "rate": 0})
    assert made.status_code == 200, made.text
    visitor = callers.with_key(None)
    assert visitor("POST", "/api/join", {"roomId": "shop"}).status_code == 200
    wait_for(lambda: any(n["event"] == "queue_frozen" for n in hook.notices))
    (notice,) = [n for n in hook.notices if n["event"] == "queue_frozen"]
    assert set(notice) == FLAT
    assert (notice["status"], notice["roomId"]) == ("firing", "shop")
    assert notice["message"] == "The shop: 1 waiting and the rate is 0/min"
    assert notice["ts"] - notice["since"] >= 1000

    def answer() -> dict[str, Any]:
        return dict(owner("GET", "/api/admin/alerts").json())

    wait_for(lambda: answer()["deliveries"] != [] and answer()["sent"] == 1)
    whole = answer()
    assert set(whole) == {
        "configured", "webhookHost", "everyMs", "holdSec", "repeatSec", "instance", "leader", "leaderInstance",
        "firing", "pending", "deliveries", "sent", "failed", "events",
    }  # fmt: skip
    assert (whole["configured"], whole["webhookHost"]) == (True, f"127.0.0.1:{hook.server_port}")
    assert (whole["everyMs"], whole["holdSec"], whole["repeatSec"]) == (1000, 1, 1800)
    assert (whole["instance"], whole["leader"], whole["leaderInstance"]) == ("one", True, "one")
    assert (whole["sent"], whole["failed"]) == (1, 0)
    (firing,) = whole["firing"]
    assert firing == {
        "event": "queue_frozen", "severity": "warning", "roomId": "shop", "instances": [],
        "message": notice["message"], "since": notice["since"], "firedAt": notice["ts"], "lastSentAt": notice["ts"],
    }  # fmt: skip
    (entry,) = whole["deliveries"]
    assert entry == {
        "delivery_id": entry["delivery_id"], "ts": notice["ts"], "event": "queue_frozen", "status": "firing",
        "roomId": "shop", "ok": True, "httpStatus": 200, "error": None, "ms": entry["ms"], "attempt": 1,
    }  # fmt: skip
    assert entry["delivery_id"].startswith("whd_")
    assert {"event": "outflow_stalled", "severity": "critical"} in whole["events"]
    assert "T0SECRET" not in json.dumps(whole)
    assert "geheim" not in json.dumps(whole)

    link = owner("POST", "/api/admin/monitor-tokens", {"label": "wall"}).json()["token"]
    reduced = callers.with_key(link)("GET", "/api/admin/alerts").json()
    assert reduced == {"firing": [{name: value for name, value in firing.items() if name != "instances"}]}
    viewer = callers.with_key(operator_key(owner, "viewer"))("GET", "/api/v1/admin/alerts").json()
    assert viewer["firing"] == [firing]

    def alerting() -> dict[str, Any]:
        return dict(owner("GET", "/api/admin/health").json()["alerting"])

    wait_for(lambda: alerting()["firing"] == 1)
    assert alerting() == {"configured": True, "firing": 1, "pending": 0}
    scraped = owner("GET", "/metrics").text
    for severity, number in (("critical", 0), ("warning", 1), ("info", 0)):
        assert f'qm_alerts_firing{{severity="{severity}"}} {number}.0' in scraped

    assert owner("POST", "/api/admin/rooms/shop/rate", {"rate": 6000}).status_code == 200
    wait_for(lambda: any(n["status"] == "resolved" for n in hook.notices))
    assert [n["status"] for n in hook.notices] == ["firing", "resolved"]
    # The receiver has it a moment before its answer is counted.
    wait_for(lambda: 'qm_alert_deliveries_total{result="sent"} 2.0' in owner("GET", "/metrics").text)


@pytest.mark.req("OBS-157", "OBS-158", "ADM-274", "ADM-275", "OBS-136")
def test_it_sends_a_test_at_once_and_says_what_came_of_it(owner: Caller, callers: Callers, hook: Hook) -> None:
    hook.notices.clear()
    operator, viewer = (operator_key(owner, role) for role in ("operator", "viewer"))
    link = owner("POST", "/api/admin/monitor-tokens", {"label": "wall"}).json()["token"]
    for key in (viewer, link):
        assert code(callers.with_key(key)("POST", "/api/admin/alerts")) == (403, "insufficient_role")
    assert code(owner("POST", "/api/admin/alerts", {"roomId": "shop"})) == (400, "unknown_field")
    assert hook.notices == []

    for number, body in enumerate((None, {}), 1):
        good = callers.with_key(operator)("POST", "/api/admin/alerts", body)
        assert good.status_code == 200
        delivery = good.json()["delivery"]
        assert good.json() == {"ok": True, "delivery": delivery}
        notice = hook.notices[-1]
        assert (len(hook.notices), set(notice)) == (number, FLAT)
        assert (notice["event"], notice["severity"], notice["roomId"]) == ("test", "info", None)
        assert delivery == {
            "delivery_id": delivery["delivery_id"], "ts": notice["ts"], "event": "test", "status": "firing",
            "roomId": None, "ok": True, "httpStatus": 200, "error": None, "ms": delivery["ms"], "attempt": 1,
        }  # fmt: skip
    hook.status = 500
    bad = owner("POST", "/api/v1/admin/alerts")
    hook.status = 200
    assert (bad.status_code, bad.json()["ok"]) == (200, False)
    assert bad.json()["delivery"] | {"ok": False, "httpStatus": 500, "error": "http-500"} == bad.json()["delivery"]
    listed = owner("GET", "/api/admin/alerts").json()
    assert [one["httpStatus"] for one in listed["deliveries"][:3]] == [500, 200, 200]
    assert len(hook.notices) == 3, "a test is never tried again"
    entries = owner("GET", "/api/admin/audit?action=alerts.test").json()["entries"]
    assert [(one["actor"], one["detail"]) for one in entries] == [
        ("ADMIN_KEY", "not delivered: http-500"), ("an operator", "delivered"), ("an operator", "delivered"),
    ]  # fmt: skip

    answers = [owner("POST", "/api/admin/alerts") for _ in range(10)]  # of two workers
    refused = [one for one in answers if one.status_code == 429]
    assert len(answers) - len(refused) == 3
    assert code(refused[0]) == (429, "rate_limited")
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60


@pytest.mark.req("OBS-158", "ADM-275", "OBS-111")
def test_it_says_that_nobody_is_told_without_a_receiver() -> None:
    with Server(env={"ALERT_EVERY_MS": "1000", "ALERT_HOLD_SEC": "0"}, workers=1) as plain:
        callers = Callers(plain)
        owner = callers.with_key(plain.admin_key)
        refused = owner("POST", "/api/admin/alerts")
        assert code(refused) == (409, "alert_webhook_not_set")
        assert refused.json()["error"] == "ALERT_WEBHOOK_URL is not set, so there is nowhere to send a test."
        room = {"id": "shop", "targetUrl": TARGET, "rate": 0}
        assert owner("POST", "/api/admin/rooms", room).status_code == 200
        assert callers.with_key(None)("POST", "/api/join", {"roomId": "shop"}).status_code == 200
        wait_for(lambda: owner("GET", "/api/admin/alerts").json()["firing"] != [])
        whole = owner("GET", "/api/admin/alerts").json()
        assert (whole["configured"], whole["webhookHost"], whole["deliveries"]) == (False, None, [])
        assert (whole["firing"][0]["event"], whole["firing"][0]["lastSentAt"]) == ("queue_frozen", None)
        callers.close()
