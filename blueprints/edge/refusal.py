"""A refusal that ends its connection, written past Sanic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.clock import mono
from blueprints.edge.meter import OTHER
from blueprints.edge.reply import render
from blueprints.errors import error_reply

if TYPE_CHECKING:
    from blueprints.edge.head import Head
    from blueprints.edge.protocol import EdgeProtocol


def write_refusal(
    protocol: EdgeProtocol, head: Head | None, error: BaseException, *, request_id: str, is_page: bool | None
) -> None:
    """Answer ``error``; ``head`` None = none was read. ``is_page``: whether as a page; None = by the rule of QM's own
    hosts."""
    edge = protocol.edge
    edge.refused += 1
    reply = error_reply(
        error,
        head.headers if head is not None else {},
        request_id=request_id,
        path=head.path.decode("latin-1") if head is not None else "",
        page=edge.error_page,
        is_page=is_page,
    )
    if edge.meters is not None:
        edge.meters.of(OTHER).note(reply.status, mono())
    is_bare = head is not None and head.method == "HEAD"
    protocol.write_out(render(reply, request_id=request_id, keep_alive=False, head_only=is_bare, budget=None))
