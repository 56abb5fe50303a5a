"""The house itself: claims, references and the words of the project."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.requirements_report import claimed, defined

ROOT = Path(__file__).resolve().parents[2]


def tracked() -> list[Path]:
    """Every text file that belongs to the project."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    binary = {".png", ".woff2", ".ico", ".gz"}
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


def sources(*folders: str) -> dict[str, str]:
    """Text of every Python module below, by its name."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


@pytest.mark.req("VIS-011", "CFG-098", "VIS-017")
def test_it_decides_who_the_visitor_is_in_one_place() -> None:
    """Whatever needs an address, a scheme or a host takes it from the ``Client`` that this module made."""
    told = re.compile(
        r"x-forwarded|forwarded-for|[\"']forwarded[\"']|x-real-ip|cf-connecting-ip|true-client-ip"
        r"|remote_addr|\.client_ip|request\.ip\b|request\.host\b|request\.scheme\b|peername",
        re.IGNORECASE,
    )
    allowed = {
        "app/domain/client_address.py",
        "blueprints/edge/head.py",  # spellings of header names, to read them fast
        "blueprints/edge/protocol.py",  # the socket's own address
        "blueprints/edge/request.py",  # properties that pass the client's on
        "app/domain/inline/names.py",  # what is kept from an origin, or written for it anew
        "app/domain/inline/forwarding.py",  # likewise: from the client, never from what was sent
        "app/services/undeclared.py",  # a sentence about the header
    }

    found = {
        name: sorted({line.strip() for line in text.splitlines() if told.search(line) and "``" not in line})
        for name, text in sources("app", "blueprints", "workers").items()
        if name not in allowed
    }

    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.req("VIS-049")
def test_it_never_says_that_it_failed_over() -> None:
    """That header is the word of the Workers at the edge; nothing here spells it."""
    assert [name for name, text in sources("app", "blueprints").items() if "failover" in text.lower()] == []
