"""What the routes of ``/api/admin`` take and answer, for the OpenAPI document.

Path, method, role and the names of query parameters are those of the routes' own table; here stands what that table
does not say. Source: docs/spec/05.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from app.domain.room_fields import BY_NAME, FIELDS
from blueprints.admin import ops_shapes, shapes
from blueprints.admin.confirmed import HEADER as STEP_UP_HEADER
from blueprints.admin.confirmed import StepUp
from blueprints.admin.routing import Route
from blueprints.openapi.document import Operations
from blueprints.openapi.operation import JSON, NOBODY, STREAM, Answer, Operation, Parameter, json_answer
from blueprints.openapi.shapes import ANY, COUNT, FLAG, TEXT, Shape, body_of, const, integer, maybe, ref, struct

TAG: Final = "admin"
ADMIN: Final = ("adminKey", "console")
_CREDENTIAL: Final = (
    "unauthorized", "credential_in_query", "too_many_auth_failures", "rate_limited", "insufficient_role",
    "unknown_field", "storage_unavailable",
)  # fmt: skip
"""Any admin route may answer these: the last one where a session cannot be confirmed."""
_BODY: Final = ("bad_json",)
_ROOM_CODES: Final = (
    "bad_json", "conflicting_field", "not_in_this_build", "target_url_required", "opens_at_in_past",
    *dict.fromkeys(row.error_code for row in FIELDS), "no_room", "stale_room",
    "proxy_origin_private", "proxy_origin_loop", "proxy_origin_conflict", "inline_requires_owner",
)  # fmt: skip
_EMPTY: Final = body_of({})
_KEY: Final = {**TEXT, "minLength": 1, "maxLength": 512}
_RATE: Final = integer(0, 100_000)
_SCHEDULE: Final[dict[str, Shape]] = {
    "opensAt": {"type": ["string", "integer", "null"], "description": "ISO 8601 with zone, or epoch ms."},
    "preQueueMaxPerIp": maybe(integer(1, 1_000_000)),
}
_TIME_TEXT: Final = "Epoch ms, or ISO 8601 with a zone."
_QUERY: Final[Mapping[str, tuple[str, Shape]]] = {
    "ref": ("Ref that a visitor read out.", TEXT),
    "place": ("Place in the pre-queue of a candidate of the ref.", integer(1, 2**53)),
    "url": ("Full address of the page.", TEXT),
    "origin": ("Origin the tag runs on, when it is not that of the page.", TEXT),
    "q": ("Number or ref, whatever he read out.", TEXT),
    "roomId": ("Of this room.", TEXT),
    "action": ("Of this action.", TEXT),
    "actor": ("By this person.", TEXT),
    "from": (_TIME_TEXT, TEXT),
    "to": (_TIME_TEXT, TEXT),
    "ok": ("Done, or refused.", {"enum": ["true", "false"]}),
    "limit": ("Entries of a page.", integer(1, 1000)),
    "before": ("Cursor: `next` of the page before.", integer(1, 2**63 - 1)),
    "bucket": ("Rows of hours, or of days of UTC.", {"enum": ["hour", "day"]}),
    "format": ("As JSON, or all entries as a file.", {"enum": ["json", "csv"]}),
    "purge": ("Remove the record altogether.", {"enum": ["1"]}),
    "ticket": ("One-use ticket of `POST /api/admin/sse-ticket`.", TEXT),
}
_PATH: Final = {"id": ("Room, operator or link.", TEXT), "n": ("Number of a ticket, or its ref.", TEXT)}
_STEP_UP: Final = Parameter(
    STEP_UP_HEADER, "Token of `POST /api/admin/step-up`, where the act asks for one.", place="header"
)
_CSRF: Final = Parameter("X-QM-CSRF", "Anything: it says that a page of this server asks.", place="header")


_HEAVY: Final = ("busy", "heavy_unavailable")
"""Of what another process makes when it is long."""


def _read(summary: str, shape: Shape, *codes: str) -> Operation:
    return Operation(summary, json_answer(shape), codes)


def _act(summary: str, shape: Shape, *codes: str, body: Shape = _EMPTY, needs_body: bool = False) -> Operation:
    return Operation(summary, json_answer(shape), (*_BODY, *codes), body=body, body_required=needs_body)


_BY_ROUTE: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "me"): _read("Who is the caller?", shapes.ME),
    ("GET", "health"): _read(
        "State of this server", {"anyOf": [ref("AdminHealth"), shapes.HEALTH_REDUCED]}
    ),
    ("GET", "openapi.json"): _read("This document", ANY),
    ("POST", "session"): replace(
        _act("Sign in", shapes.SESSION, "csrf_required", "invalid_key_field", "monitor_cannot_sign_in", needs_body=True,
             body=body_of({"key": _KEY})),
        parameters=(_CSRF,),
    ),
    ("DELETE", "session"): Operation(
        "Sign out", json_answer(struct({"ok": const(True)})), ("csrf_required",), (_CSRF,)
    ),
    ("POST", "sse-ticket"): _act("Ask for a ticket of the stream", shapes.SSE_TICKET),
    ("POST", "step-up"): _act(
        "Present your key once more, for acts that ask for it", shapes.STEPPED_UP, "invalid_key_field",
        "step_up_other_person", needs_body=True, body=body_of({"key": _KEY}),
    ),
    ("GET", "events"): Operation(
        "Live figures of all rooms", {200: Answer("Frames `stats` and `revoked`", {STREAM: TEXT})},
        ("csrf_required", "too_many_streams"),
    ),
    ("GET", "rooms"): _read("All rooms", shapes.ROOMS),
    ("POST", "rooms"): replace(
        _act("Create a room, or change the fields that are sent", shapes.UPSERTED, *_ROOM_CODES,
             body=shapes.ROOM_BODY, needs_body=True),
        parameters=(Parameter("If-Match", "`etag` of the room as it was read.", place="header"),),
    ),
    ("GET", "rooms/<id>"): _read("One room", struct({"room": ref("Room")}), "no_room"),
    ("DELETE", "rooms/<id>"): _act("End a room for good", shapes.DELETED, "no_room"),
    ("POST", "rooms/<id>/pause"): _act("Let nobody in", shapes.SAVED, "no_room"),
    ("POST", "rooms/<id>/resume"): _act("Let people in again", shapes.SAVED, "no_room"),
    ("POST", "rooms/<id>/state"): _act(
        "Set the state", shapes.SAVED, "no_room", "invalid_state", body=body_of({"state": shapes.STATES}),
        needs_body=True,
    ),
    ("POST", "rooms/<id>/rate"): _act(
        "Set the pace", shapes.SAVED, "no_room", "invalid_rate", "conflicting_field",
        body={**body_of({}, {"rate": _RATE, "ratePerMinute": _RATE}), "minProperties": 1}, needs_body=True,
    ),
    ("POST", "rooms/<id>/flush"): _act(
        "Let everybody in who waits now", shapes.FLUSHED, "no_room", "room_scheduled", "room_bypassed"
    ),
    ("POST", "rooms/<id>/purge"): _act("Drop everybody in line", shapes.PURGED, "no_room"),
    ("POST", "rooms/<id>/schedule"): _act(
        "Set when the doors open", shapes.SAVED, "no_room", "nothing_to_change", "invalid_opens_at",
        "invalid_pre_queue_max_per_ip", "opens_at_in_past",
        body={**body_of({}, _SCHEDULE), "minProperties": 1}, needs_body=True,
    ),
    ("POST", "rooms/<id>/eject"): _act(
        "Send one ticket's holder to the back", shapes.EJECTED, "no_room", "no_ticket", "invalid_ticket",
        "invalid_ref", "ambiguous_ref", "previous_generation",
        body={**body_of({}, {"ticket": integer(1, 2**32 - 1), "ref": TEXT}), "minProperties": 1, "maxProperties": 1},
        needs_body=True,
    ),
    ("GET", "rooms/<id>/tickets"): _read(
        "Find a ticket", ref("Ticket"), "no_room", "invalid_q", "invalid_ref", "invalid_place", "heavy_unavailable"
    ),
    ("GET", "rooms/<id>/tickets/<n>"): _read(
        "One ticket", ref("Ticket"), "no_room", "invalid_ticket", "heavy_unavailable"
    ),
    ("POST", "rooms/<id>/rules/test"): _act(
        "Which rule would win?", shapes.TRIAL, "no_room", "invalid_url", "invalid_rules", needs_body=True,
        body=body_of({"url": TEXT}, {"rules": shapes.setting(BY_NAME["rules"], answered=False)}),
    ),
    ("GET", "rooms/<id>/install-check"): _read(
        "Does the browser tag work on this page?", shapes.INSTALL, "no_room", "invalid_url", "invalid_origin"
    ),
    ("GET", "audit"): Operation(
        "Who did what, newest first",
        {200: Answer("A page of entries, or all of them as CSV", {JSON: shapes.AUDIT, "text/csv": TEXT})},
        ("invalid_room_id", "invalid_action", "invalid_actor", "invalid_ok", "invalid_limit", "invalid_before",
         "invalid_time", "invalid_range", "invalid_format", *_HEAVY),
    ),
    ("GET", "operators"): _read("Who has a key of his own", shapes.OPERATORS),
    ("POST", "operators"): Operation(
        "Give somebody a key, which is shown this once", {201: Answer("Made", {JSON: shapes.OPERATOR_MADE})},
        (*_BODY, "invalid_name", "invalid_role", "too_many_operators"),
        body=body_of({"name": shapes.PERSON_NAME, "role": shapes.OPERATOR_ROLES}),
    ),
    ("POST", "operators/<id>"): _act(
        "Rename somebody, or change his role", shapes.OPERATOR_CHANGED, "invalid_name", "invalid_role",
        "nothing_to_change", "no_operator", "operator_revoked", needs_body=True,
        body={**body_of({}, {"name": shapes.PERSON_NAME, "role": shapes.OPERATOR_ROLES}), "minProperties": 1},
    ),
    ("DELETE", "operators/<id>"): _act(
        "Take somebody's key, with his sessions, streams and links", shapes.OPERATOR_REVOKED, "no_operator",
        "invalid_purge",
    ),
    ("GET", "monitor-tokens"): _read("Links that let others watch", shapes.LINKS),
    ("POST", "monitor-tokens"): Operation(
        "Make a link", {201: Answer("Made", {JSON: shapes.LINK_SHOWN})}, (*_BODY, "invalid_label", "too_many_links"),
        body=body_of({}, {"label": shapes.LABEL}), body_required=False,
    ),
    ("DELETE", "monitor-tokens"): _act("End every link", shapes.LINKS_REVOKED),
    ("POST", "monitor-tokens/<id>/reveal"): _act(
        "Show a link again", shapes.LINK_SHOWN, "no_link", "link_not_live"
    ),
    ("DELETE", "monitor-tokens/<id>"): _act("End one link", shapes.LINKS_REVOKED, "no_link"),
    ("POST", "shutdown"): _act(
        "Stop the instance that answers", struct({"ok": const(True), "stopping": const(True), "uptimeSec": COUNT}),
        "invalid_force", "below_fleet_minimum", body=body_of({}, {"force": FLAG}),
    ),
    ("GET", "protection"): _read("What bot protection does, and decided lately", shapes.PROTECTION),
    ("GET", "history"): Operation(
        "Charts of the last hour",
        {200: Answer("Points of each room, oldest first, or all of them as CSV",
                     {JSON: shapes.HISTORY, "text/csv": TEXT})},
        ("no_room", "invalid_format", *_HEAVY),
    ),
    ("GET", "reports"): Operation(
        "What rooms did by the hour or the day",
        {200: Answer("Rows by room and time, or all of them as CSV", {JSON: ops_shapes.REPORT, "text/csv": TEXT})},
        ("invalid_bucket", "invalid_format", "invalid_time", "invalid_range", "range_too_large", *_HEAVY),
    ),
    ("GET", "alerts"): _read("What fires, and what may soon", ops_shapes.ALERTS),
    ("POST", "alerts"): _act(
        "Send a test alert", ops_shapes.ALERT_TESTED, "alert_webhook_not_set", "rate_limited", body=_EMPTY
    ),
    ("GET", "timeline"): _read(
        "What changed rooms in the last 24 h", shapes.TIMELINE, "no_room", "invalid_time", "invalid_range", *_HEAVY
    ),
}  # fmt: skip


def operations(routes: Iterable[Route]) -> Operations:
    """The operations of a table of routes; KeyError for a route that nobody has described."""
    return {
        (route.method, "/api/admin/" + route.path.replace("<", "{").replace(">", "}")): _completed(route)
        for route in routes
    }


def described() -> frozenset[tuple[str, str]]:
    """Method and path of every route that is described here."""
    return frozenset(_BY_ROUTE)


def _completed(route: Route) -> Operation:
    """The description with what the table of routes says."""
    told = _BY_ROUTE[route.method, route.path]
    names = [part.strip("<>") for part in route.path.split("/") if part.startswith("<")]
    path = [Parameter(name, _PATH[name][0], _PATH[name][1], "path") for name in names]
    query = [Parameter(name, *_QUERY[name]) for name in sorted(route.query)]
    csrf = () if route.method == "GET" else ("csrf_required",)
    step_up = () if route.step_up is StepUp.NEVER else ("step_up_required",)
    missing = ("not_found",) if names else ()
    is_open = route.open_handler is not None
    role = "" if is_open else f" ({route.role.word})"
    return replace(
        told,
        summary=told.summary + role,
        codes=tuple(dict.fromkeys([*told.codes, *_CREDENTIAL, *csrf, *step_up, *missing])),
        parameters=(*path, *query, *told.parameters, *((_STEP_UP,) if step_up else ())),
        security=(NOBODY,) if is_open and route.method == "POST" else ADMIN,
        tag=TAG,
    )
