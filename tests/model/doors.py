"""The model's pre-queue: places, the opening of the doors, the draw (chapters 5 and 14 of docs/spec/02-engine.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.model.line import Line
from tests.model.people import Ds, Holder, Shown, View


@dataclass
class Doors(Line):
    """A room that may be scheduled."""

    phase: str = "none"
    """none, open, called (a cancelled schedule draws at once), drawing, drawn (the order stands and is not told)."""
    places: list[Holder] = field(default_factory=list)
    """Of the pre-queue that is open or being drawn, in the order of their arrival."""
    place_count: int = 0
    former: list[Holder] = field(default_factory=list)
    """Places that were over before their draw."""
    first_drawn: int = 0
    drawn: dict[int, int] = field(default_factory=dict)
    """Place → number, of a draw whose order stands."""

    @property
    def effective(self) -> str:
        """ENG-062."""
        return "scheduled" if self.phase != "none" else self.settings.state

    def held(self) -> list[Holder]:
        """Places that are not over."""
        return [p for p in self.places if p.state == "waiting"]

    # ------------------------------------------------------------- the opening

    def schedule(self, opens_at: Ds | None) -> None:
        """ENG-169 … ENG-174, ENG-184."""
        self.change("opens_at", opens_at)
        if opens_at is not None:
            self.phase = "open"
        elif self.phase != "none":
            self.phase = "called" if self.held() else "none"

    def tick_at(self, clock: Ds) -> None:
        """A tick; ``clock``: the slower one of store and acting instance (ENG-299)."""
        self.earn()
        opens_at = self.settings.opens_at or 0
        if self.phase == "called" or (self.phase == "open" and opens_at <= clock):
            self.open_doors()
        self.move()

    def open_doors(self) -> None:
        """The list is fixed: joins from now on stand behind it (ENG-182)."""
        self.former += [p for p in self.places if p.state != "waiting"]
        self.places = self.held()
        self.first_drawn, self.last = self.last + 1, self.last + len(self.places)
        self.phase = "drawing"
        if not self.places:
            self.close_draw([])

    def close_draw(self, order: Sequence[int]) -> None:
        """``order``: numbers of the places as they were drawn, which are taken from the engine (ENG-179)."""
        by_place = {p.place: p for p in self.places}
        assert sorted(order) == sorted(by_place), "every place is drawn once"
        assert is_fair([by_place[place] for place in order])
        self.drawn = {place: self.first_drawn + i for i, place in enumerate(order)}
        self.phase = "drawn"
        self.give_back("pre")

    def committed(self) -> None:
        """All facts are in the journal: what was drawn is told (ENG-180)."""
        if self.phase != "drawn":
            return
        for p in self.places:
            p.number = self.drawn[p.place]
        self.tickets = sorted([*self.tickets, *self.places], key=lambda t: t.number)
        self.places, self.phase = [], "none"

    # ----------------------------------------------------------------- places

    def holders(self) -> list[Holder]:
        """Tickets and places."""
        return [*self.tickets, *self.places, *self.former]

    def named(self, what: int | bytes) -> Holder | None:
        """By number or by handle (ENG-181)."""
        if isinstance(what, int):
            return self.find(what)
        return next((h for h in self.holders() if h.handle == what), None)

    def enter(self, new: Holder) -> None:
        """A place while the doors are closed, else a number."""
        if self.phase not in ("open", "called"):
            new.handle = b""
            return super().enter(new)
        self.place_count += 1
        new.place = self.place_count
        self.places.append(new)
        return None

    def refusal(self, address: str, more: int = 0) -> str:
        """ENG-160, ENG-161."""
        if self.phase not in ("open", "called"):
            drawn = self.held() if self.phase == "drawn" else []  # ENG-166
            return super().refusal(address, sum(p.address == address for p in drawn))
        cap, held = self.settings.pre_ip_cap, sum(p.address == address for p in self.held())
        held += self.left_places(address, "pre")
        return "pre_identity_limit" if cap is not None and held >= cap else ""

    def view_in_line(self, t: Holder) -> View:
        """A place is told no number (ENG-167, ENG-180)."""
        return super().view_in_line(t) if t.number else View("scheduled", joined=t.joined)

    def ahead(self, t: Holder) -> int:
        """Those who are being drawn stand before all who came after the opening (ENG-182)."""
        drawn = self.held() if self.phase in ("drawing", "drawn") and t.number > self.first_drawn else []
        return super().ahead(t) + len(drawn)

    def leave_line(self, t: Holder) -> str:
        """A place is given up."""
        if t.number:
            return super().leave_line(t)
        self.note_left(t.address, "pre", self.settings.pre_ip_cap)
        return "prequeued"

    def bind(self, t: Holder, shown: Shown, came_from: str = "") -> None:
        """A place is bound anew by the cookie alone, until its list is fixed."""
        if t.number:
            super().bind(t, shown, came_from)
        elif t.cookie in shown.cookies and self.phase in ("open", "called"):
            super().bind(t, shown)

    def reason_at_check(self, shown: Shown) -> str:
        """A handle before the opening is not asked whose it is (ENG-144)."""
        token = shown.token
        if not isinstance(token, tuple) or token[0] != self.gen or not isinstance(token[1], bytes):
            return ""
        holder = self.named(token[1])
        return "scheduled" if holder is not None and not holder.number and holder.state == "waiting" else ""


def is_fair(order: Sequence[Holder]) -> bool:
    """ENG-177: the k-th place of an identity comes behind the (k − 1)-th of every other that has one."""
    seen: dict[str, int] = {}
    rounds = []
    for holder in order:
        seen[holder.address] = seen.get(holder.address, 0) + 1
        rounds.append(seen[holder.address])
    return rounds == sorted(rounds)
