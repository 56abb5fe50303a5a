"""Bodies of notices against schemas of what their receivers document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from app.domain import alert_notice
from app.domain.alert_delivery import DELAYS_SEC, Delivery, Outcome, outcome_of
from app.domain.alerts import Alert, Notice, Status, Trouble

SCHEMAS = Path(__file__).parent / "schemas"
STALLED = Trouble("outflow_stalled", "Shop: 412 waiting and nobody let through in the last minute", "shop")
CUT_OFF = Trouble("valkey_unreachable", "i:a cannot reach Valkey", None, ("i:a",), alone=True)
CALLING = Trouble("queue_frozen", "<!channel> & co: 3 waiting while the room is paused", "shop")


def fits(name: str, body: Any) -> None:
    """Raise when ``body`` is not what the schema asks for."""
    jsonschema_rs.validator_for(json.loads((SCHEMAS / f"{name}.json").read_text())).validate(body)


def notices() -> list[Notice]:
    """Of each kind of subject, firing and resolved."""
    since, at = 1_729_999_880_000, 1_730_000_000_000
    alerts = [Alert(trouble, since, at, at) for trouble in (STALLED, CUT_OFF, CALLING)]
    return [Notice(alert, status, at) for alert in alerts for status in Status]


@pytest.mark.req("OBS-139", "OBS-140")
def test_it_says_what_the_contract_says() -> None:
    firing, resolved, *_ = notices()
    assert alert_notice.flat(firing) == {
        "source": "queue-manager", "event": "outflow_stalled", "status": "firing", "severity": "critical",
        "roomId": "shop", "message": "Shop: 412 waiting and nobody let through in the last minute",
        "ts": 1730000000000, "since": 1729999880000,
        "text": "[queue-manager] CRITICAL: Shop: 412 waiting and nobody let through in the last minute",
    }  # fmt: skip
    assert alert_notice.text(resolved) == (
        "[queue-manager] RESOLVED: Shop: 412 waiting and nobody let through in the last minute"
    )


@pytest.mark.req("OBS-141")
def test_it_names_instances_where_the_subject_is_one_and_no_room() -> None:
    flat = alert_notice.flat(notices()[2])
    assert (flat["roomId"], flat["instances"]) == (None, ["i:a"])
    assert "i:a" in flat["message"]
    assert "instances" not in alert_notice.flat(notices()[0])


def test_it_fits_what_receivers_of_the_flat_notice_read() -> None:
    for notice in notices():
        fits("notice", alert_notice.flat(notice))
        fits("slack-incoming-webhook", alert_notice.flat(notice))


@pytest.mark.req("WHK-152", "WHK-153")
def test_it_fits_slack_and_calls_nobody() -> None:
    for notice in notices():
        body = alert_notice.slack(notice, event_id="whe_1")
        fits("slack-incoming-webhook", body)
        assert "<" not in json.dumps(body, ensure_ascii=False)
        assert body["text"].startswith("[queue-manager] ")
        context = body["blocks"][1]["elements"][0]["text"]
        room = notice.alert.trouble.room_id or "–"
        assert context == f"room {room} · whe_1 · 2024-10-27T03:33:20.000Z"
    assert "&lt;!channel&gt; &amp; co" in alert_notice.slack(notices()[4], event_id="whe_1")["text"]


@pytest.mark.req("WHK-154")
def test_it_fits_pagerduty_and_is_paired_by_its_key() -> None:
    for notice in notices():
        body = alert_notice.pagerduty(notice, routing_key="R" * 32, client_url="https://qm.example")
        fits("pagerduty-events-v2", body)
        action = "trigger" if notice.status is Status.FIRING else "resolve"
        assert (body["event_action"], body["client"], body["client_url"]) == (
            action, "Queue Manager", "https://qm.example",
        )  # fmt: skip
        assert body["payload"]["class"] == notice.alert.trouble.event
        assert body["payload"]["group"] == "queue-manager"
    keys = [alert_notice.pagerduty(notice, routing_key="R", client_url=None)["dedup_key"] for notice in notices()]
    assert keys[0::2] == keys[1::2] == [
        "qm:outflow_stalled:shop:1729999880000", "qm:valkey_unreachable:i:a:1729999880000",
        "qm:queue_frozen:shop:1729999880000",
    ]  # fmt: skip
    long = Alert(Trouble("test", "x" * 2000, None, ("i" * 400,), alone=True), 5)
    body = alert_notice.pagerduty(Notice(long, Status.FIRING, 6), routing_key="R", client_url=None)
    assert len(body["dedup_key"]) == 255
    assert body["dedup_key"].endswith(":5")
    assert len(body["payload"]["summary"]) == 1024


@pytest.mark.req("WHK-052", "WHK-053")
def test_it_takes_four_statuses_for_a_success() -> None:
    good = [status for status in range(100, 600) if outcome_of(status, 1).is_ok]
    assert good == [200, 201, 202, 204]
    assert outcome_of(302, 7) == Outcome(302, "http-302", 7)


@pytest.mark.req("WHK-058", "WHK-059", "WHK-060")
def test_it_tries_eleven_times_further_and_further_apart() -> None:
    delivery: Delivery | None = Delivery.of(notices()[0])
    assert delivery is not None
    body, ts, now, made = delivery.body, delivery.ts, delivery.due, 0
    assert now == ts, "the first one is made at once"
    while delivery is not None:
        made += 1
        assert (delivery.attempts, delivery.body, delivery.ts) == (made - 1, body, ts)
        assert Delivery.from_text(delivery.to_text()) == delivery
        ended = now + 4000  # the attempt took four seconds: the delay counts from its end
        delivery = delivery.after(Outcome(500, "http-500", 4000), ended)
        if delivery is not None:
            low, high = DELAYS_SEC[made] * 900, DELAYS_SEC[made] * 1100
            assert low <= delivery.due - ended <= high
            now = delivery.due
    assert made == 11 == len(DELAYS_SEC)
    assert [sum(DELAYS_SEC[: n + 1]) for n in range(11)] == [
        0, 10, 70, 370, 2170, 9370, 30_970, 74_170, 160_570, 246_970, 333_370,
    ]  # fmt: skip


@pytest.mark.req("WHK-054")
def test_it_does_not_come_back_to_a_receiver_that_is_gone() -> None:
    first = Delivery.of(notices()[0])
    assert first.after(outcome_of(410, 1), first.due) is None
    assert first.after(outcome_of(202, 1), first.due) is None
    assert first.after(outcome_of(404, 1), first.due) is not None
