"""The published description made strict for tests: an answer may have no member that is not described.

Clients have to ignore members they do not know (VIS-190), so the published document leaves its answers open.
"""

from __future__ import annotations

import copy
from typing import Any


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """A copy whose answers are closed; bodies and parameters stay as they are."""
    closed = copy.deepcopy(document)
    for item in closed["paths"].values():
        for operation in item.values():
            _close(operation["responses"])
    _close(closed["components"]["schemas"])
    _close(closed["components"]["responses"])
    return closed


def _close(node: Any) -> None:
    if isinstance(node, list):
        for item in node:
            _close(item)
    elif isinstance(node, dict):
        if node.get("type") in ("object", ["object", "null"]) and "properties" in node:
            node.setdefault("additionalProperties", False)
        for value in node.values():
            _close(value)
