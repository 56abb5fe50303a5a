"""Reading a visitor's request: what the hot routes have in common, spelled once.

Belongs here: from headers, query and body to a ``Visitor``; the cross-site rules. Not here: use cases, limits.
Source: chapters 3, 4 and 5 of docs/spec/03.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import BadRequest, Forbidden, InvalidField, NoRoom
from app.core.jsonbody import refuse_unknown
from app.domain.cookies import DOOR_PREFIX, MAX_ROOMS, SESSION_PREFIX, TICKET_PREFIX
from app.domain.inline.hosts import InlineHost
from app.services.visitor_proof import Visitor
from blueprints.edge.reading import Reading
from blueprints.edge.request import HotRequest

FORM_TYPES: Final = (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data")
"""What a form of another site can send without asking first."""
_OTHER_SITES: Final = (b"cross-site", b"same-site")


def visitor_of(request: HotRequest, room_id: str, token: str | None, doors: tuple[str, ...] = ()) -> Visitor:
    """What ``request`` presents for a room; ``token`` and ``doors`` from elsewhere come before the cookies."""
    refuse_other_host(request.inline, room_id)
    reading = request.reading
    key = (room_id, token, doors)
    visitor: Visitor | None = reading.memo.get(key)
    if visitor is None:
        visitor = _visitor_of(reading, room_id, token, doors)
        reading.conclude(key, visitor)
    return visitor


def visitor_in(reading: Reading, room_id: str) -> Visitor:
    """What a request's header lines present for a room: cookies alone (INL-076).

    A page has a hundred files, so the visitor is kept with its header lines.
    """
    key = (visitor_in, room_id)
    visitor: Visitor | None = reading.memo.get(key)
    if visitor is None:
        visitor = _visitor_of(reading, room_id, None, ())
        reading.conclude(key, visitor)
    return visitor


def refuse_other_host(inline: InlineHost | None, room_id: str | None) -> None:
    """Raise NoRoom for a room that is not one of the inline host that was asked (INL-057)."""
    if inline is not None and room_id is not None and room_id not in inline.ids:
        raise NoRoom


def _visitor_of(reading: Reading, room_id: str, token: str | None, doors: tuple[str, ...]) -> Visitor:
    agent = reading.headers.get(b"user-agent", b"")
    cookie = reading.headers.get(b"cookie")
    if cookie is None:
        return Visitor(reading.client, agent, (token,) if token else (), (), doors)
    jar = reading.jar()
    return Visitor(
        reading.client,
        agent,
        (token,) if token else jar.get(TICKET_PREFIX + room_id, ()),
        jar.get(SESSION_PREFIX + room_id, ()),
        doors or jar.get(DOOR_PREFIX + room_id, ()),
        ticket_cookies(reading) if cookie.count(b"qm_") >= MAX_ROOMS else (),
    )


def ticket_cookies(reading: Reading) -> list[tuple[str, str]]:
    """Name and value of every cookie that may be a ticket's."""
    jar = reading.jar()
    return [(name, value) for name in jar if name.startswith(TICKET_PREFIX) for value in jar[name]]


def room_in_query(query: Mapping[str, str]) -> str | None:
    """The room that a query names (VIS-043)."""
    return query.get("room") or query.get("roomId") or None


def room_in_body(fields: dict[str, Any]) -> str:
    """The room that a body names. Raises 400 ``missing_room`` or ``invalid_room_id``."""
    room_id = text_in(fields, "roomId")
    if not room_id:
        raise missing_room()
    return room_id


def missing_room() -> BadRequest:
    """400 ``missing_room`` (VIS-044)."""
    return BadRequest("Name the room", code="missing_room")


def text_in(fields: dict[str, Any], name: str) -> str | None:
    """The string ``name``, None when missing or null; its length is bounded by that of the body."""
    value = fields.get(name)
    if value is None or type(value) is str:
        return value
    raise InvalidField(name, f'"{name}" has to be text')


def fields_of(request: HotRequest, *allowed: str) -> dict[str, Any]:
    """The JSON body, which has no other members than ``allowed``."""
    fields = request.json(empty_ok=True)
    refuse_unknown(fields, allowed)
    return fields


def texts_of(request: HotRequest, allowed: frozenset[str]) -> dict[str, str | None]:
    """The JSON body, which has no other members than ``allowed``, each of them text or null."""
    fields = request.json(empty_ok=True)
    if not fields.keys() <= allowed:
        refuse_unknown(fields, allowed)
    for name, value in fields.items():
        if type(value) is not str and value is not None:
            raise InvalidField(name, f'"{name}" has to be text')
    return fields


def refuse_other_sites(request: HotRequest, public_host: bytes) -> None:
    """Raise 403 ``cross_site`` for a call that only QM's own pages make (VIS-067).

    Nothing is concluded from ``Origin`` alone: a proxy that changes ``Host`` must not stop anybody.
    """
    headers = request.headers
    site = headers.get(b"sec-fetch-site")
    if site is None:
        origin = headers.get(b"origin")
        is_form = headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in FORM_TYPES
        is_foreign = origin is not None and is_form and not is_own_origin(origin, request, public_host)
    else:
        is_foreign = site in _OTHER_SITES
    if is_foreign:
        raise cross_site()


def refuse_navigation(request: HotRequest) -> None:
    """Raise 403 ``cross_site`` for a check that a link, an image or a frame makes (VIS-228)."""
    headers = request.headers
    if headers.get(b"sec-fetch-mode") == b"navigate" or (
        headers.get(b"sec-fetch-site") in _OTHER_SITES and b"origin" not in headers
    ):
        raise cross_site()


def cross_site() -> Forbidden:
    """403 ``cross_site``."""
    return Forbidden("This address answers calls of its own pages only", code="cross_site")


def is_own_origin(origin: bytes, request: HotRequest, public_host: bytes) -> bool:
    """Tell whether a page's origin has the host the request was sent to, or that of ``PUBLIC_URL`` (VIS-064)."""
    scheme, _, host = origin.lower().partition(b"://")
    if scheme not in (b"http", b"https") or not host:
        return False
    return _without_port(host) in {_without_port(request.client.host.encode()), _without_port(public_host)}


def _without_port(host: bytes) -> bytes:
    """``host`` without a default port; any other port makes it another host."""
    return host.removesuffix(b":443").removesuffix(b":80")
