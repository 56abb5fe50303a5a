"""Which requirements of docs/spec have a test: `python -m tests.requirements_report [PREFIX…] [--missing]`.

A Python test claims requirements with ``@pytest.mark.req("ENG-031")`` (read from the syntax tree, so that a
comment or a string claims nothing); a script in another language with a comment ``req: ENG-031 ENG-032``.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENT = re.compile(r"\b[A-Z]{3}-\d{3}\b")
DEFINED = re.compile(r"\*\*([A-Z]{3}-\d{3})\*\*|^\| ([A-Z]{3}-\d{3}) \|", re.M)
COMMENT = re.compile(r"\breq:\s*((?:[A-Z]{3}-\d{3}[ ,]*)+)")


def defined() -> dict[str, str]:
    """Every requirement id of docs/spec and the file that defines it."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "docs" / "spec").glob("*.md")):
        for match in DEFINED.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(match.group(1) or match.group(2), path.name)
    return found


def _marks(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req":
            for arg in node.args:
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                    yield arg.value


def claimed() -> Counter[str]:
    """How many tests claim each requirement."""
    count: Counter[str] = Counter()
    for folder in (ROOT / "tests", ROOT / "loadtests"):
        for path in folder.rglob("*.py"):
            count.update(_marks(ast.parse(path.read_text(encoding="utf-8"))))
        for path in (*folder.rglob("*.js"), *folder.rglob("*.mjs")):
            for match in COMMENT.finditer(path.read_text(encoding="utf-8")):
                count.update(REQUIREMENT.findall(match.group(1)))
    return count


def main() -> int:
    """Print the report; 1 when a test claims what docs/spec does not define."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", nargs="*", help="only these prefixes, for example ENG VIS")
    parser.add_argument("--missing", action="store_true", help="list the requirements without a test")
    args = parser.parse_args()
    spec, claims = defined(), claimed()
    for prefix in sorted({name[:3] for name in spec}):
        if args.prefix and prefix not in args.prefix:
            continue
        names = [name for name in sorted(spec) if name.startswith(prefix)]
        tested = [name for name in names if claims[name]]
        print(f"{prefix}  {len(tested):4d} of {len(names):4d} have a test  ({spec[names[0]]})")
        if args.missing:
            rest = [name for name in names if not claims[name]]
            for start in range(0, len(rest), 14):
                print("     none: " + " ".join(name[4:] for name in rest[start : start + 14]))
    print(f"all  {sum(1 for name in spec if claims[name])} of {len(spec)}")
    unknown = sorted(set(claims) - set(spec))
    if unknown:
        print("claimed but not defined in docs/spec: " + " ".join(unknown))
    return 1 if unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
