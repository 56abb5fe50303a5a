"""One check on its way by the shortest way. What is asked and what an answer means: check.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.services.asking import Asking, Told
from app.services.visitor_proof import Identity, Visitor
from app.services.visitor_room import Covered, VisitorRoom

if TYPE_CHECKING:
    from app.services.check import CheckService, Gated


class CheckAsking(Asking["Gated"]):
    """It stands where the engine keeps a future."""

    __slots__ = ("covered", "door", "identity", "now_ms", "room", "visitor")

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
        self._service = check
        self.room = room
        self.visitor = visitor
        self.identity = identity
        self.covered = covered
        self.door = door
        self.now_ms = now_ms
