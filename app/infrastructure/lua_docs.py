"""Contract headers of the Lua functions: parsing, and docs/reference/engine.md made from them.

``python -m app docs`` writes the page; with ``--check`` it ends with 1 when the page is not up to date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.infrastructure.lua_bundle import LUA_DIR, manifest

FIELDS: Final = ("Purpose", "Keys", "Args", "Returns", "Errors", "Facts", "Cost")
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "engine.md"

_FIELD: Final = re.compile(rf"-- ({'|'.join(FIELDS)}): (.*)")
_REGISTERED: Final = re.compile(r'^qm\.fn\("(\w+)", \{([^}]*)\}', re.MULTILINE)

_INTRO: Final = """# Engine functions

Every decision about a room is made by one of these Valkey functions, in one atomic step that also appends the facts.
They are registered as `qm_<hash>_<name>`, where the hash is that of the whole library, so that builds never overwrite
each other's code. The only key that a call declares is the room's header; all others share its hash tag and are
derived. Every answer begins with a code: 0 OK, 1 NOHEADER, 2 NOROOM, 3 STALE, 4 FENCED, 5 BUSY, 6 CONFLICT; what
concerns one item of a batch is a number in the answer, never an error. Times are ms of the wall clock unless `ds` is
said: tenths of a second of the room's own clock.

This page is made from the headers of `app/infrastructure/lua/fn` by `python -m app docs`.
"""


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """One file of lua/fn: its header's fields in order, and the functions that it registers with their flags."""

    name: str
    header: dict[str, str]
    functions: dict[str, str]


def parse(name: str, text: str) -> FunctionFile:
    """Header and registrations of a file; raises ValueError when the header is not complete and in order."""
    header: dict[str, str] = {}
    field = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        if found := _FIELD.match(line):
            field = found[1]
            header[field] = found[2]
        elif field:
            header[field] += " " + line.removeprefix("--").strip()
    if tuple(header) != FIELDS:
        raise ValueError(f"{name}: header has {', '.join(header) or 'nothing'}; wanted {', '.join(FIELDS)}")
    flags = {match[1]: match[2].replace('"', "").strip() for match in _REGISTERED.finditer(text)}
    return FunctionFile(name, header, flags)


def function_files() -> list[FunctionFile]:
    """Every file of lua/fn in the order of the manifest."""
    return [parse(name, (LUA_DIR / name).read_text()) for name in manifest() if name.startswith("fn/")]


def page() -> str:
    """The text of docs/reference/engine.md."""
    parts = [_INTRO]
    for file in function_files():
        names = " · ".join(f"`{name}`" for name in file.functions)
        lines = [f"## {names}", "", file.header["Purpose"], ""]
        lines += [f"- **{field}:** {file.header[field]}" for field in FIELDS[1:]]
        flags = sorted({flag for flags in file.functions.values() for flag in flags.split(", ") if flag})
        if flags:
            lines.append(f"- **Script flags:** {', '.join(flags)}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def write_page(*, check: bool) -> int:
    """Write the page, or with ``check`` only compare it; the exit code."""
    text = page()
    if not check:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    sys.stderr.write("docs/reference/engine.md is not up to date: run python -m app docs\n")
    return 1
