"""Run directories of private stores, and what a killed server leaves behind.

A run directory carries who made it; one whose maker is gone is removed, with the stores that still use it. Processes
are known by their working directory and name, never by a remembered number alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.core.clock import mono

_POLL_SEC: Final = 0.01
_OWNER_FILE: Final = "owner"
_RUN_PREFIX: Final = "qm-run-"
_STORE_NAMES: Final = ("valkey-server", "postgres")


def end_leftovers(home: Path) -> list[int] | None:
    """Kill stores that run in ``home`` though this process does not know them: those of a server that was killed, or
    back ends whose postmaster was (FLT-004).

    Returns their process ids when nothing runs there any more; None where that cannot be known (no /proc), or when
    one of them does not end.
    """
    if not Path("/proc/self").exists():
        return None
    found = list(_store_processes(home))
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end, pause = mono() + 5, threading.Event()
    while found and any(True for _ in _store_processes(home)):
        if mono() > end:
            return None
        pause.wait(_POLL_SEC)
    return found


def sweep_run_dirs() -> list[Path]:
    """Remove run directories of servers of this user that are no longer there; returns what was removed."""
    gone: list[Path] = []
    for path in _run_base().glob(_RUN_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.geteuid() or _is_alive((path / _OWNER_FILE).read_text()):
                continue
            for home in ("valkey", "postgres"):
                end_leftovers(path / "data" / home)
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
    return gone


def _run_base() -> Path:
    temp = Path(tempfile.gettempdir())
    return temp if len(str(temp)) <= 60 else Path("/tmp")  # noqa: S108 - mkdtemp makes the name and the mode


def make_run_dir() -> Path:
    """A new directory of mode 0700 with a short name, marked as this process's."""
    path = Path(tempfile.mkdtemp(prefix=_RUN_PREFIX, dir=_run_base()))
    (path / _OWNER_FILE).write_text(f"{os.getpid()} {_birth(os.getpid())}")
    return path


def _birth(pid: int) -> str:
    """Start time of a process, so that a pid that was given out again is not taken for the old one; "" if gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return done.stdout.strip().replace(" ", "_")


def _is_alive(owner: str) -> bool:
    pid, _, birth = owner.partition(" ")
    return pid.isdigit() and birth != "" and _birth(int(pid)) == birth


def _store_processes(home: Path) -> Iterator[int]:
    """Stores that run on ``home``: both work with their data directory as current directory.

    A process that is dead and not yet collected has no directory any more and is not found.
    """
    wanted = str(home.resolve())
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") == wanted and (entry / "comm").read_text().strip() in _STORE_NAMES:
                yield int(entry.name)
