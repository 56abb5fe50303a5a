"""The whole answer of ``GET /api/admin/health``, held against the example of the contract key by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.callers import TARGET, Caller, Callers
from tests.harness import Server, wait_for

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "docs/spec"
BLOCKS = {"mesh": ("11-mesh-health.md", "MSH-100"), "cpu": ("12-ingress-budget.md", "BUD-102"),
          "capacity": ("12-ingress-budget.md", "BUD-067"), "heavy": ("12-ingress-budget.md", "BUD-102")}  # fmt: skip
"""Blocks that the example leaves to another requirement, which gives an example of its own."""
UNDECLARED = {"webhooks", "ingress"}
"""Absent as long as nothing is declared (WHK-190, BUD-102)."""
OPEN: dict[str, str] = {
    "config": "variables", "inline.originErrors": "rooms", "limits.addressesKept": "budgets",
    "limits.refusedTotal": "budgets",
}  # fmt: skip
"""Objects whose names are no part of the shape."""


def example() -> dict[str, Any]:
    """The example of OBS-033, with those of the blocks that it points to."""
    text = (SPEC / "08-health-metrics-alerts.md").read_text("utf-8")
    block = text.partition("**OBS-033**")[2].partition("```json")[2].partition("```")[0]
    named = re.findall(r'"(\w+)":\{…([A-Z]+-\d+)…\}', block)
    found: dict[str, Any] = json.loads(re.sub(r"\{…[A-Z]+-\d+…\}", "{}", block))
    assert {name for name, _ in named} == BLOCKS.keys() | UNDECLARED
    for name, source in named:
        if name in BLOCKS:
            path, ident = BLOCKS[name]
            assert source == ident
            found[name] = json.loads(_object(SPEC / path, ident, name))
    return found


def _object(path: Path, ident: str, name: str) -> str:
    """The JSON object that a requirement gives as an example of ``name``."""
    (line,) = [line for line in path.read_text("utf-8").splitlines() if line.startswith(f"- **{ident}**")]
    begin = line.index(f'"{name}":' + "{") + len(name) + 3
    depth = 0
    for at in range(begin, len(line)):
        depth += {"{": 1, "}": -1}.get(line[at], 0)
        if depth == 0:
            return line[begin : at + 1]
    raise AssertionError(line)


def shape(value: Any, path: str = "") -> dict[str, set[str]]:
    """Path → kinds of JSON value there. A list has the shape of its entries under ``[]``."""
    found: dict[str, set[str]] = {}
    if isinstance(value, dict):
        found[path] = {"object"}
        for name, inner in () if path in OPEN else value.items():
            for at, kinds in shape(inner, f"{path}.{name}".lstrip(".")).items():
                found.setdefault(at, set()).update(kinds)
    elif isinstance(value, list):
        found[path] = {"list"}
        for inner in value:
            for at, kinds in shape(inner, path + "[]").items():
                found.setdefault(at, set()).update(kinds)
    else:
        kind = {bool: "flag", str: "text", int: "number", float: "number", type(None): "null"}[type(value)]
        found[path] = {kind}
    return found


def differences(told: dict[str, set[str]], wanted: dict[str, set[str]]) -> set[str]:
    """Paths that only one side has, or that are something else there.

    What is not known is null. A list may be empty on either side, and what the example shows as null may have a value.
    """
    empty = {path for side in (told, wanted) for path in side if side[path] == {"list"} and path + "[]" not in side}
    only = {path for path in wanted.keys() ^ told.keys() if path.partition("[]")[0] not in empty}
    other = {
        path
        for path in told.keys() & wanted.keys()
        if not told[path] <= wanted[path] | {"null"} and wanted[path] != {"null"}
    }
    return only | other


@pytest.fixture
def everything(server: Server, owner: Caller, stranger: Caller) -> Iterator[dict[str, Any]]:
    """Health of a server of which there is something to tell: an inline room, mistaken checks."""
    proxied = {"id": "proxied", "targetUrl": "https://proxied.example", "proxyOrigin": "http://203.0.113.7:3000"}
    tagged = {"id": "tagged", "targetUrl": TARGET, "tagOrigins": ["https://shop.example"]}
    assert [owner("POST", "/api/admin/rooms", body).status_code for body in (proxied, tagged)] == [200, 200]
    stranger("GET", "/api/check?room=chekout")
    stranger("GET", "/api/check?room=tagged", headers={"Origin": "https://landing.example"})

    def health() -> dict[str, Any]:
        return dict(owner("GET", "/api/admin/health").json())

    def is_told() -> bool:
        found = health()
        checks = found["checks"]
        return bool(
            checks["unknownRooms"]
            and checks["refusedOrigins"]
            and found.get("inline", {}).get("hosts")
            and found["leaderEpoch"]
        )

    wait_for(is_told)
    yield health()
    for room in ("proxied", "tagged"):
        assert owner("DELETE", f"/api/admin/rooms/{room}").status_code == 200
    wait_for(lambda: "inline" not in health())


@pytest.mark.req("OBS-033", "ADM-268")
def test_the_answer_has_every_member_of_the_example_and_no_other(everything: dict[str, Any]) -> None:
    wanted = example()
    for name in UNDECLARED:
        del wanted[name]
    assert UNDECLARED.isdisjoint(everything)

    assert differences(shape(everything), shape(wanted)) == set()

    assert everything["mesh"]["targets"] >= 2
    assert (everything["mesh"]["enabled"], everything["mesh"]["unreachable"]) == (False, 0)
    assert everything["leaderEpoch"] >= 1
    assert everything["cpu"]["usable"] > 0
    assert everything["capacity"]["instances"] == everything["capacity"]["instancesDeclared"] == 1


@pytest.mark.req("OBS-041", "ADM-240")
def test_a_link_sees_nothing_of_the_further_blocks(server: Server, owner: Caller, callers: Callers) -> None:
    token = owner("POST", "/api/admin/monitor-tokens").json()["token"]
    body = callers.with_key(token)("GET", "/api/admin/health").json()
    assert set(body) == {
        "ready", "status", "version", "startedAt", "uptimeSec", "leader", "rooms", "backend", "incidents",
    }  # fmt: skip
