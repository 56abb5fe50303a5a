"""The engine's Lua files as one Valkey function library whose names carry the hash of their content.

Functions are global to a Valkey: with the hash in library and function names two builds, or two instances with other
prefixes, never overwrite each other. Each file stands in a ``do … end`` block of its own and shares only the table
``qm``. Not here: loading it (lua_loader.py).
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from app.domain.facts import EVENT_LOG_VERSION

LUA_DIR: Final = Path(__file__).parent / "lua"
MANIFEST: Final = "manifest"

_USER_LINE: Final = re.compile(r"user_function:(\d+)")


@dataclass(frozen=True, slots=True)
class LuaBundle:
    """One library ready for FUNCTION LOAD."""

    name: str
    """``qm_<hash8>``."""
    code: str
    starts: tuple[int, ...]
    """Line of ``code`` on which the text of each file begins, rising."""
    files: tuple[str, ...]

    def function(self, name: str) -> str:
        """Registered name of function ``name``."""
        return f"{self.name}_{name}"

    def place(self, line: int) -> str:
        """``file:line`` of a line of ``code``."""
        index = bisect_right(self.starts, line) - 1
        if index < 0:
            return f"prelude:{line}"
        return f"{self.files[index]}:{line - self.starts[index] + 1}"

    def explain(self, message: str) -> str:
        """``message`` of Valkey with the lines of the library named as places in the files."""
        return _USER_LINE.sub(lambda match: self.place(int(match[1])), message)


def manifest(directory: Path = LUA_DIR) -> list[str]:
    """Names of the library's files in the order in which they are joined."""
    lines = (directory / MANIFEST).read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def bundle(directory: Path = LUA_DIR) -> LuaBundle:
    """Join the files of ``directory``."""
    files = manifest(directory)
    texts = [(directory / name).read_text().rstrip("\n") for name in files]
    parts = [f"{n}\0{t}" for n, t in zip(files, texts, strict=True)]
    digest = hashlib.sha256("\0".join([*parts, str(EVENT_LOG_VERSION)]).encode()).hexdigest()
    name = f"qm_{digest[:8]}"
    lines = [f"#!lua name={name}", f'local qm = {{ NAME = "{name}", EVENT_LOG_VERSION = {EVENT_LOG_VERSION} }}']
    starts: list[int] = []
    for text in texts:
        lines.append("do")
        starts.append(len(lines) + 1)
        lines += [*text.split("\n"), "end"]
    return LuaBundle(name, "\n".join(lines) + "\n", tuple(starts), tuple(files))


@cache
def engine_bundle() -> LuaBundle:
    """The library of this build; read once a process."""
    return bundle()
