"""Tie a process to the life of the one that started it.

Linux: ``PR_SET_PDEATHSIG``; the kernel sends the signal when the *thread* that forked ends, so only threads that live
as long as their process may start children. It is cleared by a change of user, so it is set after one. Elsewhere a
thread of a Python process watches its parent's id. Source: prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_WATCH_SEC: Final = 0.5


def _load_prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    prctl: Callable[..., int] = ctypes.CDLL(None, use_errno=True).prctl
    return prctl


# Bound at import: between fork and exec nothing may be looked up or imported.
_PRCTL: Final = _load_prctl()


def die_with_parent_before_exec(parent: int) -> Callable[[], None]:
    """A ``preexec_fn`` for a child of ``parent`` (this process): SIGKILL when the starting thread ends."""

    def before_exec() -> None:
        if _PRCTL is not None:
            _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return before_exec


def die_with(parent: int) -> None:
    """End this process by SIGKILL as soon as ``parent``, which started it, is gone."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()
    if os.getppid() != parent:  # it died before the call above
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(parent: int) -> None:
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(_WATCH_SEC)
    os.kill(os.getpid(), signal.SIGKILL)
