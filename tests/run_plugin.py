"""A test run as a whole: refused before it begins, every skip said, its stores ended."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator

import pytest

from tests import run_stores
from tests.run_environment import Refused, read

_UNSAID = {"", "unconditional skip", "<Skipped instance>"}
ENDED = "queue-manager/ended"
"""Key in pytest's cache: the exit code of the last run, ``null`` while none has ended. ``tests.again`` reads it."""


def pytest_configure(config: pytest.Config) -> None:
    """End the run when its environment breaks a rule (TST-023, TST-033, TST-035)."""
    _note_end(config, None)
    try:
        read(os.environ)
    except Refused as error:
        raise pytest.UsageError(str(error)) from None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Leave word of how the run ended."""
    _note_end(session.config, int(exitstatus))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip without a reason is a failure (TST-041)."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _reason(report) in _UNSAID:
        report.outcome, report.longrepr = "failed", "skipped without a reason"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skipped by reason; one warning a file names each test that had no shared stores (TST-039)."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section("skipped")
    without: defaultdict[str, list[str]] = defaultdict(list)
    for report in skipped:
        path, _, name = report.nodeid.partition("::")
        if _reason(report) == run_stores.NEEDS:
            without[path].append(name)
    for path, names in sorted(without.items()):
        terminalreporter.write_line(f"warning: {path}: no shared stores, skipped: {', '.join(sorted(names))}")
    for reason, count in sorted(Counter(map(_reason, skipped)).items()):
        terminalreporter.write_line(f"{count} skipped: {reason}")


def pytest_unconfigure() -> None:
    """Stop the run's stores."""
    run_stores.end()


def _note_end(config: pytest.Config, code: int | None) -> None:
    if hasattr(config, "cache") and not hasattr(config, "workerinput"):  # the run's own process, not one of its helpers
        config.cache.set(ENDED, code)


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped").lstrip(":").strip()
