"""Variables are read once, at the start, in one place (CFG-002)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from app.core.settings_rules import load
from blueprints.admin import ROUTER

ROOT = Path(__file__).resolve().parents[2]
_READS = re.compile(r"\bos\s*\.\s*environ|\bgetenv\b|\benviron\[|\bfrom os import .*environ|\benvironment\(\)")


@pytest.mark.req("CFG-002", "ADM-106")
@pytest.mark.req("CFG-159")
def test_one_place_reads_the_environment_and_what_it_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {
        str(path.relative_to(ROOT))
        for folder in ("app", "blueprints", "workers")
        for path in (ROOT / folder).rglob("*.py")
        if _READS.search(path.read_text("utf-8"))
    }
    assert readers == {"app/core/settings.py", "app/core/settings_rules.py"}
    monkeypatch.setenv("JOIN_LIMIT_PER_MIN", "7")
    monkeypatch.setenv("STORE", "memory")
    loaded = load()
    monkeypatch.setenv("JOIN_LIMIT_PER_MIN", "9")
    assert loaded.settings.join_limit_per_min == 7
    for name in ("join_limit_per_min", "admin_key"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
            setattr(loaded.settings, name, None)


@pytest.mark.req("CFG-002")
def test_no_route_changes_a_setting() -> None:
    writing = {route.path.split("/")[0] for route in ROUTER.routes if route.method not in ("GET", "HEAD")}
    assert writing <= {"session", "sse-ticket", "rooms", "operators", "monitor-tokens", "alerts", "shutdown", "step-up"}
