"""Random steps on the real engine and on the model side by side; every answer and all figures are compared.

Not here: what a step does on either side (rig.py, model.py), how long it is played (test_engine_model.py).
"""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.facts import Admitted, Reclaimed, split_element
from app.domain.facts import Joined as JoinedFact
from app.domain.facts_of_doors import DrawPart, Prejoined
from app.domain.marks import split_mark
from tests.journal.snapshot import snapshot, without_fresh
from tests.model.model import Model
from tests.model.people import Ds, Holder, Settings, Shown, Visitor
from tests.model.rig import BEHIND_SEC, ROOM, Rig, digest, handle_of

ADDRESSES = ("home", "office", "cafe")
WHO = st.integers(0, 11)
STEPS = st.sampled_from((0, 5, 10, 10, 15, 20, 40, 80, 125, 300))
"""Tenths of a second, in halves of a second: with the rates below credit is a binary fraction."""
MOSTLY, SELDOM = st.sampled_from((True, True, True, False)), st.sampled_from((False, False, False, True))
RATES = (0, 15, 30, 60, 120, 600)
SETTINGS: dict[str, tuple[Any, ...]] = {
    "state": ("active", "active", "paused", "bypass"),
    "rate": RATES,
    "max_concurrent": (None, 1, 2, 3, 5),
    "passed_ttl": (5, 20, 150),
    "session_ttl": (5, 12, 60),
    "session_max": (10, 40, 300),
    "presence": (3, 8, 30),
    "ip_cap": (None, 1, 3),
    "pre_ip_cap": (None, 1, 3),
    "session_ip_cap": (None, None, 1, 2),
}


@dataclass
class Undoable:
    """Joins and admissions whose commit may still fail: mark and number or handle."""

    joins: list[tuple[int, int, bytes, str]] = field(default_factory=list)
    admissions: list[tuple[int, int, str]] = field(default_factory=list)


def agree(engine: Any, model: Any) -> None:
    """Fail, telling what differs, unless both say the same."""
    if isinstance(engine, dict) and isinstance(model, dict):
        names = [name for name in {**engine, **model} if engine.get(name) != model.get(name)]
        engine, model = {name: engine.get(name) for name in names}, {name: model.get(name) for name in names}
    assert engine == model, f"\nengine: {engine}\nmodel:  {model}"


class EngineMachine(RuleBasedStateMachine):
    """One room, a dozen browsers, an operator, and a store that may lose everything."""

    loop: ClassVar[asyncio.Runner]

    @classmethod
    def make_rig(cls) -> Rig:
        """Told by those who play."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.rig: Rig = type(self).make_rig()
        self.visitors: list[Visitor] = []
        self.made = 0
        self.undoable = Undoable()
        self.saved: Model
        self.occupied = 0

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return type(self).loop.run(step)

    async def at_now(self, call: Coroutine[Any, Any, Any]) -> Any:
        _, answer = await asyncio.gather(self.rig.set_clock(self.model.now), call)  # sent together, in this order
        return answer

    def do(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Run a call of the engine at the model's time."""
        return self.run(self.at_now(call))

    def fresh(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    @property
    def now(self) -> Ds:
        return self.model.now

    # ------------------------------------------------------------------ begin

    @initialize(
        rate=st.sampled_from(RATES[2:]), cap=st.sampled_from(SETTINGS["max_concurrent"]),
        ip_cap=st.sampled_from((None, None, 3)), ttl=st.sampled_from((20, 150)),
    )  # fmt: skip
    def open_room(self, rate: int, cap: int | None, ip_cap: int | None, ttl: int) -> None:
        settings = Settings(
            rate=rate, max_concurrent=cap, ip_cap=ip_cap, passed_ttl=ttl, session_ttl=12, session_max=40, presence=8
        )
        self.model = Model(settings)
        self.run(self.rig.create(1, settings))
        self.commit()

    # --------------------------------------------------------------- visitors

    def visitor(self, who: int) -> Visitor:
        return self.visitors[who % len(self.visitors)]

    @rule(who=WHO, address=st.sampled_from(ADDRESSES), proxy=st.booleans())
    def come(self, who: int, address: str, proxy: bool) -> None:
        """Somebody new joins."""
        self.visitors.append(Visitor(self.fresh("v"), address, is_behind_proxy=proxy))
        self._join(self.visitors[-1])

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, came_from=st.sampled_from(("", "", *ADDRESSES)), may_bind=MOSTLY)
    def join_again(self, who: int, came_from: str, may_bind: bool) -> None:
        self._join(self.visitor(who), came_from, may_bind)

    def _join(self, visitor: Visitor, came_from: str = "", may_bind: bool = True) -> None:
        shown, cookie = visitor.shown(may_bind=may_bind), self.fresh("c")
        if came_from:
            came_from = f"{visitor.name}@{came_from}"
        new = Holder(
            0,
            visitor.address,
            cookie,
            visitor.strict,
            visitor.loose,
            0,
            0,
            handle_of(cookie),
            came_from=came_from,
        )
        theirs = self.do(self.rig.join(shown, copy.copy(new)))
        mine = self.model.join(shown, new)
        code, reason, view = theirs.what
        agree((code, view), (mine.code, mine.view))
        if code in ("created", "existing"):
            agree(reason, mine.reason)
        if reason == "reclaimed":
            assert isinstance(self.fact_at(theirs.mark), Reclaimed), "a reclaim waits for its own fact"
        if code == "created":
            assert mine.holder is not None
            fact = self.fact_at(theirs.mark)
            assert isinstance(fact, JoinedFact | Prejoined), "a join waits for its own fact"
            self.undoable.joins.append((theirs.mark, mine.holder.number, new.handle, cookie))
            visitor.cookies = (cookie,)
        if mine.holder is not None:
            number = mine.holder.number
            visitor.token = (self.model.gen, number or mine.holder.handle)

    def fact_at(self, mark: int) -> Any:
        """The fact that an answer waits for; it is not committed yet."""
        epoch, seq = split_mark(mark)
        assert epoch == self.rig.epoch
        place = seq - len(self.rig.journal) - 1
        (data,) = self.run(self.rig.valkey.execute("LRANGE", self.rig.keys.outbox, place, place))
        return split_element(data).decode()

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, told=st.booleans(), seen=MOSTLY)
    def status(self, who: int, told: bool, seen: bool) -> None:
        shown = self.visitor(who).shown()
        mine = self.model.status(shown, told=told, seen=seen)
        agree(self.do(self.rig.status(shown, told=told, seen=seen)).what, mine)

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, covered=MOSTLY, vouched=SELDOM, may_bind=st.booleans())
    def check(self, who: int, covered: bool, vouched: bool, may_bind: bool) -> None:
        visitor, key = self.visitor(who), self.fresh("k")
        shown = visitor.shown(may_bind=may_bind, vouched=vouched)
        mine = self.model.check(shown, covered=covered, key=key, vouched=vouched)
        theirs = self.do(self.rig.check(shown, covered=covered, key=key, vouched=vouched, address=visitor.address))
        agree(theirs.what, (mine, self.model.effective))
        if mine.verdict == "admitted":
            assert isinstance(self.fact_at(theirs.mark), Admitted), "an admission waits for its own fact"
            visitor.keys = (key,)
            self.undoable.admissions.append((theirs.mark, mine.number, key))

    @precondition(lambda self: self.visitors)
    @rule(who=WHO)
    def leave(self, who: int) -> None:
        shown = self.visitor(who).shown()
        mine = self.model.leave(shown)
        agree(self.do(self.rig.leave(shown)).what, mine)

    # ------------------------------------------- other ways of being somebody

    @precondition(lambda self: len(self.visitors) > 1)
    @rule(who=WHO, other=WHO, what=st.sampled_from(("token", "token", "cookies", "keys", "all")))
    def steal(self, who: int, other: int, what: str) -> None:
        """One browser gets what another has."""
        thief, victim = self.visitor(who), self.visitor(other)
        thief.token = victim.token
        if what in ("cookies", "all"):
            thief.cookies = victim.cookies
        if what in ("keys", "all"):
            thief.keys = victim.keys

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, what=st.sampled_from(("token", "cookies", "keys", "refused")))
    def lose(self, who: int, what: str) -> None:
        """A browser loses something, or its token is not accepted."""
        visitor = self.visitor(who)
        if what == "token":
            visitor.token = None
        elif what == "refused":
            visitor.token = "refused"
        elif what == "cookies":
            visitor.cookies = ()
        else:
            visitor.keys = ()

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, address=st.sampled_from((*ADDRESSES, None)))
    def move(self, who: int, address: str | None) -> None:
        """A browser changes its network, or only the proxy through which it comes."""
        visitor = self.visitor(who)
        if address is None:
            visitor.edge = "e2" if visitor.edge == "e1" else "e1"
        else:
            visitor.address = address

    # ------------------------------------------------------------------- time

    @rule(step=STEPS)
    def wait(self, step: Ds) -> None:
        """Time in which nobody ticks."""
        self.model.now += step

    @rule(step=STEPS, behind=st.sampled_from((0, 0, BEHIND_SEC * 10 + 40)), pause=st.sampled_from((10, 50)))
    def tick(self, step: Ds, behind: Ds, pause: Ds) -> None:
        """Time in which somebody ticks, every second if there is little of it."""
        left, pause = step, pause if step <= 80 else 50
        while True:
            pause = min(pause, left)
            self.model.now += pause
            left -= pause
            self._tick(behind)
            if not left:
                return

    def _tick(self, behind: Ds) -> None:
        self.model.tick_at(self.now - max(behind, BEHIND_SEC * 10))
        self.do(self.rig.tick(self.now, instance_behind=behind, seed=digest(self.fresh("seed"), 32)))

    # -------------------------------------------------------------- operators

    @precondition(lambda self: self.model.last)
    @rule(number=st.integers(1, 40))
    def eject(self, number: int) -> None:
        mine = self.model.eject(number)
        agree(self.do(self.rig.eject(number)).what, mine)

    @rule()
    def flush(self) -> None:
        mine = self.model.flush()
        agree(self.do(self.rig.flush()).what, mine)

    @rule()
    def purge(self) -> None:
        mine = self.model.purge()
        agree(self.do(self.rig.purge()).what, mine)

    @rule(data=st.data(), name=st.sampled_from(sorted(SETTINGS)))
    def configure(self, data: st.DataObject, name: str) -> None:
        value = data.draw(st.sampled_from(SETTINGS[name]), label=name)
        before = getattr(self.model.settings, name)
        if value != before:
            self.model.change(name, value)
        assert bool(self.do(self.rig.update(**{name: value})).what) == (value != before)

    @precondition(lambda self: self.model.phase in ("none", "open", "called"))
    @rule(sec=st.sampled_from((2, 10, 30, None)))
    def schedule(self, sec: int | None) -> None:
        opens_at = None if sec is None else self.now + sec * 10
        if opens_at != self.model.settings.opens_at:
            self.model.schedule(opens_at)
        self.do(self.rig.update(opens_at=opens_at))

    @precondition(lambda self: self.model.phase == "drawing")
    @rule()
    def draw(self) -> None:
        assert self.do(self.rig.draw())
        order = [place for fact in self.pending(DrawPart) for place in fact.order]
        self.model.close_draw(order)

    def pending(self, kind: type) -> list[Any]:
        elements = self.run(self.rig.valkey.execute("LRANGE", self.rig.keys.outbox, 0, -1))
        facts = [split_element(data).decode() for data in elements]
        return [fact for fact in facts if isinstance(fact, kind)]

    # ---------------------------------------------------------------- journal

    @rule()
    def commit(self) -> None:
        """Everything so far is in the journal."""
        facts = self.do(self.rig.commit())
        self.check_facts(facts)
        self.model.committed()
        self.saved = copy.deepcopy(self.model)
        self.undoable = Undoable()

    def check_facts(self, facts: list[tuple[int, Any]]) -> None:
        """Times do not go back, numbers rise (ENG-013, ENG-069)."""

    @precondition(lambda self: self.undoable.joins)
    @rule()
    def fail_join(self) -> None:
        """The commit of the latest join fails."""
        mark, number, handle, cookie = self.undoable.joins.pop()
        if number:
            holder = self.model.find(number)
            undo = self.rig.admin.undo_join(ROOM, self.model.gen, mark, number)
        else:
            holder = self.model.named(handle)
            undo = self.rig.admin.undo_prejoin(ROOM, self.model.gen, mark, handle)
        assert holder is not None
        self.model.withdraw_join(holder)
        assert not self.do(undo), "it was not committed"
        for visitor in self.visitors:
            if cookie in visitor.cookies:  # the answer was 503: he never got any of it
                visitor.token, visitor.cookies = None, ()

    @precondition(lambda self: self.undoable.admissions)
    @rule()
    def fail_admission(self) -> None:
        """The commit of the latest admission fails."""
        mark, number, key = self.undoable.admissions.pop()
        holder = self.model.find(number)
        assert holder is not None
        if holder.key == key and holder.state == "active":
            self.model.withdraw_admission(holder)
        assert not self.do(self.rig.admin.undo_admission(ROOM, self.model.gen, mark, number))
        for visitor in self.visitors:
            if key in visitor.keys:
                visitor.keys = ()

    @rule(keys=st.booleans(), tail=st.booleans())
    def crash(self, keys: bool, tail: bool) -> None:
        """The live state is lost, with what was not committed when ``tail``; it is made again from the journal."""
        if not tail:
            self.commit()
        now = self.now
        before = self.run(self.shot()) if not tail else None
        self.run(self.rig.lose_everything(keys=keys))
        credit = self.run(self.rig.rebuild(now))
        assert 0 <= credit <= 1
        self.model = copy.deepcopy(self.saved)
        self.model.now = now
        self.model.rebuilt(credit)
        self.undoable = Undoable()
        self.occupied = self.model.occupancy
        if before is not None and not before["header"]["flush_up_to"]:
            after = without_fresh(self.run(self.shot()))
            for part, value in without_fresh(before).items():
                agree(after[part], value)

    async def shot(self) -> dict[str, Any]:
        return await snapshot(self.rig.valkey, self.rig.prefix, ROOM, self.model.gen)

    @rule()
    def look_at_all(self) -> None:
        """What every holder would be told, whoever he is now, is the same on both sides."""
        everybody = [(holder, self.owner_of(holder)) for holder in self.model.holders()]
        views = self.do(self.rig.look_at([shown for _, shown in everybody]))
        for (_, shown), view in zip(everybody, views, strict=True):
            agree(view, self.model.status(shown, told=False, seen=False))

    def owner_of(self, holder: Holder) -> Shown:
        token = (self.model.gen, holder.number or holder.handle)
        return Shown(token, (holder.cookie,), "", "", False, (), False)

    # ------------------------------------------------------------- invariants

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        figures, header = self.run(self.rig.look())
        model = self.model
        waiting = model.waiting()
        mine = {
            "waiting": len(waiting), "active": model.active, "pending_entry": model.pending,
            "passes_outstanding": model.passes_out, "last_ticket": model.last, "state": model.settings.state,
            "effective_state": model.effective, "pre_queue": len(model.held()),
            "phase": model.phase, "generation": model.gen, "credit": model.credit,
        }  # fmt: skip
        theirs = {
            "waiting": figures.waiting, "active": figures.active, "pending_entry": figures.pending_entry,
            "passes_outstanding": figures.passes_outstanding, "last_ticket": figures.last_ticket,
            "state": figures.state.word, "effective_state": figures.effective_state.word,
            "pre_queue": figures.pre_queue, "phase": figures.phase.name.lower(), "generation": figures.generation,
            "credit": Fraction(header["credit"]),
        }  # fmt: skip
        agree(theirs, mine)

    def teardown(self) -> None:
        if sys.exc_info()[0] is None:
            self.look_at_all()
        self.run(self.rig.drop())
