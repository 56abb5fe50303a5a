"""Room objects as the admin API gives them (file 05, section 8), for the stand-in server."""

from __future__ import annotations

from typing import Any

CREATED = 1_788_200_000_000


def new_room(**values: Any) -> dict[str, Any]:
    """A room with every default; ``values`` override."""
    room: dict[str, Any] = {
        "generation": 1, "etag": "9f2c71aa", "mode": "snippet", "onBackendDown": "closed", "state": "active",
        "rate": 60, "maxConcurrent": None, "passedTtlSec": 600, "sessionTtlSec": 1800, "sessionMaxSec": 14400,
        "presenceSec": 30, "queueMaxPerIp": 16, "preQueueMaxPerIp": 16, "sessionMaxPerIp": None, "opensAt": None,
        "returnOrigins": [], "tagOrigins": None, "rules": [], "createdAt": CREATED, "updatedAt": CREATED,
        "lastChange": None, "waiting": 0,
        "preQueue": 0, "active": 0, "pendingEntry": 0, "occupancy": 0, "passesOutstanding": 0, "joinsPerMin": 0,
        "passedLastMinute": 0, "oldestWaitSec": 0, "lastTicket": 0, "estWaitSec": 0, "estWaitIsFloor": False,
        "estWaitInfinite": False, "waitP50Sec": None, "waitP90Sec": None, "recovering": False, "stale": False,
        "proxyOrigin": None, "origin": None, "autoActivate": None, "autotune": None, "protection": None,
        "checksWithoutUrl": 0,
        "site": {"status": "up", "checkedAt": CREATED, "httpStatus": 200, "ms": 84},
    }  # fmt: skip
    room.update(values)
    room["name"] = values.get("name") or room["id"]
    room["effectiveState"] = values.get("effectiveState", room["state"])
    return room


def sample_rooms() -> dict[str, dict[str, Any]]:
    """Six rooms, each in another condition."""
    rooms = [
        new_room(
            id="shop",
            name="Shop",
            targetUrl="https://shop.example/",
            maxConcurrent=500,
            waiting=38,
            active=112,
            occupancy=112,
            joinsPerMin=31,
            passedLastMinute=58,
            estWaitSec=40,
            lastTicket=5644,
        ),
        new_room(
            id="spring-drop",
            name="Spring drop",
            targetUrl="https://drop.shop.example",
            rate=150,
            maxConcurrent=2500,
            waiting=12_418,
            active=2481,
            occupancy=2481,
            joinsPerMin=312,
            passedLastMinute=150,
            estWaitSec=4980,
        ),
        new_room(
            id="checkout",
            name="Checkout",
            targetUrl="https://www.shop.example/checkout",
            maxConcurrent=25,
            waiting=64,
            active=25,
            occupancy=25,
            passesOutstanding=5,
            joinsPerMin=22,
            estWaitSec=180,
            estWaitIsFloor=True,
            rules=[
                {
                    "id": "r1",
                    "action": "protect",
                    "pattern": "/checkout*",
                    "note": "",
                    "hits": 8123,
                    "lastMatchedAt": None,
                }
            ],
        ),
        new_room(
            id="support",
            name="Support chat",
            targetUrl="https://help.shop.example",
            state="paused",
            rate=30,
            waiting=213,
            joinsPerMin=9,
            estWaitSec=None,
            estWaitInfinite=True,
        ),
        new_room(
            id="arena",
            name="Arena tickets",
            targetUrl="https://arena.example",
            rate=0,
            maxConcurrent=800,
            joinsPerMin=406,
            estWaitSec=None,
            estWaitInfinite=True,
            waiting=3871,
        ),
        new_room(
            id="news", name="Newsroom", targetUrl="https://news.shop.example", state="bypass", rate=240, joinsPerMin=84
        ),
    ]
    return {room["id"]: room for room in rooms}


def sample_entries(now: int) -> list[dict[str, Any]]:
    """Seventy entries of the audit trail, newest first, four minutes apart."""
    kinds = [
        ("Night ops", "operator", "room.rate", "shop", "60 → 90", True),
        ("Dana", "operator", "visitor.eject", "spring-drop", "ticket 4114 (was active)", True),
        ("Night ops", "operator", "room.update", "shop", "inline_requires_owner: proxyOrigin", False),
        ("system", "system", "threshold.open", "checkout", "bypass → active: 131 joins/min for 60 s", True),
        ("ADMIN_KEY", "admin_key", "operator.create", None, "Dana (owner, 91ab03cd)", True),
        ("system", "system", "server.start", None, "v1.0.0; previous run: not closed cleanly", True),
        ("Dana", "operator", "room.create", "news", "<b>not markup</b>", True),
    ]  # fmt: skip
    return [
        {
            "id": 90_470 - number, "ts": now - 1000 - number * 240_000, "actor": who, "actorKind": kind,
            "actorId": {"Night ops": "535dddaa", "Dana": "91ab03cd"}.get(who), "role": None, "action": action,
            "roomId": room, "detail": detail, "ok": ok, "ip": None, "instance": "i:7f3a9c",
        }
        for number in range(70)
        for who, kind, action, room, detail, ok in [kinds[number % len(kinds)]]
    ]  # fmt: skip


def sample_report() -> dict[str, Any]:
    """Blocks of the health report of a quiet deployment."""
    budgets = ("join", "check", "status", "waiting", "docs", "notify", "verify")
    causes = ("expired", "future", "bad_signature", "unknown_kid", "malformed", "wrong_room")
    return {
        "pid": 4711, "now": 1_788_207_200_000, "keys": {"secret": "set", "kid": "9f86d081"},
        "rooms": {"count": 3, "waiting": 412, "preQueue": 7, "active": 90, "occupancy": 95, "passesOutstanding": 5},
        "sse": {"visitors": 350, "admin": 3, "perIp": 64, "maxTotal": 10_000, "refusedTotal": 0},
        "connections": {"open": 702, "max": 20_000, "reserve": 256},
        "limits": {"joinPerMin": 600, "checkPerMin": 3000, "statusPerMin": 6000, "waitingPerMin": 120,
                   "notifyPerMin": 30, "verifyPerMin": 0, "addressesKept": {"join": 210, "check": 801},
                   "refusedTotal": {**dict.fromkeys(budgets, 0), "check": 17}},
        "counters": {"unknownRoomChecks": 0, "blockedReturnUrls": 0, "refusedOriginChecks": 0, "refusedKeyChecks": 0,
                     "rateLimitedChecks": 0, "checksWithoutUrl": 0},
        "checks": {"unknownRooms": [], "refusedOrigins": []},
        "tokens": {"rejected": dict.fromkeys(causes, 0)},
        "protection": {"mode": "monitor", "warned": 22, "blocked": 0},
        "clock": {"lastJumpAt": None, "lastJumpMs": None},
        "memory": {"rssBytes": 412_000_000, "limitBytes": 2_147_483_648},
        "access": {"sso": False, "operators": 4, "monitorLinks": 2, "lockedAddresses": 1},
        "mesh": {"enabled": False, "instances": 1, "targets": 3, "unavailable": 0, "unreachable": 0, "noData": 1,
                 "pairs": 0, "droppedWitnesses": 0, "checkers": 0},
        "cpu": {"usable": 2, "self": 0.21, "host": 0.304, "steal": 0.0, "throttled": None, "pressure": 0.02,
                "loopLagP99Ms": 4, "contention": False, "who": None},
        "capacity": {"instancesDeclared": 2, "instances": 2, "cpusDeclared": None, "cpusUsable": 2, "reason": None},
    }  # fmt: skip
