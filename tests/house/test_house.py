"""The house itself: claims, references and the words of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.requirements_report import claimed, defined

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    """Every text file that belongs to the project."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    binary = {".png", ".woff2", ".ico"}
    return [ROOT / name for name in names if name and Path(name).suffix not in binary and (ROOT / name).exists()]


def test_it_claims_only_requirements_that_the_contract_defines() -> None:
    assert sorted(set(claimed()) - set(defined())) == []


def test_it_knows_every_requirement_of_the_contract_by_its_index() -> None:
    index = (ROOT / "docs/spec/00-glossary-and-decisions.md").read_text()
    counts = {prefix: int(number) for prefix, number in re.findall(r"\| ([A-Z]{3}) \| (\d+) \|", index)}

    found = {prefix: sum(1 for name in defined() if name.startswith(prefix)) for prefix in counts}

    assert found == counts


def test_it_names_no_path_of_a_builders_machine() -> None:
    private = re.compile(r"/(?:work|home/[a-z]+|root|Users/[a-z]+)/[a-z.]")
    here = Path(__file__).resolve()

    hits = [str(path.relative_to(ROOT)) for path in tracked() if path != here and private.search(path.read_text())]

    assert hits == []


def test_it_links_to_files_that_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/adr").glob("*.md")]

    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []
