"""Constants that a reader has to find stand in one place (CFG-093)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.domain.facts import EVENT_LOG_VERSION
from app.infrastructure.lua_bundle import engine_bundle

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("app", "blueprints", "workers", "static")


def defined(name: str) -> list[str]:
    """Files that give ``name`` a value of its own."""
    pattern = re.compile(rf"^\s*(?:local\s+|const\s+)?{name}\b[^=\n]*=\s*[^=\s]", re.MULTILINE)
    return [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for kind in ("*.py", "*.lua", "*.js")
        for path in sorted((ROOT / folder).rglob(kind))
        if pattern.search(path.read_text("utf-8"))
    ]


@pytest.mark.req("CFG-093")
def test_each_is_defined_in_exactly_one_place() -> None:
    assert defined("EDGE_EXEMPT") == ["app/domain/edge_secret.py"]
    assert defined("EVENT_LOG_VERSION") == ["app/domain/facts.py"]
    assert f"EVENT_LOG_VERSION = {EVENT_LOG_VERSION} }}" in engine_bundle().code.split("\n")[1], "handed to the engine"
