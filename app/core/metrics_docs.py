"""The reference page of ``/metrics``, written from the table of series. Not here: the table (metrics.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from app.core.metrics import METRICS, Kind, Metric

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


def page() -> str:
    """The page, in Markdown."""
    lines = [
        "# Series of /metrics",
        "",
        "Every series this release has. Made by `python -m app docs` from `app/core/metrics.py`; do not edit. How to",
        "scrape them: [operations.md](../operations.md).",
        "",
        "With `STORE=valkey` each one has the label `instance` too. Counters, connections and streams are those of the",
        "instance that answers, summed over its processes; gauges of rooms are alike on every instance. A series that",
        "has nothing to tell is absent.",
        "",
        "| series | type | meaning | requirement |",
        "| --- | --- | --- | --- |",
        *(_row(metric) for metric in METRICS),
    ]
    return "\n".join(lines) + "\n"


def write_page(*, check: bool) -> int:
    """Write the page, or with ``check`` only compare it; the exit code."""
    text = page()
    if PAGE.exists() and PAGE.read_text("utf-8") == text:
        return 0
    if check:
        sys.stderr.write("docs/reference/metrics.md: out of date; run python -m app docs\n")
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


def _row(metric: Metric) -> str:
    labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
    kind = "histogram, in seconds" if metric.kind is Kind.HISTOGRAM else metric.kind.value
    return f"| `{metric.name}{labels}` | {kind} | {metric.help} | {metric.source} |"
