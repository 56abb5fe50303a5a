"""What a notice of an alert looks like: flat for ``ALERT_WEBHOOK_URL``, and in the forms of Slack and PagerDuty.

Not here: when one is made (alerts.py), how it is delivered (alert_delivery.py).
Source: OBS-139 … OBS-142, WHK-152 … WHK-156; Slack "Incoming webhooks" and "Block Kit", PagerDuty "Events API v2".
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from app.domain.alerts import Alert, Notice, Status

SOURCE: Final = "queue-manager"
DEDUP_MAX: Final = 255
SUMMARY_MAX: Final = 1024
_PAGED: Final = {Status.FIRING: "trigger", Status.RESOLVED: "resolve"}


def flat(notice: Notice) -> dict[str, Any]:
    """The body for ``ALERT_WEBHOOK_URL`` (OBS-139)."""
    what = notice.alert.trouble
    body: dict[str, Any] = {
        "source": SOURCE,
        "event": what.event,
        "status": notice.status.value,
        "severity": what.severity.value,
        "roomId": what.room_id,
        "message": what.message,
        "ts": notice.at,
        "since": notice.alert.since,
        "text": text(notice),
    }
    return {**body, "instances": list(what.instances)} if what.instances else body


def text(notice: Notice) -> str:
    """One line that says it all (OBS-140)."""
    what = notice.alert.trouble
    word = "RESOLVED" if notice.status is Status.RESOLVED else what.severity.value.upper()
    return f"[{SOURCE}] {word}: {what.message}"


def slack(notice: Notice, *, event_id: str) -> dict[str, Any]:
    """The body for a Slack incoming webhook, and for what imitates it (WHK-152)."""
    line, room = _escaped(text(notice)), notice.alert.trouble.room_id or "–"
    context = f"room {room} · {event_id} · {_iso(notice.at)}"
    return {
        "text": line,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": line}},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": _escaped(context)}]},
        ],
    }


def pagerduty(notice: Notice, *, routing_key: str, client_url: str | None) -> dict[str, Any]:
    """The body for PagerDuty's Events API v2 (WHK-154)."""
    what, seen = notice.alert.trouble, flat(notice)
    body: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": _PAGED[notice.status],
        "dedup_key": dedup_key(notice.alert),
        "payload": {
            "summary": what.message[:SUMMARY_MAX],
            "source": ", ".join(what.instances) or SOURCE,
            "severity": what.severity.value,
            "timestamp": _iso(notice.at),
            "component": what.room_id or SOURCE,
            "group": SOURCE,
            "class": what.event,
            "custom_details": {name: seen[name] for name in ("status", "roomId", "ts", "since", "text")},
        },
        "client": "Queue Manager",
    }
    return body if client_url is None else {**body, "client_url": client_url}


def dedup_key(alert: Alert) -> str:
    """What PagerDuty pairs the notices of one incident by."""
    what = alert.trouble
    subject = what.room_id or (",".join(what.instances) if what.alone else "") or "-"
    end = f":{alert.since}"
    return f"qm:{what.event}:{subject}"[: DEDUP_MAX - len(end)] + end


def _escaped(line: str) -> str:
    """Slack's control characters, so that a room named ``<!channel>`` calls nobody (WHK-153)."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
