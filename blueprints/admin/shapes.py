"""Shapes of what the admin API takes and answers. Those of a room follow from the table of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.domain.chart import POINTS, STEP_SEC
from app.domain.origin_errors import WINDOW_SEC
from app.domain.origin_lists import LIST_MAX, NOTE_MAX
from app.domain.protection_mode import ProtectionMode
from app.domain.roles import GROUPS, Role
from app.domain.room_fields import FIELDS, READ_ONLY, RoomField
from app.services.fleet_counts import OUTCOMES
from app.services.history import MEMBERS
from app.services.reduced import HEALTH_SHOWN
from app.services.room_object import FIGURES
from app.services.room_reduced import HIDDEN, RULE_HIDDEN
from blueprints.openapi.shapes import (
    ANY,
    COUNT,
    FLAG,
    TEXT,
    TIME,
    Shape,
    body_of,
    const,
    integer,
    listed,
    map_of,
    maybe,
    one_of,
    ref,
    struct,
)  # fmt: skip

ROOM_ID: Final[Shape] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}
STATES: Final = one_of("active", "paused", "bypass")
EFFECTIVE: Final = one_of("active", "paused", "bypass", "scheduled")
ROLES: Final = one_of(*(role.word for role in Role))
_NUMBER: Final = {"type": "number"}
_WHOLE: Final = {"type": "integer"}

_RULE: Final = {"id": {**TEXT, "pattern": "^[A-Za-z0-9_-]{1,32}$"}, "action": one_of("protect", "ignore"),
                "pattern": {**TEXT, "minLength": 1}, "note": {**TEXT, "maxLength": NOTE_MAX}}  # fmt: skip
_WITHOUT_PATTERN: Final = {name: shape for name, shape in _RULE.items() if name != RULE_HIDDEN}
_RULE_FACTS: Final = {"hits": maybe(COUNT), "lastMatchedAt": maybe(TIME)}
_AUTO_ACTIVATE: Final = {
    "enabled": FLAG,
    "joinsPerMin": integer(1, 1_000_000),
    "sustainSec": integer(1, 3600),
    "releaseAfterSec": integer(0, 86_400),
}
_SWITCH: Final = {"lastSwitchAt": maybe(TIME), "lastSwitch": ANY}
_AUTOTUNE: Final = {
    "enabled": FLAG,
    "minRate": integer(1, 100_000),
    "maxRate": maybe(integer(1, 100_000)),
    "targetMs": integer(50, 30_000),
}
_MODES: Final = one_of(*ProtectionMode)
_ORIGINS: Final = listed(TEXT, at_most=LIST_MAX)
_SETTINGS: Final[Mapping[str, tuple[Shape, Shape]]] = {
    "id": (ROOM_ID, ROOM_ID),
    "name": ({**TEXT, "minLength": 1}, TEXT),
    "targetUrl": ({**TEXT, "format": "uri", "maxLength": 2048}, TEXT),
    "state": (STATES, STATES),
    "returnOrigins": (_ORIGINS, _ORIGINS),
    "tagOrigins": (maybe(_ORIGINS), maybe(_ORIGINS)),
    "rules": (
        listed(body_of({"action": _RULE["action"], "pattern": _RULE["pattern"]}, {**_RULE, **_RULE_FACTS}), at_most=50),
        listed(struct({**_WITHOUT_PATTERN, **_RULE_FACTS}, {RULE_HIDDEN: _RULE[RULE_HIDDEN]})),
    ),
    "onBackendDown": (one_of("closed", "open"), one_of("closed", "open")),
    "autoActivate": (maybe(body_of({}, {**_AUTO_ACTIVATE, **_SWITCH})), maybe(struct({**_AUTO_ACTIVATE, **_SWITCH}))),
    "autotune": (maybe(body_of({}, _AUTOTUNE)), maybe(struct(_AUTOTUNE))),
    "opensAt": ({"type": ["string", "integer", "null"]}, maybe(TIME)),
    "proxyOrigin": (maybe({**TEXT, "maxLength": 512}), maybe(TEXT)),
    "protection": (maybe(body_of({"mode": _MODES})), maybe(struct({"mode": _MODES}))),
}
"""Settings that are no plain number: as sent, as answered."""


COUNTS: Final = struct(dict.fromkeys(OUTCOMES, COUNT))
"""What bot protection made of newcomers."""


def setting(row: RoomField, *, answered: bool) -> Shape:
    """Shape of one field of a room, as it is sent or ``answered``."""
    if not row.built:
        return const(row.default) if answered or not row.also else {"enum": [row.default, *row.also]}
    if row.bounds is not None:
        whole = integer(*row.bounds)
        return maybe(whole) if row.nullable else whole
    return _SETTINGS[row.name][answered]


def _room() -> Shape:
    facts: dict[str, Shape] = {
        **dict.fromkeys(READ_ONLY - {"staleSince"}, ANY),
        **dict.fromkeys(FIGURES, maybe(COUNT)),
        **dict.fromkeys(("estWaitIsFloor", "estWaitInfinite"), maybe(FLAG)),
        **dict.fromkeys(("generation", "createdAt", "updatedAt"), COUNT),
        **dict.fromkeys(("drawnAt", "waitP50Sec", "waitP90Sec"), maybe(COUNT)),
        "etag": TEXT,
        "mode": one_of("snippet", "inline"),
        "effectiveState": EFFECTIVE,
        "site": struct(
            {
                "status": one_of("up", "down", "failing", "unknown"),
                "checkedAt": maybe(TIME),
                "ms": maybe(_NUMBER),
            },
            {"httpStatus": maybe(_WHOLE)},
        ),
        "lastChange": maybe(
            struct({"at": TIME, "by": TEXT, "kind": one_of("state", "rate"), "text": TEXT}),
        ),
        "origin": maybe(
            struct(
                {"errorPages": COUNT, "windowSec": const(WINDOW_SEC), "lastAt": maybe(TIME)},
                {"classes": map_of(COUNT)},
            )
        ),
        "refusedOriginChecks": maybe(listed(struct({"origin": TEXT, "count": COUNT}))),
        "protectionCounts": maybe(COUNTS),
        "recovering": FLAG,
        "stale": FLAG,
    }
    settings = {row.name: setting(row, answered=True) for row in FIELDS}
    shown = dict(sorted({**settings, **facts}.items()))
    hidden = {name: shown.pop(name) for name in sorted(HIDDEN)}  # a monitor link does not see them
    return struct(shown, {"staleSince": TIME, **hidden})


ROOM_BODY: Final = body_of(
    {"id": ROOM_ID},
    {
        **{row.name: {**setting(row, answered=False), "description": row.help} for row in FIELDS if row.name != "id"},
        "ratePerMinute": integer(0, 100_000),
        **dict.fromkeys(sorted(READ_ONLY), ANY),
    },
)
"""Read-only facts may come back as they were read: they are ignored (ADM-131)."""

WARNING: Final = struct({"code": TEXT, "message": TEXT}, dict.fromkeys(("field", "rule", "origin", "count"), ANY))
_SAVED: Final = {"room": ref("Room"), "changed": listed(TEXT), "warnings": listed(WARNING)}
_DRAWN: Final = {"drawn": COUNT}
SAVED: Final = struct(_SAVED, _DRAWN)
UPSERTED: Final = struct({**_SAVED, "created": FLAG, "ignoredFields": listed(TEXT)}, _DRAWN)
_DROPPED: Final = struct({"waiting": COUNT, "preQueue": COUNT, "passes": COUNT, "sessions": COUNT})
DELETED: Final = struct(
    {"ok": const(True), "roomId": TEXT, "generation": COUNT, "dropped": _DROPPED, "warnings": listed(WARNING)}
)
FLUSHED: Final = struct({"ok": const(True), "roomId": TEXT, "flushed": COUNT})
PURGED: Final = struct(
    {"ok": const(True), "roomId": TEXT, "purged": struct({"waiting": COUNT, "preQueue": COUNT})},
)
TICKET_STATES: Final = one_of(
    "prequeued", "waiting", "passed", "active", "expired", "ejected", "previous_generation", "unknown"
)
EJECTED: Final = struct({"ok": const(True), "roomId": TEXT, "ticket": COUNT, "was": TEXT})
_TICKET: Final = struct(
    {
        "roomId": TEXT,
        "generation": COUNT,
        "ticket": maybe(COUNT),
        "ref": TEXT,
        "state": TICKET_STATES,
        **dict.fromkeys(("position", "joinedAt", "passedAt", "passExpiresAt", "sessionExpiresAt"), maybe(COUNT)),
        **dict.fromkeys(("holdsSlot", "atDoor", "onSite", "present"), FLAG),
        "lastSeenAt": maybe(TIME),
        "bound": struct({"cookie": FLAG, "fingerprint": FLAG}),
    },
    {"waitingSec": COUNT, "waitedSec": maybe(COUNT), "passedUnknown": const(True), "recordDropped": const(True)},
)
_ASKED: Final = {"ticket": _WHOLE, "ref": TEXT, "q": TEXT}
_SEARCHED: Final = struct({"generations": COUNT, "ticketsPerGeneration": COUNT})
_CANDIDATES: Final = {
    "candidates": listed(
        struct({"ticket": maybe(COUNT), "state": TICKET_STATES}, {"place": COUNT, "joinedAt": maybe(TIME)})
    )
}
TICKET: Final[Shape] = {
    "oneOf": [
        _TICKET,
        struct({"roomId": TEXT, "state": const("unknown"), "searched": _SEARCHED}, _ASKED),
        struct({"roomId": TEXT, **_CANDIDATES}, {"ref": TEXT, "q": TEXT}),
        struct(
            {"roomId": TEXT, "ref": TEXT, "state": const("previous_generation"), "generation": COUNT, "hint": TEXT},
            {"ticket": COUNT, **_CANDIDATES},
        ),
    ]
}
"""One ticket; none that is known; several with that ref; or one of an earlier generation."""
TRIAL: Final = struct(
    {
        "roomId": TEXT,
        "url": TEXT,
        "covered": FLAG,
        "winner": maybe(struct({"index": COUNT, "id": TEXT, "action": TEXT, "pattern": TEXT})),
        "results": listed(struct({"id": TEXT, "matches": FLAG})),
        "warnings": listed(WARNING),
    }
)
INSTALL: Final = struct(
    {
        "roomId": TEXT,
        "origin": TEXT,
        "url": TEXT,
        "tagAllowed": FLAG,
        "returnAllowed": FLAG,
        "covered": FLAG,
        "rule": maybe(TEXT),
        "lastCheckAt": maybe(TIME),
        "tagVersion": maybe(TEXT),
        "refusedChecks": COUNT,
        "findings": listed(struct({"code": TEXT, "text": TEXT})),
        "fix": maybe(struct({"tagOrigins": _ORIGINS})),
    }
)
ME: Final = struct(
    {
        "kind": TEXT,
        "via": one_of("bearer", "session"),
        "role": ROLES,
        "name": TEXT,
        "operatorId": maybe(TEXT),
        "linkId": maybe(TEXT),
        "expiresAt": maybe(TIME),
        "can": struct(dict.fromkeys(GROUPS, FLAG)),
    }
)
SESSION: Final = struct(
    {"ok": const(True), "kind": TEXT, "role": ROLES, "name": TEXT, "operatorId": maybe(TEXT), "expiresAt": TIME}
)
SSE_TICKET: Final = struct({"ticket": TEXT, "expiresInSec": COUNT})
STEPPED_UP: Final = struct({"stepUpToken": TEXT, "expiresAt": TIME})
_OPERATOR: Final = struct(
    {
        "id": TEXT,
        "name": TEXT,
        "role": ROLES,
        "createdAt": TIME,
        "createdBy": TEXT,
        "lastUsedAt": maybe(TIME),
        "lastUsedIp": maybe(TEXT),
        "revokedAt": maybe(TIME),
        "revokedBy": maybe(TEXT),
        "liveLinks": COUNT,
    }
)
OPERATORS: Final = struct({"operators": listed(_OPERATOR)})
OPERATOR_MADE: Final = struct({"operator": _OPERATOR, "key": TEXT, "shownOnce": const(True)})
OPERATOR_CHANGED: Final = struct({"operator": _OPERATOR, "changed": listed(TEXT)})
OPERATOR_REVOKED: Final = struct(
    {"ok": const(True), "operator": struct({"id": TEXT, "name": TEXT}), "linksRevoked": COUNT}, {"purged": const(True)}
)
OPERATOR_ROLES: Final = one_of("owner", "operator", "viewer")
PERSON_NAME: Final = {**TEXT, "minLength": 1}
LABEL: Final = {**TEXT, "maxLength": 80}
_LINK: Final = struct(
    {
        "id": TEXT,
        "label": TEXT,
        "createdAt": TIME,
        "createdBy": TEXT,
        "createdById": maybe(TEXT),
        "expiresAt": TIME,
        "revokedAt": maybe(TIME),
        "revokedBy": maybe(TEXT),
        "state": one_of("live", "revoked", "expired"),
        "lastUsedAt": maybe(TIME),
    }
)
LINKS: Final = struct({"links": listed(_LINK), "live": COUNT, "ttlSec": COUNT})
LINK_SHOWN: Final = struct({"link": _LINK, "token": TEXT, "url": TEXT})
LINKS_REVOKED: Final = struct({"ok": const(True), "revoked": COUNT})
_FIGURE_SUMS: Final = (
    "waiting", "preQueue", "active", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute",
)  # fmt: skip
TOTALS: Final = struct(
    {
        "rooms": COUNT,
        **dict.fromkeys(_FIGURE_SUMS, maybe(COUNT)),
        "incidents": COUNT,
        "worstWait": struct(
            {
                "sec": maybe(COUNT),
                "kind": one_of("estimate", "floor", "infinite"),
                "roomId": maybe(TEXT),
                "excluded": COUNT,
                "notAdmitting": COUNT,
            }
        ),
        "incident": maybe(struct({"code": TEXT, "roomId": maybe(TEXT), "text": TEXT})),
    }
)
ROOMS: Final = struct({"ts": TIME, "rooms": listed(ref("Room")), "totals": TOTALS})
ENTRY: Final = struct(
    {
        "id": COUNT,
        "ts": TIME,
        **dict.fromkeys(("actor", "actorKind", "action"), TEXT),
        **dict.fromkeys(("actorId", "role", "roomId", "detail", "ip", "instance"), maybe(TEXT)),
        "ok": FLAG,
    }
)
AUDIT: Final = struct({"entries": listed(ENTRY), "next": maybe(TEXT)})
_MARK: Final = struct(
    {"id": TEXT, "ts": TIME, "roomId": maybe(TEXT), "kind": TEXT, "text": TEXT, "actor": maybe(TEXT)},
)
_POINT: Final = struct({name: TIME if name == "ts" else maybe(COUNT) for name in MEMBERS})
HISTORY: Final = struct({"stepSec": const(STEP_SEC), "rooms": map_of(listed(_POINT, at_most=POINTS))})
TIMELINE: Final = struct({"items": listed(_MARK)})
_DECISION: Final = struct(
    {"ts": TIME, "roomId": TEXT, "score": maybe(COUNT), "outcome": TEXT, "signals": listed(TEXT)},
    {"address": TEXT, "userAgent": TEXT},
)
PROTECTION: Final = struct(
    {
        "mode": _MODES,
        "warnAt": COUNT,
        "blockAt": COUNT,
        "rooms": listed(struct({"roomId": TEXT, "mode": _MODES})),
        "totals": COUNTS,
        "signals": listed(struct({"signal": TEXT, "count": COUNT})),
        "recent": listed(_DECISION),
    }
)
_INCIDENT: Final = struct(
    {
        "code": TEXT,
        "severity": one_of("critical", "warning"),
        "roomId": maybe(TEXT),
        "since": maybe(TIME),
        "text": TEXT,
    }
)
_BLOCK: Final = map_of(ANY)
_CONFIG_WARNING: Final = struct({"code": TEXT, "variable": ANY, "set": ANY, "using": ANY, "message": TEXT})
_MEMBER: Final = struct(
    {
        **dict.fromkeys(("instance", "version", "kid"), TEXT),
        **dict.fromkeys(("startedAt", "seenAt"), TIME),
        **dict.fromkeys(("ready", "storageOk", "leader"), FLAG),
    }
)
_BLOCKS: Final = (
    "sse", "connections", "limits", "waitingPage", "storage", "backend", "proxy", "edge", "counters", "checks",
    "tokens", "protection", "access", "alerting", "audit", "memory", "clock", "keys",
)  # fmt: skip
HEALTH: Final[Shape] = {
    **struct(
        {
            **dict.fromkeys(("version", "build", "instance", "role", "nowIso", "store", "sidestore"), TEXT),
            **dict.fromkeys(("pid", "workers", "now", "startedAt", "uptimeSec"), COUNT),
            **dict.fromkeys(("drill", "leader", "ready"), FLAG),
            "status": one_of("ok", "degraded", "shutting_down"),
            "reasons": listed(struct({"code": TEXT, "text": TEXT})),
            "degraded": listed(TEXT),
            "rooms": maybe(_BLOCK),
            "fleet": struct({"instances": COUNT, "partial": FLAG, "members": listed(_MEMBER)}, {"stale": const(True)}),
            **dict.fromkeys(_BLOCKS, _BLOCK),
            "config": map_of(struct({"value": ANY, "from": one_of("env", "default")})),
            "incidents": listed(_INCIDENT),
            "warnings": listed(TEXT),
            "configWarnings": listed(_CONFIG_WARNING),
            "hardening": listed(TEXT),
        }
    ),
    "additionalProperties": True,
}
"""Blocks whose feature is not in this build are absent; more of them come with it."""
HEALTH_REDUCED: Final[Shape] = {
    **struct(dict.fromkeys(HEALTH_SHOWN, ANY) | {"backend": ANY, "incidents": ANY}),
    "not": {"required": ["pid"]},
}
"""What a monitor link reads of it."""

SCHEMAS: Final = {"Room": _room(), "Ticket": TICKET, "AdminHealth": HEALTH}
