"""The API's description against what is served: routes, parameters, bodies and error codes, both ways."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sanic import Sanic

from app.core.settings import Settings
from app.domain.room_fields import FIELDS
from app.server import BLUEPRINTS, HOT_ROUTES
from app.services.assets import Assets
from blueprints.admin import ROUTER, described, shapes
from blueprints.admin.openapi import whole_document
from blueprints.admin.routing import PREFIXES
from blueprints.edge.hot import HotTable
from blueprints.edge.router import EdgeRouter
from blueprints.openapi.codes import STATUS
from blueprints.openapi.operation import EDGE_CODES
from blueprints.visitor import hot, vouched
from blueprints.visitor.openapi import public_document

ROOT = Path(__file__).resolve().parents[2]
DESCRIBE = "describe it in blueprints/visitor/described.py or blueprints/admin/described.py"

Pairs = set[tuple[str, str]]


def hot_routes() -> Pairs:
    """Method and path of every route served at protocol level."""
    context: Any = SimpleNamespace(settings=Settings(), limiter=SimpleNamespace(), visitor=SimpleNamespace())
    table = HotTable()
    for routes in HOT_ROUTES:
        table.extend(routes(context))
    return {(method, path.decode()) for method, path in table.routes}


def stock_routes() -> Pairs:
    """Method and path of every route of Sanic's router, but the two through which all admin routes go."""
    app: Sanic[Any, Any] = Sanic(f"described-{secrets.token_hex(4)}", router=EdgeRouter())
    for blueprint in BLUEPRINTS:
        app.blueprint(blueprint)
    Sanic.unregister_app(app)
    found = {
        (method, re.sub(r"<([^:>]+)(?::[^>]*)?>", r"{\1}", f"/{route.path}"))
        for route in app.router.routes
        for method in route.methods
    }
    return {pair for pair in found if not pair[1].startswith(PREFIXES)}


def admin_routes() -> Pairs:
    """Method and path of every route of the admin table."""
    return {(route.method, re.sub(r"<([^>]+)>", r"{\1}", f"/api/admin/{route.path}")) for route in ROUTER.routes}


def without_aliases(pairs: Pairs) -> Pairs:
    """Without ``/api/v1``, and without HEAD where GET is served."""
    real = {pair for pair in pairs if not pair[1].startswith("/api/v1/")}
    return {(method, path) for method, path in real if method != "HEAD" or ("GET", path) not in real}


def operations(document: dict[str, Any]) -> Pairs:
    """Method and path of every operation of a document."""
    return {(method.upper(), path) for path, item in document["paths"].items() for method in item}


def test_it_describes_every_route_and_no_other() -> None:
    visitor = without_aliases(hot_routes() | stock_routes())
    served = visitor | admin_routes()

    whole, public = operations(whole_document(ROUTER.routes)), operations(public_document())

    assert sorted(served - whole) == [], DESCRIBE
    assert sorted(whole - served) == [], "described, and not served"
    assert public == visitor
    assert described.described() == {(route.method, route.path) for route in ROUTER.routes}


VISITOR_ROUTES = (
    "GET /w/{room}", "GET /w/{room}/plain", "GET /qm.js", "GET /api/check", "POST /api/check", "GET /api/verify",
    "POST /api/join", "GET /api/status", "GET /events", "POST /api/leave", "POST /api/notify", "DELETE /api/notify",
    "GET /api/version", "GET /assets/{name}", "GET /fonts/{name}", "GET /offline.html",
)  # fmt: skip


@pytest.mark.req("VIS-001")
def test_it_serves_every_visitor_route() -> None:
    served = {f"{method} {path}" for method, path in hot_routes() | stock_routes()}

    assert [route for route in VISITOR_ROUTES if route not in served] == []
    files = Assets()
    hashed = re.compile(r"waiting-[\w-]{22}\.(?:css|js)")
    assert {name.rpartition(".")[2] for name in files.bodies() if hashed.fullmatch(name)} == {"css", "js"}
    assert [name for name in files.fonts if name.endswith(".woff2")] != []


def written_routes() -> Pairs:
    """Method and path of every route of the table of docs/spec/00, parameters as in the descriptions."""
    text = (ROOT / "docs/spec/00-glossary-and-decisions.md").read_text("utf-8")
    rows = re.findall(r"^\| ([A-Z, ]+) \| (`/.*?) \|", text.partition("## All routes")[2], re.M)
    found: Pairs = set()
    for methods, cell in rows:
        stem = ""
        for path in re.findall(r"`([/…][^`?]*)", cell):
            whole = stem + path.removeprefix("…") if path.startswith("…") else path
            stem = stem or path.rpartition("/")[0]
            found |= {(method.strip(), re.sub(r"<(\w+)>", r"{\1}", whole)) for method in methods.split(",")}
    return found


def test_every_route_stands_in_the_table_of_the_contract() -> None:
    named = re.compile(r"(latest|\{\w+\})\.\{\w+\}|\{\w+\}|waiting-\{hash\}\.\w+|LICENSE.txt|\{file\}\.woff2")

    def alike(pairs: Pairs) -> Pairs:
        return {(method, named.sub("*", path)) for method, path in pairs}

    served = without_aliases(hot_routes() | stock_routes()) | admin_routes()

    assert sorted(alike(served) - alike(written_routes())) == [], "a new route needs its row in docs/spec/00"


def test_it_serves_every_alias_that_the_description_promises() -> None:
    served = hot_routes() | stock_routes()

    missing = [
        (method, path)
        for method, path in without_aliases(served)
        if path.startswith("/api/") and (method, path.replace("/api/", "/api/v1/", 1)) not in served
    ]

    assert missing == []


def test_it_describes_the_very_bodies_that_are_read() -> None:
    paths = public_document()["paths"]

    def members(path: str) -> set[str]:
        return set(paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"])

    assert members("/api/check") == hot._CHECK_FIELDS | vouched._FIELDS
    assert members("/api/join") == hot._JOIN_FIELDS
    assert {row.name for row in FIELDS} <= set(shapes.ROOM_BODY["properties"])


def test_it_names_every_code_that_the_code_raises() -> None:
    raised = {
        code
        for folder in ("app", "blueprints")
        for file in (ROOT / folder).rglob("*.py")
        if "openapi" not in file.parts
        for code in re.findall(r"\bcode ?= ?\"([a-z_]+)\"", file.read_text())
    } - {"bad_value"}  # a warning about settings
    text = str(whole_document(ROUTER.routes)["paths"])

    elsewhere = {
        "method_not_allowed",
        "not_inline_host",
        "proxy_loop",
        "upgrade_not_supported",
    }  # of what is no operation
    absent = sorted(code for code in raised - elsewhere if f"'{code}'" not in text)

    assert absent == [], DESCRIBE


def test_it_gives_every_code_the_status_of_the_contract_s_table() -> None:
    table = (ROOT / "docs/spec/00-glossary-and-decisions.md").read_text().partition("## All error codes")[2]
    contract = {
        code: int(status)
        for names, status in re.findall(r"^\| ([^|]+) \| (\d{3}) \|", table, re.MULTILINE)
        for code in re.findall(r"`([a-z_]+)`", names)
    }

    assert {code: contract.get(code) for code in STATUS} == dict(STATUS)
    assert set(EDGE_CODES) <= set(contract)


def test_it_is_whole_in_itself() -> None:
    for document in (public_document(), whole_document(ROUTER.routes)):
        named = set(re.findall(r"'\$ref': '#/components/(\w+)/([\w-]+)'", str(document)))
        schemes = {
            name
            for item in document["paths"].values()
            for one in item.values()
            for way in one["security"]
            for name in way
        }
        ids = [one["operationId"] for item in document["paths"].values() for one in item.values()]

        assert [name for kind, name in named if name not in document["components"][kind]] == []
        assert schemes <= set(document["components"]["securitySchemes"])
        assert len(ids) == len(set(ids))
        assert document["openapi"] == "3.1.0"
