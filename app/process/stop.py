"""The wish to stop, as told by signals: nothing but a note is made in the handler."""

from __future__ import annotations

import signal
import socket
from types import FrameType
from typing import Final

from app.core.clock import mono

SAME_WISH_SEC: Final = 0.5
"""A signal to main and the same to its group (``timeout``, systemd, a terminal) arrive together: one wish, not two."""


def kept_sec(drain_sec: float) -> float:
    """How much of a stop's time is kept for the last commits, so that long transfers cannot starve them (CFG-196)."""
    return min(2.0, max(0.25, drain_sec / 4))


class StopEarly(Exception):
    """A stop was asked for before the server had started."""


class StopWish:
    """Whether SIGTERM or SIGINT came, and whether somebody is in a hurry (CFG-199)."""

    def __init__(self) -> None:
        self._asked_at: float | None = None
        self.is_hurried = False
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    @property
    def is_asked(self) -> bool:
        """True after the first signal."""
        return self._asked_at is not None

    def install(self) -> None:
        """Take both signals; again after Sanic's manager has put its own handlers in place."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Readable after a signal, for ``multiprocessing.connection.wait``."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Empty what made ``fileno`` readable."""
        try:
            while self._reader.recv(64):
                pass
        except BlockingIOError:
            pass

    def ask(self) -> None:
        """Note the wish; a second one after half a second means hurry."""
        now = mono()
        if self._asked_at is None:
            self._asked_at = now
        elif now - self._asked_at > SAME_WISH_SEC:
            self.is_hurried = True

    def check(self) -> None:
        """StopEarly when asked; called between the steps of a start."""
        if self.is_asked:
            raise StopEarly

    @staticmethod
    def deafen() -> None:
        """Heed no signal any more: Python gives their handlers back at its end, and one that came then would turn the
        exit code of an orderly stop into that of a kill (CFG-197)."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def close(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(-1)
        self.close_pipe()

    def close_pipe(self) -> None:
        """Close this process's handles on the pipe that wakes main."""
        self._reader.close()
        self._writer.close()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.ask()
