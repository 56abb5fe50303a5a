"""Pages that the queue shows at a customer's URL: rendered and compressed once, sent from memory (INL-112).

Belongs here: their bytes and their own headers. Not here: status, marks and budgets (the edge).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.room import Room
from app.services.assets import Assets
from app.services.module_tree import accepts_gzip
from app.services.small_pages import SmallPage, SmallPages
from app.services.waiting_page import WaitingPage

Headers = Sequence[tuple[bytes, bytes]]
_COMMON: Final = (
    (b"Referrer-Policy", b"same-origin"),
    (b"X-Robots-Tag", b"noindex"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """A document and the headers that belong to it."""

    body: bytes
    headers: Headers


class InlinePages:
    """Makes them."""

    def __init__(self, *, waiting: WaitingPage, assets: Assets) -> None:
        self._waiting = waiting
        self._small = SmallPages()
        self._origin_down = assets.origin_down

    def waiting(self, room: Room, *, is_get: bool, gzip: bytes) -> Page:
        """The waiting page of ``room``; ``is_get`` False: shown in answer to a form, which was not sent (INL-110)."""
        page = self._waiting.render(room, inline="get" if is_get else "form")
        headers = (*_COMMON, (b"Content-Security-Policy", page.csp.encode()), (b"Vary", b"Accept-Encoding"))
        if accepts_gzip(gzip.decode("latin-1")):
            return Page(page.gzipped, (*headers, (b"Content-Encoding", b"gzip")))
        return Page(page.body, headers)

    def too_many(self, language: str, wait_sec: int) -> Page:
        """The small page that loads itself again (INL-114)."""
        return self._small_page(SmallPage.RATE_LIMITED, language, wait_sec)

    def retry(self, language: str, wait_sec: int) -> Page:
        """The page of a queue whose storage is away (INL-190)."""
        return self._small_page(SmallPage.RETRY, language, wait_sec)

    def origin_down(self, *, is_get: bool) -> Page:
        """The page of a site that does not answer; after a form it does not load itself again (INL-175)."""
        page = self._origin_down[0 if is_get else 1]
        return Page(page.file.body, (*_COMMON, (b"Content-Security-Policy", page.csp.encode())))

    def _small_page(self, kind: SmallPage, language: str, wait_sec: int) -> Page:
        page = self._small.page(kind, language, retry_after_sec=wait_sec)
        headers = (*_COMMON, (b"X-Frame-Options", b"DENY"), (b"Content-Security-Policy", page.csp.encode()))
        return Page(page.body, (*headers, (b"Vary", b"Accept-Language, Accept")))
