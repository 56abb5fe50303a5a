"""Random steps on the real engine and on the model side by side; every answer and all figures are compared.

Not here: what a step does on either side (rig.py, model.py), how long it is played (test_engine_model.py).
"""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import Coroutine
from fractions import Fraction
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.domain.facts import split_element
from app.domain.facts_of_doors import DrawPart, Prejoined
from app.domain.facts_of_passes import Admitted, Reclaimed
from app.domain.facts_of_tickets import Joined as JoinedFact
from app.domain.marks import split_mark
from tests.journal.snapshot import assert_alike, snapshot, without_fresh
from tests.model.choices import ACTS, ADDRESSES, MOST_VISITORS, RATES, SETTINGS, STEPS, STORE, VISITS, WHO
from tests.model.crowds import Crowds
from tests.model.model import Model
from tests.model.people import Ds, Holder, Settings, Shown, Undoable, Visitor
from tests.model.rig import BEHIND_SEC, LONG_SEC, ROOM, STEP, Rig, digest, handle_of
from tests.model.watch import Watch

BEGIN: Ds = 5
"""Before it nothing is done: a record says 0 for never, and 1 for the first tenth of a second."""


def agree(engine: Any, model: Any) -> None:
    """Fail, telling what differs, unless both say the same."""
    if isinstance(engine, dict) and isinstance(model, dict):
        names = [name for name in {**engine, **model} if engine.get(name) != model.get(name)]
        engine, model = {name: engine.get(name) for name in names}, {name: model.get(name) for name in names}
    assert engine == model, f"\nengine: {engine}\nmodel:  {model}"


class EngineMachine(Crowds, RuleBasedStateMachine):
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
        self.watch = Watch()
        self.occupied = 0

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return type(self).loop.run(step)

    async def at_now(self, call: Coroutine[Any, Any, Any]) -> Any:
        now, opens_at = self.model.now, self.model.settings.opens_at
        behind = BEHIND_SEC if opens_at is None or opens_at <= now - BEHIND_SEC * 10 else LONG_SEC
        # Sent together, in this order.
        _, answer = await asyncio.gather(self.rig.set_clock(now, behind_sec=behind), call)
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
        self._pass_time(BEGIN)
        self.commit()
        for address in ("home", "home", "office"):
            self.come(address=address, proxy=address == "home")

    # --------------------------------------------------------------- visitors

    def visitor(self, who: int) -> Visitor:
        return self.visitors[who % len(self.visitors)]

    @precondition(lambda self: len(self.visitors) < MOST_VISITORS)
    @rule(address=st.sampled_from(ADDRESSES), proxy=st.booleans())
    def come(self, address: str, proxy: bool) -> None:
        """Somebody new joins."""
        self.visitors.append(Visitor(self.fresh("v"), address, is_behind_proxy=proxy))
        self._join(self.visitors[-1])

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, what=VISITS, variant=st.integers(0, 7))
    def visit(self, who: int, what: str, variant: int) -> None:
        """Somebody who was here before joins, asks, knocks at the door or leaves."""
        visitor = self.visitor(who)
        if what == "join":
            self._join(visitor, ("", "", "", *ADDRESSES)[variant % 6], may_bind=variant < 6)
        elif what == "status":
            self._status(visitor, told=variant < 6, seen=variant > 0)
        elif what == "check":
            self._check(visitor, covered=variant not in (1, 2), vouched=variant in (2, 3), may_bind=variant < 6)
        else:
            self._leave(visitor)

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, what=VISITS, variant=st.integers(0, 7))
    def visit_too(self, who: int, what: str, variant: int) -> None:
        """The same: rules are left out by their names in some plays, and this one is what plays are about."""
        self.visit(who=who, what=what, variant=variant)

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
        agree((code, view), (mine.code, mine.view and mine.view.like(view)))
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

    def _status(self, visitor: Visitor, *, told: bool, seen: bool) -> None:
        shown = visitor.shown()
        mine = self.model.status(shown, told=told, seen=seen)
        theirs = self.do(self.rig.status(shown, told=told, seen=seen)).what
        agree(theirs, mine.like(theirs))

    def _check(self, visitor: Visitor, *, covered: bool, vouched: bool, may_bind: bool) -> None:
        key = self.fresh("k")
        shown = visitor.shown(may_bind=may_bind, vouched=vouched)
        mine = self.model.check(shown, covered=covered, key=key, vouched=vouched)
        theirs = self.do(self.rig.check(shown, covered=covered, key=key, vouched=vouched, address=visitor.address))
        agree(theirs.what, (mine, self.model.effective))
        if mine.verdict == "admitted":
            assert isinstance(self.fact_at(theirs.mark), Admitted), "an admission waits for its own fact"
            visitor.keys = (key,)
            self.undoable.admissions.append((theirs.mark, mine.number, key))

    def _leave(self, visitor: Visitor) -> None:
        shown = visitor.shown()
        mine = self.model.leave(shown)
        agree(self.do(self.rig.leave(shown)).what, mine)

    # ------------------------------------------- other ways of being somebody

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, other=WHO, what=st.sampled_from(("move", "proxy", "token", "cookies", "keys", "refused", "steal")))
    def disguise(self, who: int, other: int, what: str) -> None:
        """A browser changes its network, or only the proxy through which it comes; it loses something, its token is not
        accepted, or it gets what another one has."""
        visitor, victim = self.visitor(who), self.visitor(other)
        if what == "move":
            visitor.address = ADDRESSES[other % len(ADDRESSES)]
        elif what == "proxy":
            visitor.edge = "e2" if visitor.edge == "e1" else "e1"
        elif what == "refused":
            visitor.token = "refused"
        elif what == "steal":
            visitor.token = victim.token
            visitor.cookies = victim.cookies if other % 3 == 1 else visitor.cookies
            visitor.keys = victim.keys if other % 3 == 2 else visitor.keys
        else:
            setattr(visitor, what, None if what == "token" else ())

    # ------------------------------------------------------------------- time

    @precondition(lambda self: self.visitors)
    @rule(who=WHO, what=VISITS, variant=st.integers(0, 7))
    def visit_again(self, who: int, what: str, variant: int) -> None:
        """Like ``visit_too``."""
        self.visit(who=who, what=what, variant=variant)

    @rule(step=STEPS)
    def wait(self, step: Ds) -> None:
        """Time in which nobody ticks."""
        self._pass_time(step)

    @rule(step=STEPS, behind=st.sampled_from((0, 0, BEHIND_SEC * 10 + 40)), pause=st.sampled_from((10, 50)))
    def tick_too(self, step: Ds, behind: Ds, pause: Ds) -> None:
        """Like ``visit_too``."""
        self.tick(step=step, behind=behind, pause=pause)

    @rule(step=STEPS, behind=st.sampled_from((0, 0, BEHIND_SEC * 10 + 40)), pause=st.sampled_from((10, 50)))
    def tick(self, step: Ds, behind: Ds, pause: Ds) -> None:
        """Time in which somebody ticks, every second if there is little of it."""
        left, pause = step, pause if step <= 80 else 50
        while True:
            pause = min(pause, left)
            self._pass_time(pause)
            left -= pause
            self._tick(behind)
            if not left:
                return

    @rule(sec=st.sampled_from((6, 60, 3600)))
    def step_clock(self, sec: int) -> None:
        """The clock of the store's host is set forward, and back; it is behind at every other step (rig.py)."""
        self.run(self.rig.step_clock(self.now, sec))
        self._pass_time(STEP)
        self.model.change("presence", self.model.settings.presence)  # as any change of the room

    def _pass_time(self, step: Ds) -> None:
        self.model.now += step
        self.watch.pass_time(self.now, self.model.settings.rate if self.model.effective == "active" else 0)

    def _tick(self, behind: Ds) -> None:
        self.model.tick_at(self.now - max(behind, BEHIND_SEC * 10))
        self.do(self.rig.tick(self.now, instance_behind=behind, seed=digest(self.fresh("seed"), 32)))

    # -------------------------------------------------------------- operators

    @rule(what=st.sampled_from(ACTS), number=st.integers(0, 999))
    def operate(self, what: str, number: int) -> None:
        """What an operator does to one ticket, to the line, to the room."""
        if what in SETTINGS:
            self._configure(what, SETTINGS[what][number % len(SETTINGS[what])])
        elif what == "recreate":
            self._recreate()
        elif what == "schedule":
            self._schedule((2, 10, 30, None)[number % 4])
        else:
            self._act(what, number)

    def _recreate(self) -> None:
        """The room is deleted and made again: who comes with what he had is told so (ENG-019, ENG-022)."""
        self.commit()
        settings = self.model.settings
        mine = (len(self.model.waiting()), len(self.model.held()), self.model.passes_out + self.model.occupancy)
        gone = self.do(self.rig.admin.delete(ROOM, actor="op"))
        agree((gone.waiting, gone.pre_queue, gone.passes + gone.sessions), mine)
        settings.opens_at = None
        self.run(self.rig.commit())
        self.model, self.watch = Model(settings, self.model.gen + 1), Watch()
        self.run(self.rig.create(self.model.gen, settings))
        self._pass_time(BEGIN)
        self.commit()

    def _act(self, what: str, number: int) -> None:
        calls = {"eject": (self.model.eject, self.rig.eject), "flush": (self.model.flush, self.rig.flush),
                 "purge": (self.model.purge, self.rig.purge)}  # fmt: skip
        mine, theirs = calls[what]
        args = (1 + number % max(1, self.model.last),) if what == "eject" else ()
        expected = mine(*args)
        agree(self.do(theirs(*args)).what, expected)

    def _configure(self, name: str, value: Any) -> None:
        before = getattr(self.model.settings, name)
        if value != before:
            self.model.change(name, value)
        assert bool(self.do(self.rig.update(**{name: value})).what) == (value != before)

    def _schedule(self, sec: int | None) -> None:
        if self.model.phase in ("drawing", "drawn"):
            return
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

    def commit(self) -> None:
        """Everything so far is in the journal."""
        for at, fact in self.do(self.rig.commit()):
            self.watch.fact(at, self.rig.ds(at), fact)
        self.model.committed()
        self.saved = copy.deepcopy(self.model)
        self.undoable = Undoable()

    @rule(what=st.sampled_from(STORE))
    def store(self, what: str) -> None:
        """Facts are stored, or they fail to be; the live state is lost and made again from what was stored."""
        if what == "commit":
            self.commit()
        elif what == "fail join" and self.undoable.joins:
            self._fail_join(*self.undoable.joins.pop())
        elif what == "fail admission" and self.undoable.admissions:
            self._fail_admission(*self.undoable.admissions.pop())
        elif what.startswith("crash"):
            self._crash(keys="fence" not in what, tail="tail" in what)

    def _fail_join(self, mark: int, number: int, handle: bytes, cookie: str) -> None:
        holder = self.model.named(number or handle)
        assert holder is not None
        admin = self.rig.admin
        undo = admin.undo_join if number else admin.undo_prejoin
        self.model.withdraw_join(holder)
        assert not self.do(undo(ROOM, self.model.gen, mark, number or handle)), "it was not committed"
        for visitor in self.visitors:
            if cookie in visitor.cookies:  # the answer was 503: he never got any of it
                visitor.token, visitor.cookies = None, ()

    def _fail_admission(self, mark: int, number: int, key: str) -> None:
        holder = self.model.find(number)
        assert holder is not None
        if holder.key == key and holder.state == "active":
            self.model.withdraw_admission(holder)
        assert not self.do(self.rig.admin.undo_admission(ROOM, self.model.gen, mark, number))
        for visitor in self.visitors:
            if key in visitor.keys:
                visitor.keys = ()

    def _crash(self, *, keys: bool, tail: bool) -> None:
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
            assert_alike(without_fresh(before), without_fresh(self.run(self.shot())))
        self.look_at_all()

    async def shot(self) -> dict[str, Any]:
        return await snapshot(self.rig.valkey, self.rig.prefix, ROOM, self.model.gen)

    def look_at_all(self) -> None:
        """What every holder would be told, whoever he is now, is the same on both sides."""
        everybody = [(holder, self.owner_of(holder)) for holder in self.model.holders()]
        views = self.do(self.rig.look_at([shown for _, shown in everybody]))
        for (_, shown), view in zip(everybody, views, strict=True):
            agree(view, self.model.status(shown, told=False, seen=False).like(view))

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
        cap = model.settings.max_concurrent
        assert cap is None or model.occupancy <= max(cap, self.occupied), "nobody new gets a slot above the cap"
        self.occupied = model.occupancy

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.commit()
                self.look_at_all()
        finally:
            self.run(self.rig.drop())
