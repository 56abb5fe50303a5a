"""Every admin route has its row in the roles matrix, and no row is of a route that is not."""

from __future__ import annotations

from blueprints.admin import ROUTER
from tests.house.roles_matrix import MATRIX, OWN_JUDGES


def test_it_has_a_row_for_every_route_and_no_other() -> None:
    served = {f"{route.method} {route.path}": route.role for route in ROUTER.routes}

    found = {row: served[row] for row in served if row not in OWN_JUDGES}

    assert found == MATRIX, "a new route needs its row in tests/house/roles_matrix.py"
