"""The two documents: routes for anyone (``/api/openapi.json``), and all of them (``/api/admin/openapi.json``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.version import VERSION
from blueprints.openapi.operation import NOBODY, Operation, uncoded_responses
from blueprints.openapi.shapes import COUNT, Shape

Operations = Mapping[tuple[str, str], Operation]
"""By (method, path); parameters of a path stand in braces."""

_ABOUT: Final = (
    "`/api/v1/…` is an alias of every `/api/…` route. `HEAD` works wherever `GET` does. Errors are "
    '`{"error": "<sentence>", "code": "<snake_case>"}`; the navigation of a browser gets a page instead. '
    "Known path, other method: `405 method_not_allowed` with `Allow`. Unknown path: `404 not_found`; "
    "below `/__qm` where no room is proxied `404 not_inline_host`; the admin API on a host that is not the console's: "
    "`404` without a body. "
    "Clients ignore members they do not know: answers may grow."
)
_HEADERS: Final = {
    "X-RateLimit-Limit": "Requests of this kind that one address may make in a minute.",
    "X-RateLimit-Remaining": "How many of them are left.",
    "X-RateLimit-Reset": "Seconds until the budget is full again.",
    "Retry-After": "Seconds to wait before asking again.",
}
_SECURITY: Final = {
    "publicKey": {"type": "http", "scheme": "bearer", "description": "PUBLIC_API_KEY or ADMIN_KEY"},
    "adminKey": {"type": "http", "scheme": "bearer", "description": "ADMIN_KEY"},
    "console": {"type": "apiKey", "in": "cookie", "name": "qm_console", "description": "A console session; any request "
                "but GET and HEAD then needs the header X-QM-CSRF."},
}  # fmt: skip


def document(title: str, operations: Operations, schemas: Mapping[str, Shape]) -> dict[str, Any]:
    """An OpenAPI document. ``schemas``: what ``shapes.ref`` may name; those that nothing names are left out."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in sorted(operations.items(), key=lambda item: (item[0][1], item[0][0])):
        paths.setdefault(path, {})[method.lower()] = operation.to_json(operation_id(method, path))
    used = {name for operation in operations.values() for name in operation.security} - {NOBODY}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": VERSION, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": _named(paths, schemas),
            "responses": uncoded_responses(),
            "headers": {name: {"description": text, "schema": COUNT} for name, text in _HEADERS.items()},
            "securitySchemes": {name: scheme for name, scheme in _SECURITY.items() if name in used},
        },
    }


def operation_id(method: str, path: str) -> str:
    """A name for generated clients: ``post_admin_rooms_id_pause``."""
    words = re.findall(r"[A-Za-z0-9]+", path.removeprefix("/api"))
    return "_".join([method.lower(), *words])


def _named(root: Any, schemas: Mapping[str, Shape]) -> dict[str, Shape]:
    """The schemas that ``root`` names, directly or through others."""
    found: dict[str, Shape] = {}
    due = [root]
    while due:
        node = due.pop()
        if isinstance(node, list):
            due += node
        elif isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix("#/components/schemas/")
            if name in schemas and name not in found:
                found[name] = schemas[name]
                due.append(schemas[name])
            due += node.values()
    return dict(sorted(found.items()))
