"""What no journal has, and what a room that was rebuilt therefore begins anew with."""

from __future__ import annotations

import pytest

from app.core.clock import wall_ms
from app.core.ids import RoomId
from app.domain.room import UrlRule
from app.infrastructure.admin_store import AdminStore
from app.infrastructure.engine_counts import EngineCounts, RoomTally
from app.infrastructure.engine_results import Verdict
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.wishes import Wish, WishStore
from app.services.visitor_counts import RuleKey, rule_field
from tests.journal.history import SHOP, advance, keep_the_time, lose_and_rebuild
from tests.journal.house import House, door_of, entry, holder

HELD = {"rate_per_minute": 6000, "max_concurrent": 9, "session_ttl_sec": 60, "session_max_sec": 120, "presence_sec": 20}
PAGE = UrlRule("r1", "queue", "/checkout")


async def hits(house: House) -> list[int]:
    """How often each rule has decided."""
    detail = (await house.admin.figures([RoomId(SHOP)], detailed=[RoomId(SHOP)]))[RoomId(SHOP)].detail
    assert detail is not None
    return [detail.rules.get(rule_field(rule), (0, 0))[0] for rule in (PAGE,)]


@pytest.mark.req("FLT-087")
async def test_it_begins_anew_with_what_is_not_journaled(house: House) -> None:
    """The sliding end of sessions, counts of rules, addresses for mail, sign-outs, stream tickets, budgets."""
    await house.create("shop", **HELD, rules=(PAGE,))
    for who in range(3):
        await house.join("shop", who)
    await advance(house, "shop", 1)
    for who in (0, 1):
        assert (await house.engine.check(house.rooms["shop"], entry(who, who + 1))).verdict is Verdict.ADMITTED
    await house.admin.update(SHOP, {"rate_per_minute": 0}, actor="ann")
    room = await house.read("shop")
    store, wishes = AdminStore(house.valkey, house.prefix), WishStore(house.valkey, house.prefix)
    tally = RoomTally(room.id, room.generation, room.cfg_ver)
    tally.rules[RuleKey(room, PAGE).field] = (7, wall_ms())
    await EngineCounts(house.prefix, LuaLoader(house.valkey)).add([tally])
    assert await hits(house) == [7]
    await wishes.put(RoomId(SHOP), 1, Wish("3", "ann@shop.example", "en"), "0" * 32, None)
    await store.revoke_session("signed-out", 60_000)
    await store.put_ticket("t" * 43, b"{}", 30_000)
    await store.failures(b"address", count=True)
    await advance(house, "shop", 50)  # ten seconds before the sessions would have slid to their end

    await lose_and_rebuild(house)
    await keep_the_time(house, "shop")

    assert await hits(house) == [0]
    assert await wishes.get(RoomId(SHOP), 1, "3") is None
    assert await store.revoked_sessions(["signed-out"]) == set()
    assert await store.take_ticket("t" * 43) is None
    assert (await store.failures(b"address", count=False))[0] == 0
    await advance(house, "shop", 40)
    room = await house.read("shop")
    held = entry(0, 1)._replace(proof=holder(0, 1, doors=door_of(0)))
    assert (await house.engine.check(room, held)).verdict is Verdict.SESSION, "its end slides anew from the rebuild on"
    await advance(house, "shop", 50)  # the 50 s before the loss left no fact: to the rebuilt room they never were
    assert (await house.engine.check(room, held)).verdict is Verdict.SESSION
    await advance(house, "shop", 40)
    assert (await house.engine.check(room, held)).verdict is Verdict.QUEUE, "and never past sessionMaxSec"
