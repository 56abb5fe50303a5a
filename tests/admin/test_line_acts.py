"""Acts on a whole line: flush and purge, answered after their commit and effective for the next request anywhere."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from app.core.errors import NoRoom, StorageUnavailable
from app.core.ids import RoomId
from app.domain.facts import FactType
from app.domain.roles import Role
from app.infrastructure.engine import Engine
from app.infrastructure.engine_results import JoinAnswer, Reason, ViewState, VisitorView
from app.infrastructure.lua_loader import LuaLoader
from app.services.line import RoomBypassed
from app.services.rooms import NotRecorded
from blueprints.admin.line import ROUTES
from tests.admin.callers import Caller, code
from tests.admin.conftest import House, Process
from tests.harness import Server
from tests.journal.house import holder, newcomer, until

SHOP = RoomId("shop")
ACTOR = "Night ops"


class Door:
    """Visitors of one process."""

    def __init__(self, process: Process) -> None:
        self._rooms = process.rooms
        self._engine = Engine(process.valkey, process.prefix, LuaLoader(process.valkey))

    async def join(self, who: object) -> JoinAnswer:
        room = self._rooms.get(SHOP)
        assert room is not None
        return await self._engine.join(room, newcomer(who))

    async def status(self, who: object, ticket: int) -> VisitorView:
        room = self._rooms.get(SHOP)
        assert room is not None
        return await self._engine.status(room, holder(who, ticket))


async def standing_line(process: Process, count: int = 3) -> Door:
    await process.make(rate=0, queueMaxPerIp=None)
    door = Door(process)
    for who in range(count):
        await door.join(who)
    return door


@pytest.mark.req("ENG-195")
async def test_it_has_its_effect_on_every_instance_before_it_answers(house: House, process: Process) -> None:
    other = await house.process()
    here = await standing_line(process)
    await other.rooms.reload(SHOP)
    there = Door(other)

    flushed = await process.line.flush(SHOP, actor=ACTOR)
    passed = await there.status(2, 3)
    await there.join("late")
    purged = await other.line.purge(SHOP, actor=ACTOR)
    dropped = await here.status("late", 4)
    await process.line.set_state(SHOP, {"state": "bypass"}, actor=ACTOR)
    bypassed = await there.status("late", 4)
    await other.line.pause(SHOP, actor=ACTOR)
    await here.join("later")
    paused = await here.status("later", 5)
    _, was = await other.line.eject(SHOP, {"ticket": 5}, actor=ACTOR)
    ejected = await here.status("later", 5)

    assert (flushed, passed.state) == (3, ViewState.PASSED)
    assert (purged, dropped.reason, dropped.by_purge) == ((1, 0), Reason.EJECTED, True)
    assert (bypassed.state, paused.state) == (ViewState.BYPASS, ViewState.PAUSED)
    assert (was, ejected.reason, ejected.by_purge) == ("waiting", Reason.EJECTED, False)


@pytest.mark.req("ENG-187", "ENG-189", "ENG-191", "ENG-192")
@pytest.mark.parametrize(
    ("act", "kind"), [("flush", FactType.PROMOTED), ("purge", FactType.PURGED), ("eject", FactType.EJECTED)]
)
async def test_it_answers_after_the_commit_and_finishes_when_repeated(
    house: House, process: Process, monkeypatch: pytest.MonkeyPatch, act: str, kind: FactType
) -> None:
    await standing_line(process)
    monkeypatch.setattr("app.services.commit.DEADLINE_SEC", 0.3)
    await house.stop_drainer()

    async def do() -> Any:
        body = ({"ticket": 1},) if act == "eject" else ()
        return await getattr(process.line, act)(SHOP, *body, actor=ACTOR)

    with pytest.raises(NotRecorded) as caught:
        await do()
    assert (caught.value.code, caught.value.status) == ("storage_unavailable", 503)
    with pytest.raises(StorageUnavailable):
        await do()
    assert (1, kind) not in await house.journal()

    await house.start_drainer()
    await until(lambda: _is_well(process), sec=15)
    assert await do() in (0, (0, 0), (1, "ejected")), "nobody is left: it finished the first"
    assert (await house.journal()).count((1, kind)) == 1


async def _is_well(process: Process) -> bool:
    return not process.commits.refusing()


async def test_it_does_nothing_to_no_room_and_flushes_no_bypassed_one(process: Process) -> None:
    await standing_line(process)
    await process.line.set_state(SHOP, {"state": "bypass"}, actor=ACTOR)

    with pytest.raises(RoomBypassed) as caught:
        await process.line.flush(SHOP, actor=ACTOR)
    for act in (process.line.flush("nope", actor=ACTOR), process.line.purge("nope", actor=ACTOR)):
        with pytest.raises(NoRoom):
            await act

    assert (caught.value.status, caught.value.code) == (409, "room_bypassed")
    assert await process.line.purge(SHOP, actor=ACTOR) == (3, 0)


@pytest.mark.req("ENG-187", "ENG-189", "ENG-190")
def test_it_lets_a_line_in_and_drops_one_over_http(server: Server, owner: Caller, room: str) -> None:
    def act(name: str, body: Any = None) -> Any:
        return owner("POST", f"/api/admin/rooms/{room}/{name}", body)

    owner("POST", "/api/admin/rooms", {"id": room, "rate": 0, "queueMaxPerIp": None})
    visitors = [Visitor(server, room) for _ in range(4)]
    assert [v.join()["state"] for v in visitors[:2]] == ["waiting", "waiting"]

    flushed = act("flush", {})
    assert [v.join()["state"] for v in visitors[2:]] == ["waiting", "waiting"]
    purged, again = act("purge"), act("purge")

    assert flushed.json() == {"ok": True, "roomId": room, "flushed": 2}
    assert purged.json() == {"ok": True, "roomId": room, "purged": {"waiting": 2, "preQueue": 0}}
    assert again.json() == {"ok": True, "roomId": room, "purged": {"waiting": 0, "preQueue": 0}}
    assert act("flush").json() == {"ok": True, "roomId": room, "flushed": 0}
    assert [v.status()["state"] for v in visitors] == ["passed", "passed", "gone", "gone"]
    told = visitors[2].status()
    assert (told["reason"], told["by"], told["rejoin"]) == ("ejected", "purge", False)
    again_in = visitors[2].join()
    assert (again_in["created"], again_in["reason"], again_in["ticket"]) == (True, "ejected", 5)
    owner("POST", f"/api/admin/rooms/{room}/state", {"state": "bypass"})
    assert code(act("flush")) == (409, "room_bypassed")


class Visitor:
    """A browser over HTTP that keeps its cookies."""

    def __init__(self, server: Server, room: str) -> None:
        self._url = server.url
        self._room = room
        self._cookies: dict[str, str] = {}

    def join(self) -> dict[str, Any]:
        return self._answer(httpx.post(f"{self._url}/api/join", json={"roomId": self._room}, headers=self._headers()))

    def status(self) -> dict[str, Any]:
        return self._answer(httpx.get(f"{self._url}/api/status?room={self._room}", headers=self._headers()))

    def _headers(self) -> dict[str, str]:
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}

    def _answer(self, answer: httpx.Response) -> dict[str, Any]:
        self._cookies.update(answer.cookies)
        found: dict[str, Any] = answer.json()
        return found


def test_it_is_an_operators_right() -> None:
    roles = {route.path: route.role for route in ROUTES}

    assert roles["rooms/<id>/flush"] == roles["rooms/<id>/purge"] == roles["rooms/<id>/eject"] == Role.OPERATOR
