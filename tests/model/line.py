"""The model's line as visitors meet it: join, status, check, leave (chapters 6, 8, 12, 13 of docs/spec/02-engine.md).

Not here: the pre-queue (doors.py), operators (model.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.pace import Pace
from tests.model.people import (
    BINDINGS,
    CHURN_HOLD,
    CHURN_WINDOW,
    CLAIM,
    GRACE,
    Checked,
    Holder,
    Joined,
    Pass,
    Shown,
    View,
)


@dataclass
class Line(Pace):
    """A room whose doors are open."""

    # ------------------------------------------------------------ who is asking

    def find(self, number: int) -> Holder | None:
        """The ticket of a number that somebody was told."""
        return next((t for t in self.tickets if t.number == number), None)

    def named(self, what: int | bytes) -> Holder | None:
        """Whom a token names."""
        return self.find(what) if isinstance(what, int) else None

    def by_token(self, shown: Shown) -> tuple[Holder | None, str]:
        """The holder whom the token names, if the bearer owns the ticket or has the key of its session; else why not
        (ENG-101, ENG-107, ENG-144)."""
        token = shown.token
        if token is None:
            return None, "new"
        if isinstance(token, str):
            return None, "bad_token"
        gen, what = token
        if gen != self.gen:
            return None, "stale_generation"
        holder = self.named(what)
        if holder is None:
            return None, "expired"  # ENG-079, ENG-274
        if holder.proof(shown) or self.has_key(holder, shown):
            return holder, ""
        return None, "bad_token"

    def bind(self, t: Holder, shown: Shown, came_from: str = "") -> None:
        """ENG-108, ENG-110."""
        proof = t.proof(shown)
        prints = (shown.strict, shown.loose) if proof == "cookie" else (t.strict, t.loose)
        is_new = came_from not in ("", t.came_from)
        if not shown.may_bind or not proof or not (is_new or prints != (t.strict, t.loose)):
            return
        minute, times = t.bound
        if minute != self.now // 600:
            minute, times = self.now // 600, 0
        if times == BINDINGS:
            return
        t.bound = (minute, times + 1)
        t.strict, t.loose = prints
        t.came_from = came_from if is_new else t.came_from

    def has_key(self, t: Holder, shown: Shown) -> bool:
        """ENG-153."""
        return t.state == "active" and t.key in shown.keys

    def holders(self) -> list[Holder]:
        """Everybody whom a cookie may belong to."""
        return self.tickets

    def over(self, t: Holder) -> str:
        """Why a ticket that is not live is not continued."""
        return "ejected" if t.state == "ejected" else "expired"

    # ------------------------------------------------------------------- join

    def join(self, shown: Shown, new: Holder) -> Joined:
        """``new``: who the visitor would be with a place of his own; number and times are set here."""
        if self.effective == "bypass":
            return Joined("bypass", view=View("bypass"))
        holder, reason = self.by_token(shown)
        mine = [] if holder is None else [holder]
        for cookie in shown.cookies:
            mine += [h for h in self.holders() if h.cookie == cookie]
        for one in mine:
            why = self.carry_on(one, shown, new.came_from)
            if why in ("", "reclaimed"):
                return Joined("existing", why, self.view(one, shown, told=False), one)
            if one is holder or reason == "new":
                reason = why
        refusal = self.refusal(new.address)
        if refusal:
            return Joined(refusal, reason)
        new.joined = new.seen = self.now
        self.enter(new)
        return Joined("created", reason, self.view(new, shown._replace(cookies=(new.cookie,)), told=False), new)

    def carry_on(self, t: Holder, shown: Shown, came_from: str) -> str:
        """Let a join go on with this ticket: "" or "reclaimed"; else why not (ENG-072 … ENG-074, ENG-156)."""
        if t.is_unfinished:
            self.bind(t, shown, came_from)
        if not self.is_live(t):
            return self.over(t)
        has_cookie = t.cookie in shown.cookies
        if t.state == "active" and not self.has_key(t, shown):
            if not has_cookie:
                return "session_elsewhere"
            self.reclaim(t)
            return "reclaimed"
        if t.state != "active":
            self.see(t)
        return "session_elsewhere" if t.is_reclaimed and not has_cookie else ""

    def reclaim(self, t: Holder) -> None:
        """ENG-156, ENG-157."""
        t.state, t.told, t.before, t.seen = "passed", False, None, self.now
        end = self.now + self.settings.passed_ttl * 10
        t.right = Pass(slot=True, paid=True, passed_at=t.right.passed_at, end=end)
        t.right.claim_end = self.now + min(CLAIM, self.settings.passed_ttl * 10)

    def enter(self, new: Holder) -> None:
        """The end of the line, or at once a pass (ENG-118)."""
        is_alone = not self.waiting() and not any(self.may_hold(t) for t in self.at_door())
        self.last += 1
        new.number = self.last
        self.tickets.append(new)
        is_alone = is_alone and not (self.is_flushing and self.settings.session_ip_cap is not None)
        if is_alone and self.can_pay and self.has_room() and self.may_hold(new):
            self.promote(new)
            self.pay(new)
            self.give_slot(new)

    def refusal(self, address: str, more: int = 0) -> str:
        """ENG-160, ENG-161. ``more``: places of the address besides those in line."""
        cap, held = self.settings.ip_cap, sum(t.address == address for t in self.waiting())
        held += more + self.left_places(address, "line")
        return "identity_limit" if cap is not None and held >= cap else ""

    def left_places(self, address: str, book: str) -> int:
        """Places that the address left and that count on (ENG-293)."""
        return sum(who == address and kind == book for _, who, kind in self.counting_on)

    def note_left(self, address: str, book: str, cap: int | None) -> None:
        """A place was left by its holder (ENG-293)."""
        when = self.now // 100
        self.leaves.append((when, address))
        count = sum(who == address and slot >= when - CHURN_WINDOW for slot, who in self.leaves)
        if cap is not None and count >= 3 * cap:
            self.counting_on.append((self.now + CHURN_HOLD, address, book))

    # ------------------------------------------------------------- being told

    def status(self, shown: Shown, *, told: bool, seen: bool) -> View:
        """``told``: the answer delivers a pass; ``seen``: the holder is here (ENG-108, ENG-137, ENG-140)."""
        holder, reason = self.by_token(shown)
        if holder is None:
            return View("bypass") if self.effective == "bypass" else View("gone", reason)
        if seen and self.is_live(holder):
            self.see(holder)
        if seen and holder.is_unfinished and holder.cookie in shown.cookies:
            self.bind(holder, shown)
        return self.view(holder, shown, told=told, seen=seen)

    def view(self, t: Holder, shown: Shown, *, told: bool, seen: bool = True) -> View:
        """Chapter 17 of 03-visitor-api.md."""
        if self.effective == "bypass":
            return View("bypass")
        if not self.is_live(t):
            return View("gone", self.over(t), t.by_purge)
        if t.state == "waiting":
            return self.view_in_line(t)
        if t.state == "active":
            if t.cookie not in shown.cookies and not self.has_key(t, shown):
                return View("gone", "session_elsewhere")
            return View("active", number=t.number, session_end=self.session_end(t))
        return self.view_of_pass(t, shown, told=told, seen=seen)

    def view_of_pass(self, t: Holder, shown: Shown, *, told: bool, seen: bool) -> View:
        """``passed``, or standing at the door."""
        right = t.right
        if t.is_reclaimed and t.cookie not in shown.cookies:
            return View("gone", "session_elsewhere")
        if self.may_enter(t):
            t.told = t.told or told
            claim = right.claim_end if right.slot else 0
            return View("passed", "", False, t.number, 0, t.joined, right.passed_at, right.end, claim)
        right.at_door = right.at_door or seen  # ENG-131
        here = [] if self.is_flushing else [o for o in self.at_door() if self.may_hold(o)]
        ahead = sum(o.number < t.number for o in here)
        most = sum(o.number < t.number and o.state == "passed" and o.right.at_door for o in self.tickets)
        return View("at_capacity", "", False, t.number, ahead, 0, right.passed_at, right.end, may_be_ahead=most)

    def view_in_line(self, t: Holder) -> View:
        """ENG-071."""
        state = {"active": "waiting"}.get(self.effective, self.effective)
        return View(state, "", False, t.number, self.ahead(t), t.joined)

    def ahead(self, t: Holder) -> int:
        """Waiting tickets with a smaller number."""
        return sum(o.number < t.number for o in self.waiting())

    def may_enter(self, t: Holder) -> bool:
        """The pass would admit now (ENG-132, ENG-133, ENG-145, ENG-296)."""
        if t.right.slot:
            return True
        if self.is_flushing and self.settings.session_ip_cap is not None:
            return False
        older = any(o.number < t.number and self.may_hold(o) for o in self.at_door())
        return self.has_room() and self.may_hold(t) and not older and (t.right.paid or self.can_pay)

    # --------------------------------------------------------------- the door

    def check(self, shown: Shown, *, covered: bool, key: str, vouched: bool = False) -> Checked:
        """ENG-144. ``key``: the door key that an admission by this check gets; ``vouched``: a connector speaks."""
        holder, reason = self.by_token(shown)
        if vouched and holder is None and reason == "bad_token":
            holder = self.seen_by_connector(shown)
        elif not vouched and holder is not None and holder.is_unfinished and holder.cookie in shown.cookies:
            self.bind(holder, shown)
        if not covered or self.effective == "bypass":
            verdict = "bypass" if covered else "not_targeted"
            if holder is not None and holder.state == "active" and self.is_live(holder):
                return self.go_on(holder, verdict)  # ENG-150
            return Checked(verdict)
        early = self.reason_at_check(shown)
        if holder is None or early:
            return Checked("queue", early or reason)
        if not self.is_live(holder):
            is_stranger = not vouched and not holder.proof(shown)  # a key proves nothing any more
            return Checked("queue", "bad_token" if is_stranger else self.over(holder))
        if holder.state == "active":
            in_grace = not shown.keys and holder.cookie in shown.cookies and self.now - holder.admitted <= GRACE
            if self.has_key(holder, shown) or in_grace:
                return self.go_on(holder, "session")
            return Checked("queue", "session_elsewhere")
        if holder.state == "waiting":
            return Checked("queue", {"active": "waiting"}.get(self.effective, self.effective))
        if holder.is_reclaimed and holder.key in shown.keys and holder.cookie not in shown.cookies:
            return Checked("queue", "session_elsewhere")
        if self.may_enter(holder):
            return self.admit(holder, key)
        holder.right.at_door = True
        return Checked("queue", "at_capacity")

    def seen_by_connector(self, shown: Shown) -> Holder | None:
        """ENG-110."""
        holder = self.named(shown.token[1]) if isinstance(shown.token, tuple) else None
        return holder if holder is not None and holder.came_from == shown.loose else None

    def reason_at_check(self, shown: Shown) -> str:
        """A reason that comes before the question who owns the ticket; "" = none."""
        return ""

    def go_on(self, t: Holder, verdict: str) -> Checked:
        """The session slides (ENG-148)."""
        t.used = self.now
        return Checked(verdict, "", t.number, self.session_end(t))

    def admit(self, t: Holder, key: str) -> Checked:
        """ENG-145."""
        self.judge(t, is_unused=False)
        t.before = (replace(t.right), t.first_admitted)
        self.pay(t)
        t.state, t.key, t.used, t.admitted = "active", key, self.now, self.now
        t.right.at_door = t.right.given_at_door = False
        t.right.slot = True
        if t.first_admitted is None:
            t.first_admitted = self.now
        return Checked("admitted", "", t.number, self.session_end(t))

    def leave(self, shown: Shown) -> str:
        """State that was left, or "" (ENG-077)."""
        holder, _ = self.by_token(shown)
        if holder is None or not holder.is_unfinished:
            return ""
        if holder.is_reclaimed and holder.cookie not in shown.cookies:
            return ""
        was = holder.state
        if was == "waiting":
            was = self.leave_line(holder)
        self.finish(holder, "expired")
        return was

    def leave_line(self, t: Holder) -> str:
        """A place in line is given up."""
        self.note_left(t.address, "line", self.settings.ip_cap)
        return "waiting"
