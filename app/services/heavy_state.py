"""What heavy work an instance has at hand, as its processes tell each other (BUD-102)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from app.core import metrics
from app.infrastructure.metric_book import MetricBook

ASKED: Final = ("audit", "audit_csv", "chart", "chart_csv", "report", "report_csv", "timeline")
"""Kinds that a person asks for."""
OWN: Final = ("checkpoint", "draw", "rebuild")
"""Kinds that the instance does by itself."""


@contextmanager
def at_work(book: MetricBook, kind: str) -> Iterator[None]:
    """Show that a piece of ``kind`` runs."""
    book.add(metrics.HEAVY_RUNNING, kind)
    try:
        yield
    finally:
        book.add(metrics.HEAVY_RUNNING, kind, number=-1)


def running_kinds(book: MetricBook) -> list[str]:
    """Kinds of heavy work that run now."""
    return [kind for kind in (*ASKED, *OWN) if book.total(metrics.HEAVY_RUNNING, kind)]


def heavy_block(book: MetricBook) -> dict[str, Any]:
    """``heavy`` of health."""
    return {
        "running": running_kinds(book),
        "waiting": book.total(metrics.HEAVY_WAITING),
        "paused": bool(book.total(metrics.HEAVY_PAUSED)),
    }
