"""Duties of a leader run while he holds the lease, and not a moment longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from app.core.clock import mono
from app.infrastructure.leader_lease import LeaderLease
from app.infrastructure.lua_loader import LuaLoader
from app.infrastructure.valkey import Valkey
from app.services.leadership import LastAct, Leadership, Term, TermOver
from tests.journal.house import House, until
from tests.leader.conftest import LEASE_MS, lease_of


@dataclass
class Watchman:
    """A duty that notes when it acts. ``acts``: (epoch, moment) of each."""

    name: str = "watchman"
    acts: list[tuple[int, float]] = field(default_factory=list)
    begun: int = 0
    breaks: list[Exception] = field(default_factory=list)

    async def run(self, term: Term) -> None:
        self.begun += 1
        while True:
            if self.breaks:
                raise self.breaks.pop()
            self.acts.append((term.check(), mono()))
            await asyncio.sleep(0.01)

    @property
    def is_at_work(self) -> bool:
        return bool(self.acts) and mono() - self.acts[-1][1] < 0.2


class Office:
    """One process that wants to lead."""

    def __init__(
        self, lease: LeaderLease, *duties: Watchman, last_acts: Sequence[LastAct] = (), left: float = 10
    ) -> None:
        self.duty = duties[0] if duties else Watchman()
        self.shown = 0.0
        self.stop = asyncio.Event()
        self.lease = lease
        everyone = duties or (self.duty,)
        leadership = Leadership(
            lease, everyone, lease_ms=LEASE_MS, show=lambda at: setattr(self, "shown", at), last_acts=last_acts,
            left=lambda: left,
        )  # fmt: skip
        self.task = asyncio.ensure_future(leadership.run(self.stop))

    async def __aenter__(self) -> Office:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop.set()
        await asyncio.wait_for(self.task, 10)

    async def leads(self) -> bool:
        return self.duty.is_at_work

    async def is_idle(self) -> bool:
        return not self.duty.is_at_work

    async def is_over(self) -> bool:
        return self.shown == 0 and not self.duty.is_at_work


@pytest.mark.req("FLT-012")
async def test_it_runs_the_duties_in_one_process_only(house: House) -> None:
    async with Office(lease_of(house, "one")) as one:
        await until(one.leads)
        async with Office(lease_of(house, "two")) as two:
            end = mono() + 2 * LEASE_MS / 1000
            while mono() < end:
                await asyncio.sleep(0.05)
                assert two.duty.acts == []
            assert one.duty.begun == 1
            assert one.shown > mono()
            assert two.shown == 0


@pytest.mark.req("FLT-023")
async def test_it_hands_over_at_an_orderly_stop(house: House) -> None:
    async with Office(lease_of(house, "two", ms=60_000)) as first:
        await until(first.leads)
        async with Office(lease_of(house, "one")) as second:
            first.stop.set()
            await until(second.leads, sec=2)

            assert await first.is_idle()
            assert first.shown == 0
            assert second.duty.acts[0][1] > first.duty.acts[-1][1]
            assert second.duty.acts[0][0] > first.duty.acts[-1][0]


@pytest.mark.req("CFG-192")
async def test_it_does_its_last_acts_while_it_still_leads_and_hands_over_whatever_comes_of_them(house: House) -> None:
    done: list[str] = []

    async def act(term: Term) -> None:
        term.check()
        assert not await lease_of(house, "two").take(), "nobody else leads yet"
        done.append("act")

    async def fail(term: Term) -> None:
        done.append("fail")
        raise ValueError("broken")

    async def hang(term: Term) -> None:
        done.append("hang")
        await asyncio.Event().wait()

    for last_acts, left in (([act], 10.0), ([act, fail], 10.0), ([hang], 0.2)):
        async with Office(lease_of(house, "one", ms=60_000), last_acts=last_acts, left=left) as office:
            await until(office.leads)
            office.stop.set()
            await asyncio.wait_for(asyncio.shield(office.task), 10)
        other = lease_of(house, "two", ms=60_000)
        assert await other.take()
        await other.give()
    assert done == ["act", "act", "fail", "hang"]


@pytest.mark.req("FLT-024")
async def test_it_stops_the_duties_before_the_lease_ends_when_it_cannot_be_renewed(house: House) -> None:
    away = Valkey("unix:///nonexistent.sock")
    async with Office(lease_of(house, "one")) as office:
        await until(office.leads)
        office.lease._loader = LuaLoader(away)
        held_until = office.lease.until

        await until(office.is_over)

        other = lease_of(house, "two")
        await until(other.take)
        assert office.duty.acts[-1][1] <= held_until
    await away.close()


@pytest.mark.req("FLT-024")
async def test_it_does_nothing_as_leader_when_it_wakes_after_a_freeze(house: House) -> None:
    async with Office(lease_of(house, "one")) as office:
        await until(office.leads)
        before = len(office.duty.acts)

        time.sleep(LEASE_MS / 1000 + 0.1)  # the whole process, not one task
        other = lease_of(house, "two")
        await until(other.take)

        assert len(office.duty.acts) - before <= 1, "at most the act that was under way"
        late = [act for act in office.duty.acts[before:] if act[1] > office.lease.until]
        assert late == []


async def test_it_begins_a_failed_duty_again_and_leaves_the_others_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.leadership.AGAIN_SEC", 0.05)
    weak, strong = Watchman("weak", breaks=[ValueError("broken")]), Watchman("strong")
    async with Office(lease_of(house, "one"), weak, strong) as office:
        await until(office.leads)

        assert weak.begun == 2
        assert strong.begun == 1


async def test_it_begins_a_new_term_when_a_duty_finds_a_later_leaders_mark(house: House) -> None:
    duty = Watchman()
    async with Office(lease_of(house, "one"), duty) as office:
        await until(office.leads)
        first = duty.acts[-1][0]

        duty.breaks.append(TermOver())

        async def leads_anew() -> bool:
            return duty.acts[-1][0] > first

        await until(leads_anew)
