"""When to start a dead process or store again, and when to give up."""

from __future__ import annotations

from collections import deque
from typing import Final

from app.core.clock import mono

FAILED_LIVES: Final = 5
"""Lives in a row that ended before the process was ready; then the instance ends with an error."""
DEATHS_IN_MINUTE: Final = 60
"""A process that gets ready and dies again at once, over and over, is no service either."""
_LONG_LIFE_SEC: Final = 5.0
_FIRST_PAUSE_SEC: Final = 0.1
_LAST_PAUSE_SEC: Final = 5.0


class Lives:
    """The lives of one process: decides about the pause before the next, and about the end."""

    def __init__(self) -> None:
        self._born = mono()
        self._failed = 0
        self._deaths: deque[float] = deque(maxlen=DEATHS_IN_MINUTE)
        self.due: float | None = None
        """When the next life begins; None while this one lasts."""

    @property
    def is_hopeless(self) -> bool:
        """True when starting again has been tried often enough."""
        full = len(self._deaths) == DEATHS_IN_MINUTE and self._deaths[-1] - self._deaths[0] < 60
        return self._failed >= FAILED_LIVES or full

    def note_death(self, *, was_ready: bool) -> None:
        """The process was found dead: fix when it is started again."""
        now = mono()
        self._deaths.append(now)
        self._failed = 0 if was_ready else self._failed + 1
        if was_ready and now - self._born >= _LONG_LIFE_SEC:
            self.due = now
        else:
            self.due = now + min(_FIRST_PAUSE_SEC * 2**self._failed, _LAST_PAUSE_SEC)

    def note_birth(self) -> None:
        """It was started again."""
        self._born = mono()
        self.due = None
