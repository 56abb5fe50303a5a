"""The roles matrix of docs/spec/05, section 20, as data: the least role of each admin route.

``tests/admin/test_matrix.py`` asks every route with every credential by it.
"""

from __future__ import annotations

from typing import Final

from app.domain.roles import Role

M, V, O, W = Role.MONITOR, Role.VIEWER, Role.OPERATOR, Role.OWNER  # noqa: E741

MATRIX: Final[dict[str, Role]] = {
    "GET me": M,
    "POST sse-ticket": M,
    "GET events": M,
    "GET rooms": M,
    "GET rooms/<id>": M,
    "GET timeline": M,
    "GET history": M,
    "GET protection": M,
    "GET health": M,
    "GET alerts": M,
    "GET reports": M,
    "GET rooms/<id>/tickets": V,
    "GET rooms/<id>/tickets/<n>": V,
    "POST rooms/<id>/rules/test": V,
    "GET rooms/<id>/install-check": V,
    "GET audit": V,
    "GET operators": V,
    "GET monitor-tokens": V,
    "GET openapi.json": V,
    "POST rooms": O,
    "POST rooms/<id>/state": O,
    "POST rooms/<id>/pause": O,
    "POST rooms/<id>/resume": O,
    "POST rooms/<id>/rate": O,
    "POST rooms/<id>/schedule": O,
    "POST rooms/<id>/flush": O,
    "POST rooms/<id>/purge": O,
    "POST rooms/<id>/eject": O,
    "DELETE rooms/<id>": W,
    "POST alerts": O,
    "POST monitor-tokens": O,
    "POST monitor-tokens/<id>/reveal": O,
    "DELETE monitor-tokens": O,
    "DELETE monitor-tokens/<id>": O,
    "POST operators": W,
    "POST operators/<id>": W,
    "DELETE operators/<id>": W,
    "POST shutdown": W,
    "POST step-up": W,
}
"""Least role of each route. A new route needs a row here, from the table of section 20."""
OWN_JUDGES: Final = {"POST session", "DELETE session"}
"""These two judge their own credential; their cells are the last tests of this file."""
