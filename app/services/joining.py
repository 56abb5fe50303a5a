"""One join on its way, from the request to its commit. What its steps are stands in join.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.infrastructure.engine_results import JoinAnswer, VisitorView
from app.services.asking import Asking, Told
from app.services.protection import Assessment
from app.services.visitor import VisitorAnswer
from app.services.visitor_proof import Identity, Visitor
from app.services.visitor_room import VisitorRoom

if TYPE_CHECKING:
    from app.services.join import JoinService


class Joining(Asking[VisitorAnswer]):
    """What is known of a join so far; by the shortest way it stands where the engine keeps a future."""

    __slots__ = (
        "answer", "assessed", "destination", "identity", "return_url", "room", "session", "view", "visitor",
    )  # fmt: skip

    _service: JoinService
    answer: JoinAnswer
    view: VisitorView
    destination: str
    """Where his pass will lead him. These three are set once the engine has answered."""

    def __init__(
        self,
        service: JoinService,
        told: Told[VisitorAnswer],
        room: VisitorRoom,
        visitor: Visitor,
        identity: Identity,
        return_url: str | None,
    ) -> None:
        self.told = told
        self._service = service
        self.room = room
        self.visitor = visitor
        self.identity = identity
        self.return_url = return_url
        self.assessed: Assessment | None = None
        """What bot protection thinks of it; None = it was not asked."""
        self.session = ""
        """The ``qms_`` value made for a new ticket."""

    def stored(self, is_stored: bool) -> None:
        """Whether the fact of its ticket is in the journal."""
        try:
            self._service.stored(self, is_stored)
        except Exception as error:
            self.told(None, error)


class Storing:
    """Stands where the CommitWaiter keeps a future."""

    __slots__ = ("_is_done", "_joining")

    def __init__(self, joining: Joining) -> None:
        self._joining = joining
        self._is_done = False

    def done(self) -> bool:
        """As of a future."""
        return self._is_done

    def set_result(self, is_stored: bool) -> None:
        """As of a future."""
        self._is_done = True
        self._joining.stored(is_stored)
