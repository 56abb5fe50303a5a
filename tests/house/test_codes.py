"""The error codes of the visitor's API are those of its contract, with their status (VIS-048)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from blueprints.openapi.codes import status_of
from blueprints.visitor.described import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
LINE = next(
    line for line in (ROOT / "docs/spec/03-visitor-api.md").read_text("utf-8").splitlines() if "**VIS-048**" in line
)
SHARED = {"insufficient_role", "too_many_auth_failures"}
"""Of routes that take a key too; their home is docs/spec/05."""


def listed() -> dict[str, int]:
    """Code → status, as VIS-048 lists them."""
    found: dict[str, int] = {}
    for part in re.split(r";|\. ", LINE.partition("with status:")[2]):
        status = re.search(r"\b([45]\d\d)\b", part)
        assert status is not None or "`" not in part, part
        for code in re.findall(r"`(?:\d{3} )?([a-z_]+)(?:<field>)?`", part):
            if status is not None:
                found[code] = int(status[1])
    return found


@pytest.mark.req("VIS-048")
def test_every_listed_code_has_its_status_and_is_answered_somewhere() -> None:
    codes = listed()
    assert len(codes) > 30
    source = "\n".join(
        path.read_text("utf-8") for folder in ("app", "blueprints") for path in (ROOT / folder).rglob("*.py")
    )
    for code, status in codes.items():
        if code == "invalid_":
            continue
        assert status_of(code) == status, code
        kind, _, field = code.partition("_")
        raised = f'InvalidField("{field}"' if kind == "invalid" else f'"{code}"'
        assert raised in source, code
    assert codes["invalid_"] == 400


@pytest.mark.req("VIS-048")
def test_no_visitor_route_answers_a_code_that_is_not_listed() -> None:
    codes = listed()
    for (method, path), operation in OPERATIONS.items():
        for code in operation.codes:
            is_listed = code in codes or code in SHARED or code.startswith("invalid_")
            assert is_listed, f"{method} {path}: {code}"


@pytest.mark.req("ADM-144")
def test_no_answer_to_a_save_warns_with_a_code_that_is_not_listed() -> None:
    text = (ROOT / "docs/spec/05-admin-api-and-access.md").read_text("utf-8")
    known = re.search(r"Known codes: (.*?)\. \*", text)
    assert known
    codes = set(re.findall(r"`([a-z_]+)`", re.sub(r"\(.*?\)", "", known[1])))
    of_machine_calls = {"machine_path_open", "machine_paths_inactive"}
    made: set[str] = set()
    for path in ("app/domain/room_warnings.py", "app/services/inline_saves.py"):
        made.update(re.findall(r'\{"code": "([a-z_]+)"', (ROOT / path).read_text("utf-8")))

    assert made == codes - of_machine_calls
