"""The one table of a room's fields: names, bounds, defaults, codes, who may change them, what they mean.

Validation of create and update bodies, the settings part of a room object, the reference of the admin API and the
console's form follow from it. Not here: live figures and other read-only facts' values (services/room_object.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from app.core.errors import snake
from app.core.ids import RoomId, is_room_id, reserved_reason
from app.domain import automation
from app.domain import field_checks as checks
from app.domain.automation import (
    AutoActivate,
    Autotune,
    auto_activate,
    autotune,
    members_json,
)
from app.domain.field_checks import Check
from app.domain.inline.proxy_origin import proxy_origin
from app.domain.opening import Moment, opening_time, refusal
from app.domain.origin_lists import RULE_MEMBERS, RULE_READ_ONLY, origin_patterns, rules
from app.domain.problems import Problems
from app.domain.protection_mode import Protection, protection
from app.domain.roles import Role
from app.domain.room import RoomConfig, RoomState, UrlRule

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {**automation.MEMBERS, "protection": ("mode",)}
READ_ONLY_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {**automation.READ_ONLY_MEMBERS, "protection": ()}
NOT_IN_THIS_BUILD: Final = "not_in_this_build"
INGRESS_BUDGET: Final = {
    "totalMs": 1000,
    "hops": {"accept": 50, "gate": 10, "connect": 50, "firstByte": 700, "bodyOut": 40},
}
"""Default of BUD-035."""


@dataclass(frozen=True, slots=True)
class RoomField:
    """One row of the table.

    ``key`` is the attribute of :class:`RoomConfig`; "" marks a field whose feature this build does not have: its
    ``default`` (or ``also``) is accepted, anything else is refused as ``not_in_this_build``.
    """

    name: str
    """JSON name."""
    key: str
    kind: str
    """Type and bounds, for people."""
    default: Any
    """JSON value of a room that never set the field."""
    help: str
    check: Check | None = None
    code: str = ""
    """Code of its refusal; "" = ``invalid_<name in snake_case>``."""
    role: Role = Role.OPERATOR
    also: tuple[Any, ...] = ()
    """Further spellings of the default."""
    bounds: tuple[int, int] | None = None
    """Least and greatest value of a whole number."""
    nullable: bool = False
    """Whether a whole number may be null."""

    @property
    def built(self) -> bool:
        """Tell whether this build obeys the field."""
        return bool(self.key)

    @property
    def error_code(self) -> str:
        """Code of the 400 that refuses a bad value."""
        return self.code or f"invalid_{snake(self.name)}"


def _int(name: str, key: str, low: int, high: int, default: int | None, text: str, **more: Any) -> RoomField:
    nullable = more.pop("nullable", False)
    kind = f"integer {low}–{high}" + (" or null" if nullable else "")
    check = checks.integer(low, high, nullable=nullable)
    return RoomField(name, key, kind, default, text, check, bounds=(low, high), nullable=nullable, **more)


def _later(name: str, kind: str, default: Any, text: str, **more: Any) -> RoomField:
    return RoomField(name, "", kind, default, text, **more)


def _state(value: Any) -> RoomState:
    words = {state.word: state for state in (RoomState.ACTIVE, RoomState.PAUSED, RoomState.BYPASS)}
    if not isinstance(value, str) or value not in words:
        raise ValueError("must be active, paused or bypass")
    return words[value]


FIELDS: Final[tuple[RoomField, ...]] = (
    RoomField("id", "id", "string, immutable", None, "Name of the room in every address.", code="invalid_room_id"),
    RoomField("name", "name", "string, 1–80 characters", None, "What visitors and operators read; the id if never set.",
              checks.name),
    RoomField("targetUrl", "target_url", "http(s) URL, at most 2048 characters", None,
              "Public address of the site; where released visitors go.", checks.target_url),
    RoomField("state", "state", '"active", "paused" or "bypass"', "active",
              "active: the queue runs; paused: nobody is let in; bypass: the queue is off.", _state),
    _int("rate", "rate_per_minute", 0, 100_000, 60, "Promotions per minute; 0 lets nobody in. Also `ratePerMinute`.",
         code="invalid_rate"),
    _int("maxConcurrent", "max_concurrent", 1, 1_000_000, None, "Places on the site; null = no cap.", nullable=True),
    _int("passedTtlSec", "passed_ttl_sec", 1, 86_400, 600, "Life of an unused pass."),
    _int("sessionTtlSec", "session_ttl_sec", 1, 86_400, 1_800, "Idle time after which a session ends."),
    _int("sessionMaxSec", "session_max_sec", 1, 604_800, 14_400, "Longest life of a session."),
    _int("presenceSec", "presence_sec", 1, 3_600, 30, "Time after which a silent holder counts as absent."),
    _int("queueMaxPerIp", "queue_max_per_ip", 1, 1_000_000, 16, "Places one address may hold; null = no cap.",
         nullable=True),
    _int("preQueueMaxPerIp", "pre_queue_max_per_ip", 1, 1_000_000, 16,
         "Places one address may hold before the doors open; null = no cap.", nullable=True),
    _int("sessionMaxPerIp", "session_max_per_ip", 1, 1_000_000, None,
         "Slots (running sessions and reserved passes) one address may hold; null = no bound.", nullable=True),
    RoomField("returnOrigins", "return_origins", "list of 0–50 origin patterns", [],
              "Where released visitors may be sent, besides the origin of targetUrl.", origin_patterns),
    RoomField("tagOrigins", "tag_origins", "list of 0–50 origin patterns or null", None,
              "Where the browser tag may ask; null = as returnOrigins.",
              lambda value: None if value is None else origin_patterns(value)),
    RoomField("rules", "rules", "list of 0–50 rules", [], "Which pages the room covers; none = every page.", rules),
    RoomField("onBackendDown", "on_backend_down", '"closed" or "open"', "closed",
              "What an inline room does while its live state cannot be read.", checks.one_of("closed", "open")),
    RoomField("autoActivate", "auto_activate", "object or null", None,
              "Turns the queue on by arrivals per minute, and off again: `enabled`, `joinsPerMin`, `sustainSec`, "
              "`releaseAfterSec`.", auto_activate),
    RoomField("autotune", "autotune", "object or null", None,
              "Adjusts the rate by the site's health: `enabled`, `minRate`, `maxRate`, `targetMs`; null = the server's "
              "AUTOTUNE.", autotune),
    RoomField("opensAt", "opens_at", "ISO 8601 time with zone, epoch ms or null", None,
              "When the doors open; before that visitors get places in a pre-queue whose order is drawn.",
              opening_time),
    RoomField("protection", "protection", "object or null", None,
              "Bot protection: one member `mode`, off, monitor or enforce; null = the server's PROTECTION_MODE.",
              protection),
    RoomField("proxyOrigin", "proxy_origin", "origin or null", None,
              "Internal address of the site behind an inline room: scheme, host, port; null = snippet mode.",
              proxy_origin, role=Role.OWNER),
    _later("proxyOrigins", "list or null", None, "Pool of origins of an inline room.", role=Role.OWNER),
    _later("preset", '"capacity" or null', None, "Room of two numbers."),
    _later("originHealthPath", "path or null", None, "What a knock asks the origin for."),
    _later("originBalance", "word", "least_busy", "How a pool is used."),
    _later("originAffinity", "word", "visitor", "Whether a visitor stays with one origin."),
    _later("machinePaths", "list", [], "Calls that pass without queueing."),
    _later("ingressBudget", "object or null", None, "Time that machine calls may take.",
           also=(INGRESS_BUDGET,)),
)  # fmt: skip

BY_NAME: Final[Mapping[str, RoomField]] = {row.name: row for row in FIELDS}
BY_KEY: Final[Mapping[str, RoomField]] = {row.key: row for row in FIELDS if row.built}
RATE_NAMES: Final = ("rate", "ratePerMinute")

READ_ONLY: Final = frozenset(
    {
        "generation", "createdAt", "updatedAt", "etag", "mode", "effectiveState", "drawnAt", "waiting", "preQueue",
        "active", "pendingEntry", "occupancy", "passesOutstanding", "joinsPerMin", "passedLastMinute",
        "oldestWaitSec", "lastTicket", "estWaitSec", "estWaitIsFloor", "estWaitInfinite", "waitP50Sec", "waitP90Sec",
        "site", "origin", "origins", "originsTotal", "originsInRotation", "lastChange", "checksWithoutUrl",
        "blockedReturnUrls", "refusedOriginChecks", "sharedSessions", "topAddressSlots", "protectionCounts",
        "recovering", "stale", "staleSince",
    }
)  # fmt: skip
"""Facts that a room object reports and a body may send back without effect (ADM-114, ENG-049)."""


@dataclass(frozen=True, slots=True)
class RoomPatch:
    """A body that passed every check. ``values`` holds only what was sent, by attribute of RoomConfig."""

    id: RoomId
    values: Mapping[str, Any]
    sent: tuple[str, ...]
    """Names of the settings in the body, in its order; ``ratePerMinute`` counts as ``rate``."""
    ignored: tuple[str, ...] = field(default=())
    """Read-only names in the body (ENG-049)."""


def parse_patch(body: Mapping[str, Any], *, creating: bool = False, moment: Moment | None = None) -> RoomPatch:
    """Check a whole body of ``POST /api/admin/rooms``; with ``creating`` also what a new room needs.
    ``moment``: what an opening time is compared with; without it only its form is checked.

    Raises :class:`BadRequest` with the first problem's code and sentence and every refused name in ``fields``.
    """
    problems = Problems()
    room_id = _room_id(body, creating, problems)
    values: dict[str, Any] = {}
    sent: list[str] = []
    ignored: list[str] = []
    for name, value in body.items():
        if name in READ_ONLY:
            ignored.append(name)
        elif name != "ratePerMinute" and name not in BY_NAME:
            problems.add(name, "unknown_field", f'"{name}" is not a field of a room')
        elif name not in ("id", *RATE_NAMES):
            sent.append(name)
            _take(BY_NAME[name], value, values, problems, ignored)
            if name == "opensAt" and moment is not None and (found := refusal(values.get("opens_at"), moment)):
                problems.add(name, found[0], f"{name} {found[1]}")
        elif (name if name == "id" else "rate") not in sent:
            sent.append(name if name == "id" else "rate")
            if name != "id":
                _take_rate(body, values, problems)
    if creating and "targetUrl" not in body:
        problems.add("targetUrl", "target_url_required", "A new room needs targetUrl")
    problems.raise_if_any()
    return RoomPatch(RoomId(room_id), values, tuple(sent), tuple(ignored))


def _room_id(body: Mapping[str, Any], creating: bool, problems: Problems) -> str:
    room_id = body.get("id")
    if not is_room_id(room_id):
        sentence = "id must be 1 to 64 letters, digits, _ or -, and begin with a letter or digit"
        problems.add("id", "invalid_room_id", sentence)
    elif creating and (reason := reserved_reason(str(room_id))):
        problems.add("id", "invalid_room_id", reason)
    return str(room_id)


def _take(row: RoomField, value: Any, values: dict[str, Any], problems: Problems, ignored: list[str]) -> None:
    """Check one field and keep its value."""
    if not row.built:
        if not any(_same(value, default) for default in (row.default, *row.also)):
            problems.add(row.name, NOT_IN_THIS_BUILD, f"{row.name} is not in this build; leave it out")
        return
    assert row.check is not None
    if row.name == "rules":
        value = _without_read_only(value, ignored, problems)
    elif row.name in MEMBERS and isinstance(value, dict):
        value = _own_members(row.name, value, ignored, problems)
    try:
        values[row.key] = row.check(value)
    except ValueError as error:
        problems.add(row.name, row.error_code, f"{row.name} {error}")


def _take_rate(body: Mapping[str, Any], values: dict[str, Any], problems: Problems) -> None:
    """Check ``rate`` and its other name together (ENG-031)."""
    row = BY_NAME["rate"]
    assert row.check is not None
    names = [name for name in body if name in RATE_NAMES]
    for name in names:
        try:
            values[row.key] = row.check(body[name])
        except ValueError as error:
            problems.add(name, row.error_code, f"{name} {error}")
    if len(names) == 2 and not _same(body["rate"], body["ratePerMinute"]):
        problems.add("rate", "conflicting_field", "rate and ratePerMinute differ", more=("ratePerMinute",))


def _without_read_only(value: Any, ignored: list[str], problems: Problems) -> Any:
    """Rules without their read-only members; any other unknown member is a problem of its own (ENG-049)."""
    if not isinstance(value, list):
        return value
    kept = []
    for index, rule in enumerate(value):
        members = rule if isinstance(rule, dict) else {}
        for member in members:
            path = f"rules[{index}].{member}"
            if member in RULE_READ_ONLY and f"rules[].{member}" not in ignored:
                ignored.append(f"rules[].{member}")
            elif member not in (*RULE_MEMBERS, *RULE_READ_ONLY):
                problems.add(path, "unknown_field", f'"{path}" is not a field of a room')
        kept.append({name: members[name] for name in members if name in RULE_MEMBERS} if members else rule)
    return kept


def _own_members(name: str, value: dict[str, Any], ignored: list[str], problems: Problems) -> dict[str, Any]:
    """An object without its read-only members; any other unknown member is a problem of its own (ENG-049)."""
    for member in value:
        path = f"{name}.{member}"
        if member in READ_ONLY_MEMBERS[name]:
            ignored.append(path)
        elif member not in MEMBERS[name]:
            problems.add(path, "unknown_field", f'"{path}" is not a field of a room')
    return {member: value[member] for member in MEMBERS[name] if member in value}


def _same(value: Any, default: Any) -> bool:
    """Equality that tells ``true`` from 1 and 1 from 1.0."""
    if isinstance(value, dict) and isinstance(default, dict):
        return value.keys() == default.keys() and all(_same(value[name], default[name]) for name in value)
    return type(value) is type(default) and bool(value == default)


def new_config(patch: RoomPatch) -> RoomConfig:
    """The configuration of a room made by ``patch``, which must have been parsed with ``creating``."""
    config = RoomConfig(id=patch.id, name=patch.id, target_url=patch.values["target_url"])
    return replace(config, **patch.values)


def settings_json(config: RoomConfig) -> dict[str, Any]:
    """The settings part of a room object, in the order of the table (ADM-113).

    Fields without a feature in this build read as their default: nothing else can be in force.
    """
    return {row.name: _json(getattr(config, row.key)) if row.built else row.default for row in FIELDS}


def _json(value: Any) -> Any:
    if isinstance(value, RoomState):
        return value.word
    if isinstance(value, UrlRule):
        return {"id": value.id, "action": value.action, "pattern": value.pattern, "note": value.note}
    if isinstance(value, Protection):
        return {"mode": value.mode.value}
    if isinstance(value, AutoActivate | Autotune):
        return members_json(value)
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value
