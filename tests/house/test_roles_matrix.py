"""Every admin route has its row in the roles matrix, and no row is of a route that is not."""

from __future__ import annotations

from app.domain.roles import GROUPS
from blueprints.admin import ROUTER
from tests.house.roles_matrix import MATRIX, OWN_JUDGES


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
