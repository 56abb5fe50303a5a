"""Whether this instance lacks CPU just now, for whoever can put work off until it does not (BUD-077).

Every process of the instance may ask: the answer lies in memory that they share. Not here: finding out (cpu_watch.py).
"""

from __future__ import annotations

from app.core import metrics
from app.infrastructure.metric_book import MetricBook


def contention_since(book: MetricBook) -> int | None:
    """Since when there is CPU contention on this instance, epoch ms; None = there is none."""
    return book.latest(metrics.CONTENTION_SINCE) or None


def is_contended(book: MetricBook) -> bool:
    """True while there is CPU contention on this instance."""
    return contention_since(book) is not None
