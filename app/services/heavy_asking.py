"""Questions of the web workers to process ``heavy``: no more at a time than have a place there (BUD-076).

That process counts its places itself, to the last one. But nobody may wait for a refusal, least of all while it hangs:
so the web workers count together what they have asked for, in the memory that they share. Not here: the way to it
(infrastructure/heavy_link.py), the places themselves (heavy_turns.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from app.core import metrics
from app.infrastructure.heavy_link import HeavyAnswer, HeavyLink, Question
from app.infrastructure.metric_book import MetricBook
from app.services.heavy_turns import WAITING_MAX, Busy
from app.services.heavy_works import Work

log = structlog.get_logger(__name__)


class HeavyAsking:
    """The asking end of one web worker, for what needs a turn."""

    def __init__(self, link: HeavyLink, book: MetricBook) -> None:
        self._link = link
        self._book = book

    @asynccontextmanager
    async def ask(
        self, work: Work, note_sign: Callable[[], None], *, by: str, request_id: str, is_head: bool = False
    ) -> AsyncIterator[HeavyAnswer]:
        """As HeavyLink.ask, whose Question says the rest; raises Busy at once while the places are taken."""
        question = Question(work.kind, work.args, is_head, by, request_id)
        if self._book.total(metrics.HEAVY_ASKED) > WAITING_MAX:
            log.info("heavy_work_ended", **question.told, outcome=Busy.code)
            raise Busy
        self._book.add(metrics.HEAVY_ASKED)
        try:
            async with self._link.ask(question, note_sign) as answer:
                yield answer
        finally:
            self._book.add(metrics.HEAVY_ASKED, number=-1)
