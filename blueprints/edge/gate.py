"""What is refused before any route is looked at, and what a full instance still answers.

Belongs here: the edge secret, the connection cap, hosts. Each raises its refusal; no store is asked, except for the key
of a connector in the reserve. Source: VIS-008, VIS-027 … VIS-030, CFG-124 … CFG-127, CFG-163 … CFG-174.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from app.core.errors import BareNotFound, Forbidden, NotFound, Unavailable
from app.domain.client_address import Client, Note
from app.domain.edge_secret import is_exempt
from app.domain.hosts import Console, HostPolicy
from app.domain.inline.hosts import InlineHost
from blueprints.edge.head import Head

FULL_RETRY_SEC: Final = 10
_RESERVED: Final = frozenset(
    {b"/healthz", b"/api/version", b"/api/v1/version", b"/metrics", b"/api/mesh/knock", b"/api/v1/mesh/knock"}
)
_RESERVED_TREES: Final = (b"/api/admin/", b"/api/v1/admin/")
_CONNECTORS: Final = frozenset(
    prefix + name for prefix in (b"/api/", b"/api/v1/") for name in (b"check", b"enter", b"verify")
)


class EdgeRequired(Forbidden):
    """403 ``edge_required``. It does not name the header."""

    code = "edge_required"
    sentence = "edge_required"
    page_sentence = "This address does not answer directly."


class Full(Unavailable):
    """503 ``overloaded``: the instance holds as many connections as it may (CFG-173)."""

    sentence = "This server is at its connection limit."

    def __init__(self) -> None:
        super().__init__(retry_after_sec=FULL_RETRY_SEC)


class NotInlineHost(NotFound):
    """404 ``not_inline_host``: the prefix means nothing on this host."""

    code = "not_inline_host"
    sentence = "No room is served inline on this host, so there is nothing below /__qm."

    def __init__(self, hosts: HostPolicy) -> None:
        super().__init__(hosts.where(self.sentence))
        self.members = dict(hosts.console())


class Watch(Protocol):
    """Counts odd requests; see services/edge_watch.py."""

    def saw(self, client: Client, /) -> None: ...


ConnectorJudge = Callable[[Client, str | None], Awaitable[bool]]
"""Tells whether an ``Authorization`` value carries a key that lets its holder speak for visitors."""


@dataclass(slots=True)
class Gate:
    """The refusals of one worker."""

    hosts: HostPolicy
    watch: Watch | None = None
    """None until the worker's context is open; no request comes before."""
    is_connector: ConnectorJudge | None = None

    def let_in(self, client: Client, head: Head, *, is_inline: bool = False) -> None:
        """Note what is odd about a request; raises EdgeRequired unless it may be answered at all.

        ``is_inline``: on an inline host, where nothing is exempt (INL-209, INL-221).
        """
        is_refused = bool(client.note & Note.NOT_BY_EDGE)
        if is_refused and not is_inline and is_exempt(head.method, head.path):
            return
        if self.watch is not None:
            self.watch.saw(client)
        if is_refused:
            raise EdgeRequired

    async def let_into_reserve(self, client: Client, head: Head) -> None:
        """Raise Full unless this is a request that a full instance answers (CFG-174)."""
        path = head.path
        if path in _RESERVED and head.method in ("GET", "HEAD"):
            return
        if path.startswith(_RESERVED_TREES):
            return
        if path in _CONNECTORS and self.is_connector is not None:
            sent = head.headers.get(b"authorization")
            if sent is not None and await self.is_connector(client, sent.decode("latin-1")):
                return
        raise Full

    def let_to_route(self, client: Client, head: Head, inline: InlineHost | None, *, is_any_inline: bool) -> None:
        """Raise what the host says about a path: nothing for visitor routes.

        ``inline``: the inline host below whose ``/__qm`` the path was asked; ``is_any_inline``: there is one at all.
        """
        match self.hosts.judge(client.host, head.path, inline=inline is not None, any_inline=is_any_inline):
            case Console.WITHHELD:
                raise BareNotFound
            case Console.NO_PREFIX:
                raise NotInlineHost(self.hosts)
            case Console.SERVED:
                return
