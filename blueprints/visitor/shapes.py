"""Shapes of what visitors are answered: check, visitor state, leave, verify, health. Source: VIS-124, VIS-182 … 190."""

from __future__ import annotations

from typing import Final

from blueprints.openapi.shapes import (  # fmt: skip
    COUNT,
    FLAG,
    NULL,
    TEXT,
    TIME,
    Shape,
    const,
    integer,
    listed,
    maybe,
    one_of,
    struct,
)

STATE_WORDS: Final = ("active", "paused", "bypass", "scheduled")
REASONS: Final = (
    "new", "waiting", "scheduled", "paused", "expired", "ejected", "stale_generation", "at_capacity",
    "session_elsewhere", "bad_token",
)  # fmt: skip
_EARLIER: Final = ("new", "expired", "ejected", "stale_generation", "session_elsewhere", "bad_token", "reclaimed")
_SEC: Final = integer(30, 600)

PASS: Final = struct(
    {
        "action": const("pass"),
        "roomId": TEXT,
        "reason": one_of("bypass", "not_targeted", "admitted", "session"),
        "recheckSec": _SEC,
    },
    {"doorKey": TEXT, "sessionExpiresAt": TIME, "token": TEXT},
)
QUEUE: Final = struct(
    {
        "action": const("queue"),
        "roomId": TEXT,
        "reason": one_of(*REASONS),
        "roomState": one_of(*STATE_WORDS),
        "location": TEXT,
    }
)
CHECK_ANSWERS: Final[Shape] = {"oneOf": [PASS, QUEUE]}

_HEAD: Final = {"roomId": TEXT, "name": TEXT, "roomState": one_of(*STATE_WORDS), "now": TIME, "pollMs": COUNT}
_TICKET: Final = {"ticket": integer(1, 2**32 - 1), "ref": TEXT}
_LINE: Final = {
    **_TICKET,
    "position": integer(1, 2**32),
    "ahead": COUNT,
    "estWaitSec": maybe(COUNT),
    "estWaitIsFloor": FLAG,
    "joinedAt": TIME,
}
_OPENING: Final = {"preCount": COUNT, "opensAt": TIME}


def _states(more: dict[str, Shape], optional: dict[str, Shape]) -> Shape:
    """The visitor state in all its forms; ``more`` and ``optional`` are members that each of them has or may have."""
    forms: dict[str, dict[str, Shape]] = {
        "waiting": _LINE,
        "paused": {**_LINE, "estWaitSec": NULL},
        "scheduled": {**_LINE, **_OPENING, "preQueued": const(False)},
        "passed": {
            **_TICKET,
            "joinedAt": TIME,
            "passedAt": TIME,
            "waitedSec": COUNT,
            "passExpiresAt": TIME,
            "claimUntil": maybe(TIME),
            "holdsSlot": FLAG,
            "location": TEXT,
        },
        "at_capacity": {**_TICKET, "passedAt": TIME, "passExpiresAt": TIME, "doorAhead": COUNT},
        "active": {**_TICKET, "sessionExpiresAt": TIME, "location": TEXT},
        "bypass": {"location": TEXT},
    }
    place: dict[str, Shape] = {
        **_OPENING,
        "preQueued": const(True),
        "position": NULL,
        "ahead": NULL,
        "ref": TEXT,
        "joinedAt": TIME,
    }
    gone: dict[str, Shape] = {"reason": one_of(*_EARLIER), "rejoin": FLAG}
    pairs = [*forms.items(), ("scheduled", place), ("gone", gone)]
    return {
        "oneOf": [
            struct(
                {"state": const(word), **_HEAD, **more, **members},
                {**optional, **({"by": const("purge")} if word == "gone" else {})},
            )
            for word, members in pairs
        ]
    }


STATES: Final[Shape] = _states({}, {"token": TEXT})
JOIN_ANSWERS: Final[Shape] = _states({"created": FLAG}, {"token": TEXT, "reason": one_of(*_EARLIER)})

DONE: Final = struct({"ok": const(True)})
LEFT: Final = struct({"ok": const(True), "left": one_of("waiting", "prequeued", "passed", "active", None)})
_CHECKED: Final = struct(
    {"id": one_of("key", "room", "state", "origin", "returnUrl", "rule"), "ok": FLAG, "message": TEXT},
    {"fix": struct({"tagOrigins": listed(TEXT)}), "rule": TEXT, "covered": FLAG},
)
VERIFIED: Final = struct({"ok": FLAG, "roomId": TEXT, "checks": listed(_CHECKED)})

HEALTH: Final = struct(
    {
        "ready": FLAG,
        "status": one_of("ok", "degraded", "shutting_down"),
        "reasons": listed(struct({"code": TEXT, "text": TEXT})),
        "degraded": listed(TEXT),
        "version": TEXT,
        "build": TEXT,
        "startedAt": TIME,
        "uptimeSec": COUNT,
        "store": one_of("memory", "embedded", "valkey"),
        "sidestore": one_of("memory", "embedded", "pg"),
        "leader": FLAG,
        "storage": struct({"ok": FLAG}),
    },
    {
        "backend": struct(
            {
                "store": TEXT,
                "valkey": one_of("up", "down"),
                "recoveringRooms": COUNT,
                "ok": FLAG,
                "valkeyEverConnected": FLAG,
            }
        )
    },
)
