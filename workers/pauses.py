"""When the heavy work of a background process rests."""

from __future__ import annotations

from app.core import metrics
from app.services.contention import is_contended
from app.services.heavy_pauses import OWN, HeavyPauses, Pace
from workers.runner import Background


def pauses_of(background: Background, pace: Pace = OWN) -> HeavyPauses:
    """The rests of this process, which health tells of; a stop ends them."""
    book, stop = background.book, background.stop
    return HeavyPauses(
        lambda: is_contended(book) and not stop.is_set(),
        pace,
        show=lambda is_on: book.put(metrics.HEAVY_PAUSED, int(is_on)),
        sleep=background.pause,
    )
