"""The named statements of ``sql/*.sql``: Python asks ``QUERIES["journal_append"]``, SQL lives in SQL files.

A statement begins at a line ``-- name: <name>``; the comment lines after it say what it is for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

SQL_FOLDER: Final = Path(__file__).with_name("sql")
_NAME: Final = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def read_queries(folder: Path) -> Mapping[str, str]:
    """All statements of a folder by name; ValueError when a name occurs twice."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        parts = _NAME.split(path.read_text("utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"statement {name} of {path.name} exists twice")
            found[name] = _without_comments(text)
    return MappingProxyType(found)


def _without_comments(text: str) -> str:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--"))
    return "\n".join(lines).rstrip().rstrip(";")


QUERIES: Final = read_queries(SQL_FOLDER)
