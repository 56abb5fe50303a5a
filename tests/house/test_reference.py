"""Every route stands in the reference of the admin API."""

from __future__ import annotations

import re
from pathlib import Path

from blueprints.admin import ROUTER

TEXT = (Path(__file__).resolve().parents[2] / "docs/reference/http.md").read_text("utf-8")


def test_every_route_is_in_the_reference_and_no_other() -> None:
    written = set(re.findall(r"`(GET|POST|DELETE) /([\w<>/.-]+)`", TEXT))

    assert written == {(route.method, route.path) for route in ROUTER.routes}, "docs/reference/http.md"
