"""How a variable is declared: one row with everything known of it, as a field of ``Settings``.

Not here: the variables themselves (settings.py), how a text becomes a value (settings_kinds.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from app.core.mail_kinds import SmtpUrl
from app.core.settings_kinds import HookUrl, Key, KeyList, Kind, StoreUrl


class Bad(StrEnum):
    """What a value that cannot be used does (CFG-006). Numbers outside their bounds are clamped under DEFAULT."""

    DEFAULT = "default"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Row:
    """One variable: everything known about it besides its Python type and default."""

    name: str
    ident: str
    kind: Kind
    bad: Bad
    help: str
    default_text: str
    secret: bool


ROW: Final = "row"
"""Where a field keeps its row."""


def row(
    name: str, ident: str, kind: Kind, default: Any, about: str, *, bad: Bad = Bad.DEFAULT, shown: str | None = None
) -> Any:
    """A dataclass field that is a variable. ``shown`` words a default that is worked out at start."""
    text = shown if shown is not None else _default_text(default)
    meta = Row(name, ident, kind, bad, about, text, isinstance(kind, Key | KeyList | StoreUrl | SmtpUrl | HookUrl))
    return field(default=default, metadata={ROW: meta})


def _default_text(default: Any) -> str:
    if default is None or default == ():
        return ""
    return str(int(default)) if isinstance(default, bool) else str(default)
