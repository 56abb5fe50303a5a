"""Shapes of what the admin API tells of alerts and reports, for the OpenAPI document. Source: OBS-154 … OBS-165."""

from __future__ import annotations

from typing import Final

from app.domain.alerts import KINDS, Severity, Status
from app.domain.report import BUCKETS, COLUMNS, NOTES
from app.services.reports import ROWS_MAX
from blueprints.openapi.shapes import COUNT, FLAG, TEXT, TIME, Shape, integer, listed, maybe, one_of, struct

_EVENT: Final = one_of(*KINDS)
_SEVERITY: Final = one_of(*Severity)
_ALERT: Final[dict[str, Shape]] = {
    "event": _EVENT,
    "severity": _SEVERITY,
    "roomId": maybe(TEXT),
    "message": TEXT,
    "since": TIME,
}
_NAMES: Final[dict[str, Shape]] = {"instances": listed(TEXT)}
_FIRED: Final[dict[str, Shape]] = {"firedAt": TIME, "lastSentAt": maybe(TIME)}
_DELIVERY: Final = struct(
    {
        "delivery_id": TEXT,
        "ts": TIME,
        "event": _EVENT,
        "status": one_of(*Status),
        "roomId": maybe(TEXT),
        "ok": FLAG,
        "httpStatus": maybe(integer(100, 599)),
        "error": maybe(TEXT),
        "ms": COUNT,
        "attempt": integer(1, 11),
    }
)
_WHOLE: Final = struct(
    {
        "configured": FLAG,
        "webhookHost": maybe(TEXT),
        "everyMs": COUNT,
        "holdSec": COUNT,
        "repeatSec": COUNT,
        "instance": TEXT,
        "leader": FLAG,
        "leaderInstance": maybe(TEXT),
        "firing": listed(struct({**_ALERT, **_NAMES, **_FIRED})),
        "pending": listed(struct({**_ALERT, **_NAMES, "firesAt": TIME})),
        "deliveries": listed(_DELIVERY, at_most=20),
        "sent": COUNT,
        "failed": COUNT,
        "events": listed(struct({"event": _EVENT, "severity": _SEVERITY})),
    }
)
_REDUCED: Final = struct({"firing": listed(struct({**_ALERT, **_FIRED}))})
ALERTS: Final[Shape] = {"oneOf": [_WHOLE, _REDUCED]}
ALERT_TESTED: Final = struct({"ok": FLAG, "delivery": _DELIVERY})
_COUNTED: Final = ("joins", "passes", "peakDepth", "peakActive", "measuredWaits", "blocked", "warned", "samples")
_SECONDS: Final = ("waitP50Sec", "waitP90Sec", "waitMaxSec")
_ROW: Final[dict[str, Shape]] = {
    **dict.fromkeys(("roomId", "startIso"), TEXT),
    "bucket": one_of(*BUCKETS),
    "start": TIME,
    **dict.fromkeys(_COUNTED, COUNT),
    "netUnserved": maybe({"type": "integer"}),
    "avgDepth": maybe({"type": "number"}),
    **{name: maybe(COUNT) for name in _SECONDS},
    "waitAvgSec": maybe({"type": "number"}),
    "partial": FLAG,
    "coveredSec": COUNT,
    "missingSec": COUNT,
}
REPORT: Final = struct(
    {
        "bucket": one_of(*BUCKETS),
        "from": TIME,
        "to": TIME,
        "generatedAt": TIME,
        "notes": struct(dict.fromkeys(NOTES, TEXT)),
        "rows": listed(struct({name: _ROW[name] for name in COLUMNS}), at_most=ROWS_MAX),
    }
)
