"""Random operations on one room, and what must hold after each of them."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.infrastructure.engine_results import JoinCode, TicketState, Verdict, ViewState
from app.infrastructure.valkey import Valkey
from tests.engine.world import ROOM, Browser, World

PRESENCE, CAP, BOUND = 8, 3, 2
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ("join", "join", "join", "again", "status", "status", "check", "check", "leave", "eject", "tick", "tick",
             "late", "undo_join", "undo_admission", "state", "cap", "flush", "purge", "bound")
        ),
        st.integers(0, 30),
    ),
    min_size=10,
    max_size=60,
)  # fmt: skip


@dataclass
class Model:
    """What the test itself knows of the room."""

    browsers: list[Browser] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    cap: int = CAP
    bound: int | None = BOUND
    raised_bound: int = BOUND
    admissions: list[tuple[Browser, int]] = field(default_factory=list)
    joins: list[tuple[Browser, int]] = field(default_factory=list)


async def _join(world: World, model: Model, _: int) -> None:
    browser = Browser(address=f"a{secrets.randbelow(4)}")
    answer = await world.join(browser)
    if answer.code is JoinCode.CREATED:
        model.browsers.append(browser)
        model.numbers.append(browser.ticket)
        model.joins.append((browser, answer.seq))


async def _again(world: World, model: Model, pick: int) -> None:
    browser = model.browsers[pick % len(model.browsers)]
    before = browser.ticket
    waits = (await world.status(browser, told=False, seen=False)).state in (ViewState.WAITING, ViewState.PAUSED)
    answer = await world.join(browser)
    if answer.code is JoinCode.CREATED:
        assert not waits
        model.numbers.append(browser.ticket)
    elif answer.code is JoinCode.EXISTING:
        assert browser.ticket == before


async def _check(world: World, model: Model, pick: int) -> None:
    browser = model.browsers[pick % len(model.browsers)]
    answer = await world.check(browser)
    if answer.verdict is Verdict.ADMITTED:
        model.admissions.append((browser, answer.seq))
        assert (await world.figures()).occupancy <= max(model.cap, 1)


async def _undo_join(world: World, model: Model, _: int) -> None:
    if model.joins:
        browser, seq = model.joins.pop()
        await world.admin.undo_join(ROOM, 1, seq, browser.ticket)


async def _undo_admission(world: World, model: Model, _: int) -> None:
    if model.admissions:
        browser, seq = model.admissions.pop()
        await world.admin.undo_admission(ROOM, 1, seq, browser.ticket)


async def _cap(world: World, model: Model, pick: int) -> None:
    model.cap = max(model.cap, 1 + pick % 6)
    await world.update(max_concurrent=model.cap)


async def _bound(world: World, model: Model, pick: int) -> None:
    model.bound = (1, 2, 3, None)[pick % 4]
    model.raised_bound = max(model.raised_bound, model.bound or 30)
    await world.update(session_max_per_ip=model.bound)


async def _operate(world: World, model: Model, name: str, pick: int) -> None:
    if name == "tick":
        await world.tick(1 + pick % 4)
    elif name == "late":
        await world.tick(PRESENCE + pick)
    elif name == "state":
        await world.update(state=(0, 0, 1)[pick % 3])
    elif name == "status":
        await world.status(model.browsers[pick % len(model.browsers)])
    elif name == "leave":
        await world.leave(model.browsers[pick % len(model.browsers)])
    elif name == "flush":
        await world.admin.flush(ROOM, actor="op")
    elif name == "purge":
        await world.admin.purge(ROOM, actor="op")
    elif name == "eject":
        await world.admin.eject(ROOM, model.browsers[pick % len(model.browsers)].ticket, actor="op")
    else:
        handlers: dict[str, Callable[..., object]] = {
            "join": _join, "again": _again, "check": _check, "undo_join": _undo_join,
            "undo_admission": _undo_admission, "cap": _cap, "bound": _bound,
        }  # fmt: skip
        await handlers[name](world, model, pick)  # type: ignore[misc]


async def counts(world: World, key: str) -> dict[bytes, int]:
    """Numbers of a hash by field."""
    fields, values = [await world.valkey.execute(command, key) for command in ("HKEYS", "HVALS")]
    return {field: int(value) for field, value in zip(fields, values, strict=True)}


async def _invariants(world: World, model: Model) -> None:
    header = await world.header()
    last = header["last_ticket"]
    if header["flush_up_to"]:  # whoever asks has his pass already, and each record is written when it is asked about
        for n in range(1, last + 1):
            await world.status(Browser(ticket=n), told=False, seen=False)
    records = {n: await world.ticket(n) for n in range(1, last + 1)}
    states = {n: record.state for n, record in records.items()}
    for n in range(1, int(header["purge_up_to"]) + 1):
        states[n] = TicketState.EJECTED if states[n] == TicketState.WAITING else states[n]
    waiting = [n for n in records if states[n] == TicketState.WAITING]
    passed = [n for n in records if states[n] == TicketState.PASSED]
    active = [n for n in records if states[n] == TicketState.ACTIVE]
    slots = [n for n in passed if records[n].flags & 1]
    figures = await world.figures()

    assert len(set(model.numbers)) == len(model.numbers), "a number is given once"
    assert figures.waiting == len(waiting)
    assert (figures.active, figures.pending_entry) == (len(active), len(slots))
    assert figures.passes_outstanding == len(passed) - len(slots)
    assert figures.occupancy <= model.cap
    assert all(n > header["head"] for n in waiting), "first in, first out: nobody waits before somebody promoted"
    assert all(n <= header["head"] for n in passed + active)
    assert header["credit"] >= 0

    assert await counts(world, world.keys.addresses(1)) == Counter(records[n].addr for n in waiting)
    due = {int(n) for n in await world.valkey.execute("ZRANGE", world.keys.deadlines(1), 0, -1)}
    assert due == {*passed, *active}, "whatever can end has a deadline"
    door = {int(n) for n in await world.valkey.execute("ZRANGE", world.keys.at_door(1), 0, -1)}
    held_back = await world.valkey.execute("ZRANGE", world.keys.held_back(1), 0, -1)
    assert not held_back or model.bound
    door |= {int.from_bytes(member[8:], "big") for member in held_back}
    assert door == {n for n in passed if records[n].flags & 8 and not records[n].flags & 1}
    with_slots = Counter(records[n].addr for n in slots + active)
    assert await counts(world, world.keys.slots(1)) == with_slots
    assert figures.top_address_slots == max(with_slots.values(), default=0) <= model.raised_bound


async def _positions(world: World, model: Model) -> None:
    header = await world.header()
    behind = range(header["head"] + 1, header["last_ticket"] + 1)
    waiting = [n for n in behind if (await world.ticket(n)).state == TicketState.WAITING]
    for browser in model.browsers:
        view = await world.status(browser, told=False, seen=False)
        if view.state in (ViewState.WAITING, ViewState.PAUSED):
            assert view.ahead == waiting.index(view.ticket)


async def _run(valkey_url: str, prefix: str, operations: list[tuple[str, int]]) -> None:
    valkey = await Valkey.connect(valkey_url)
    try:
        world, model = World(valkey, f"{prefix}{secrets.token_hex(4)}:"), Model()
        await world.create(
            rate_per_minute=120, max_concurrent=CAP, presence_sec=PRESENCE, passed_ttl_sec=40, session_ttl_sec=30,
            session_max_sec=60, queue_max_per_ip=4, session_max_per_ip=BOUND,
        )  # fmt: skip
        for name, pick in operations:
            if model.browsers or name in ("join", "tick", "late"):
                await _operate(world, model, name, pick)
                await _invariants(world, model)
        await _positions(world, model)
        facts = await world.facts()
        assert len(facts) == (await world.header())["seq"]
    finally:
        await valkey.close()


@pytest.mark.req("ENG-128")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(operations=OPERATIONS)
def test_it_keeps_its_promises_under_random_operations(
    valkey_url: str, fresh_prefix: str, operations: list[tuple[str, int]]
) -> None:
    asyncio.run(_run(valkey_url, fresh_prefix, operations))
