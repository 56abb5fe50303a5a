"""Every admin route has its row in the roles matrix, and no row is of a route that is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.domain.roles import GROUPS, Role
from blueprints.admin import ROUTER
from tests.house.roles_matrix import MATRIX, OWN_JUDGES

OF_OTHER_FILES = ("webhooks", "mesh", "ingress", "log", "rooms/<id>/origins", "rooms/<id>/machine-test")
READS_BY_POST = ("POST sse-ticket", "POST rooms/<id>/rules/test")
COLUMNS = (Role.MONITOR, Role.VIEWER, Role.OPERATOR, Role.OWNER)


def cells_of_the_contract() -> dict[str, Role | None]:
    """Least role of each route in the table of docs/spec/05, section 20; None: more than a role is asked for."""
    text = (Path(__file__).resolve().parents[2] / "docs/spec/05-admin-api-and-access.md").read_text("utf-8")
    table = text.partition("## 20 Roles matrix")[2]
    found: dict[str, Role | None] = {}
    for row in re.findall(r"^\| (`(?:GET|POST|DELETE) .*)\|$", table, re.M):
        first, *cells = re.split(r"(?<!\\)\|", row)
        marks = [not cell.strip().startswith(("–", "with step-up")) for cell in cells]
        assert marks == sorted(marks), f"a higher role may do what a lower one may: {row}"
        for route in _routes_of(first):
            found.setdefault(route, COLUMNS[marks.index(True)] if True in marks else None)
    return found


def _routes_of(cell: str) -> list[str]:
    """Routes of a first cell. ``POST rooms/<id>/state, pause`` is two of them."""
    found: list[str] = []
    for method, paths in re.findall(r"`(GET|POST|DELETE) ([^`]+)`", cell):
        first, *more = paths.split(", ")
        found += [f"{method} {first}", *(f"{method} {first.rpartition('/')[0]}/{name}" for name in more)]
    return found


@pytest.mark.req("ADM-286", "ADM-287", "ADM-025")
def test_its_rows_are_the_cells_of_the_contract() -> None:
    cells = cells_of_the_contract()

    assert {row: cells.get(row) for row in MATRIX} == MATRIX, "docs/spec/05, section 20"
    assert len(cells) > 60
    others = [row for row in cells if row.split()[1].startswith(OF_OTHER_FILES)]
    assert len(others) > 20
    assert not any(cells[row] is Role.MONITOR for row in others)
    for row, least in MATRIX.items():
        is_read = row.startswith("GET ") or row in READS_BY_POST
        assert least <= Role.VIEWER if is_read else least >= Role.OPERATOR, row


def test_it_has_a_row_for_every_route_and_no_other() -> None:
    served = {f"{route.method} {route.path}": route.role for route in ROUTER.routes}

    found = {row: served[row] for row in served if row not in OWN_JUDGES}

    assert found == MATRIX, "a new route needs its row in tests/house/roles_matrix.py"


OF_ROUTES = {
    "operators": "operators", "links": "monitor-tokens", "audit": "audit", "alerts": "alerts", "reports": "reports",
    "shutdown": "shutdown", "webhooks": "webhooks", "mesh": "mesh", "ingress": "ingress", "diagnostics": "health",
}  # fmt: skip
"""Groups of ``can`` that are rights to routes, and how the addresses of these begin."""


def test_it_offers_a_right_exactly_when_there_is_something_to_do_with_it() -> None:
    first_parts = {route.path.split("/")[0] for route in ROUTER.routes}

    offered = {group for group in OF_ROUTES if GROUPS[group] is not None}

    assert offered == {group for group, path in OF_ROUTES.items() if path in first_parts}


@pytest.mark.req("ADM-237")
def test_a_link_reads_what_the_contract_lists_and_writes_nothing() -> None:
    reads = {"me", "rooms", "rooms/<id>", "events", "history", "timeline", "protection", "reports", "health", "alerts"}

    open_to_links = {row for row, least in MATRIX.items() if least is Role.MONITOR}

    assert open_to_links == {*(f"GET {path}" for path in reads), "POST sse-ticket"}
