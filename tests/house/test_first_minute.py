"""The README's first commands on a machine that has nothing yet: they may use only what they install."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from app.core.settings_docs import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
LOCKED = {
    re.split(r"[=<>!~\[ ]", line)[0]
    for line in (ROOT / "requirements.lock").read_text().splitlines()
    if line[:1].isalpha()
}


def installed(stamp: str) -> set[str]:
    """Distributions that are there once ``stamp`` is."""
    recipe = re.search(rf"^\$\(VENV\)/{stamp}: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    named = re.search(r"-c \S+ (.+)", recipe[1])
    return LOCKED | (set(named[1].split()) if named else set())


def imported(path: Path, seen: set[Path]) -> Iterator[str]:
    """Names of all modules that a file needs when it is imported, its own ones followed."""
    seen.add(path)
    tree = ast.parse(path.read_text())
    # What the server imports late it needs all the same; what the harness imports late it needs in tests.
    nodes = tree.body if (ROOT / "tests") in path.parents else ast.walk(tree)
    for node in nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield name.split(".")[0]
            for file in (ROOT / f"{name.replace('.', '/')}.py", ROOT / name.replace(".", "/") / "__init__.py"):
                if file.exists() and file not in seen:
                    yield from imported(file, seen)


@pytest.mark.parametrize(("target", "module"), [("run", "app/__main__.py"), ("demo", "loadtests/demo.py")])
def test_it_installs_what_it_imports(target: str, module: str) -> None:
    stamp = re.search(rf"^{target}: \$\(VENV\)/(\w+\.stamp)", MAKEFILE, re.MULTILINE)
    assert stamp is not None
    there, owners = installed(stamp[1]), packages_distributions()
    own = {path.name for path in ROOT.iterdir() if path.is_dir()}
    foreign = set(imported(ROOT / module, set())) - set(sys.stdlib_module_names) - own

    assert {"asyncpg", "structlog"} <= foreign, "it follows imports"
    missing = {
        name for name in foreign if not {dist.lower().replace("_", "-") for dist in owners.get(name, [])} & there
    }
    assert missing == set()
