"""The queue's own answers at the customer's URLs (04, sections 9, 14 and 16).

All of them are ``no-store`` and name neither the origin nor this product (INL-228, INL-237).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.domain.inline.failures import Failure
from app.domain.origins import parse_origin
from app.services.inline_gate import Closed, Forward, Queued
from app.services.inline_pages import InlinePages
from app.services.undeclared import UndeclaredPeers
from app.services.visitor_room import VisitorRoom
from blueprints.edge.reply import JSON_TYPE, HotReply, dump
from blueprints.errors import PAGE_TYPE

if TYPE_CHECKING:
    from app.domain.client_address import Client
    from blueprints.edge.head import Head

PAGE_RETRY_SEC: Final = 30
CALL_RETRY_SEC: Final = 5
ORIGIN_RETRY_SEC: Final = 15
BUDGET: Final = "waiting"
EXPOSED: Final = (b"Access-Control-Expose-Headers", b"X-QM-Queued, X-QM-Origin, Retry-After")
SENTENCES: Final = {
    "new": "You are not in the queue yet",
    "waiting": "You are still in the queue",
    "scheduled": "The doors are not open yet",
    "paused": "The queue is paused",
    "expired": "Your turn is over; you are back in the queue",
    "ejected": "You are back in the queue",
    "stale_generation": "The queue began anew; you are back in it",
    "at_capacity": "There is no free place at the moment",
    "session_elsewhere": "Your place is used in another browser",
    "bad_token": "Your place could not be confirmed",
}
Headers = list[tuple[bytes, bytes]]


class InlineAnswers:
    """Makes them. ``undeclared``: knows the budget of waiting pages."""

    def __init__(self, *, pages: InlinePages, undeclared: UndeclaredPeers) -> None:
        self._pages = pages
        self._undeclared = undeclared

    def queued(self, queued: Queued, head: Head, client: Client, *, shows_page: bool) -> HotReply:
        """503 for who waits: the waiting page at the URL asked for, or JSON for a call (INL-103 … INL-108)."""
        room = queued.room
        headers: Headers = [(b"X-QM-Queued", b"1"), EXPOSED, *_cors(head, room)]
        if not shows_page:
            body = {
                "error": SENTENCES.get(queued.reason, SENTENCES["waiting"]), "code": "queued", "roomId": room.id,
                "reason": queued.reason, "reload": True,
            }  # fmt: skip
            return HotReply(503, dump(body), (), [_retry(CALL_RETRY_SEC), *headers])
        budget = self._undeclared.page_budget(BUDGET, client)
        language = _language(head)
        if not budget.allowed:
            page = self._pages.too_many(language, budget.retry_after_sec)
            return HotReply(429, page.body, (), [*budget.headers(), *page.headers], PAGE_TYPE)
        page = self._pages.waiting(
            room.room, is_get=head.method in ("GET", "HEAD"), gzip=head.headers.get(b"accept-encoding", b"")
        )
        return HotReply(503, page.body, (), [_retry(PAGE_RETRY_SEC), *headers, *page.headers], PAGE_TYPE)

    def closed(self, closed: Closed, head: Head, *, shows_page: bool) -> HotReply:
        """503 while nothing can be decided or recorded, without the mark of a healthy queue (INL-185, INL-188)."""
        error = closed.error
        retry = (b"Retry-After", error.headers.get("Retry-After", str(CALL_RETRY_SEC)).encode())
        if shows_page:
            page = self._pages.retry(_language(head), CALL_RETRY_SEC)
            return HotReply(error.status, page.body, (), [retry, *page.headers], PAGE_TYPE)
        return HotReply(error.status, dump({**error.body(), "roomId": closed.room_id}), (), [retry])

    def origin_failed(self, failure: Failure, decision: Forward, head: Head, *, shows_page: bool) -> HotReply:
        """502 or 504 in the origin's place (INL-169 … INL-175).

        The door key of an admission that this request has made comes with it, or the visitor would lose it (INL-173).
        """
        room_id, cookies = decision.room_id, decision.cookies
        headers: Headers = [_retry(ORIGIN_RETRY_SEC), (b"X-QM-Origin", failure.value.encode()), EXPOSED]
        if shows_page:
            page = self._pages.origin_down(is_get=head.method in ("GET", "HEAD"))
            return HotReply(failure.status, page.body, cookies, [*headers, *page.headers], PAGE_TYPE)
        body = {"error": failure.sentence, "code": failure.code, "roomId": room_id, "origin": failure.value}
        return HotReply(failure.status, dump(body), cookies, headers, JSON_TYPE)


def _retry(seconds: int) -> tuple[bytes, bytes]:
    return b"Retry-After", b"%d" % seconds


def _language(head: Head) -> str:
    return head.headers.get(b"accept-language", b"").decode("latin-1")


def _cors(head: Head, room: VisitorRoom) -> Headers:
    """What lets a page of the room's own origins read the refusal (INL-108)."""
    sent = head.headers.get(b"origin")
    origin = None if sent is None else parse_origin(sent.decode("latin-1"))
    if sent is None or origin is None or not (room.tags.covers(origin) or room.returns.covers(origin)):
        return []
    return [
        (b"Access-Control-Allow-Origin", sent),
        (b"Access-Control-Allow-Credentials", b"true"),
        (b"Vary", b"Origin"),
    ]
