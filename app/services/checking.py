"""One check on its way by the shortest way. What is asked and what an answer means: check.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.infrastructure.engine_results import CheckAnswer
from app.services.asking import Asking, Told
from app.services.visitor_proof import Identity, Visitor
from app.services.visitor_room import Covered, VisitorRoom

if TYPE_CHECKING:
    from app.services.check import CheckService, Gated


class CheckAsking(Asking["Gated"]):
    """It stands where the engine keeps a future."""

    __slots__ = ("_check", "covered", "door", "identity", "now_ms", "room", "visitor")

    def __init__(
        self,
        check: CheckService,
        told: Told[Gated],
        room: VisitorRoom,
        visitor: Visitor,
        identity: Identity,
        covered: Covered,
        door: tuple[str, bytes],
        now_ms: int,
    ) -> None:
        """``door``: the door key that an admission would have, and its digest."""
        self.told = told
        self._check = check
        self.room = room
        self.visitor = visitor
        self.identity = identity
        self.covered = covered
        self.door = door
        self.now_ms = now_ms

    def set_result(self, answer: CheckAnswer) -> None:
        """As of a future."""
        try:
            self._check.heard(self, answer)
        except Exception as error:
            self.told(None, error)
