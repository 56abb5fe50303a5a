"""Documents made from the rows of ``settings``: ``.env.example`` and ``docs/reference/settings.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from app.core.settings import ROWS
from app.core.settings_row import Bad, Row

ROOT: Final = Path(__file__).resolve().parents[2]


def write_documents(*, check: bool, root: Path = ROOT) -> int:
    """Write both documents, or with ``check`` only compare; exit code 1 when one is out of date."""
    stale = []
    for name, text in (("docs/reference/settings.md", settings_page()), (".env.example", example_file())):
        path = root / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    for name in stale:
        sys.stderr.write(f"{name}: {'out of date; run python -m app docs' if check else 'written'}\n")
    return 1 if check and stale else 0


def settings_page() -> str:
    """The reference page, in Markdown."""
    lines = [
        "# Settings",
        "",
        "Every variable this release obeys. Made by `python -m app docs` from `app/core/settings.py`; do not edit.",
        "",
        "A bad value of a row marked *default* starts with the default, a number outside its bounds with the nearest",
        "bound; each gives a warning on stderr and in `GET /api/admin/health`. A bad value of a row marked *refuse*",
        "keeps the server from starting (exit code 78).",
    ]
    for known in ROWS.values():
        kind, bounds = known.kind.describe()
        lines += [
            "",
            f"## {known.name}",
            "",
            f"{known.help[0].upper()}{known.help[1:]}.",
            "",
            f"- type: {kind}" + (f"; {bounds}" if bounds else ""),
            f"- default: {known.default_text or 'unset'}",
            f"- bad value: {_bad_words(known)}",
            f"- requirement: {known.ident}",
        ]
    return "\n".join(lines) + "\n"


def example_file() -> str:
    """``.env.example``: every variable, commented out, with its default."""
    lines = [
        "# Every variable this release obeys, with its default. Made by `python -m app docs`; do not edit.",
        "# The server does not read this file: it is for your shell, your platform or your container.",
    ]
    for known in ROWS.values():
        kind, bounds = known.kind.describe()
        simple = known.default_text if known.default_text and " " not in known.default_text else ""
        lines += ["", f"# {known.help} ({kind}{'; ' + bounds if bounds else ''})"]
        if known.default_text and not simple:
            lines.append(f"# default: {known.default_text}")
        lines.append(f"#{known.name}={simple}")
    return "\n".join(lines) + "\n"


def _bad_words(known: Row) -> str:
    if known.secret:
        return "refuse" if known.bad is Bad.REFUSE else "used as it is, with a warning when it is short"
    return str(known.bad)
