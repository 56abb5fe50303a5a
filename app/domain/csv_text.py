"""Lines of CSV files as every spreadsheet reads them, and no spreadsheet runs them (RFC 4180, ADM-262)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_line(cells: Iterable[Any]) -> str:
    """One line. None is an empty cell; a text that a spreadsheet could take for a formula gets a leading ``'``."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_harmless(cell) for cell in cells])
    return out.getvalue()


def iso_time(ms: int) -> str:
    """Epoch ms as ISO 8601 in UTC, to the ms."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _harmless(value: Any) -> str:
    text = "" if value is None else str(value)
    return "'" + text if isinstance(value, str) and text.startswith(_FORMULA) else text
