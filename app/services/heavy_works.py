"""The reads that are made in process ``heavy``: questions as web workers put them, and the pieces of their answers.

Belongs here: which reads those are, and which are small enough for a web worker (BUD-073, BUD-075). Not here: what the
answers say (notes.py, reports.py, history.py), turns (heavy_turns.py), the way (infrastructure/heavy_link.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from app.core.jsonbody import dump
from app.domain.hour_record import HOUR_MS
from app.infrastructure.notes_store import AuditQuery
from app.services.heavy_pauses import Rest, never
from app.services.history import History
from app.services.notes import NARROW_ROWS, Notes
from app.services.ref_search import RefsHere
from app.services.reports import ReportQuery, Reports

NARROW_MS: Final = 24 * HOUR_MS
"""Longest time of a report that a web worker makes, of one room."""

Pieces = AsyncGenerator[str]


@dataclass(frozen=True, slots=True)
class Work:
    """A question; ``args`` is what JSON can say."""

    kind: str
    args: Mapping[str, Any] = field(default_factory=dict)


def audit_file(query: AuditQuery) -> Work:
    """The audit trail as a file."""
    return Work("audit_csv", asdict(query))


def audit_page(query: AuditQuery) -> Work | None:
    """A page of it; None when it is narrow. One row more than the page has is read."""
    return Work("audit", asdict(query)) if query.limit >= NARROW_ROWS else None


def report(query: ReportQuery) -> Work | None:
    """A report; None when it is narrow."""
    is_narrow = query.rooms is not None and len(query.rooms) == 1 and query.end - query.start <= NARROW_MS
    if is_narrow and not query.is_csv:
        return None
    return Work("report_csv" if query.is_csv else "report", asdict(query))


def charts(room_id: str | None, *, is_csv: bool) -> Work | None:
    """Charts; None for that of one room, or of all together, as JSON, which is one value of the live store."""
    if is_csv:
        return Work("chart_csv", {"room": room_id})
    return Work("chart") if room_id is None else None


def timeline(parameters: Mapping[str, str], *, with_names: bool) -> Work:
    """Marks of rooms."""
    return Work("timeline", {"parameters": dict(parameters), "with_names": with_names})


class HeavyWorks:
    """Makes the pieces. They raise what the services raise."""

    def __init__(
        self,
        *,
        notes: Notes,
        reports: Reports,
        history: History,
        refs: RefsHere,
        look_again: Callable[[], Awaitable[None]],
    ) -> None:
        """``look_again`` reads the list of rooms anew: a room that a web worker acknowledged has to be there."""
        self._look_again = look_again
        self._refs = refs
        self._makers: dict[str, Callable[[Mapping[str, Any], Rest], Pieces]] = {
            "audit_csv": lambda args, _: notes.audit_csv(AuditQuery(**args)),
            "audit": lambda args, _: _one(notes.audit(AuditQuery(**args))),
            "report_csv": lambda args, rest: reports.csv(_report_query(args), rest),
            "report": lambda args, rest: _one(reports.json(_report_query(args), rest)),
            "chart_csv": lambda args, _: history.csv(args["room"]),
            "chart": lambda _args, _rest: history.json(None),
            "timeline": lambda args, _: _one(notes.timeline(**args)),
        }

    @property
    def kinds(self) -> frozenset[str]:
        """What can be asked for."""
        return frozenset(self._makers)

    async def quick(self, work: Work) -> str:
        """The answer to what needs no turn (QUICK)."""
        return dump(await self._refs.answer(**work.args))

    async def pieces(self, work: Work, rest: Rest = never) -> Pieces:
        """The answer, in pieces; ``rest`` is awaited between the steps of a piece that takes many."""
        await self._look_again()
        async for piece in self._makers[work.kind](work.args, rest):
            yield piece


QUICK: Final = frozenset({"refs"})
"""Kinds that take a second at most: they need no turn and are done in slices, between the steps of others."""
IS_WHOLE: Final = frozenset({"audit", "report", "timeline"})
"""Kinds whose one piece is the whole answer."""
IS_JSON: Final = IS_WHOLE | {"chart"}
"""Kinds that may have a blank before, between and behind their pieces."""


async def _one(answer: Awaitable[dict[str, Any] | None]) -> Pieces:
    yield dump(await answer)


def _report_query(args: Mapping[str, Any]) -> ReportQuery:
    rooms = args["rooms"]
    return ReportQuery(**{**args, "rooms": None if rooms is None else tuple(rooms)})
