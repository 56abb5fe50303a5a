"""Prometheus' own programs, put on the machine by ``.ci/ensure``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.harness import ROOT


def program(name: str) -> str:
    """Path of ``prometheus`` or ``promtool``."""
    found = shutil.which(name, path=str(ROOT / ".tools/usr/bin")) or shutil.which(name)
    assert found, f"{name} is missing: run .ci/ensure"
    return found


def promtool(*words: str, cwd: Path | None = None, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool; its exit code and what it said."""
    return subprocess.run(
        [program("promtool"), *words], cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )
