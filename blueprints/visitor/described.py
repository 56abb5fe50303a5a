"""What visitor routes, the connectors' routes and the probes take and answer, for the OpenAPI documents.

Belongs here: one operation per method of a path that ``hot.py``, ``leave.py``, ``notify.py``, ``verify.py``, the stock
blueprints of this folder and ``blueprints/ops.py`` serve. Source: docs/spec/03.
"""

from __future__ import annotations

from typing import Final

from blueprints.openapi.document import Operations
from blueprints.openapi.operation import HTML, NOBODY, STREAM, Answer, Operation, Parameter, json_answer
from blueprints.openapi.shapes import ANY, TEXT, body_of, maybe, ref
from blueprints.visitor.shapes import CHECK_ANSWERS, DONE, HEALTH, JOIN_ANSWERS, LEFT, STATES, VERIFIED

VISITOR: Final = "visitor"
CONNECTOR: Final = "connector"
PAGES: Final = "pages"
PROBES: Final = "probes"

SCHEMAS: Final = {
    "CheckAnswer": CHECK_ANSWERS,
    "VisitorState": STATES,
    "JoinAnswer": JOIN_ANSWERS,
    "Health": HEALTH,
}
_NO_STORE: Final = "storage_unavailable"
_BODY_CODES: Final = ("bad_json", "unknown_field")
_ROOM: Final = (
    Parameter("room", "Room of the line."),
    Parameter("roomId", "The same, where `room` is not sent."),
)
_TOKEN: Final = Parameter("token", "Token of the place; without it the cookie `qm_<room>` counts.")
_DOOR: Final = Parameter("X-QM-Door-Key", "Door key of the session; without it the cookie counts.", place="header")
_RETURN: Final = Parameter("return", "Page that the visitor came from.")
_URL: Final = Parameter("url", "Full address of the page.")
_VOUCHED: Final = (
    Parameter("ip", "With a key: address of the visitor that is spoken for."),
    Parameter("agent", "With a key: his `User-Agent`, which may be empty."),
)
_CHECK_CODES: Final = (
    "missing_room", "missing_ip", "missing_agent", "invalid_ip", "unauthorized", "credential_in_query",
    "cross_site", "origin_not_allowed", "no_room", _NO_STORE,
)  # fmt: skip
_NOTIFY_CODES: Final = (
    "notify_disabled", "missing_room", *_BODY_CODES, "invalid_room_id", "invalid_token", "cross_site", "no_room",
    "no_ticket", _NO_STORE,
)  # fmt: skip
_TEXT_OR_NULL: Final = maybe(TEXT)


def _asset(summary: str, *kinds: str, path: tuple[Parameter, ...] = ()) -> Operation:
    answers = {200: Answer("The file", dict.fromkeys(kinds, ANY))}
    return Operation(summary, answers, ("not_found",) if path else (), path, tag=PAGES)


def _page(summary: str, codes: tuple[str, ...] = (), parameters: tuple[Parameter, ...] = ()) -> Operation:
    answers = {200: Answer("The page", {HTML: TEXT}), 304: Answer("It has not changed")}
    return Operation(summary, answers, codes, parameters, is_limited=True, plain_429=True, tag=PAGES)


def _path(name: str, text: str) -> Parameter:
    return Parameter(name, text, place="path")


_CHECK_QUERY: Final = (*_ROOM, *_VOUCHED, _DOOR)

OPERATIONS: Final[Operations] = {
    ("GET", "/api/check"): Operation(
        "May the visitor of this page pass?", json_answer(ref("CheckAnswer")), _CHECK_CODES,
        (*_CHECK_QUERY, _TOKEN, _URL), is_limited=True, security=(NOBODY, "publicKey"), tag=VISITOR,
    ),
    ("POST", "/api/check"): Operation(
        "The same, with token and door key out of the address", json_answer(ref("CheckAnswer")),
        (*_CHECK_CODES, *_BODY_CODES, "invalid_token", "invalid_url", "invalid_door_key", "invalid_tag",
         "invalid_agent"),
        _CHECK_QUERY,
        body_of({}, dict.fromkeys(("token", "url", "doorKey", "tag", "ip", "agent"), _TEXT_OR_NULL)),
        body_required=False, is_limited=True, security=(NOBODY, "publicKey"), tag=VISITOR,
    ),
    ("OPTIONS", "/api/check"): Operation(
        "Preflight of the browser tag", {204: Answer("The page of this origin may ask")}, ("origin_not_allowed",),
        (*_ROOM, Parameter("Origin", "Origin of the page.", place="header")), tag=VISITOR,
    ),
    ("GET", "/api/status"): Operation(
        "State of a place", json_answer(ref("VisitorState")), ("missing_room", "no_room", _NO_STORE),
        (*_ROOM, _TOKEN, _RETURN), is_limited=True, tag=VISITOR,
    ),
    ("POST", "/api/join"): Operation(
        "Take a place in line, or ask for the one that is held", json_answer(ref("JoinAnswer")),
        ("missing_room", *_BODY_CODES, "invalid_room_id", "invalid_token", "invalid_return_url", "invalid_from",
         "cross_site", "blocked_by_protection", "no_room", "queue_identity_limit", "prequeue_identity_limit",
         "line_full", _NO_STORE),
        body=body_of({"roomId": TEXT}, dict.fromkeys(("token", "returnUrl", "from"), _TEXT_OR_NULL)),
        is_limited=True, tag=VISITOR,
    ),
    ("POST", "/api/leave"): Operation(
        "Give up a place, a pass or a session", json_answer(LEFT),
        ("missing_room", *_BODY_CODES, "invalid_room_id", "invalid_token", "cross_site", "no_room", _NO_STORE),
        body=body_of({"roomId": TEXT}, {"token": _TEXT_OR_NULL}), is_limited=True, tag=VISITOR,
    ),
    ("POST", "/api/notify"): Operation(
        "Leave an address to be told at one's turn", json_answer(DONE),
        (*_NOTIFY_CODES, "invalid_email", "invalid_lang"),
        body=body_of({"roomId": TEXT, "email": TEXT}, dict.fromkeys(("token", "lang"), _TEXT_OR_NULL)),
        is_limited=True, tag=VISITOR,
    ),
    ("DELETE", "/api/notify"): Operation(
        "Remove that address", json_answer(DONE), _NOTIFY_CODES,
        body=body_of({"roomId": TEXT}, {"token": _TEXT_OR_NULL}), is_limited=True, tag=VISITOR,
    ),
    ("GET", "/api/verify"): Operation(
        "Is an installation right?", json_answer(VERIFIED),
        ("missing_room", "unauthorized", "credential_in_query", _NO_STORE),
        (*_ROOM, Parameter("origin", "Origin of the pages with the tag."), _URL), is_limited=True,
        security=("publicKey",), tag=CONNECTOR,
    ),
    ("GET", "/events"): Operation(
        "Live state of a place", {200: Answer("Frames `state` (a VisitorState) and `refresh`", {STREAM: TEXT})},
        ("missing_room", "no_room", "sse_limit", "sse_full", _NO_STORE), (*_ROOM, _TOKEN, _RETURN, _DOOR),
        is_limited=True, tag=VISITOR,
    ),
    ("GET", "/w/{room}"): _page(
        "The waiting page", ("no_room", "not_found", _NO_STORE),
        (_path("room", "Room of the line."), Parameter("qm_return", "Page that the visitor came from.")),
    ),
    ("GET", "/w/{room}/plain"): Operation(
        "The waiting page without script, which gives a place to a visitor who comes by himself",
        {200: Answer("The page", {HTML: TEXT}), 303: Answer("His turn: the way in")},
        ("no_room", "not_found", "blocked_by_protection", "line_full", _NO_STORE),
        (_path("room", "Room of the line."), Parameter("qm_return", "Where the visitor wants to go.")),
        is_limited=True, plain_429=True, tag=PAGES,
    ),
    ("GET", "/"): _page("The operator console"),
    ("GET", "/public/admin.html"): _page("The operator console"),
    ("GET", "/docs"): _page("Contents of the guides"),
    ("GET", "/docs/{page}"): _page(
        "A guide, or an example file", ("not_found",), (_path("page", "`operations`, `th/integration`, `files/…`"),)
    ),
    ("GET", "/progress"): _page("What changed in this release and in earlier ones"),
    ("GET", "/qm.js"): Operation(
        "The browser tag",
        {200: Answer("The script", {"application/javascript": ANY}), 304: Answer("It has not changed")}, tag=PAGES,
    ),
    ("GET", "/connectors/{connector}/{file}"): Operation(
        "A connector to be installed elsewhere",
        {
            200: Answer("The file", {"text/javascript": ANY, "application/gzip": ANY}),
            304: Answer("It has not changed"),
            429: Answer("Too many of these", {"text/plain": TEXT}),
        },
        ("not_found",),
        (_path("connector", "`cloudflare`"), _path("file", "`latest.js`, `latest.tgz`, or the same under a version")),
        tag=CONNECTOR,
    ),
    ("GET", "/assets/{name}"): _asset(
        "Style and script of the waiting page", "text/css", "text/javascript",
        path=(_path("name", "`waiting-<hash>.css` or `.js`"),),
    ),
    ("GET", "/fonts/{name}"): _asset(
        "A font or its licence", "font/woff2", "text/plain", path=(_path("name", "File name"),)
    ),
    ("GET", "/assets/console/{digest}/{name}"): _asset(
        "A part of the console", "text/css", "text/javascript", "application/json", "image/svg+xml", "text/plain",
        path=(_path("digest", "Digest of the build"), _path("name", "Path of the part")),
    ),
    ("GET", "/offline.html"): Operation(
        "The page that a CDN keeps for the time when no instance answers",
        {200: Answer("The page", {HTML: TEXT}), 304: Answer("It has not changed")}, tag=PAGES,
    ),
    ("GET", "/origin-down.html"): Operation(
        "What visitors of an inline room see when its site does not answer",
        {200: Answer("The page", {HTML: TEXT}), 304: Answer("It has not changed")}, tag=PAGES,
    ),
    ("GET", "/robots.txt"): _asset("Nothing here is for a search engine", "text/plain"),
    ("GET", "/favicon.ico"): Operation("No icon: pages name their own", {204: Answer("Nothing")}, tag=PAGES),
    ("GET", "/healthz"): Operation(
        "Should this instance get traffic?",
        {**json_answer(ref("Health"), "Yes"), 503: Answer("No", {"application/json": ref("Health")})}, tag=PROBES,
    ),
    ("GET", "/api/version"): Operation("The same, always 200", json_answer(ref("Health")), tag=PROBES),
    ("GET", "/metrics"): Operation(
        "Series for Prometheus", {200: Answer("Text format 0.0.4", {"text/plain": TEXT})},
        ("unauthorized", "credential_in_query", "too_many_auth_failures", "insufficient_role", "storage_unavailable"),
        security=("adminKey", "console"), tag=PROBES,
    ),
    ("GET", "/api/openapi.json"): Operation("This document", json_answer(ANY), tag=PROBES),
}  # fmt: skip
