"""The second look at a run with few failures: what passes alone is named, what fails again fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness import ROOT

INNER = """
from pathlib import Path
def test_at_odds_with_a_moment():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
def test_that_passes():
    with Path("runs").open("a") as file: file.write("x")
"""
BROKEN = "def test_broken(): raise AssertionError('each time')\n"


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A module of Python in ``folder``, with the tests' own modules at hand."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env = {**kept, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "-p tests.run_plugin"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def project(folder: Path, **files: str) -> Path:
    """Test files beside a configuration of their own."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


def test_a_test_that_passes_alone_is_named_and_the_others_do_not_run_again(tmp_path: Path) -> None:
    project(tmp_path, inner=INNER)
    assert run(tmp_path, "pytest").returncode == 1

    again = run(tmp_path, "tests.again")

    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.splitlines()[-1] == (
        "UNSTEADY, passed when run again: test_inner.py::test_at_odds_with_a_moment"
    )
    assert (tmp_path / "runs").read_text() == "x"


def test_what_fails_again_fails_the_run_beside_one_that_passes(tmp_path: Path) -> None:
    project(tmp_path, inner=INNER, broken=BROKEN)
    run(tmp_path, "pytest")

    again = run(tmp_path, "tests.again")

    assert again.returncode == 1
    assert "UNSTEADY" not in again.stdout


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    project(tmp_path, **{f"inner{n}": INNER.replace('"seen"', f'"seen{n}"') for n in range(4)})
    assert "4 failed" in run(tmp_path, "pytest").stdout

    again = run(tmp_path, "tests.again")

    assert again.returncode == 1
    assert again.stdout.startswith("4 failed, too many")


def test_a_file_that_cannot_be_read_is_not_tried_again(tmp_path: Path) -> None:
    project(tmp_path, inner="def test_x(): pass\n", broken="import nothing_of_this_name\n")
    assert run(tmp_path, "pytest").returncode == 2

    assert run(tmp_path, "tests.again").returncode == 1


def test_a_run_that_did_not_come_to_its_end_is_not_mended_by_its_failed_tests(tmp_path: Path) -> None:
    cut = "import os\ndef test_end(): os._exit(2)\n"
    project(tmp_path, inner=INNER)
    assert run(tmp_path, "pytest").returncode == 1
    (tmp_path / "test_a.py").write_text(cut)
    assert run(tmp_path, "pytest").returncode == 2

    again = run(tmp_path, "tests.again")

    assert again.returncode == 1
    assert "did not end with failed tests" in again.stdout


def test_without_a_run_before_it_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert run(project(tmp_path, inner=INNER), "tests.again").returncode == 1
