"""The surge in its short form, as an operator runs it: its own server, its own verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(240)
def test_it_loses_nobody_and_keeps_order_rate_and_cap() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "loadtests.surge", "--smoke"], cwd=ROOT, capture_output=True, text=True, timeout=220
    )

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert all(summary["assertions"].values())
    assert summary["peakOccupancy"] > 0
