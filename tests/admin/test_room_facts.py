"""Read-only facts of a room object: who changed it last, and what a monitor link is not shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.core.ids import RoomId
from app.domain.actor import Actor
from app.domain.principal import OWNER_BY_KEY
from app.domain.roles import Role
from app.domain.room import RoomState
from app.services import room_reduced
from app.services.room_object import room_object
from app.services.room_reduced import object_for
from tests.admin.conftest import Process
from tests.admin.test_live import Console, Desk, desk, plain  # noqa: F401 (desk is a fixture)

SHOP = RoomId("shop")
ODD = Actor('Zoë "/," \\"by\\":{', kind="operator", role="operator", ip="192.0.2.1", instance="i:1")
"""A name with all that could be taken for the end of it."""
LINK = replace(OWNER_BY_KEY, role=Role.MONITOR, name="Monitor link")
HIDDEN = {
    "proxyOrigin", "proxyOrigins", "originHealthPath", "origins", "machinePaths", "ingressBudget", "returnOrigins",
    "tagOrigins",
}  # fmt: skip


async def last_change(process: Process) -> Any:
    return room_object(await process.service.view("shop"))["lastChange"]


@pytest.mark.req("ADM-121")
async def test_it_names_the_last_change_of_state_or_rate(process: Process) -> None:
    await process.make(state="bypass")
    assert await last_change(process) is None, "nothing was changed yet"

    await process.line.set_rate("shop", {"rate": 90}, actor=ODD)
    rate = await last_change(process)
    await process.service.upsert({"id": "shop", "rate": 5, "state": "paused"}, actor="Night ops")
    both = await last_change(process)
    await process.service.upsert({"id": "shop", "name": "Other", "state": "paused"}, actor="nobody")
    other = await last_change(process)

    figures = (await process.service.view("shop")).figures
    assert figures is not None
    assert 0 <= figures.now - rate.pop("at") < 60_000
    assert rate == {"by": str(ODD), "kind": "rate", "text": "60 → 90/min"}
    assert both | {"at": 0} == {"at": 0, "by": "Night ops", "kind": "state", "text": "bypass → paused"}
    assert other == both, "another field is no change of state or rate"


@pytest.mark.req("ADM-126")
async def test_a_monitor_link_is_not_shown_how_a_site_is_built(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await process.make(rules=[{"action": "protect", "pattern": "/secret*"}], returnOrigins=["https://secret.example"])
    await process.line.pause("shop", actor=ODD)
    view = await process.service.view("shop")

    whole, reduced = object_for(Role.VIEWER, view), object_for(Role.MONITOR, view)

    assert whole == room_object(view)
    assert whole.keys() - reduced.keys() == HIDDEN
    assert whole["rules"][0].keys() - reduced["rules"][0].keys() == {"pattern"}
    assert whole["site"].keys() - reduced["site"].keys() == {"httpStatus"}
    assert (whole["lastChange"]["by"], reduced["lastChange"]["by"]) == (str(ODD), "operator")
    same = reduced.keys() - {"rules", "site", "lastChange"}
    assert {name: whole[name] for name in same} == {name: reduced[name] for name in same}
    assert "secret" not in str(plain(reduced))
    assert "Zo" not in str(plain(reduced))
    automatic = (view.figures.last_change or b"").replace(b'"auto":false', b'"auto":true')  # type: ignore[union-attr]
    switched = replace(view, figures=replace(view.figures, last_change=automatic))  # type: ignore[type-var]
    assert object_for(Role.MONITOR, switched)["lastChange"]["by"] == "system"
    made = {**room_object(view), "origin": {"errorPages": 1, "classes": {"connect": 1}}}
    monkeypatch.setattr(room_reduced, "room_object", lambda _: made)  # there is no inline room in this test
    assert object_for(Role.MONITOR, view)["origin"] == {"errorPages": 1}


@pytest.mark.req("ADM-096")
async def test_the_stream_of_a_monitor_link_has_reduced_rooms_in_both_kinds_of_frame(desk: Desk) -> None:  # noqa: F811
    process = desk.process
    for room_id in ("shop", "drop", "a"):
        await process.make(room_id, rules=[{"action": "skip", "pattern": "/x"}])
    link, owner = await desk.open(LINK), await desk.open()
    watching, whole = Console(), Console()
    deltas = 0
    for turn in range(5):
        deltas += watching.apply(await link.next())
        whole.apply(await owner.next())
        views = await process.service.views()
        assert list(watching.rooms.values()) == [plain(object_for(Role.MONITOR, view)) for view in views]
        assert list(whole.rooms.values()) == [plain(room_object(view)) for view in views]
        assert list(watching.rooms) == ["shop", "drop", "a"]
        assert watching.frame["totals"] == whole.frame["totals"]
        await process.engine.update(SHOP, {"state": RoomState(turn % 3), "rate_per_minute": turn}, actor=ODD)
        await desk.tick()
    assert deltas == 3
