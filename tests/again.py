"""Run the few tests that failed in the last run once more, alone: ``python -m tests.again``.

Ends with 0 when all of them pass now and names them, because a test that fails now and then is a defect of the test or
of the product. More than ``MOST`` failures, an error outside a test, or a run that did
not come to its end, are no matter of a moment: 1 at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.run_plugin import ENDED

CACHE: Final = Path(".pytest_cache/v")
"""Where pytest and ``tests.run_plugin`` leave word, relative to the folder of ``pyproject.toml``."""
MOST: Final = 3


def main() -> int:
    """Exit code: 0 only when every test that failed has passed."""
    failed = sorted(_read("cache/lastfailed") or ())
    if _read(ENDED) != pytest.ExitCode.TESTS_FAILED or not failed:
        print("the last run did not end with failed tests: there is nothing to try again")
        return 1
    if len(failed) > MOST or not all("::" in name for name in failed):
        print(f"{len(failed)} failed, too many or too much to try them again: {', '.join(failed[:10])}")
        return 1
    command = [sys.executable, "-m", "pytest", "-q", "--last-failed", "--last-failed-no-failures=none"]
    code = subprocess.run(command).returncode
    if code == 0:
        print("UNSTEADY, passed when run again: " + ", ".join(failed))
    return code


def _read(key: str) -> Any:
    """A value of pytest's cache; None where there is none."""
    path = CACHE / key
    return json.loads(path.read_text()) if path.exists() else None


if __name__ == "__main__":
    raise SystemExit(main())
