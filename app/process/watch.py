"""When to start a dead process or store again, and when to give up."""

from __future__ import annotations

from collections import deque
from typing import Final

from app.core.clock import mono

HOPELESS: Final = 20
"""Faults in a row that end the instance with an error. A life that ended before the process was ready counts:"""
OWN_FAULT: Final = 4
"""when it ended by itself, since the next one will most likely do the same;"""
KILLED: Final = 1
"""when a signal ended it, since whoever sent that may stop."""
DEATHS_IN_MINUTE: Final = 60
"""A process that gets ready and dies again at once, over and over, is no service either."""
_LONG_LIFE_SEC: Final = 5.0
_FIRST_PAUSE_SEC: Final = 0.1
_LAST_PAUSE_SEC: Final = 5.0


class Lives:
    """The lives of one process: decides about the pause before the next, and about the end."""

    def __init__(self) -> None:
        self._born = mono()
        self._faults = 0
        self._deaths: deque[float] = deque(maxlen=DEATHS_IN_MINUTE)
        self.due: float | None = None
        """When the next life begins; None while this one lasts."""

    @property
    def is_hopeless(self) -> bool:
        """True when starting again has been tried often enough."""
        full = len(self._deaths) == DEATHS_IN_MINUTE and self._deaths[-1] - self._deaths[0] < 60
        return self._faults >= HOPELESS or full

    def note_death(self, *, was_ready: bool, was_killed: bool) -> None:
        """The process was found dead: fix when it is started again."""
        now = mono()
        self._deaths.append(now)
        self._faults = 0 if was_ready else self._faults + (KILLED if was_killed else OWN_FAULT)
        if was_ready and now - self._born >= _LONG_LIFE_SEC:
            self.due = now
        else:
            self.due = now + min(_FIRST_PAUSE_SEC * 2 ** (self._faults / OWN_FAULT), _LAST_PAUSE_SEC)

    def note_birth(self) -> None:
        """It was started again."""
        self._born = mono()
        self.due = None
