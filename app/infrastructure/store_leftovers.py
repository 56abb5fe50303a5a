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


def end_leftovers(base: Path) -> list[int]:
    """Kill private stores that a killed server left running on ``base``; returns their process ids (FLT-004)."""
    found = list(_store_processes(base))
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end, pause = mono() + 5, threading.Event()
    while found and any(True for _ in _store_processes(base)) and mono() < end:
        pause.wait(_POLL_SEC)
    return found


def sweep_run_dirs() -> list[Path]:
    """Remove run directories of servers of this user that are no longer there; returns what was removed."""
    gone: list[Path] = []
    for path in _run_base().glob(_RUN_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid != os.geteuid() or _is_alive((path / _OWNER_FILE).read_text()):
                continue
            end_leftovers(path / "data")
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


def _store_processes(base: Path) -> Iterator[int]:
    """Stores that run on ``base``: both work with their data directory as current directory."""
    homes = {str((base / "valkey").resolve()), str((base / "postgres").resolve())}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "cwd") in homes and (entry / "comm").read_text().strip() in {
                "valkey-server",
                "postgres",
            }:
                yield int(entry.name)
